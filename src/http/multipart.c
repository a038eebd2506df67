/* multipart/form-data, byte by byte where it must be and by memchr where it can be.
 *
 * A delimiter is CR LF "--" boundary. Its CR occurs nowhere else in it, so a match that fails never
 * overlaps the next one: what had matched is data, and the byte that failed is looked at afresh. No
 * input has to be kept for that, only how many bytes of the delimiter have matched. */

#include "http/multipart.h"

#include <errno.h>
#include <string.h>

#include "base/codec.h"
#include "base/must.h"
#include "base/utf8.h"
#include "http/limits.h"

#define BOUNDARY_MAX 70

enum multipart_state {
    MP_PREAMBLE, /* before the first delimiter: dropped */
    MP_BODY,     /* inside a part */
    MP_DELIM,    /* a delimiter has matched: "--", or blanks and CR LF, must follow */
    MP_DELIM_DASH,
    MP_DELIM_PAD, /* blanks between a delimiter and its line end */
    MP_DELIM_LF,
    MP_HEAD,     /* part headers, collected in `head` */
    MP_EPILOGUE, /* after the closing delimiter: dropped */
    MP_FAILED,
};

struct multipart {
    enum multipart_state state;
    struct multipart_ops ops;
    void *arg;
    bool in_part;
    size_t matched; /* bytes of `delim` seen at the end of the input so far */
    size_t ghost;   /* how many of those were never in the body: they are no data if it fails */
    size_t delim_len;
    char delim[4 + BOUNDARY_MAX];
    struct buf head;
};

static bool is_bchar(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("'()+_,-./:=? ", c));
}

static bool is_token(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!alnum && !(c && strchr("!#$%&'*+-.^_`|~", c))) {
            return false;
        }
    }
    return s.n > 0;
}

static struct str skip_blanks(struct str s)
{
    while (s.n > 0 && (s.p[0] == ' ' || s.p[0] == '\t')) {
        s = str_n(s.p + 1, s.n - 1);
    }
    return s;
}

/* Cuts a quoted-string off *rest (which begins with the quote); *ret_raw is what is between the
 * quotes, escapes still in it. */
static int cut_quoted(struct str *rest, struct str *ret_raw)
{
    for (size_t i = 1; i < rest->n; i++) {
        if (rest->p[i] == '"') {
            *ret_raw = str_n(rest->p + 1, i - 1);
            *rest = str_n(rest->p + i + 1, rest->n - i - 1);
            return 0;
        }
        if (rest->p[i] == '\\' && i + 1 < rest->n &&
            (rest->p[i + 1] == '"' || rest->p[i + 1] == '\\')) {
            i++;
        }
    }
    return -EINVAL;
}

/* Cuts "; name=value" off *rest. 1: got one, 0: at the end, -EINVAL. */
static int cut_param(struct str *rest, struct str *ret_name, struct str *ret_value,
                     bool *ret_quoted)
{
    struct str s = skip_blanks(*rest);
    if (s.n == 0) {
        return 0;
    }
    if (s.p[0] != ';') {
        return -EINVAL;
    }
    s = skip_blanks(str_n(s.p + 1, s.n - 1));
    if (s.n == 0) {
        *rest = s;
        return 0; /* a trailing semicolon is common and harmless */
    }
    ptrdiff_t eq = str_find(s, '=');
    if (eq < 0) {
        return -EINVAL;
    }
    *ret_name = str_n(s.p, (size_t)eq);
    s = str_n(s.p + eq + 1, s.n - (size_t)eq - 1);
    *ret_quoted = s.n > 0 && s.p[0] == '"';
    if (*ret_quoted) {
        if (cut_quoted(&s, ret_value) < 0) {
            return -EINVAL;
        }
    } else {
        size_t n = 0;
        while (n < s.n && s.p[n] != ';' && s.p[n] != ' ' && s.p[n] != '\t') {
            n++;
        }
        *ret_value = str_n(s.p, n);
        s = str_n(s.p + n, s.n - n);
    }
    *rest = s;
    return is_token(*ret_name) ? 1 : -EINVAL;
}

int multipart_boundary(struct str content_type, struct str *ret)
{
    struct str rest = str_trim(content_type), found = STR_NULL;
    size_t n_type = 0;
    while (n_type < rest.n && rest.p[n_type] != ';') {
        n_type++;
    }
    if (!str_eq_nocase(str_trim(str_n(rest.p, n_type)), STR("multipart/form-data"))) {
        return -EINVAL;
    }
    rest = str_n(rest.p + n_type, rest.n - n_type);
    struct str name, value;
    bool quoted = false;
    int rc = 0;
    while ((rc = cut_param(&rest, &name, &value, &quoted)) == 1) {
        if (str_eq_nocase(name, STR("boundary"))) {
            if (found.p) {
                return -EINVAL;
            }
            found = value;
        }
    }
    if (rc < 0 || found.n < 1 || found.n > BOUNDARY_MAX || found.p[found.n - 1] == ' ') {
        return -EINVAL;
    }
    for (size_t i = 0; i < found.n; i++) {
        if (!is_bchar(found.p[i])) {
            return -EINVAL;
        }
    }
    *ret = found;
    return 0;
}

