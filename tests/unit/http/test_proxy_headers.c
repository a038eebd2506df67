/* Header rewriting of the proxy: what goes, what stays, what comes. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/must.h"
#include "http/proxy.h"

#define H(n, v)                                                                                    \
    {                                                                                              \
        {(n), sizeof(n) - 1},                                                                      \
        {                                                                                          \
            (v), sizeof(v) - 1                                                                     \
        }                                                                                          \
    }

static char *join(const struct h1_header *h, ssize_t n)
{
    struct buf b = BUF_INIT(1 << 16);
    for (ssize_t i = 0; i < n; i++) {
        (void)buf_printf(&b, "%.*s=%.*s\n", STR_FMT(h[i].name), STR_FMT(h[i].value));
    }
    return buf_take(&b);
}

static void expect_request(const struct h1_header *in, size_t n, const struct http_proxy_opts *o,
                           bool upgrade, const char *want)
{
    struct h1_header out[64];
    ssize_t got = http_proxy_request_headers(in, n, o, upgrade, out, ARRAY_LEN(out));
    assert_true(got >= 0);
    char *text = join(out, got);
    assert_string_equal(text, want);
    free(text);
}

static void expect_response(const struct h1_header *in, size_t n, const struct http_proxy_opts *o,
                            bool upgrade, const char *want)
{
    struct h1_header out[64];
    ssize_t got = http_proxy_response_headers(in, n, o, upgrade, out, ARRAY_LEN(out));
    assert_true(got >= 0);
    char *text = join(out, got);
    assert_string_equal(text, want);
    free(text);
}

static void test_hop_by_hop_goes(void **state)
{
    const struct h1_header in[] = {
        H("Accept", "a"),
        H("Host", "h:1"),
        H("connection", "Keep-Alive , x-secret,X-Other"),
        H("Keep-Alive", "timeout=5"),
        H("X-Secret", "1"),
        H("Proxy-Authorization", "Basic x"),
        H("Proxy-Connection", "keep-alive"),
        H("PROXY-ANYTHING", "x"),
        H("Proxy-", "x"),
        H("TE", "trailers"),
        H("Trailer", "x"),
        H("Transfer-Encoding", "chunked"),
        H("Content-Length", "5"),
        H("Upgrade", "h2c"),
        H("HTTP2-Settings", "AAA"),
        H("Expect", "100-continue"),
        H("X-OTHER", "2"),
        H("Proxy", "stays: no prefix"),
        H("X-Last", ""),
    };
    struct http_proxy_opts o = {0};
    expect_request(in, ARRAY_LEN(in), &o, false,
                   "Host=h:1\nAccept=a\nProxy=stays: no prefix\nX-Last=\n");
    expect_response(in, ARRAY_LEN(in), &o, false,
                    "Accept=a\nHost=h:1\nProxy=stays: no prefix\nX-Last=\n");
}

static void test_repeated_stay_in_order(void **state)
{
    const struct h1_header in[] = {
        H("Cookie", "a=1"), H("X", "1"), H("cookie", "b=2"),       H("X", "2"),
        H("COOKIE", "c=3"), H("X", "1"), H("Connection", "close"),
    };
    struct http_proxy_opts o = {.host = STR("up")};
    expect_request(in, ARRAY_LEN(in), &o, false,
                   "Host=up\nCookie=a=1\nX=1\ncookie=b=2\nX=2\nCOOKIE=c=3\nX=1\n");
    expect_response(in, ARRAY_LEN(in), &o, false,
                    "Cookie=a=1\nX=1\ncookie=b=2\nX=2\nCOOKIE=c=3\nX=1\n");
}

static void test_upgrade_stays_when_asked(void **state)
{
    const struct h1_header in[] = {
        H("Host", "h"),
        H("Upgrade", "websocket"),
        H("Connection", "keep-alive, Upgrade"),
        H("Sec-WebSocket-Key", "k"),
    };
    struct http_proxy_opts o = {0};
    expect_request(in, ARRAY_LEN(in), &o, true, "Host=h\nUpgrade=websocket\nSec-WebSocket-Key=k\n");
    expect_request(in, ARRAY_LEN(in), &o, false, "Host=h\nSec-WebSocket-Key=k\n");
    expect_response(in, ARRAY_LEN(in), &o, true,
                    "Host=h\nUpgrade=websocket\nSec-WebSocket-Key=k\n");
}

static void test_added_replace_and_dropped_go(void **state)
{
    const struct h1_header in[] = {
        H("Host", "h"),
        H("x-api-key", "secret"),
        H("X-Forwarded-For", "1.1.1.1"),
        H("x-forwarded-for", "2.2.2.2"),
        H("Keep", "1"),
        H("Connection", "X-Forwarded-For"),
    };
    const struct h1_header add[] = {H("X-Forwarded-For", "3.3.3.3"), H("X-New", "n")};
    const struct str drop[] = {STR("X-API-KEY")};
    struct http_proxy_opts o = {
        .add = add, .n_add = 2, .drop = drop, .n_drop = 1, .add_resp = add, .n_add_resp = 2};
    expect_request(in, ARRAY_LEN(in), &o, false,
                   "Host=h\nKeep=1\nX-Forwarded-For=3.3.3.3\nX-New=n\n");
    expect_response(in, ARRAY_LEN(in), &o, false,
                    "Host=h\nx-api-key=secret\nKeep=1\nX-Forwarded-For=3.3.3.3\nX-New=n\n");
}

static void test_no_host(void **state)
{
    const struct h1_header in[] = {H("A", "b"), H("Connection", "host, a")};
    struct http_proxy_opts o = {0};
    expect_request(in, 1, &o, false, "Host=\nA=b\n");
    o.host = STR("up");
    expect_request(in, 2, &o, false, "Host=up\n"); /* Connection cannot take Host away */
}

static void test_refuses(void **state)
{
    const struct h1_header in[] = {H("Host", "h"), H("A", "b")};
    struct h1_header out[4];
    struct http_proxy_opts o = {0};
    assert_int_equal(http_proxy_request_headers(in, 2, &o, false, out, 2), 2);
    assert_int_equal(http_proxy_request_headers(in, 2, &o, false, out, 1), -EINVAL);
    assert_int_equal(http_proxy_request_headers(in, 2, &o, false, out, 0), -EINVAL);
    assert_int_equal(http_proxy_response_headers(in, 2, &o, false, out, 1), -EINVAL);
    const struct h1_header bad[] = {
        H("X", "a\r\nEvil: 1"), H("X\n", "a"),  H("", "a"),
        H("Connection", "x"),   H("Host", "h"), H("content-length", "1"),
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        o = (struct http_proxy_opts){
            .add = &bad[i], .n_add = 1, .add_resp = &bad[i], .n_add_resp = 1};
        assert_int_equal(http_proxy_request_headers(in, 2, &o, false, out, 4), -EINVAL);
        assert_int_equal(http_proxy_response_headers(in, 2, &o, false, out, 4), -EINVAL);
    }
    o = (struct http_proxy_opts){.host = STR("a\r\nb")};
    assert_int_equal(http_proxy_request_headers(in, 2, &o, false, out, 4), -EINVAL);
    o = (struct http_proxy_opts){.add = in + 1, .n_add = 1};
    assert_int_equal(http_proxy_request_headers(in, 1, &o, false, out, 1), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hop_by_hop_goes),
        cmocka_unit_test(test_repeated_stay_in_order),
        cmocka_unit_test(test_upgrade_stays_when_asked),
        cmocka_unit_test(test_added_replace_and_dropped_go),
        cmocka_unit_test(test_no_host),
        cmocka_unit_test(test_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
