/* The message head parser. One pass over the bytes, no allocation, no state between calls: a head
 * that came in pieces is parsed again from its start (the caller does so once per line at most). */

#include <string.h>

#include "base/must.h"
#include "http/chars.h"
#include "http/h1.h"

struct parse {
    const char *start, *p, *end;
    struct h1_head *h;
    bool is_request;
    bool tab_around; /* the value at hand has a tab before or after it */
    bool has_host, has_te, has_cl;
    bool conn_close, conn_keep_alive, conn_upgrade, upgrade;
};

static enum h1_result bad(struct parse *s, int status, const char *reason)
{
    s->h->bad_status = s->is_request ? status : 502;
    s->h->bad_reason = reason;
    return H1_BAD;
}

/* More bytes are needed: only if the limit leaves room for them. */
static enum h1_result more(struct parse *s)
{
    if ((size_t)(s->end - s->start) >= HTTP_MAX_HEAD) {
        return bad(s, 431, "message head too large");
    }
    return H1_NEED_MORE;
}

/* CR LF at the cursor; `what` is the complaint about anything else. */
static enum h1_result parse_crlf(struct parse *s, const char *what)
{
    if (s->p == s->end) {
        return more(s);
    }
    if (*s->p != '\r') {
        return bad(s, 400, what);
    }
    if (s->p + 1 == s->end) {
        return more(s);
    }
    if (s->p[1] != '\n') {
        return bad(s, 400, "bare CR");
    }
    s->p += 2;
    return H1_DONE;
}

/* "HTTP/1.0" or "HTTP/1.1". */
static enum h1_result parse_version(struct parse *s)
{
    static const char proto[] = "HTTP/";
    size_t n = (size_t)(s->end - s->p);
    if (memcmp(s->p, proto, MIN(n, sizeof(proto) - 1)) != 0) {
        return bad(s, 400, "malformed protocol version");
    }
    for (size_t i = 5; i < 8 && i < n; i++) {
        if (i == 6 ? s->p[i] != '.' : !char_is(s->p[i], CHAR_DIGIT)) {
            return bad(s, 400, "malformed protocol version");
        }
    }
    if (n < 8) {
        return more(s);
    }
    if (s->p[5] != '1' || s->p[7] > '1') {
        return bad(s, 505, "protocol version not supported");
    }
    s->h->minor = s->p[7] - '0';
    s->p += 8;
    return H1_DONE;
}

static enum h1_result parse_request_line(struct parse *s)
{
    const char *p = s->p;
    while (p < s->end && char_is(*p, CHAR_TOKEN)) {
        p++;
    }
    s->h->method = str_n(s->p, (size_t)(p - s->p));
    if (s->h->method.n > HTTP_MAX_METHOD) {
        return bad(s, 501, "unknown method");
    }
    if (p == s->end) {
        return more(s);
    }
    if (*p != ' ' || s->h->method.n == 0) {
        return bad(s, 400, "malformed request line");
    }
    s->p = ++p;
    while (p < s->end && char_is(*p, CHAR_TARGET)) {
        p++;
    }
    s->h->target = str_n(s->p, (size_t)(p - s->p));
    if (s->h->target.n > HTTP_MAX_TARGET) {
        return bad(s, 414, "request target too long");
    }
    if (p == s->end) {
        return more(s);
    }
    if (*p != ' ' || s->h->target.n == 0) {
        return bad(s, 400, "malformed request target");
    }
    s->p = p + 1;
    enum h1_result r = parse_version(s);
    return r == H1_DONE ? parse_crlf(s, "malformed request line") : r;
}