struct multipart *multipart_new(struct str boundary, const struct multipart_ops *ops, void *arg)
{
    must(boundary.n >= 1 && boundary.n <= BOUNDARY_MAX);
    struct multipart *m = NEW(struct multipart);
    m->ops = *ops;
    m->arg = arg;
    memcpy(m->delim, "\r\n--", 4);
    memcpy(m->delim + 4, boundary.p, boundary.n);
    m->delim_len = 4 + boundary.n;
    m->matched = m->ghost = 2; /* the first delimiter needs no line end before it */
    buf_init(&m->head, HTTP_MULTIPART_MAX_HEAD);
    return m;
}

void multipart_free(struct multipart *m)
{
    if (m) {
        buf_done(&m->head);
        free(m);
    }
}

bool multipart_done(const struct multipart *m)
{
    return m->state == MP_EPILOGUE;
}

/* ---- part headers ---- */

/* Removes the backslash before a quote or a backslash. Before anything else it stays: browsers of
 * old sent whole Windows paths unescaped. In place: `s` lies in m->head. */
static struct str unescape(struct str s)
{
    char *p = (char *)(uintptr_t)s.p;
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (p[i] == '\\' && i + 1 < s.n && (p[i + 1] == '"' || p[i + 1] == '\\')) {
            i++;
        }
        p[n++] = p[i];
    }
    return str_n(p, n);
}

/* RFC 5987: charset'language'percent-encoded. In place, it only gets shorter. */
static int decode_extended(struct str v, struct str *ret)
{
    struct str rest = v;
    struct str charset = str_cut(&rest, '\'');
    (void)str_cut(&rest, '\''); /* the language says nothing to us */
    if (!rest.p || !str_eq_nocase(charset, STR("utf-8"))) {
        return -EPROTO;
    }
    struct buf out = BUF_INIT(HTTP_MULTIPART_MAX_HEAD);
    int rc = percent_decode(&out, rest, false);
    if (rc == 0 && utf8_valid(buf_str(&out))) {
        char *p = (char *)(uintptr_t)rest.p;
        if (out.len > 0) {
            memcpy(p, out.p, out.len);
        }
        *ret = str_n(p, out.len);
    } else {
        rc = -EPROTO;
    }
    buf_done(&out);
    return rc < 0 ? -EPROTO : 0;
}

static int parse_disposition(struct str v, struct multipart_part *part)
{
    size_t n_type = 0;
    while (n_type < v.n && v.p[n_type] != ';') {
        n_type++;
    }
    if (part->name.p || !str_eq_nocase(str_trim(str_n(v.p, n_type)), STR("form-data"))) {
        return -EPROTO; /* a second one, or another kind */
    }
    struct str rest = str_n(v.p + n_type, v.n - n_type), name, value, extended = STR_NULL;
    bool quoted = false;
    int rc = 0;
    while ((rc = cut_param(&rest, &name, &value, &quoted)) == 1) {
        struct str *into = str_eq_nocase(name, STR("name"))        ? &part->name
                           : str_eq_nocase(name, STR("filename"))  ? &part->filename
                           : str_eq_nocase(name, STR("filename*")) ? &extended
                                                                   : NULL;
        if (into && into->p) {
            return -EPROTO; /* two of them: readers would differ on which one counts */
        }
        if (into) {
            *into = quoted ? unescape(value) : value;
        }
    }
    if (rc < 0 || !part->name.p) {
        return -EPROTO;
    }
    return extended.p ? decode_extended(extended, &part->filename) : 0;
}

static int parse_header(struct str line, struct multipart_part *part)
{
    ptrdiff_t colon = str_find(line, ':');
    if (colon < 0) {
        return -EPROTO;
    }
    struct str name = str_n(line.p, (size_t)colon);
    struct str value = str_trim(str_sub(line, (size_t)colon + 1, line.n));
    if (!is_token(name)) {
        return -EPROTO;
    }
    if (str_eq_nocase(name, STR("Content-Disposition"))) {
        return parse_disposition(value, part);
    }
    if (str_eq_nocase(name, STR("Content-Type"))) {
        part->content_type = value;
    }
    if (str_eq_nocase(name, STR("Content-Transfer-Encoding")) &&
        !str_eq_nocase(value, STR("binary")) && !str_eq_nocase(value, STR("8bit")) &&
        !str_eq_nocase(value, STR("7bit"))) {
        return -EPROTO; /* RFC 7578 4.7: not used; passing base64 on as content would corrupt it */
    }
    return 0;
}

/* `head` holds all header lines, each with its CR LF, and the empty line. */
static int parse_head(struct multipart *m)
{
    struct multipart_part part = {0};
    struct str rest = str_n(m->head.p, m->head.len - 2);
    while (rest.n > 0) {
        ptrdiff_t end = str_find(rest, '\r');
        must(end >= 0);
        int rc = parse_header(str_n(rest.p, (size_t)end), &part);
        if (rc < 0) {
            return rc;
        }
        rest = str_sub(rest, (size_t)end + 2, rest.n);
    }
    if (!part.name.p) {
        return -EPROTO; /* RFC 7578 4.2: every part has a disposition with a name */
    }
    m->in_part = true;
    int rc = m->ops.on_part ? m->ops.on_part(&part, m->arg) : 0;
    buf_done(&m->head);
    return rc;
}

