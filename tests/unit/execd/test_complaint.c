/* Errors that a kernel only printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "execd/code/complaint.h"
#include "execd/limits.h"

static void assert_read(const char *text, const char *ename, const char *evalue)
{
    struct complaint c;
    struct str name, value;
    complaint_init(&c);
    complaint_add(&c, str_from(text));
    complaint_read(&c, &name, &value);
    assert_true(str_eq(name, str_from(ename)));
    assert_true(str_eq(value, str_from(evalue)));
    complaint_done(&c);
}

static void test_lines(void **state)
{
    assert_read("", "Error", "");
    assert_read("\n\n", "Error", "");
    assert_read("1:7 - Type 'string' is no number.\n", "Error",
                "1:7 - Type 'string' is no number.");
    assert_read("at.js:3\nthrow x\n^\n\nTypeError: a: b\n    at one\n    at two {\n  code: 1\n}\n",
                "TypeError", "a: b");
    assert_read("AError: first\nBError: second", "BError", "second");
    assert_read("note: this is none\n", "Error", "note: this is none");
    assert_read("Error:\n", "Error", "Error:");
    assert_read("Error: \n", "Error", "");
    assert_read("Error: x\n", "Error", "x");
}

static void test_only_the_end_is_kept(void **state)
{
    struct complaint c;
    struct str name, value;
    char *much = test_malloc(3 * EXECD_COMPLAINT_MAX);
    memset(much, 'x', 3 * EXECD_COMPLAINT_MAX);
    complaint_init(&c);
    complaint_add(&c, str_n(much, 3 * EXECD_COMPLAINT_MAX));
    assert_int_equal(c.tail.len, EXECD_COMPLAINT_MAX);
    complaint_add(&c, STR("\nRangeError: too far\n"));
    assert_int_equal(c.tail.len, EXECD_COMPLAINT_MAX);
    complaint_read(&c, &name, &value);
    assert_true(str_eq(name, STR("RangeError")) && str_eq(value, STR("too far")));
    complaint_done(&c);
    test_free(much);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_only_the_end_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