static enum h1_result parse_status_line(struct parse *s)
{
    enum h1_result r = parse_version(s);
    if (r != H1_DONE) {
        return r;
    }
    s->h->status = 0;
    for (int i = 0; i < 4; i++, s->p++) {
        if (s->p == s->end) {
            return more(s);
        }
        if (i == 0 ? *s->p != ' ' : !char_is(*s->p, CHAR_DIGIT)) {
            return bad(s, 502, "malformed status line");
        }
        s->h->status = i == 0 ? 0 : s->h->status * 10 + (*s->p - '0');
    }
    if (s->h->status < 100) {
        return bad(s, 502, "malformed status line");
    }
    s->h->reason = STR_NULL;
    if (s->p < s->end && *s->p == ' ') { /* often left out together with the reason */
        const char *p = ++s->p;
        while (p < s->end && char_is(*p, CHAR_VALUE)) {
            p++;
        }
        s->h->reason = str_n(s->p, (size_t)(p - s->p));
        s->p = p;
    }
    return parse_crlf(s, "malformed status line");
}

/* First byte that a field value cannot contain. Eight at a time: values are most of a head. */
static const char *value_end(const char *p, const char *end)
{
    const uint64_t ones = 0x0101010101010101u, high = 0x8080808080808080u;
    while (p < end) {
        while (end - p >= 8) {
            uint64_t x;
            memcpy(&x, p, 8);
            uint64_t del = x ^ (ones * 0x7f);
            if ((((x - ones * 0x20) & ~x) | ((del - ones) & ~del)) & high) {
                break; /* a control byte, or a tab, is among them */
            }
            p += 8;
        }
        const char *stop = end - p >= 8 ? p + 8 : end;
        while (p < stop) {
            if (!char_is(*p, CHAR_VALUE)) {
                return p;
            }
            p++;
        }
    }
    return p;
}

static enum h1_result on_content_length(struct parse *s, struct str v)
{
    if (s->has_cl) {
        return bad(s, 400, "more than one Content-Length");
    }
    s->has_cl = true;
    if (v.n == 0 || v.n > 19 || s->tab_around) {
        return bad(s, 400, "malformed Content-Length");
    }
    uint64_t len = 0;
    for (size_t i = 0; i < v.n; i++) {
        if (!char_is(v.p[i], CHAR_DIGIT)) {
            return bad(s, 400, "malformed Content-Length");
        }
        len = len * 10 + (uint64_t)(v.p[i] - '0');
    }
    if (len > INT64_MAX) {
        return bad(s, 400, "malformed Content-Length");
    }
    s->h->content_length = (int64_t)len;
    return H1_DONE;
}

static enum h1_result on_transfer_encoding(struct parse *s, struct str v)
{
    if (s->has_te) {
        return bad(s, 400, "more than one Transfer-Encoding");
    }
    s->has_te = true;
    if (s->tab_around) { /* legal, but some parsers do not see the header then */
        return bad(s, 400, "malformed Transfer-Encoding");
    }
    if (!str_eq_nocase(v, STR("chunked"))) {
        return h1_is_token(v) ? bad(s, 501, "unknown transfer coding")
                              : bad(s, 400, "malformed Transfer-Encoding");
    }
    s->h->chunked = true;
    return H1_DONE;
}

/* Host: a name or address with an optional port, so that nobody can read another host out of it. */
static bool is_authority(struct str v)
{
    size_t i = 0;
    if (v.n > 0 && v.p[0] == '[') {
        for (i = 1; i < v.n && (char_is(v.p[i], CHAR_HEX) || v.p[i] == ':' || v.p[i] == '.'); i++) {
        }
        if (i < 3 || i >= v.n || v.p[i] != ']') {
            return false;
        }
        i++;
    } else {
        for (; i < v.n && char_is(v.p[i], CHAR_REGNAME); i++) {
        }
        if (i == 0) {
            return false;
        }
    }
    if (i == v.n) {
        return true;
    }
    if (v.p[i++] != ':' || v.n - i > 5) {
        return false;
    }
    for (; i < v.n; i++) {
        if (!char_is(v.p[i], CHAR_DIGIT)) {
            return false;
        }
    }
    return true;
}

static enum h1_result on_host(struct parse *s, struct str v)
{
    if (s->has_host) {
        return bad(s, 400, "more than one Host");
    }
    s->has_host = true;
    if (!is_authority(v)) {
        return bad(s, 400, "malformed Host");
    }
    s->h->host = v;
    return H1_DONE;
}

