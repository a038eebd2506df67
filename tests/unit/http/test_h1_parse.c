#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/must.h"
#include "http/h1.h"

struct sample {
    const char *name;
    struct str in;
    int status; /* 0: accepted */
};

#define S(name, text, status)                                                                      \
    {                                                                                              \
        name, {text, sizeof(text) - 1}, status                                                     \
    }
#define GET(headers) "GET / HTTP/1.1\r\nHost: a\r\n" headers "\r\n"
#define POST(headers) "POST / HTTP/1.1\r\nHost: a\r\n" headers "\r\n"

/* Whatever the split, the verdict is the same: no prefix is accepted, and one that is refused is
 * refused with the status of the whole. */
static int parse_all_prefixes(const char *name, struct str in, struct h1_head *h, size_t *len)
{
    int first_bad = 0;
    for (size_t n = 0; n <= in.n; n++) {
        enum h1_result r = h1_parse_request(in.p, n, h, len);
        if (r == H1_BAD && !first_bad) {
            first_bad = h->bad_status;
            assert_non_null(h->bad_reason);
        }
        if (r == H1_DONE && *len != n) {
            fail_msg("%s: head of %zu bytes done at %zu", name, *len, n);
        }
        if (r == H1_DONE) {
            assert_int_equal(first_bad, 0);
            return 0;
        }
        if (first_bad && (r != H1_BAD || h->bad_status != first_bad)) {
            fail_msg("%s: the verdict changed at %zu: %d, then %d", name, n, first_bad,
                     r == H1_BAD ? h->bad_status : -(int)r);
        }
    }
    return first_bad ? first_bad : -1;
}