/* Adds one byte to the headers: strict CR LF line ends, no control bytes but TAB. */
static int feed_head(struct multipart *m, char c)
{
    struct buf *h = &m->head;
    bool after_cr = h->len > 0 && h->p[h->len - 1] == '\r';
    if (after_cr
            ? c != '\n'
            : (c == '\n' || c == 0x7f || ((unsigned char)c < 0x20 && c != '\t' && c != '\r'))) {
        return -EPROTO;
    }
    if (buf_add_char(h, c) < 0) {
        return -EPROTO;
    }
    bool ended = after_cr && (h->len == 2 || (h->len >= 4 && h->p[h->len - 3] == '\n'));
    if (!ended) {
        return 0;
    }
    int rc = parse_head(m);
    if (rc >= 0) {
        m->state = MP_BODY;
        m->matched = m->ghost = 2; /* an empty part: its delimiter may follow at once */
        rc = 0;
    }
    return rc;
}

/* ---- bodies ---- */

static int emit(struct multipart *m, struct str data)
{
    if (m->state != MP_BODY || data.n == 0 || !m->ops.on_data) {
        return 0;
    }
    return m->ops.on_data(data, m->arg);
}

static int end_part(struct multipart *m)
{
    m->state = MP_DELIM;
    m->matched = m->ghost = 0;
    if (!m->in_part) {
        return 0;
    }
    m->in_part = false;
    return m->ops.on_part_end ? m->ops.on_part_end(m->arg) : 0;
}

/* Continues a delimiter that began earlier. What had matched is data when it turns out to be none.
 */
static int continue_match(struct multipart *m, struct str *in)
{
    while (in->n > 0 && m->matched < m->delim_len && in->p[0] == m->delim[m->matched]) {
        m->matched++;
        *in = str_n(in->p + 1, in->n - 1);
    }
    if (m->matched == m->delim_len) {
        return end_part(m);
    }
    if (in->n == 0) {
        return 0;
    }
    struct str data = str_n(m->delim + m->ghost, m->matched - m->ghost);
    m->matched = m->ghost = 0;
    return emit(m, data);
}

/* Preamble and bodies: passes on what is no delimiter. */
static int feed_body(struct multipart *m, struct str *in)
{
    if (m->matched > 0) {
        return continue_match(m, in);
    }
    const char *cr = memchr(in->p, '\r', in->n);
    size_t n = cr ? (size_t)(cr - in->p) : in->n;
    /* runs over carriage returns that begin no delimiter, so that data goes out in large pieces */
    while (cr && n + 1 < in->n && in->p[n + 1] != '\n') {
        cr = memchr(in->p + n + 1, '\r', in->n - n - 1);
        n = cr ? (size_t)(cr - in->p) : in->n;
    }
    struct str data = str_n(in->p, n);
    *in = str_n(in->p + n, in->n - n);
    if (cr) {
        m->matched = 1;
        *in = str_n(in->p + 1, in->n - 1);
    }
    return emit(m, data);
}

/* The line end after a delimiter, or the two dashes that make it the last. */
static int feed_delim(struct multipart *m, char c)
{
    switch (m->state) {
    case MP_DELIM:
        m->state = c == '-' ? MP_DELIM_DASH : c == '\r' ? MP_DELIM_LF : MP_DELIM_PAD;
        return c == '-' || c == '\r' || c == ' ' || c == '\t' ? 0 : -EPROTO;
    case MP_DELIM_DASH:
        m->state = MP_EPILOGUE;
        return c == '-' ? 0 : -EPROTO;
    case MP_DELIM_PAD:
        m->state = c == '\r' ? MP_DELIM_LF : MP_DELIM_PAD;
        return c == '\r' || c == ' ' || c == '\t' ? 0 : -EPROTO;
    case MP_DELIM_LF:
        m->state = MP_HEAD;
        return c == '\n' ? 0 : -EPROTO;
    case MP_PREAMBLE:
    case MP_BODY:
    case MP_HEAD:
    case MP_EPILOGUE:
    case MP_FAILED:
        break;
    }
    return -EPROTO;
}

int multipart_feed(struct multipart *m, struct str data)
{
    int rc = m->state == MP_FAILED ? -EPROTO : 0;
    while (data.n > 0 && rc >= 0 && m->state != MP_EPILOGUE) {
        if (m->state == MP_BODY || m->state == MP_PREAMBLE) {
            rc = feed_body(m, &data);
            continue;
        }
        char c = data.p[0];
        data = str_n(data.p + 1, data.n - 1);
        rc = m->state == MP_HEAD ? feed_head(m, c) : feed_delim(m, c);
    }
    if (rc < 0) {
        m->state = MP_FAILED;
        return rc;
    }
    return 0;
}
