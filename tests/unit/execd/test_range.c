/* Byte ranges at every edge, line windows split at every byte, file names in headers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/must.h"
#include "execd/line_filter.h"
#include "execd/range.h"

static void test_range(void **state)
{
    static const struct {
        const char *header;
        uint64_t size;
        enum range_kind kind;
        uint64_t start, len;
    } cases[] = {
        {"bytes=0-9", 100, RANGE_PART, 0, 10},
        {"bytes=0-0", 100, RANGE_PART, 0, 1},
        {"bytes=99-99", 100, RANGE_PART, 99, 1},
        {"bytes=99-", 100, RANGE_PART, 99, 1},
        {"bytes=0-99", 100, RANGE_PART, 0, 100},
        {"bytes=0-100", 100, RANGE_PART, 0, 100},
        {"bytes=50-99999999999999999999999", 100, RANGE_PART, 50, 50},
        {"bytes=-1", 100, RANGE_PART, 99, 1},
        {"bytes=-100", 100, RANGE_PART, 0, 100},
        {"bytes=-101", 100, RANGE_PART, 0, 100},
        {"bytes=-99999999999999999999999", 100, RANGE_PART, 0, 100},
        {"bytes= 5 - 6 ", 100, RANGE_PART, 5, 2},
        {"bytes=5-6,8-9", 100, RANGE_PART, 5, 2},
        {"bytes=200-,8-9", 100, RANGE_PART, 8, 2},
        {"bytes=,,8-9", 100, RANGE_PART, 8, 2},
        {"bytes=100-", 100, RANGE_BEYOND, 0, 0},
        {"bytes=100-200", 100, RANGE_BEYOND, 0, 0},
        {"bytes=99999999999999999999999-", 100, RANGE_BEYOND, 0, 0},
        {"bytes=-0", 100, RANGE_BEYOND, 0, 0},
        {"bytes=6-5", 100, RANGE_BAD, 0, 0},
        {"bytes=-", 100, RANGE_BAD, 0, 0},
        {"bytes=5", 100, RANGE_BAD, 0, 0},
        {"bytes=a-b", 100, RANGE_BAD, 0, 0},
        {"bytes=--5", 100, RANGE_BAD, 0, 0},
        {"bytes=5-6,x", 100, RANGE_BAD, 0, 0},
        {"lines=0-9", 100, RANGE_BAD, 0, 0},
        {"0-9", 100, RANGE_BAD, 0, 0},
        {"", 100, RANGE_BAD, 0, 0},
        {"bytes=", 100, RANGE_ALL, 0, 0},
        {"bytes=0-", 0, RANGE_ALL, 0, 0},
        {"bytes=-5", 0, RANGE_ALL, 0, 0},
        {"bytes=5-", 0, RANGE_ALL, 0, 0},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct range r = range_parse(str_from(cases[i].header), cases[i].size);
        if (r.kind != cases[i].kind || r.start != cases[i].start || r.len != cases[i].len) {
            fail_msg("%s of %llu", cases[i].header, (unsigned long long)cases[i].size);
        }
    }
}

static void check_lines(const char *text, uint64_t offset, uint64_t limit, const char *want)
{
    size_t n = strlen(text);
    for (size_t cut = 0; cut <= n; cut++) {
        struct line_filter f;
        struct buf out = BUF_INIT(1000);
        line_filter_init(&f, offset, limit);
        (void)line_filter_feed(&f, str_n(text, cut), &out);
        (void)line_filter_feed(&f, str_n(text + cut, n - cut), &out);
        assert_string_equal(buf_cstr(&out), want);
        buf_done(&out);
    }
}

static void test_lines(void **state)
{
    check_lines("a\nb\nc\n", 1, 3, "a\nb\nc");
    check_lines("a\nb\nc\n", 1, 1000, "a\nb\nc");
    check_lines("a\nb\nc\n", 2, 1, "b");
    check_lines("a\nb\nc", 3, 1, "c");
    check_lines("a\nb\nc", 2, 9, "b\nc");
    check_lines("a\nb\n", 3, 1, "");
    check_lines("a\nb\n", 9, 1, "");
    check_lines("", 1, 1, "");
    check_lines("\n", 1, 1, "");
    check_lines("\n\n\n", 1, 3, "\n\n");
    check_lines("\n\nx\n", 2, 2, "\nx");
    check_lines("a\r\nb\r\n", 1, 2, "a\nb");
    check_lines("a\r\r\nb", 1, 2, "a\nb");
    check_lines("a\rb\nc\r", 1, 2, "a\rb\nc");
    check_lines("\r\n\r\n", 1, 2, "\n");
    check_lines("\r\rx\r", 1, 1, "\r\rx");
    check_lines("abc", 1, 1, "abc");
}

static void test_lines_stop(void **state)
{
    struct line_filter f;
    struct buf out = BUF_INIT(100);
    line_filter_init(&f, 1, 2);
    assert_false(line_filter_feed(&f, STR("a\nb"), &out));
    assert_true(line_filter_feed(&f, STR("c\nd\n"), &out));
    assert_true(line_filter_feed(&f, STR("more"), &out));
    assert_string_equal(buf_cstr(&out), "a\nbc");
    buf_done(&out);
}

static void test_disposition(void **state)
{
    static const struct {
        const char *name, *want;
    } cases[] = {
        {"a.txt", "attachment; filename=\"a.txt\""},
        {"a b$c.txt", "attachment; filename=\"a b$c.txt\""},
        {"say \"hi\"\\.txt", "attachment; filename=\"say \\\"hi\\\"\\\\.txt\""},
        {"a\nb", "attachment; filename=\"a%0Ab\"; filename*=UTF-8''a%0Ab"},
        {"\xc3\xa9\"", "attachment; filename=\"%C3%A9%22\"; filename*=UTF-8''%C3%A9%22"},
        {"x\xff", "attachment; filename=\"x%FF\"; filename*=UTF-8''x%EF%BF%BD"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buf out = BUF_INIT(1000);
        content_disposition(&out, str_from(cases[i].name));
        assert_string_equal(buf_cstr(&out), cases[i].want);
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_range),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_lines_stop),
        cmocka_unit_test(test_disposition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
