#include "base/clock.h"

#include <errno.h>

#include "../test.h"

static void clocks_move_forward(void **state)
{
    uint64_t a = clock_mono_us();
    uint64_t b = clock_mono_us();
    assert_true(b >= a);
    assert_true(clock_mono_ms() >= a / 1000);
    assert_true(clock_wall_us() > 1700000000000000);
    assert_true(clock_wall_ms() >= 1700000000000);
}

static void formats_rfc3339(void **state)
{
    char out[RFC3339_MAX];
    rfc3339_format(0, 6, out);
    assert_string_equal(out, "1970-01-01T00:00:00.000000Z");
    rfc3339_format(1767323045678901, 6, out);
    assert_string_equal(out, "2026-01-02T03:04:05.678901Z");
    rfc3339_format(1767323045678901, 3, out);
    assert_string_equal(out, "2026-01-02T03:04:05.678Z");
    rfc3339_format(1767323045678901, 0, out);
    assert_string_equal(out, "2026-01-02T03:04:05Z");
    rfc3339_format(-1, 6, out);
    assert_string_equal(out, "1969-12-31T23:59:59.999999Z");
    rfc3339_format(951782400000000, 0, out);
    assert_string_equal(out, "2000-02-29T00:00:00Z");
    rfc3339_format(INT64_MAX, 6, out); /* beyond year 9999: clamped, not overrun */
    assert_memory_equal(out, "9999-12-31T23:59:59", 19);
    rfc3339_format(INT64_MIN, 6, out);
    assert_memory_equal(out, "0000-01-01T00:00:00", 19);
}

static void parses_rfc3339(void **state)
{
    static const struct {
        const char *text;
        int64_t us;
    } good[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"1970-01-01T00:00:00", 0},
        {"1970-01-01t00:00:00z", 0},
        {"1970-01-01T01:00:00+01:00", 0},
        {"1969-12-31T19:30:00-04:30", 0},
        {"1970-01-01T00:00:00.1Z", 100000},
        {"1970-01-01T00:00:00.123456789Z", 123456},
        {"1970-01-01T00:00:00.000001", 1},
        {"2026-01-02T03:04:05.678901Z", 1767323045678901},
        {"2000-02-29T00:00:00Z", 951782400000000},
        {"1972-06-30T23:59:60Z", 78796800000000}, /* a leap second is the second after :59 */
        {"1969-12-31T23:59:59.999999Z", -1},
        {"0000-01-01T00:00:00Z", -62167219200000000},
        {"9999-12-31T23:59:59.999999Z", 253402300799999999},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        int64_t us = 12345;
        assert_int_equal(rfc3339_parse(str_from(good[i].text), &us), 0);
        assert_int_equal(us, good[i].us);
    }
    static const char *const bad[] = {
        "",
        "1970",
        "1970-01-01",
        "1970-01-01T",
        "1970-01-01 00:00:00Z",
        "1970-01-01T00:00Z",
        "1970-01-01T00:00:00.Z",
        "1970-01-01T00:00:00ZZ",
        "1970-01-01T00:00:00Z ",
        " 1970-01-01T00:00:00Z",
        "1970-13-01T00:00:00Z",
        "1970-00-01T00:00:00Z",
        "1970-01-00T00:00:00Z",
        "1970-01-32T00:00:00Z",
        "2001-02-29T00:00:00Z",
        "1900-02-29T00:00:00Z",
        "1970-04-31T00:00:00Z",
        "1970-01-01T24:00:00Z",
        "1970-01-01T00:60:00Z",
        "1970-01-01T00:00:61Z",
        "1970-01-01T00:00:00+1:00",
        "1970-01-01T00:00:00+0100",
        "1970-01-01T00:00:00+24:00",
        "1970-01-01T00:00:00+01:60",
        "1970-1-01T00:00:00Z",
        "+970-01-01T00:00:00Z",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t us = 12345;
        assert_int_equal(rfc3339_parse(str_from(bad[i]), &us), -EINVAL);
        assert_int_equal(us, 12345);
    }
    int64_t us;
    assert_int_equal(rfc3339_parse(STR("1970-01-01T00:00:00\0"), &us), -EINVAL);
}

static void rfc3339_round_trip(void **state)
{
    uint64_t seed = 7;
    for (int i = 0; i < 20000; i++) {
        int64_t span = 253402300799999999 + 62167219200000000;
        uint64_t r = (uint64_t)test_rand(&seed) << 32 | test_rand(&seed);
        int64_t us = (int64_t)(r % (uint64_t)span) - 62167219200000000;
        char text[RFC3339_MAX];
        rfc3339_format(us, 6, text);
        int64_t back;
        assert_int_equal(rfc3339_parse(str_from(text), &back), 0);
        assert_int_equal(back, us);
        struct tm tm; /* libc agrees */
        time_t s = us / 1000000 - (us % 1000000 < 0);
        assert_non_null(gmtime_r(&s, &tm));
        char libc[64];
        assert_true(snprintf(libc, sizeof(libc), "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900,
                             tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec) == 19);
        assert_memory_equal(text, libc, 19);
    }
}

static void http_dates(void **state)
{
    char out[HTTP_DATE_LEN + 1];
    http_date_format(784111777, out);
    assert_string_equal(out, "Sun, 06 Nov 1994 08:49:37 GMT");
    http_date_format(0, out);
    assert_string_equal(out, "Thu, 01 Jan 1970 00:00:00 GMT");
    http_date_format(-1, out);
    assert_string_equal(out, "Wed, 31 Dec 1969 23:59:59 GMT");
    uint64_t seed = 3;
    for (int i = 0; i < 5000; i++) {
        int64_t s = (int64_t)test_rand(&seed) * 50 - 20000000000;
        http_date_format(s, out);
        int64_t back;
        assert_int_equal(http_date_parse(str_from(out), &back), 0);
        assert_int_equal(back, s);
    }
    static const char *const bad[] = {
        "",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Mon, 06 Nov 1994 08:49:37 GMT", /* it was a Sunday */
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 Nox 1994 08:49:37 GMT",
        "Sun, 31 Feb 1994 08:49:37 GMT",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun 06 Nov 1994 08:49:37 GMT.",
        "Sun, 06 Nov 1994 24:49:37 GMT",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t s;
        assert_int_equal(http_date_parse(str_from(bad[i]), &s), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_move_forward), cmocka_unit_test(formats_rfc3339),
        cmocka_unit_test(parses_rfc3339),      cmocka_unit_test(rfc3339_round_trip),
        cmocka_unit_test(http_dates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
