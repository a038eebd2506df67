/* The line of opensandbox-layer: both ways, and whatever a stranger might make of it. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "server/layer/result.h"

#define DIGEST "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static void test_success_both_ways(void **state)
{
    (void)state;
    struct layer_result r = {.bytes = UINT64_MAX, .entries = 7, .devices_skipped = 0}, back;
    struct err e = {0};
    struct buf line = BUF_INIT(LAYER_RESULT_MAX);
    (void)str_to_cstr(STR(DIGEST), r.digest, sizeof(r.digest));
    layer_result_format(&line, &r, NULL);
    assert_int_equal(layer_result_parse(buf_str(&line), &back, &e), 0);
    assert_true(back.bytes == r.bytes && back.entries == 7 && back.devices_skipped == 0);
    assert_string_equal(back.digest, DIGEST);
    buf_done(&line);
}

static void test_error_both_ways(void **state)
{
    (void)state;
    struct layer_result r = {0};
    struct err e = {0}, back = {0};
    struct buf line = BUF_INIT(LAYER_RESULT_MAX);
    (void)err_sys(&e, ENOSPC, "writing 'a b'");
    layer_result_format(&line, &r, &e);
    assert_int_equal(layer_result_parse(buf_str(&line), &r, &back), -1);
    assert_int_equal(back.code, e.code);
    assert_int_equal(back.sys, ENOSPC);
    assert_string_equal(back.msg, e.msg);
    buf_done(&line);
}

/* The longest error there can be still fits. */
static void test_longest_error(void **state)
{
    (void)state;
    struct layer_result r = {0};
    struct err e = {.code = ERR_UNAUTHORIZED, .sys = 4095}, back = {0};
    struct buf line = BUF_INIT(LAYER_RESULT_MAX);
    memset(e.msg, 'x', ERR_MSG_MAX - 1);
    layer_result_format(&line, &r, &e);
    assert_false(buf_failed(&line));
    assert_int_equal(layer_result_parse(buf_str(&line), &r, &back), -1);
    assert_string_equal(back.msg, e.msg);
    buf_done(&line);
}

static void test_nonsense_is_refused(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "",
        "\n",
        "ok\n",
        "ok 1 2 3\n",
        "ok 1 2 3 " DIGEST,
        "ok 1 2 3 " DIGEST " \n",
        "ok 1 2 3 " DIGEST "\n\n",
        "ok 1 2 -3 " DIGEST "\n",
        "ok 1 2 3 sha256:../../etc\n",
        "OK 1 2 3 " DIGEST "\n",
        "error\n",
        "error none 0 x\n",
        "error invalid x y\n",
        "error invalid 99999 y\n",
        "error invalid 5\n",
        "error wrong 5 y\n",
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        struct layer_result r = {.bytes = 5};
        struct err e = {0};
        assert_int_equal(layer_result_parse(str_from(lines[i]), &r, &e), -1);
        assert_int_equal(e.code, ERR_INTERNAL);
        assert_int_equal(r.bytes, 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_success_both_ways),
        cmocka_unit_test(test_error_both_ways),
        cmocka_unit_test(test_longest_error),
        cmocka_unit_test(test_nonsense_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