static void on_connection(struct parse *s, struct str v)
{
    while (v.p) {
        struct str t = str_trim(str_cut(&v, ','));
        if (str_eq_nocase(t, STR("close"))) {
            s->conn_close = true;
        } else if (str_eq_nocase(t, STR("keep-alive"))) {
            s->conn_keep_alive = true;
        } else if (str_eq_nocase(t, STR("upgrade"))) {
            s->conn_upgrade = true;
        }
    }
}

/* The few headers that decide about framing and the connection. */
static enum h1_result on_header(struct parse *s, struct str name, struct str value)
{
    switch (name.n) {
    case 4:
        return s->is_request && str_eq_nocase(name, STR("host")) ? on_host(s, value) : H1_DONE;
    case 6:
        if (s->is_request && str_eq_nocase(name, STR("expect"))) {
            s->h->expect_continue = str_eq_nocase(value, STR("100-continue"));
        }
        return H1_DONE;
    case 7:
        s->upgrade |= value.n > 0 && str_eq_nocase(name, STR("upgrade"));
        return H1_DONE;
    case 10:
        if (str_eq_nocase(name, STR("connection"))) {
            on_connection(s, value);
        }
        return H1_DONE;
    case 14:
        return str_eq_nocase(name, STR("content-length")) ? on_content_length(s, value) : H1_DONE;
    case 17:
        return str_eq_nocase(name, STR("transfer-encoding")) ? on_transfer_encoding(s, value)
                                                             : H1_DONE;
    default:
        return H1_DONE;
    }
}

/* One header line at the cursor, which is not the empty line. */
static enum h1_result parse_header(struct parse *s)
{
    const char *p = s->p;
    if (*p == ' ' || *p == '\t') {
        return bad(s, 400, "folded header line");
    }
    while (p < s->end && char_is(*p, CHAR_TOKEN)) {
        p++;
    }
    if (p == s->end) {
        return more(s);
    }
    if (*p != ':' || p == s->p) {
        return bad(s, 400, "malformed header name");
    }
    if (s->h->n_headers == HTTP_MAX_HEADERS) {
        return bad(s, 431, "too many header lines");
    }
    struct str name = str_n(s->p, (size_t)(p - s->p));
    p++;
    s->tab_around = false;
    while (p < s->end && (*p == ' ' || *p == '\t')) {
        s->tab_around |= *p++ == '\t';
    }
    const char *value = p;
    p = value_end(p, s->end);
    s->p = p;
    enum h1_result r = parse_crlf(s, "malformed header value");
    if (r != H1_DONE) {
        return r;
    }
    while (p > value && (p[-1] == ' ' || p[-1] == '\t')) {
        s->tab_around |= *--p == '\t';
    }
    struct h1_header *h = &s->h->headers[s->h->n_headers++];
    *h = (struct h1_header){name, str_n(value, (size_t)(p - value))};
    return on_header(s, h->name, h->value);
}

static enum h1_result parse_headers(struct parse *s)
{
    for (;;) {
        if (s->p == s->end) {
            return more(s);
        }
        enum h1_result r;
        if (*s->p == '\r') {
            r = parse_crlf(s, "malformed header line");
            if (r == H1_DONE && (size_t)(s->p - s->start) > HTTP_MAX_HEAD) {
                return bad(s, 431, "message head too large");
            }
            return r;
        }
        r = parse_header(s);
        if (r != H1_DONE) {
            return r;
        }
    }
}

/* http://authority[/path]: the authority must be what Host says. */
static enum h1_result check_absolute_form(struct parse *s, size_t scheme_len)
{
    struct str rest = str_sub(s->h->target, scheme_len, s->h->target.n);
    size_t n = 0;
    while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?') {
        n++;
    }
    struct str authority = str_sub(rest, 0, n);
    if (!is_authority(authority)) {
        return bad(s, 400, "malformed request target");
    }
    if (s->has_host && !str_eq_nocase(authority, s->h->host)) {
        return bad(s, 400, "Host differs from the request target");
    }
    s->h->host = authority;
    return H1_DONE;
}

