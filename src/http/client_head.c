/* The head of a request, as the client sends it. */

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "http/chars.h"
#include "http/client_internal.h"

static bool target_ok(struct str t)
{
    for (size_t i = 0; i < t.n; i++) {
        if (!char_is(t.p[i], CHAR_TARGET)) {
            return false;
        }
    }
    return t.n > 0 && t.n <= HTTP_MAX_TARGET;
}

/* Methods whose requests are expected to have a body, and say so when it is empty (RFC 9110 8.6).
 */
static bool method_has_body(struct str m)
{
    return str_eq(m, STR("POST")) || str_eq(m, STR("PUT")) || str_eq(m, STR("PATCH"));
}

bool client_method_idempotent(struct str m)
{
    static const struct str methods[] = {{"GET", 3},    {"HEAD", 4},    {"PUT", 3},
                                         {"DELETE", 6}, {"OPTIONS", 7}, {"TRACE", 5}};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if (str_eq(m, methods[i])) {
            return true;
        }
    }
    return false;
}

/* A length that is certainly enough, so that the buffer grows once. */
static size_t head_size(const struct http_call_opts *o)
{
    size_t n = o->method.n + o->target.n + 128;
    for (size_t i = 0; i < o->n_headers; i++) {
        n += o->headers[i].name.n + o->headers[i].value.n + 4;
    }
    return n;
}

static char *put(char *p, struct str s)
{
    if (s.n > 0) {
        memcpy(p, s.p, s.n);
    }
    return p + s.n;
}

static char *put_framing(char *p, const struct http_call_opts *o)
{
    if (o->body_len < 0) {
        return put(p, STR("Transfer-Encoding: chunked\r\n"));
    }
    if (o->body_len > 0) {
        return p + snprintf(p, 64, "Content-Length: %lld\r\n", (long long)o->body_len);
    }
    if (o->keep_body_framing_for_get || method_has_body(o->method)) {
        return put(p, STR("Content-Length: 0\r\n"));
    }
    return p;
}

int client_head_format(const struct http_call_opts *o, struct buf *out)
{
    if (!h1_is_token(o->method) || !target_ok(o->target)) {
        return -EINVAL;
    }
    size_t max = head_size(o);
    if (buf_reserve(out, max) < 0) {
        return -EINVAL;
    }
    char *start = out->p + out->len, *p = start;
    p = put(p, o->method);
    *p++ = ' ';
    p = put(p, o->target);
    p = put(p, STR(" HTTP/1.1\r\n"));
    for (size_t i = 0; i < o->n_headers; i++) {
        const struct h1_header *h = &o->headers[i];
        if (!h1_is_token(h->name) || !h1_is_field_value(h->value)) {
            return -EINVAL;
        }
        p = put(p, h->name);
        *p++ = ':';
        *p++ = ' ';
        p = put(p, h->value);
        *p++ = '\r';
        *p++ = '\n';
    }
    p = put_framing(p, o);
    if (o->upgrade) {
        p = put(p, STR("Connection: Upgrade\r\n"));
    }
    *p++ = '\r';
    *p++ = '\n';
    must((size_t)(p - start) <= max);
    out->len += (size_t)(p - start);
    return 0;
}
