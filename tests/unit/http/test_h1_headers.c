#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/must.h"
#include "http/chars.h"
#include "http/h1.h"

#define H(n, v)                                                                                    \
    {                                                                                              \
        {n, sizeof(n) - 1},                                                                        \
        {                                                                                          \
            v, sizeof(v) - 1                                                                       \
        }                                                                                          \
    }

static const struct h1_header sample[] = {
    H("Host", "example"), H("X-A", "1"), H("x-a", "2"), H("Connection", "keep-alive, Upgrade"),
    H("Empty", ""),
};

static void test_get(void **state)
{
    assert_true(str_eq(h1_header_get(sample, ARRAY_LEN(sample), STR("X-a")), STR("1")));
    assert_null(h1_header_get(sample, ARRAY_LEN(sample), STR("X-B")).p);
    struct str empty = h1_header_get(sample, ARRAY_LEN(sample), STR("empty"));
    assert_non_null(empty.p);
    assert_int_equal(empty.n, 0);
    assert_null(h1_header_get(NULL, 0, STR("Host")).p);
}

static void test_has_token(void **state)
{
    size_t n = ARRAY_LEN(sample);
    assert_true(h1_header_has_token(sample, n, STR("connection"), STR("upgrade")));
    assert_true(h1_header_has_token(sample, n, STR("connection"), STR("Keep-Alive")));
    assert_false(h1_header_has_token(sample, n, STR("connection"), STR("keep")));
    assert_true(h1_header_has_token(sample, n, STR("X-A"), STR("2"))); /* in the second line */
    assert_false(h1_header_has_token(sample, n, STR("Empty"), STR("x")));
}

/* The table against the grammar, byte by byte. */
static void test_classes(void **state)
{
    for (int i = 0; i < 256; i++) {
        char c = (char)i;
        bool alnum = (i >= '0' && i <= '9') || (i >= 'a' && i <= 'z') || (i >= 'A' && i <= 'Z');
        bool token = alnum || (i && strchr("!#$%&'*+-.^_`|~", i));
        bool regname = alnum || (i && strchr("-._~!$&'()*+,;=%", i));
        assert_int_equal(!!char_is(c, CHAR_TOKEN), token);
        assert_int_equal(!!char_is(c, CHAR_TARGET), i > 0x20 && i < 0x7f && i != '#');
        assert_int_equal(!!char_is(c, CHAR_VALUE), i == '\t' || (i >= 0x20 && i != 0x7f));
        assert_int_equal(!!char_is(c, CHAR_REGNAME), regname);
        assert_int_equal(!!char_is(c, CHAR_DIGIT), i >= '0' && i <= '9');
        assert_int_equal(!!char_is(c, CHAR_HEX), i && strchr("0123456789abcdefABCDEF", i));
    }
}

static void test_validation(void **state)
{
    assert_true(h1_is_token(STR("X-Request-ID")));
    assert_false(h1_is_token(STR("")));
    assert_false(h1_is_token(STR("a b")));
    assert_false(h1_is_token(STR("a:")));
    assert_true(h1_is_field_value(STR("")));
    assert_true(h1_is_field_value(STR("a\tb \xc3\xa4")));
    assert_false(h1_is_field_value(STR("a\r\nSet-Cookie: x")));
    assert_false(h1_is_field_value(STR("a\0b")));
    assert_false(h1_is_field_value(STR("\x7f")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_has_token),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_validation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
