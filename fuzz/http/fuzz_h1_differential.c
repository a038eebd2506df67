/* Ours against Debian's libhttp-parser: every request that we accept it accepts too, with the same
 * method, target, headers and body, ending at the same byte. The other direction does not hold and
 * shall not: it accepts what a strict parser must refuse. */

#include <http_parser.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/must.h"
#include "http/h1.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct message {
    struct buf url, fields, body; /* fields: name, '=', value, '\n' */
    bool in_name, in_value, headers_done, in_trailers, done;
    struct http_parser parser;
};

static int on_url(http_parser *p, const char *at, size_t n)
{
    return buf_add(&((struct message *)p->data)->url, at, n);
}

static void end_line(struct message *m)
{
    if (!m->in_name && !m->in_value) {
        return;
    }
    if (!m->in_value) {
        (void)buf_add_char(&m->fields, '=');
    }
    while (m->fields.len > 0 && strchr(" \t", m->fields.p[m->fields.len - 1])) {
        m->fields.len--; /* it leaves white space at the end of a value to its user */
    }
    (void)buf_add_char(&m->fields, '\n');
    m->in_name = m->in_value = false;
}

static int on_field(http_parser *p, const char *at, size_t n)
{
    struct message *m = p->data;
    if (m->headers_done) {
        return 0; /* trailers are not compared */
    }
    if (m->in_value) {
        end_line(m);
    }
    m->in_name = true;
    return buf_add(&m->fields, at, n);
}

static int on_value(http_parser *p, const char *at, size_t n)
{
    struct message *m = p->data;
    if (m->headers_done) {
        return 0;
    }
    if (!m->in_value) {
        (void)buf_add_char(&m->fields, '=');
        m->in_value = true;
    }
    return buf_add(&m->fields, at, n);
}

static int on_headers_complete(http_parser *p)
{
    struct message *m = p->data;
    end_line(m);
    m->headers_done = true;
    return 0;
}

static int on_body(http_parser *p, const char *at, size_t n)
{
    return buf_add(&((struct message *)p->data)->body, at, n);
}

static int on_chunk(http_parser *p)
{
    ((struct message *)p->data)->in_trailers = p->content_length == 0;
    return 0;
}

static int on_complete(http_parser *p)
{
    ((struct message *)p->data)->done = true;
    http_parser_pause(p, 1);
    return 0;
}

/* Our reading of the body behind the head; false when it is malformed. */
static bool read_body(const struct h1_head *h, struct str in, struct buf *body, bool *ret_done,
                      size_t *ret_used)
{
    if (!h->chunked) {
        uint64_t want = h->content_length > 0 ? (uint64_t)h->content_length : 0;
        *ret_used = want < in.n ? (size_t)want : in.n;
        *ret_done = *ret_used == want;
        (void)buf_add(body, in.p, *ret_used);
        return true;
    }
    struct h1_chunked c = {0};
    struct str rest = in, data;
    int r;
    while ((r = h1_chunked_next(&c, &rest, &data)) == 1) {
        (void)buf_add_str(body, data);
    }
    *ret_done = r == 2;
    *ret_used = in.n - rest.n;
    return r >= 0;
}

static void compare(const struct h1_head *h, const struct message *m)
{
    must(str_eq(h->target, buf_str(&m->url)));
    must(str_eq(h->method, str_from(http_method_str((enum http_method)m->parser.method))));
    must(m->parser.http_major == 1 && m->parser.http_minor == h->minor);
    struct buf ours = BUF_INIT(1u << 20);
    for (size_t i = 0; i < h->n_headers; i++) {
        (void)buf_add_str(&ours, h->headers[i].name);
        (void)buf_add_char(&ours, '=');
        (void)buf_add_str(&ours, h->headers[i].value);
        (void)buf_add_char(&ours, '\n');
    }
    must(str_eq(buf_str(&ours), buf_str(&m->fields)));
    buf_done(&ours);
}

/* http_parser knows a fixed list of methods; others cannot be compared. */
static bool method_known(struct str method)
{
    for (int i = 0; i <= 33; i++) {
        if (str_eq(method, str_from(http_method_str((enum http_method)i)))) {
            return true;
        }
    }
    return false;
}

/* It takes every name that only begins with Transfer-Encoding for that header, and refuses. */
static bool name_misread(const struct h1_head *h)
{
    const struct str te = STR("transfer-encoding");
    for (size_t i = 0; i < h->n_headers; i++) {
        if (h->headers[i].name.n > te.n && str_starts_nocase(h->headers[i].name, te)) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct h1_head h;
    struct str in = str_n((const char *)data, size);
    size_t len;
    if (h1_parse_request(in.p, in.n, &h, &len) != H1_DONE || !method_known(h.method) ||
        str_eq(h.method, STR("CONNECT")) || h.has_upgrade || name_misread(&h)) {
        return 0; /* after CONNECT and Upgrade the other one stops by itself */
    }
    struct buf body = BUF_INIT(1u << 20);
    bool done = false;
    size_t used = 0;
    if (!read_body(&h, str_sub(in, len, in.n), &body, &done, &used)) {
        buf_done(&body);
        return 0;
    }
    struct message m = {
        .url = BUF_INIT(1u << 20), .fields = BUF_INIT(1u << 20), .body = BUF_INIT(1u << 20)};
    http_parser_init(&m.parser, HTTP_REQUEST);
    m.parser.data = &m;
    http_parser_settings set;
    http_parser_settings_init(&set);
    set.on_url = on_url;
    set.on_header_field = on_field;
    set.on_header_value = on_value;
    set.on_headers_complete = on_headers_complete;
    set.on_body = on_body;
    set.on_chunk_header = on_chunk;
    set.on_message_complete = on_complete;
    size_t n = http_parser_execute(&m.parser, &set, in.p, in.n);
    enum http_errno e = HTTP_PARSER_ERRNO(&m.parser);
    /* Trailers: it reads framing out of them, we drop them. */
    must(e == HPE_OK || (e == HPE_PAUSED && m.done) || m.in_trailers);
    must(m.done == done || m.in_trailers);
    if (done && m.done) {
        must(n == len + used);
    }
    compare(&h, &m);
    must(str_eq(buf_str(&body), buf_str(&m.body)));
    buf_done(&m.url);
    buf_done(&m.fields);
    buf_done(&m.body);
    buf_done(&body);
    return 0;
}
