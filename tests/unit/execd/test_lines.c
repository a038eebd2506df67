/* Output bytes into events: the line rules, whatever way the bytes are cut into reads. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "execd/event.h"
#include "execd/limits.h"
#include "execd/lines.h"
#include "json/json.h"

/* The texts of the events in `out`, each followed by '|'. */
static void texts_of(struct buf *out, struct buf *ret)
{
    struct str rest = buf_str(out);
    while (rest.n) {
        ptrdiff_t end = str_find_str(rest, STR("\n\n"));
        assert_true(end > 0);
        struct err e = {0};
        cleanup_(json_free) struct json *j = json_parse(str_sub(rest, 0, (size_t)end), &e);
        assert_non_null(j);
        assert_string_equal(json_cstr(json_get(j, "type")), "stdout");
        assert_int_equal(json_int(json_get(j, "timestamp"), 0), 1700000000123);
        (void)buf_add_str(ret, json_str(json_get(j, "text")));
        (void)buf_add_char(ret, '|');
        rest = str_sub(rest, (size_t)end + 2, rest.n);
    }
}

/* Feeds `in` in pieces of `step` bytes and compares with `want`. */
static void expect_in_steps(struct str in, const char *want, bool lf_only, size_t step)
{
    struct lines l;
    cleanup_(buf_done) struct buf out = BUF_INIT(64 << 20), got = BUF_INIT(64 << 20);
    lines_init(&l, STR("stdout"), lf_only);
    for (size_t at = 0; at < in.n; at += step) {
        struct str piece = str_sub(in, at, at + step);
        while (piece.n) {
            lines_feed(&l, &piece, &out, 1700000000123);
            texts_of(&out, &got);
            buf_clear(&out);
        }
    }
    lines_end(&l, &out, 1700000000123);
    texts_of(&out, &got);
    lines_done(&l);
    assert_string_equal(buf_cstr(&got), want);
}

static void expect(const char *in, const char *want, bool lf_only)
{
    for (size_t step = 1; step <= 5; step++) {
        expect_in_steps(str_from(in), want, lf_only, step);
    }
    expect_in_steps(str_from(in), want, lf_only, 1000);
}

static void test_both_terminators(void **state)
{
    expect("", "", false);
    expect("x", "x|", false);
    expect("a\n\nb\n\n\nc\n", "a|\n|b|\n|\n|c|", false);
    expect("a\r\nb\r\n", "a|b|", false);
    expect("10%\r20%\r", "10%|20%|", false);
    expect("a\r\rb", "a|\n|b|", false);
    expect("a\r\n\r\nb", "a|\n|b|", false);
    expect("\n\r\r\n", "\n|\n|\n|", false);
    expect("a\n\rb\n", "a|\n|b|", false);
    expect("tail\r", "tail|", false);
}

static void test_line_feed_only(void **state)
{
    expect("a\r\n\nb\rc\n", "a|\n|b\rc|", true);
    expect("\r\n", "\n|", true);
    expect("a\r\r\n", "a\r|", true);
    expect("x\ry", "x\ry|", true);
}

static void test_characters(void **state)
{
    expect("\xe2\x82\xac\xff\xc3\n", "\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbd|", false);
    expect("\"\\\t\x01\x7f\n", "\"\\\t\x01\x7f|", false);
    expect("\xe2\x80\xa8\xc2\x85\n", "\xe2\x80\xa8\xc2\x85|", false);
}

/* Longer than an event may be: in pieces, none of them empty, no character cut. */
static void test_long_line(void **state)
{
    size_t n = 3 * (size_t)EXECD_EVENT_TEXT_MAX + 77;
    cleanup_(buf_done) struct buf in = BUF_INIT(64 << 20), out = BUF_INIT(64 << 20);
    for (size_t i = 0; i < n / 3; i++) {
        (void)buf_add_str(&in, STR("\xe2\x82\xac"));
    }
    size_t total = in.len;
    (void)buf_add_char(&in, '\n');
    struct lines l;
    lines_init(&l, STR("stdout"), false);
    cleanup_(buf_done) struct buf got = BUF_INIT(64 << 20);
    for (size_t at = 0; at < in.len; at += EXECD_READ_CHUNK) {
        struct str piece = str_sub(buf_str(&in), at, at + EXECD_READ_CHUNK);
        while (piece.n) {
            lines_feed(&l, &piece, &out, 1700000000123);
            texts_of(&out, &got);
            buf_clear(&out);
        }
    }
    lines_end(&l, &out, 1700000000123);
    assert_int_equal(out.len, 0);
    size_t bytes = 0, events = 0;
    struct str rest = buf_str(&got);
    while (rest.n) {
        struct str text = str_cut(&rest, '|');
        assert_true(text.n > 0 && text.n <= EXECD_EVENT_TEXT_MAX && text.n % 3 == 0);
        bytes += text.n;
        events++;
    }
    assert_int_equal(bytes, total);
    assert_int_equal(events, 4);
    lines_done(&l);
}

/* The encoder stops when it has enough, and goes on where it was. */
static void test_batches(void **state)
{
    cleanup_(buf_done) struct buf in = BUF_INIT(1 << 20), out = BUF_INIT(4 << 20);
    for (size_t i = 0; i < 60000; i++) {
        (void)buf_add_char(&in, '\n');
    }
    struct lines l;
    lines_init(&l, STR("stdout"), false);
    struct str rest = buf_str(&in);
    size_t calls = 0, events = 0;
    while (rest.n) {
        lines_feed(&l, &rest, &out, 1700000000123);
        assert_true(out.len < EXECD_EVENT_BATCH + 1000);
        for (struct str s = buf_str(&out); s.n;) {
            ptrdiff_t end = str_find_str(s, STR("}\n\n"));
            events++;
            s = str_sub(s, (size_t)end + 3, s.n);
        }
        buf_clear(&out);
        calls++;
    }
    assert_int_equal(events, 60000);
    assert_true(calls > 10);
    lines_done(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_terminators), cmocka_unit_test(test_line_feed_only),
        cmocka_unit_test(test_characters),       cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
