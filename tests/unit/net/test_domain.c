#include "net/domain.h"

#include <errno.h>
#include <stdio.h>

#include "../test.h"

static void validity(void **state)
{
    static const char *const good[] = {
        "a",          "example.com",           "example.com.", "EXAMPLE.Com", "a-b.c_d.e",
        "_dmarc.x.y", "xn--bcher-kva.example", "1.2.3.4",      "r3---sn-x.y"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        assert_true(domain_valid(str_from(good[i])));
        assert_true(domain_pattern_valid(str_from(good[i])));
    }
    static const char *const bad[] = {"",    ".",    "..",   ".a",  "a..b",
                                      "a..", "-a.b", "a-.b", "a b", "a/b",
                                      "a:1", "*",    "*.a",  "a.*", "stra\xc3\x9fxe.de",
                                      "a\n", "a,b",  "[::1]"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(domain_valid(str_from(bad[i])));
    }
    assert_false(domain_valid(STR("a\0b")));
    static const char *const bad_pattern[] = {"",      ".",    "**", "*.", "*..",  "*.*", "*.*.a",
                                              "a.*.b", "*a.b", "*a", "a*", "*.-a", "* .a"};
    for (size_t i = 0; i < sizeof(bad_pattern) / sizeof(bad_pattern[0]); i++) {
        assert_false(domain_pattern_valid(str_from(bad_pattern[i])));
    }
    assert_true(domain_pattern_valid(STR("*")));
    assert_true(domain_pattern_valid(STR("*.com")));
    assert_true(domain_pattern_valid(STR("*.example.com.")));
}

static void lengths(void **state)
{
    char name[300];
    memset(name, 'a', sizeof(name));
    assert_true(domain_valid(str_n(name, 63)));
    assert_false(domain_valid(str_n(name, 64)));
    for (size_t i = 49; i < sizeof(name); i += 50) {
        name[i] = '.';
    }
    assert_true(domain_valid(str_n(name, 253)));
    assert_false(domain_valid(str_n(name, 254)));
    name[253] = '.';
    assert_true(domain_valid(str_n(name, 254))); /* the final dot does not count */
    char out[DOMAIN_MAX + 1];
    assert_int_equal(domain_normalize(str_n(name, 254), out), 0);
    assert_int_equal(strlen(out), 253);
}

static bool match(const char *pattern, const char *name)
{
    return domain_match(str_from(pattern), str_from(name));
}

static void matching(void **state)
{
    assert_true(match("example.com", "example.com"));
    assert_true(match("Example.COM.", "eXample.com"));
    assert_true(match("example.com", "example.com."));
    assert_false(match("example.com", "www.example.com"));
    assert_false(match("example.com", "example.org"));
    assert_true(match("*.example.com", "www.example.com"));
    assert_true(match("*.example.com", "a.b.EXAMPLE.com."));
    assert_true(match("*.example.com.", "www.example.com"));
    assert_false(match("*.example.com", "example.com"));
    assert_false(match("*.example.com", ".example.com"));
    assert_false(match("*.example.com", "notexample.com"));
    assert_false(match("*.example.com", "www.example.com.evil"));
    assert_false(match("*.example.com", "com"));
    assert_true(match("*", "anything.at.all"));
    assert_true(match("*", "."));
    assert_false(match("", ""));
    assert_false(match("", "a"));
    assert_false(match(".", ""));
    assert_false(match("*.", "a"));
    assert_false(match("*.", "a."));
    assert_false(match("a", ""));
}

static void normalizing(void **state)
{
    char out[DOMAIN_MAX + 1];
    assert_int_equal(domain_normalize(STR("WWW.Example.COM."), out), 0);
    assert_string_equal(out, "www.example.com");
    assert_int_equal(domain_normalize(STR("a@b"), out), -EINVAL);
    assert_int_equal(domain_normalize(STR(""), out), -EINVAL);
    assert_int_equal(domain_normalize(STR("*.a"), out), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validity),
        cmocka_unit_test(lengths),
        cmocka_unit_test(matching),
        cmocka_unit_test(normalizing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
