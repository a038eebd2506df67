#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/must.h"
#include "http/h1.h"

/* Feeds `in` in pieces of `step` bytes. Returns 2 with the number of bytes after the end in
 * *ret_rest, 0 when unfinished, or the error. */
static int decode(struct str in, size_t step, char *out, size_t *out_len, size_t *ret_rest)
{
    struct h1_chunked c = {0};
    *out_len = 0;
    for (size_t at = 0; at < in.n; at += step) {
        struct str piece = str_sub(in, at, at + step);
        struct str data;
        int r;
        while ((r = h1_chunked_next(&c, &piece, &data)) == 1) {
            assert_true(data.n > 0);
            memcpy(out + *out_len, data.p, data.n);
            *out_len += data.n;
        }
        if (r == 2) {
            *ret_rest = in.n - at - (MIN(step, in.n - at) - piece.n);
            return 2;
        }
        if (r < 0) {
            return r;
        }
        assert_int_equal(piece.n, 0);
    }
    return 0;
}

static const struct {
    const char *name;
    struct str in;
    int result;
    struct str body;
    size_t rest;
} cases[] = {
#define CASE(name, in, result, body, rest)                                                         \
    {                                                                                              \
        name, {in, sizeof(in) - 1}, result, {body, sizeof(body) - 1}, rest                         \
    }
    CASE("empty body", "0\r\n\r\n", 2, "", 0),
    CASE("one chunk", "5\r\nhello\r\n0\r\n\r\n", 2, "hello", 0),
    CASE("two chunks", "5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", 2, "hello world", 0),
    CASE("upper and lower hex", "a\r\n0123456789\r\nA\r\nabcdefghij\r\n0\r\n\r\n", 2,
         "0123456789abcdefghij", 0),
    CASE("leading zeros", "0005\r\nhello\r\n000\r\n\r\n", 2, "hello", 0),
    CASE("what follows stays", "1\r\nx\r\n0\r\n\r\nGET /", 2, "x", 5),
    CASE("extension", "5;a=b;c=\"d e\"\r\nhello\r\n0;x\r\n\r\n", 2, "hello", 0),
    CASE("trailers are dropped", "1\r\nx\r\n0\r\nA: b\r\nC:\r\n\r\nrest", 2, "x", 4),
    CASE("unfinished data", "5\r\nhel", 0, "hel", 0),
    CASE("unfinished end", "1\r\nx\r\n0\r\n", 0, "x", 0),
    CASE("data is not parsed", "4\r\n\r\n\r\n\r\n0\r\n\r\n", 2, "\r\n\r\n", 0),
    CASE("no size", "\r\nhello", -EPROTO, "", 0),
    CASE("no size but extension", ";a\r\n", -EPROTO, "", 0),
    CASE("0x", "0x5\r\nhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("plus", "+5\r\nhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("minus", "-5\r\nhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("space before size", " 5\r\nhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("space after size", "5 \r\nhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("underscore", "1_0\r\n", -EPROTO, "", 0),
    CASE("bare LF after size", "5\nhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("bare CR after size", "5\rhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("bare LF in extension", "5;a\nhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("bare CR in extension", "5;a\rb\r\nhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("NUL in extension", "5;a\0b\r\nhello\r\n0\r\n\r\n", -EPROTO, "", 0),
    CASE("data too long", "5\r\nhello!\r\n0\r\n\r\n", -EPROTO, "hello", 0),
    CASE("LF only after data", "5\r\nhello\n0\r\n\r\n", -EPROTO, "hello", 0),
    CASE("17 digits", "00000000000000001\r\n", -EPROTO, "", 0),
    CASE("over int64", "8000000000000000\r\n", -EPROTO, "", 0),
    CASE("overflow", "ffffffffffffffff\r\n", -EPROTO, "", 0),
    CASE("trailer with bare LF", "0\r\nA: b\n\r\n", -EPROTO, "", 0),
    CASE("folded trailer", "0\r\nA: b\r\n c\r\n\r\n", -EPROTO, "", 0),
    CASE("trailer without colon", "0\r\nabc\r\n\r\n", -EPROTO, "", 0),
    CASE("trailer with space before colon", "0\r\nA : b\r\n\r\n", -EPROTO, "", 0),
    CASE("end with bare CR", "0\r\n\rX", -EPROTO, "", 0),
    CASE("end with bare LF", "0\r\n\n", -EPROTO, "", 0),
};

static void test_cases(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (size_t step = 1; step <= cases[i].in.n; step++) {
            char out[256];
            size_t n = 0, rest = 0;
            int r = decode(cases[i].in, step, out, &n, &rest);
            if (r != cases[i].result || (r == 2 && rest != cases[i].rest) ||
                !str_eq(str_n(out, n), cases[i].body)) {
                fail_msg("%s (step %zu): result %d, %zu left, body \"%.*s\"", cases[i].name, step,
                         r, rest, (int)n, out);
            }
        }
    }
}

static void test_largest(void **state)
{
    struct h1_chunked c = {0};
    struct str in = STR("7fffffffffffffff\r\nx"), data;
    assert_int_equal(h1_chunked_next(&c, &in, &data), 1);
    assert_int_equal(data.n, 1);
    assert_true(c.left == (uint64_t)INT64_MAX - 1);
}

static void feed_many(struct h1_chunked *c, char ch, size_t n, int want)
{
    for (size_t i = 0; i < n; i++) {
        struct str in = str_n(&ch, 1), data;
        assert_int_equal(h1_chunked_next(c, &in, &data), want);
    }
}

static void test_limits(void **state)
{
    struct h1_chunked c = {0};
    struct str in = STR("1;"), data;
    assert_int_equal(h1_chunked_next(&c, &in, &data), 0);
    feed_many(&c, 'x', HTTP_MAX_CHUNK_EXT - 1, 0);
    feed_many(&c, 'x', 1, -EPROTO);

    c = (struct h1_chunked){0};
    in = STR("0\r\nA:");
    assert_int_equal(h1_chunked_next(&c, &in, &data), 0);
    feed_many(&c, 'x', HTTP_MAX_TRAILER - 2, 0);
    feed_many(&c, 'x', 1, -EPROTO);
}

/* The extension limit is per line, so that a long upload with small extensions passes. */
static void test_extension_limit_restarts(void **state)
{
    struct h1_chunked c = {0};
    for (int i = 0; i < 100; i++) {
        struct str in = STR("1;0123456789012345678901234567890123456789\r\nx\r\n"), data;
        assert_int_equal(h1_chunked_next(&c, &in, &data), 1);
        assert_int_equal(h1_chunked_next(&c, &in, &data), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_largest),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_extension_limit_restarts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
