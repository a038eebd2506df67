#include "base/str.h"

#include <errno.h>
#include <stdlib.h>

#include "../test.h"

static void compares(void **state)
{
    assert_true(str_eq(STR("ab"), str_n("abc", 2)));
    assert_false(str_eq(STR("ab"), STR("abc")));
    assert_true(str_eq(STR_NULL, STR("")));
    assert_true(str_eq(str_from(NULL), STR_NULL));
    assert_true(str_eq_nocase(STR("Content-LENGTH"), STR("content-length")));
    assert_false(str_eq_nocase(STR("a["), STR("a{"))); /* differ in 0x20 but are no letters */
    assert_false(str_eq_nocase(STR("@"), STR("`")));
    assert_false(str_eq_nocase(STR("\xc3\x84"), STR("\xc3\xa4"))); /* ASCII only */
    assert_true(str_eq_consttime(STR("secret"), STR("secret")));
    assert_false(str_eq_consttime(STR("secret"), STR("secreu")));
    assert_false(str_eq_consttime(STR("secret"), STR("Secret")));
    assert_false(str_eq_consttime(STR("secret"), STR("secre")));
    assert_false(str_eq_consttime(STR("\x01"), STR("\x81")));
    assert_true(str_eq_consttime(STR_NULL, STR("")));
    assert_true(str_cmp(STR("a"), STR("b")) < 0);
    assert_true(str_cmp(STR("b"), STR("a")) > 0);
    assert_true(str_cmp(STR("a"), STR("ab")) < 0);
    assert_true(str_cmp(STR("\xff"), STR("a")) > 0);
    assert_int_equal(str_cmp(STR_NULL, STR("")), 0);
}

static void starts_and_ends(void **state)
{
    assert_true(str_starts(STR("abc"), STR("ab")));
    assert_true(str_starts(STR("abc"), STR("")));
    assert_true(str_starts(STR_NULL, STR("")));
    assert_false(str_starts(STR("ab"), STR("abc")));
    assert_true(str_ends(STR("abc"), STR("bc")));
    assert_true(str_ends(STR("abc"), STR_NULL));
    assert_false(str_ends(STR("bc"), STR("abc")));
    assert_false(str_ends(STR("abc"), STR("ab")));
    assert_true(str_starts_nocase(STR("Bearer x"), STR("bearer ")));
    assert_false(str_starts_nocase(STR("Bear"), STR("bearer ")));
}

static void finds(void **state)
{
    assert_int_equal(str_find(STR("abcabc"), 'b'), 1);
    assert_int_equal(str_rfind(STR("abcabc"), 'b'), 4);
    assert_int_equal(str_find(STR("abc"), 'x'), -1);
    assert_int_equal(str_find(STR_NULL, 'x'), -1);
    assert_int_equal(str_rfind(STR_NULL, 'x'), -1);
    assert_int_equal(str_find(str_n("abcx", 3), 'x'), -1);
    assert_int_equal(str_find_str(STR("hello world"), STR("o w")), 4);
    assert_int_equal(str_find_str(STR("hello"), STR("")), 0);
    assert_int_equal(str_find_str(STR_NULL, STR("a")), -1);
    assert_int_equal(str_find_str(str_n("abcd", 3), STR("cd")), -1);
}

static void cuts(void **state)
{
    assert_str(str_sub(STR("hello"), 1, 3), "el");
    assert_str(str_sub(STR("hello"), 3, 100), "lo");
    assert_str(str_sub(STR("hello"), 10, 20), "");
    assert_str(str_sub(STR("hello"), 4, 2), "");
    assert_str(str_sub(STR_NULL, 0, 5), "");
    assert_str(str_trim(STR(" \t a b\t ")), "a b");
    assert_str(str_trim(STR("  ")), "");
    assert_str(str_trim(STR("\na")), "\na");
    assert_true(str_eq(str_trim_space(STR("\r\n a\nb\0\v\f\t")), STR("a\nb\0")));
    assert_str(str_trim_space(STR("\n \n")), "");
    assert_str(str_trim_space(STR_NULL), "");
    struct str rest = STR("a,b,,c,");
    static const char *const want[] = {"a", "b", "", "c", ""};
    size_t n = 0;
    while (rest.p) {
        assert_true(n < 5);
        struct str piece = str_cut(&rest, ',');
        assert_str(piece, want[n]);
        n++;
    }
    assert_int_equal(n, 5);
    rest = STR("");
    assert_str(str_cut(&rest, ','), "");
    assert_null(rest.p);
}

static void copies(void **state)
{
    char *p = str_dup(str_n("abcdef", 3));
    assert_string_equal(p, "abc");
    free(p);
    p = str_dup(STR_NULL);
    assert_string_equal(p, "");
    free(p);
    char out[4];
    assert_int_equal(str_to_cstr(STR("abc"), out, sizeof(out)), 0);
    assert_string_equal(out, "abc");
    assert_int_equal(str_to_cstr(STR("abcd"), out, sizeof(out)), -ENOSPC);
    assert_int_equal(str_to_cstr(STR("a\0"), out, sizeof(out)), -EINVAL);
    assert_int_equal(str_to_cstr(STR_NULL, out, 1), 0);
    assert_int_equal(str_to_cstr(STR_NULL, out, 0), -ENOSPC);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compares), cmocka_unit_test(starts_and_ends), cmocka_unit_test(finds),
        cmocka_unit_test(cuts),     cmocka_unit_test(copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