static enum h1_result check_target(struct parse *s)
{
    struct str t = s->h->target;
    if (str_eq(s->h->method, STR("CONNECT"))) {
        if (!is_authority(t) || s->has_cl || s->has_te) {
            return bad(s, 400, "malformed CONNECT request");
        }
        return H1_DONE;
    }
    if (t.p[0] == '/') {
        return H1_DONE;
    }
    if (str_starts_nocase(t, STR("http://"))) {
        return check_absolute_form(s, 7);
    }
    if (str_starts_nocase(t, STR("https://"))) {
        return check_absolute_form(s, 8);
    }
    if (str_eq(t, STR("*")) && str_eq(s->h->method, STR("OPTIONS"))) {
        return H1_DONE;
    }
    return bad(s, 400, "malformed request target");
}

static enum h1_result check_common(struct parse *s)
{
    if (s->has_te && s->has_cl) {
        return bad(s, 400, "both Transfer-Encoding and Content-Length");
    }
    if (s->has_te && s->h->minor == 0) {
        return bad(s, 400, "Transfer-Encoding in HTTP/1.0");
    }
    s->h->keep_alive = !s->conn_close && (s->h->minor == 1 || s->conn_keep_alive);
    s->h->has_upgrade = s->upgrade && s->conn_upgrade && s->h->minor == 1;
    return H1_DONE;
}

/* Everything but the header array, which is filled as far as n_headers says. */
static void parse_init(struct parse *s, const char *p, size_t n, struct h1_head *h, bool is_request)
{
    *s = (struct parse){.start = p, .p = p, .end = p + n, .h = h, .is_request = is_request};
    h->method = h->target = h->reason = h->host = STR_NULL;
    h->status = h->minor = h->bad_status = 0;
    h->bad_reason = NULL;
    h->n_headers = 0;
    h->content_length = -1;
    h->chunked = h->keep_alive = h->expect_continue = h->has_upgrade = false;
}

enum h1_result h1_parse_request(const char *p, size_t n, struct h1_head *ret, size_t *ret_len)
{
    struct parse s;
    parse_init(&s, p, n, ret, true);
    enum h1_result r;
    if (n > 0 && *p == '\r') {
        r = parse_crlf(&s, "malformed request line");
        if (r != H1_DONE) {
            return r;
        }
    }
    r = parse_request_line(&s);
    if (r == H1_DONE) {
        r = parse_headers(&s);
    }
    if (r == H1_DONE) {
        r = check_common(&s);
    }
    if (r == H1_DONE) {
        r = check_target(&s);
    }
    if (r == H1_DONE && !s.has_host && ret->minor == 1) {
        r = bad(&s, 400, "missing Host");
    }
    if (r == H1_DONE) {
        ret->expect_continue &= ret->minor == 1;
        *ret_len = (size_t)(s.p - p);
    }
    return r;
}

/* RFC 9112 6.3: which responses have no body, whatever their headers say. */
static bool response_is_bodiless(const struct h1_head *h, struct str method)
{
    return h->status < 200 || h->status == 204 || h->status == 304 || str_eq(method, STR("HEAD")) ||
           (str_eq(method, STR("CONNECT")) && h->status < 300);
}

enum h1_result h1_parse_response(const char *p, size_t n, struct str request_method,
                                 struct h1_head *ret, size_t *ret_len)
{
    struct parse s;
    parse_init(&s, p, n, ret, false);
    enum h1_result r = parse_status_line(&s);
    if (r == H1_DONE) {
        r = parse_headers(&s);
    }
    if (r == H1_DONE) {
        r = check_common(&s);
    }
    if (r != H1_DONE) {
        return r;
    }
    if (response_is_bodiless(ret, request_method)) {
        ret->content_length = 0;
        ret->chunked = false;
    } else if (!ret->chunked && ret->content_length < 0) {
        ret->keep_alive = false; /* the end of the connection is the end of the body */
    }
    *ret_len = (size_t)(s.p - p);
    return H1_DONE;
}
