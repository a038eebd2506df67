#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/must.h"
#include "cli/duration.h"

static void accepts(void **state)
{
    static const struct {
        const char *text;
        int64_t seconds;
    } good[] = {{"0", 0},    {"90", 90},      {" 10m ", 600},     {"1h", 3600},
                {"45s", 45}, {"1h30m", 5400}, {"1h30m15s", 5415}, {"2h5s", 7205}};
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        int64_t v = -1;
        assert_int_equal(duration_parse(good[i].text, &v), 0);
        assert_int_equal(v, good[i].seconds);
    }
}

static void refuses(void **state)
{
    static const char *const bad[] = {"",           " ",  "10x",  "m10",
                                      "-5",         "+5", "1m1h", "1h1h",
                                      "1.5h",       "h",  "10m5", "99999999999999999999",
                                      "9999999999h"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        int64_t v = 7;
        assert_int_not_equal(duration_parse(bad[i], &v), 0);
        assert_int_equal(v, 7);
    }
    assert_true(duration_is_none("None"));
    assert_false(duration_is_none("nonesuch"));
}

static void formats(void **state)
{
    static const struct {
        int64_t seconds;
        const char *text;
    } cases[] = {{600, "0:10:00"},
                 {5400, "1:30:00"},
                 {86400, "1 day, 0:00:00"},
                 {2 * 86400 + 3661, "2 days, 1:01:01"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cleanup_(buf_done) struct buf b = BUF_INIT(64);
        duration_format(&b, cases[i].seconds);
        assert_string_equal(buf_cstr(&b), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),
        cmocka_unit_test(refuses),
        cmocka_unit_test(formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