static const struct sample accepted[] = {
    S("minimal", GET(""), 0),
    S("empty line first", "\r\n" GET(""), 0),
    S("no host in 1.0", "GET / HTTP/1.0\r\n\r\n", 0),
    S("odd but legal target", "GET /a{b}|c\"<>^`\\?x=[1]&%zz HTTP/1.1\r\nHost: a\r\n\r\n", 0),
    S("own method", "M-SEARCH /x HTTP/1.1\r\nHost: a\r\n\r\n", 0),
    S("options star", "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 0),
    S("absolute form", "GET http://a/x?y HTTP/1.1\r\nHost: a\r\n\r\n", 0),
    S("absolute form, other case", "GET HTTP://A:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 0),
    S("connect", "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 0),
    S("ipv6 host", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 0),
    S("host with port", "GET / HTTP/1.1\r\nHost: a_b.c-d:8080\r\n\r\n", 0),
    S("empty value", GET("X:\r\nY: \t \r\n"), 0),
    S("tab and high bytes in value", GET("X: a\tb \xff\x80\r\n"), 0),
    S("length", POST("Content-Length: 5\r\n"), 0),
    S("length zero", POST("content-length:0\r\n"), 0),
    S("largest length", POST("Content-Length: 9223372036854775807\r\n"), 0),
    S("chunked", POST("Transfer-Encoding: Chunked\r\n"), 0),
    S("unknown expectation", POST("Expect: something\r\n"), 0),
};

static const struct sample refused[] = {
    S("garbage", "\x16\x03\x01\x02", 400),
    S("lf first", "\nGET / HTTP/1.1\r\n", 400),
    S("two empty lines", "\r\n\r\nGET / HTTP/1.1\r\n", 400),
    S("space first", " GET / HTTP/1.1\r\n", 400),
    S("bare LF request line", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
    S("bare CR request line", "GET / HTTP/1.1\rHost: a\r\n\r\n", 400),
    S("two spaces", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("space in target", "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("tab separator", "GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("trailing space", "GET / HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
    S("0.9", "GET /\r\n", 400),
    S("NUL in target", "GET /\0 HTTP/1.1\r\n", 400),
    S("high byte in target", "GET /\xc3\xa4 HTTP/1.1\r\n", 400),
    S("fragment", "GET /#a HTTP/1.1\r\n", 400),
    S("DEL in target", "GET /\x7f HTTP/1.1\r\n", 400),
    S("lower-case protocol", "GET / http/1.1\r\n", 400),
    S("version junk", "GET / HTTP/1.x\r\n", 400),
    S("version 1.10", "GET / HTTP/1.10\r\n", 400),
    S("version 2", "GET / HTTP/2.0\r\n", 505),
    S("preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    S("version 1.2", "GET / HTTP/1.2\r\n", 505),
    S("version 0.9", "GET / HTTP/0.9\r\n", 505),
    S("method too long", "ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFGHIJ / HTTP/1.1\r\n", 501),
    S("method with colon", "GE:T / HTTP/1.1\r\n", 400),
    S("relative target", "GET a HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("star for GET", "GET * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("authority for GET", "GET a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n", 400),
    S("connect to a path", "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("connect with a body", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\nContent-Length: 1\r\n\r\n", 400),
    S("other scheme", "GET ftp://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("absolute without authority", "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("absolute with userinfo", "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("absolute differs from host", "GET http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    S("absolute without host header", "GET http://b/ HTTP/1.1\r\n\r\n", 400),
    S("no host", "GET / HTTP/1.1\r\n\r\n", 400),
    S("empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
    S("empty host in 1.0", "GET / HTTP/1.0\r\nHost: \r\n\r\n", 400),
    S("two hosts", GET("Host: a\r\n"), 400),
    S("host with userinfo", "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400),
    S("host with path", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
    S("host list", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
    S("host port junk", "GET / HTTP/1.1\r\nHost: a:8x\r\n\r\n", 400),
    S("host port long", "GET / HTTP/1.1\r\nHost: a:123456\r\n\r\n", 400),
    S("host port only", "GET / HTTP/1.1\r\nHost: :80\r\n\r\n", 400),
    S("host bracket", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", 400),
    S("host bracket junk", "GET / HTTP/1.1\r\nHost: [::1]a\r\n\r\n", 400),
    S("obs-fold", GET("X: a\r\n b\r\n"), 400),
    S("fold before the first header", "GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    S("space before colon", GET("X : a\r\n"), 400),
    S("tab before colon", GET("X\t: a\r\n"), 400),
    S("no colon", GET("X\r\n"), 400),
    S("no name", GET(": a\r\n"), 400),
    S("NUL in name", GET("X\0: a\r\n"), 400),
    S("NUL in value", GET("X: a\0b\r\n"), 400),
    S("control in value", GET("X: a\x01\r\n"), 400),
    S("control deep in value",
      GET("X: 0123456789abcdef\x0b"
          "0123456789abcdef\r\n"),
      400),
    S("DEL in value", GET("X: 0123456789\x7f\r\n"), 400),
    S("bare LF after value", GET("X: a\n"), 400),
    S("bare CR in value", GET("X: a\rb\r\n"), 400),
    S("bare LF at the end", "GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
    S("bare CR at the end", "GET / HTTP/1.1\r\nHost: a\r\n\rX", 400),
    S("two lengths", POST("Content-Length: 5\r\nContent-Length: 5\r\n"), 400),
    S("two different lengths", POST("Content-Length: 5\r\ncontent-length: 6\r\n"), 400),
    S("length list", POST("Content-Length: 5, 5\r\n"), 400),
    S("length plus", POST("Content-Length: +5\r\n"), 400),
    S("length minus", POST("Content-Length: -5\r\n"), 400),
    S("length hex", POST("Content-Length: 0x5\r\n"), 400),
    S("length empty", POST("Content-Length:\r\n"), 400),
    S("length after tab", POST("Content-Length:\t5\r\n"), 400),
    S("length before tab", POST("Content-Length: 5 \t\r\n"), 400),
    S("chunked after tab", POST("Transfer-Encoding:\tchunked\r\n"), 400),
    S("chunked before tab", POST("Transfer-Encoding: chunked\t\r\n"), 400),
    S("length inner space", POST("Content-Length: 5 5\r\n"), 400),
    S("length decimal point", POST("Content-Length: 5.0\r\n"), 400),
    S("length over int64", POST("Content-Length: 9223372036854775808\r\n"), 400),
    S("length of 20 digits", POST("Content-Length: 00000000000000000005\r\n"), 400),
    S("length space before colon", POST("Content-Length : 5\r\n"), 400),
    S("length and chunked", POST("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400),
    S("chunked and length", POST("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400),
    S("two codings", POST("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400),
    S("coding list", POST("Transfer-Encoding: gzip, chunked\r\n"), 400),
    S("chunked twice", POST("Transfer-Encoding: chunked, chunked\r\n"), 400),
    S("coding empty", POST("Transfer-Encoding:\r\n"), 400),
    S("coding quoted", POST("Transfer-Encoding: \"chunked\"\r\n"), 400),
    S("coding with parameter", POST("Transfer-Encoding: chunked;a=b\r\n"), 400),
    S("coding with control",
      POST("Transfer-Encoding: \x0b"
           "chunked\r\n"),
      400),
    S("coding identity", POST("Transfer-Encoding: identity\r\n"), 501),
    S("coding unknown", POST("Transfer-Encoding: xchunked\r\n"), 501),
    S("chunked in 1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
};

static void test_accepted(void **state)
{
    struct h1_head *h = NEW(struct h1_head);
    for (size_t i = 0; i < ARRAY_LEN(accepted); i++) {
        size_t len = 0;
        int r = parse_all_prefixes(accepted[i].name, accepted[i].in, h, &len);
        if (r != 0) {
            fail_msg("%s: %d %s", accepted[i].name, r, h->bad_reason ? h->bad_reason : "");
        }
        assert_int_equal(len, accepted[i].in.n);
    }
    free(h);
}

static void test_refused(void **state)
{
    struct h1_head *h = NEW(struct h1_head);
    for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
        size_t len = 0;
        int r = parse_all_prefixes(refused[i].name, refused[i].in, h, &len);
        if (r != refused[i].status) {
            fail_msg("%s: %d instead of %d", refused[i].name, r, refused[i].status);
        }
    }
    free(h);
}

static void test_fields(void **state)
{
    static const char in[] = "\r\nPOST /a/b?c=d HTTP/1.1\r\nHost:  example:80 \r\nX-One: 1\r\n"
                             "Connection: x, Close , upgrade\r\nUpgrade: websocket\r\n"
                             "Expect: 100-Continue\r\nContent-Length: 42\r\n\r\nbody";
    struct h1_head h;
    size_t len;
    assert_int_equal(h1_parse_request(in, sizeof(in) - 1, &h, &len), H1_DONE);
    assert_int_equal(len, sizeof(in) - 1 - 4);
    assert_true(str_eq(h.method, STR("POST")));
    assert_true(str_eq(h.target, STR("/a/b?c=d")));
    assert_true(str_eq(h.host, STR("example:80")));
    assert_int_equal(h.minor, 1);
    assert_int_equal(h.n_headers, 6);
    assert_true(str_eq(h.headers[1].name, STR("X-One")));
    assert_int_equal(h.content_length, 42);
    assert_false(h.chunked);
    assert_false(h.keep_alive);
    assert_true(h.expect_continue);
    assert_true(h.has_upgrade);
}

static void check_keep_alive(const char *in, bool want)
{
    struct h1_head h;
    size_t len;
    assert_int_equal(h1_parse_request(in, strlen(in), &h, &len), H1_DONE);
    assert_int_equal(h.keep_alive, want);
}

static void test_keep_alive(void **state)
{
    check_keep_alive(GET(""), true);
    check_keep_alive(GET("Connection: close\r\n"), false);
    check_keep_alive(GET("Connection: keep-alive\r\nConnection: close\r\n"), false);
    check_keep_alive("GET / HTTP/1.0\r\n\r\n", false);
    check_keep_alive("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", true);
}

/* A head of n bytes with a target and header lines of the given sizes; returns the verdict. */
static int verdict_of(size_t target, size_t n_headers, size_t value)
{
    size_t cap = target + n_headers * (value + 16) + 256;
    char *b = xmalloc(cap);
    size_t n = (size_t)snprintf(b, cap, "GET /");
    memset(b + n, 'a', target - 1);
    n += target - 1;
    n += (size_t)snprintf(b + n, cap - n, " HTTP/1.1\r\nHost: a\r\n");
    for (size_t i = 0; i < n_headers; i++) {
        n += (size_t)snprintf(b + n, cap - n, "X: ");
        memset(b + n, 'v', value);
        n += value;
        n += (size_t)snprintf(b + n, cap - n, "\r\n");
    }
    n += (size_t)snprintf(b + n, cap - n, "\r\n");
    struct h1_head *h = NEW(struct h1_head);
    size_t len;
    enum h1_result r = h1_parse_request(b, n, h, &len);
    int v = r == H1_DONE ? 0 : r == H1_BAD ? h->bad_status : -1;
    /* Without its end the same head is either refused alike or still being waited for. */
    r = h1_parse_request(b, n - 1, h, &len);
    assert_true(r == H1_NEED_MORE ? v == 0 || n > HTTP_MAX_HEAD : h->bad_status == v);
    free(h);
    free(b);
    return v;
}

static void test_limits(void **state)
{
    assert_int_equal(verdict_of(HTTP_MAX_TARGET, 0, 0), 0);
    assert_int_equal(verdict_of(HTTP_MAX_TARGET + 1, 0, 0), 414);
    assert_int_equal(verdict_of(1, HTTP_MAX_HEADERS - 1, 1), 0);
    assert_int_equal(verdict_of(1, HTTP_MAX_HEADERS, 1), 431);
    size_t fixed = sizeof("GET / HTTP/1.1\r\nHost: a\r\nX: \r\n\r\n") - 1;
    assert_int_equal(verdict_of(1, 1, HTTP_MAX_HEAD - fixed), 0);
    assert_int_equal(verdict_of(1, 1, HTTP_MAX_HEAD - fixed + 1), 431);
    assert_int_equal(verdict_of(1, 100, 2000), 431);
}

static enum h1_result response(const char *in, const char *method, struct h1_head *h)
{
    size_t len = 0, n = strlen(in);
    for (size_t i = 0; i < n; i++) {
        enum h1_result r = h1_parse_response(in, i, str_from(method), h, &len);
        if (r == H1_BAD) {
            assert_int_equal(h->bad_status, 502);
            return r;
        }
        assert_int_equal(r, H1_NEED_MORE);
    }
    enum h1_result r = h1_parse_response(in, n, str_from(method), h, &len);
    if (r == H1_DONE) {
        assert_int_equal(len, n);
    }
    return r;
}

static void test_response(void **state)
{
    struct h1_head *h = NEW(struct h1_head);
    assert_int_equal(response("HTTP/1.1 200 OK then\r\nContent-Length: 3\r\n\r\n", "GET", h),
                     H1_DONE);
    assert_int_equal(h->status, 200);
    assert_true(str_eq(h->reason, STR("OK then")));
    assert_int_equal(h->content_length, 3);
    assert_true(h->keep_alive);

    assert_int_equal(response("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n", "GET", h),
                     H1_DONE);
    assert_true(h->chunked);
    assert_int_equal(h->reason.n, 0);

    assert_int_equal(response("HTTP/1.0 200 \r\n\r\n", "GET", h), H1_DONE);
    assert_int_equal(h->content_length, -1);
    assert_false(h->keep_alive);

    assert_int_equal(response("HTTP/1.1 200 OK\r\n\r\n", "GET", h), H1_DONE);
    assert_int_equal(h->content_length, -1);
    assert_false(h->keep_alive); /* until the connection ends */

    assert_int_equal(
        response("HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", "GET", h),
        H1_DONE);
    assert_true(h->has_upgrade);
    assert_int_equal(h->content_length, 0);
    free(h);
}

static void test_response_without_body(void **state)
{
    struct h1_head *h = NEW(struct h1_head);
    static const char *const same[][2] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", "HEAD"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HEAD"},
        {"HTTP/1.1 200 OK\r\n\r\n", "CONNECT"},
        {"HTTP/1.1 204 No\r\nContent-Length: 9\r\n\r\n", "GET"},
        {"HTTP/1.1 304 Same\r\nContent-Length: 9\r\n\r\n", "GET"},
        {"HTTP/1.1 100 Continue\r\n\r\n", "POST"},
    };
    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        assert_int_equal(response(same[i][0], same[i][1], h), H1_DONE);
        assert_int_equal(h->content_length, 0);
        assert_false(h->chunked);
        assert_true(h->keep_alive);
    }
    assert_int_equal(response("HTTP/1.1 400 No\r\nContent-Length: 9\r\n\r\n", "CONNECT", h),
                     H1_DONE);
    assert_int_equal(h->content_length, 9);
    free(h);
}

static void test_response_refused(void **state)
{
    struct h1_head *h = NEW(struct h1_head);
    static const char *const lines[] = {
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/1.1 2000 OK\r\n\r\n",
        "HTTP/1.1  200 OK\r\n\r\n",
        "HTTP/1.1 099 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 O\x01K\r\n\r\n",
        "HTTP/1.1 200 OK\n\n",
        "ICY 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        if (response(lines[i], "GET", h) != H1_BAD) {
            fail_msg("accepted: %s", lines[i]);
        }
    }
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accepted),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_keep_alive),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_response),
        cmocka_unit_test(test_response_without_body),
        cmocka_unit_test(test_response_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
