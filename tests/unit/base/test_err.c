#include "base/err.h"

#include <errno.h>

#include "../test.h"
#include "base/utf8.h"

static void sets_code_and_message(void **state)
{
    struct err e = {.sys = 5};
    assert_int_equal(err_set(&e, ERR_NOT_FOUND, "no sandbox %s", "abc"), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_int_equal(e.sys, 0);
    assert_string_equal(e.msg, "no sandbox abc");
    assert_int_equal(err_set(NULL, ERR_INVALID, "x"), -1);
    assert_int_equal(err_sys(NULL, EIO, "x"), -1);
    assert_int_equal(err_wrap(NULL, "x"), -1);
}

static void sys_takes_both_signs(void **state)
{
    struct err e = {0};
    err_sys(&e, ENOENT, "open %s", "/x");
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_int_equal(e.sys, ENOENT);
    assert_string_equal(e.msg, "open /x: No such file or directory");
    err_sys(&e, -ENOSPC, "write");
    assert_int_equal(e.code, ERR_LIMIT);
    assert_int_equal(e.sys, ENOSPC);
    err_sys(&e, 123456, "odd");
    assert_string_equal(e.msg, "odd: error 123456");
    assert_int_equal(e.code, ERR_IO);
}

static void wraps_and_keeps_the_cause(void **state)
{
    struct err e = {0};
    err_sys(&e, EACCES, "open");
    assert_int_equal(err_wrap(&e, "sandbox %d", 7), -1);
    assert_int_equal(e.code, ERR_DENIED);
    assert_int_equal(e.sys, EACCES);
    assert_string_equal(e.msg, "sandbox 7: open: Permission denied");
}

static void may_quote_its_own_message(void **state)
{
    struct err e = {0};
    err_set(&e, ERR_INVALID, "inner");
    err_set(&e, ERR_CONFLICT, "outer (%s)", e.msg);
    assert_string_equal(e.msg, "outer (inner)");
    err_wrap(&e, "[%s]", e.msg);
    assert_string_equal(e.msg, "[outer (inner)]: outer (inner)");
}

static void long_messages_are_cut_between_characters(void **state)
{
    char text[2000];
    for (size_t offset = 0; offset < 4; offset++) {
        memset(text, 'x', offset);
        for (size_t i = offset; i + 3 < sizeof(text); i += 3) {
            memcpy(text + i, "\xe2\x82\xac", 3);
        }
        text[offset + 900] = 0;
        struct err e = {0};
        err_set(&e, ERR_INVALID, "%s", text);
        assert_true(strlen(e.msg) < ERR_MSG_MAX && strlen(e.msg) > ERR_MSG_MAX - 5);
        assert_true(utf8_valid(str_from(e.msg)));
        err_wrap(&e, "context");
        assert_true(strlen(e.msg) < ERR_MSG_MAX);
        assert_true(utf8_valid(str_from(e.msg)));
        err_sys(&e, EIO, "%s", text);
        assert_true(utf8_valid(str_from(e.msg)));
    }
}

static void names(void **state)
{
    assert_string_equal(err_code_name(ERR_NONE), "none");
    assert_string_equal(err_code_name(ERR_NOT_FOUND), "not_found");
    assert_string_equal(err_code_name(ERR_INTERNAL), "internal");
    assert_string_equal(err_code_name(ERR__COUNT), "unknown");
    for (int i = 0; i < ERR__COUNT; i++) {
        assert_true(strlen(err_code_name((enum err_code)i)) > 1);
    }
    assert_int_equal(err_code_from_errno(0), ERR_NONE);
    assert_int_equal(err_code_from_errno(-ETIMEDOUT), ERR_TIMEOUT);
    assert_int_equal(err_code_from_errno(ECONNREFUSED), ERR_UNAVAILABLE);
    assert_int_equal(err_code_from_errno(EEXIST), ERR_CONFLICT);
    assert_int_equal(err_code_from_errno(ENOSYS), ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_code_and_message),
        cmocka_unit_test(sys_takes_both_signs),
        cmocka_unit_test(wraps_and_keeps_the_cause),
        cmocka_unit_test(may_quote_its_own_message),
        cmocka_unit_test(long_messages_are_cut_between_characters),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
