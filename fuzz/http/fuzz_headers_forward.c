/* The proxy's rewriting, between the parsers it sits between: a request that was accepted is
 * rewritten, formatted and parsed again. What comes out must be one request, framed as intended,
 * with no hop-by-hop header and with everything else in its old order. The first byte chooses
 * options. */

#include <stdint.h>

#include "base/must.h"
#include "http/client_internal.h"
#include "http/proxy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct h1_header added[] = {{{"X-Forwarded-For", 15}, {"10.0.0.1", 8}}};
static const struct str drops[] = {{"X-Api-Key", 9}};

static void check_no_hop(const struct h1_header *h, size_t n, bool upgrade, bool framed)
{
    static const char *const never[] = {
        "keep-alive", "te",       "trailer",       "proxy-connection",
        "expect",     "host",     "proxy-x",       "proxy-authorization",
        "x-api-key",  "trailers", "http2-settings"};
    for (size_t i = framed ? 1 : 0; i < n; i++) {
        must(h1_is_token(h[i].name) && h1_is_field_value(h[i].value));
        for (size_t k = 0; k < ARRAY_LEN(never); k++) {
            must(!str_eq_nocase(h[i].name, str_from(never[k])));
        }
        must(!str_starts_nocase(h[i].name, STR("proxy-")));
        must(upgrade || !str_eq_nocase(h[i].name, STR("upgrade")));
        if (!framed) {
            must(!str_eq_nocase(h[i].name, STR("content-length")));
            must(!str_eq_nocase(h[i].name, STR("transfer-encoding")));
            must(!str_eq_nocase(h[i].name, STR("connection")));
        }
    }
}

/* Every kept header is one of the input, and they come in the order of the input. */
static void check_order(const struct h1_header *in, size_t n_in, const struct h1_header *out,
                        size_t n_out)
{
    size_t at = 0;
    for (size_t i = 0; i < n_out; i++) {
        while (at < n_in && in[at].name.p != out[i].name.p) {
            must(!out[i].value.p || at < n_in);
            at++;
        }
        must(at < n_in && str_eq(in[at].value, out[i].value));
        at++;
    }
}

static void on_request(const struct h1_head *in, uint8_t flags)
{
    struct h1_header out[HTTP_MAX_HEADERS + 4];
    struct http_proxy_opts o = {
        .add = added, .n_add = flags & 1, .drop = drops, .n_drop = 1, .host = in->host};
    bool upgrade = (flags & 2) && in->has_upgrade;
    ssize_t n =
        http_proxy_request_headers(in->headers, in->n_headers, &o, upgrade, out, ARRAY_LEN(out));
    must(n >= 1);
    check_no_hop(out + 1, (size_t)n - 1, upgrade, false);
    check_order(in->headers, in->n_headers, out + 1, (size_t)n - 1 - o.n_add);

    struct http_call_opts call = {.method = in->method,
                                  .target = in->target,
                                  .headers = out,
                                  .n_headers = (size_t)n,
                                  .body_len = in->chunked ? -1 : MAX(in->content_length, 0),
                                  .upgrade = upgrade};
    struct buf head = BUF_INIT(HTTP_CALL_MAX_HEAD);
    struct h1_head again;
    size_t len = 0;
    must(client_head_format(&call, &head) == 0);
    enum h1_result r = h1_parse_request(head.p, head.len, &again, &len);
    if (r == H1_BAD) {
        /* one more header, or an empty Host for an HTTP/1.0 request that had none */
        must(again.bad_status == 431 || !in->host.p);
    } else {
        must(r == H1_DONE && len == head.len);
        must(str_eq(again.method, in->method) && str_eq(again.target, in->target));
        must(again.chunked == in->chunked);
        must(in->chunked || MAX(again.content_length, 0) == MAX(in->content_length, 0));
        must(!again.expect_continue && again.has_upgrade == upgrade && again.keep_alive);
        check_no_hop(again.headers, again.n_headers, upgrade, true);
    }
    buf_done(&head);
}

static void on_response(const struct h1_head *in, uint8_t flags)
{
    struct h1_header out[HTTP_MAX_HEADERS + 4];
    struct http_proxy_opts o = {.add_resp = added, .n_add_resp = flags & 1};
    bool upgrade = (flags & 2) && in->status == 101;
    ssize_t n =
        http_proxy_response_headers(in->headers, in->n_headers, &o, upgrade, out, ARRAY_LEN(out));
    must(n >= 0);
    check_order(in->headers, in->n_headers, out, (size_t)n - o.n_add_resp);
    for (ssize_t i = 0; i < n; i++) {
        must(h1_is_token(out[i].name) && h1_is_field_value(out[i].value));
        must(!str_eq_nocase(out[i].name, STR("content-length")));
        must(!str_eq_nocase(out[i].name, STR("transfer-encoding")));
        must(!str_eq_nocase(out[i].name, STR("connection")));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct h1_head head;
    size_t len = 0;
    if (size < 1) {
        return 0;
    }
    const char *p = (const char *)data + 1;
    if (h1_parse_request(p, size - 1, &head, &len) == H1_DONE) {
        on_request(&head, data[0]);
    } else if (h1_parse_response(p, size - 1, STR("GET"), &head, &len) == H1_DONE) {
        on_response(&head, data[0]);
    }
    return 0;
}
