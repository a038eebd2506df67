/* Search patterns: the reference's dialect, its errors, and that no pattern takes for ever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/must.h"
#include "execd/fs_glob.h"

static const struct {
    const char *pattern, *name;
    int want;
} matches[] = {
    {"", "", 1},
    {"", "a", 0},
    {"*", "", 1},
    {"*", "abc", 1},
    {"*", ".hidden", 1},
    {"*", "a/b", 0},
    {"*c", "abc", 1},
    {"a*", "a", 1},
    {"a*/b", "abc/b", 1},
    {"a*/b", "a/c/b", 0},
    {"a*b*c*d*e*", "axbxcxdxe", 1},
    {"a*b*c*d*e*/f", "axbxcxdxexxx/f", 1},
    {"a*b*c*d*e*/f", "axbxcxdxe/xxx/f", 0},
    {"a*b?c*x", "abxbbxdbxebxczzx", 1},
    {"a*b?c*x", "abxbbxdbxebxczzy", 0},
    {"ab[c]", "abc", 1},
    {"ab[b-d]", "abc", 1},
    {"ab[e-g]", "abc", 0},
    {"ab[^c]", "abc", 0},
    {"ab[!e-g]", "abc", 1},
    {"a\\*b", "a*b", 1},
    {"a\\*b", "axb", 0},
    {"a?b",
     "a\xe2\x98\xba"
     "b",
     1},
    {"a???b",
     "a\xe2\x98\xba"
     "b",
     0},
    {"a[^a]b",
     "a\xe2\x98\xba"
     "b",
     1},
    {"[a-\xce\xb6]*", "\xce\xb1", 1},
    {"a?b",
     "a\xff"
     "b",
     1},
    {"a?b", "a/b", 0},
    {"a[/]b", "a/b", 0},
    {"[\\]a]", "]", 1},
    {"[x\\-]", "-", 1},
    {"[x\\-]", "z", 0},
    {"[-]", "-", 1},
    {"[x-]", "-", 1},
    {"[-x]", "a", 0},
    {"[a-b-d]", "c", 0},
    {"[a-b-d]", "-", 1},
    {"**", "", 1},
    {"**", "a", 1},
    {"**", "a/b/c", 1},
    {"a/**", "a", 1},
    {"a/**", "a/b/c", 1},
    {"a/**", "ab", 0},
    {"**/c", "c", 1},
    {"**/c", "a/b/c", 1},
    {"**/c", "a/abc", 0},
    {"a/**/b", "a/b", 1},
    {"a/**/d", "a/b/c/d", 1},
    {"a/\\**", "a/b/c", 0},
    {"abc**", "abc/b", 0},
    {"abc**", "abcd", 1},
    {"**/*.txt", "abc/x.txt", 1},
    {"sub/*.py", "sub/a.py", 1},
    {"sub/*.py", "sub/x/a.py", 0},
    {"ab{c,d}", "abc", 1},
    {"ab{c,d}", "abe", 0},
    {"ab{c,d,*}", "abcde", 1},
    {"a{,bc}", "a", 1},
    {"a{bc,}", "a", 1},
    {"a{,bc}", "abc", 1},
    {"a/{b/c,c/b}", "a/c/b", 1},
    {"{a/{b,c},abc}", "a/c", 1},
    {"{a/{b,c},abc}", "abc", 1},
    {"{a/{b,c},abc}", "a/b/c", 0},
    {"**/{a,b}", "a/b", 1},
    {"{x,**}/c", "a/b/c", 1},
    {"*.{py,js,t{s,sx}}", "a.tsx", 1},
    {"{a\\,b,c}", "a,b", 1},
    {"e/]", "e/]", 1},
    {"e/}", "e/}", 1},
    {"!(a)", "b", 1},
    {"!(a)", "a", 0},
    {"!(a|b).c", "x.c", 1},
    {"!(a|b).c", "b.c", 0},
    {"*.!(py)", "a.py", 0},
    {"*.!(py)", "a.js", 1},
    {"n/!(.cache)/**", "n/others/f", 1},
    {"n/!(.cache)/**", "n/.cache/f", 0},
    {"n/!(.cache)/**", "n/f", 1},
    {"a\nb*", "a\nbc", 1},
    {"$*", "$HOME", 1},
};

static void test_match(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(matches); i++) {
        struct str p = str_from(matches[i].pattern), n = str_from(matches[i].name);
        assert_int_equal(glob_check(p), 0);
        if (glob_match(p, n) != matches[i].want) {
            fail_msg("\"%s\" against \"%s\"", matches[i].pattern, matches[i].name);
        }
    }
}

static void test_bad(void **state)
{
    static const char *const bad[] = {"[",   "[^",  "[^bc", "a[",  "[]a]", "\\",   "ab{c,d}[", "{a",
                                      "{a,", "{[}", "!",    "a!b", "!(a",  "{!x}", "[a\\"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (glob_check(str_from(bad[i])) != -EINVAL) {
            fail_msg("\"%s\" should be refused", bad[i]);
        }
    }
}

static void test_limits(void **state)
{
    char p[4096];
    memset(p, 'a', sizeof(p));
    assert_int_equal(glob_check(str_n(p, sizeof(p))), -E2BIG);
    memset(p, '{', 40);
    memset(p + 40, '}', 40);
    assert_int_equal(glob_check(str_n(p, 80)), -E2BIG);
    for (size_t i = 0; i < 200; i++) {
        memcpy(p + 2 * i, "a*", 2);
    }
    p[400] = 'b';
    char name[201];
    memset(name, 'a', 200);
    assert_int_equal(glob_check(str_n(p, 401)), 0);
    assert_int_equal(glob_match(str_n(p, 401), str_n(name, 200)), -E2BIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
