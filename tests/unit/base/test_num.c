#include "base/num.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

#include "../test.h"

#define OK(parse, type, text, value)                                                               \
    do {                                                                                           \
        type v_ = 0;                                                                               \
        assert_int_equal(parse(STR(text), &v_), 0);                                                \
        assert_true(v_ == (value));                                                                \
    } while (0)
#define BAD(parse, type, text, error)                                                              \
    do {                                                                                           \
        type v_ = 1;                                                                               \
        assert_int_equal(parse(STR(text), &v_), error);                                            \
        assert_true(v_ == 1);                                                                      \
    } while (0)

static void unsigned_numbers(void **state)
{
    OK(parse_u64, uint64_t, "0", 0);
    OK(parse_u64, uint64_t, "007", 7);
    OK(parse_u64, uint64_t, "18446744073709551615", UINT64_MAX);
    BAD(parse_u64, uint64_t, "18446744073709551616", -ERANGE);
    BAD(parse_u64, uint64_t, "99999999999999999999999999", -ERANGE);
    BAD(parse_u64, uint64_t, "99999999999999999999999999x", -EINVAL);
    BAD(parse_u64, uint64_t, "", -EINVAL);
    BAD(parse_u64, uint64_t, "-1", -EINVAL);
    BAD(parse_u64, uint64_t, "+1", -EINVAL);
    BAD(parse_u64, uint64_t, " 1", -EINVAL);
    BAD(parse_u64, uint64_t, "1 ", -EINVAL);
    BAD(parse_u64, uint64_t, "1\0", -EINVAL);
    BAD(parse_u64, uint64_t, "0x1", -EINVAL);
    OK(parse_u32, uint32_t, "4294967295", UINT32_MAX);
    BAD(parse_u32, uint32_t, "4294967296", -ERANGE);
    BAD(parse_u32, uint32_t, "x", -EINVAL);
    OK(parse_u64_hex, uint64_t, "fF", 255);
    OK(parse_u64_hex, uint64_t, "ffffffffffffffff", UINT64_MAX);
    BAD(parse_u64_hex, uint64_t, "00000000000000001", -ERANGE);
    BAD(parse_u64_hex, uint64_t, "", -EINVAL);
    BAD(parse_u64_hex, uint64_t, "0x1", -EINVAL);
    BAD(parse_u64_hex, uint64_t, "-1", -EINVAL);
    BAD(parse_u64_hex, uint64_t, "g", -EINVAL);
}

static void signed_numbers(void **state)
{
    OK(parse_i64, int64_t, "0", 0);
    OK(parse_i64, int64_t, "-0", 0);
    OK(parse_i64, int64_t, "-1", -1);
    OK(parse_i64, int64_t, "9223372036854775807", INT64_MAX);
    OK(parse_i64, int64_t, "-9223372036854775808", INT64_MIN);
    BAD(parse_i64, int64_t, "9223372036854775808", -ERANGE);
    BAD(parse_i64, int64_t, "-9223372036854775809", -ERANGE);
    BAD(parse_i64, int64_t, "--1", -EINVAL);
    BAD(parse_i64, int64_t, "-", -EINVAL);
    BAD(parse_i64, int64_t, "+1", -EINVAL);
    BAD(parse_i64, int64_t, "", -EINVAL);
}

static void ports(void **state)
{
    OK(parse_port, uint16_t, "1", 1);
    OK(parse_port, uint16_t, "65535", 65535);
    BAD(parse_port, uint16_t, "0", -ERANGE);
    BAD(parse_port, uint16_t, "65536", -ERANGE);
    BAD(parse_port, uint16_t, "080", -EINVAL);
    BAD(parse_port, uint16_t, "-1", -EINVAL);
    BAD(parse_port, uint16_t, "", -EINVAL);
}

static void doubles(void **state)
{
    OK(parse_double, double, "0", 0);
    OK(parse_double, double, "-0", 0);
    OK(parse_double, double, "1.5", 1.5);
    OK(parse_double, double, "-1.5e3", -1500);
    OK(parse_double, double, "1E+2", 100);
    OK(parse_double, double, "1e-2", 0.01);
    OK(parse_double, double, "1e-999", 0);
    OK(parse_double, double, "1e0007", 1e7);
    BAD(parse_double, double, "1e999", -ERANGE);
    static const char *const bad[] = {"",    "-",   "+1",  ".5",    "5.",    "01",
                                      "-01", "1e",  "1e+", "1e+-1", "0x1",   "inf",
                                      "nan", "1,5", "1 ",  " 1",    "1.5.2", "1f"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        double v;
        assert_int_equal(parse_double(str_from(bad[i]), &v), -EINVAL);
    }
    char text[1000];
    memset(text, '1', sizeof(text));
    double v;
    assert_int_equal(parse_double(str_n(text, PARSE_DOUBLE_MAX_LEN + 1), &v), -ERANGE);
    assert_int_equal(parse_double(str_n(text, 300), &v), 0);
    assert_true(isfinite(v));
}

static void doubles_ignore_the_locale(void **state)
{
    static const char *const comma[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "de_DE.utf8"};
    for (size_t i = 0; i < sizeof(comma) / sizeof(comma[0]); i++) {
        if (setlocale(LC_ALL, comma[i])) {
            break;
        }
    }
    OK(parse_double, double, "1.5", 1.5);
    setlocale(LC_ALL, "C");
}

static void doubles_round_trip(void **state)
{
    uint64_t seed = 9;
    for (int i = 0; i < 20000; i++) {
        uint64_t bits =
            (uint64_t)test_rand(&seed) << 33 ^ (uint64_t)test_rand(&seed) << 11 ^ test_rand(&seed);
        double d;
        memcpy(&d, &bits, sizeof(d));
        if (!isfinite(d)) {
            continue;
        }
        char text[64];
        snprintf(text, sizeof(text), "%.17g", d);
        double back;
        assert_int_equal(parse_double(str_from(text), &back), 0);
        assert_true(back == d);
    }
}

static void booleans(void **state)
{
    OK(parse_bool, bool, "true", true);
    OK(parse_bool, bool, "FALSE", false);
    OK(parse_bool, bool, "1", true);
    OK(parse_bool, bool, "0", false);
    OK(parse_bool, bool, "Yes", true);
    OK(parse_bool, bool, "nO", false);
    OK(parse_bool, bool, "on", true);
    OK(parse_bool, bool, "off", false);
    bool b;
    assert_int_equal(parse_bool(STR(""), &b), -EINVAL);
    assert_int_equal(parse_bool(STR("2"), &b), -EINVAL);
    assert_int_equal(parse_bool(STR("truee"), &b), -EINVAL);
    assert_int_equal(parse_bool(STR(" true"), &b), -EINVAL);
}

static void durations(void **state)
{
    OK(parse_duration_ms, int64_t, "0", 0);
    OK(parse_duration_ms, int64_t, "0s", 0);
    OK(parse_duration_ms, int64_t, "1h30m", 5400000);
    OK(parse_duration_ms, int64_t, "500ms", 500);
    OK(parse_duration_ms, int64_t, "2s", 2000);
    OK(parse_duration_ms, int64_t, "1.5s", 1500);
    OK(parse_duration_ms, int64_t, ".5s", 500);
    OK(parse_duration_ms, int64_t, "1.s", 1000);
    OK(parse_duration_ms, int64_t, "1m0.5s", 60500);
    OK(parse_duration_ms, int64_t, "1h1m1s1ms", 3661001);
    OK(parse_duration_ms, int64_t, "1us", 1); /* rounded up */
    OK(parse_duration_ms, int64_t, "1000us", 1);
    OK(parse_duration_ms, int64_t, "1000\xc2\xb5s", 1);
    OK(parse_duration_ms, int64_t, "1000\xce\xbcs", 1);
    OK(parse_duration_ms, int64_t, "1000001ns", 2);
    OK(parse_duration_ms, int64_t, "2562047h", 9223369200000);
    OK(parse_duration_ms, int64_t, "9223372036854775807ms", INT64_MAX);
    BAD(parse_duration_ms, int64_t, "9223372036854775808ms", -ERANGE);
    BAD(parse_duration_ms, int64_t, "9223372036854775807h", -ERANGE);
    BAD(parse_duration_ms, int64_t, "99999999999999999999999s", -ERANGE);
    static const char *const bad[] = {"",   "1",  "-1s", "+1s",   "s",      ".s", "1 s",    "1s ",
                                      "1d", "1S", "1sm", "1..5s", "1.5.5s", "00", "1h 30m", "1e3s"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t v;
        assert_int_equal(parse_duration_ms(str_from(bad[i]), &v), -EINVAL);
    }
}

static void byte_quantities(void **state)
{
    OK(parse_quantity_bytes, uint64_t, "0", 0);
    OK(parse_quantity_bytes, uint64_t, "1024", 1024);
    OK(parse_quantity_bytes, uint64_t, "+5", 5);
    OK(parse_quantity_bytes, uint64_t, "512Mi", 536870912);
    OK(parse_quantity_bytes, uint64_t, "1G", 1000000000);
    OK(parse_quantity_bytes, uint64_t, "1k", 1000);
    OK(parse_quantity_bytes, uint64_t, "1Ki", 1024);
    OK(parse_quantity_bytes, uint64_t, "1.5Gi", 1610612736);
    OK(parse_quantity_bytes, uint64_t, "0.1Ki", 103); /* 102.4, up */
    OK(parse_quantity_bytes, uint64_t, "1e3", 1000);
    OK(parse_quantity_bytes, uint64_t, "1E3", 1000);
    OK(parse_quantity_bytes, uint64_t, "1.5e+3", 1500);
    OK(parse_quantity_bytes, uint64_t, "1500e-3", 2);
    OK(parse_quantity_bytes, uint64_t, "1e-400", 1);
    OK(parse_quantity_bytes, uint64_t, "0e400", 0);
    OK(parse_quantity_bytes, uint64_t, "1E", 1000000000000000000);
    OK(parse_quantity_bytes, uint64_t, "1Ei", 1152921504606846976);
    OK(parse_quantity_bytes, uint64_t, "15.5Ei", 17870283321406128128u);
    OK(parse_quantity_bytes, uint64_t, "1000m", 1);
    OK(parse_quantity_bytes, uint64_t, "1n", 1);
    OK(parse_quantity_bytes, uint64_t, "1.000000000000000000000000000000", 1);
    OK(parse_quantity_bytes, uint64_t, "000000000000000000000000000001", 1);
    BAD(parse_quantity_bytes, uint64_t, "16Ei", -ERANGE);
    BAD(parse_quantity_bytes, uint64_t, "19E", -ERANGE);
    BAD(parse_quantity_bytes, uint64_t, "1e20", -ERANGE);
    BAD(parse_quantity_bytes, uint64_t, "1e99999999999999999999", -ERANGE);
    BAD(parse_quantity_bytes, uint64_t, "99999999999999999999999", -ERANGE);
    BAD(parse_quantity_bytes, uint64_t, "0.00000000000000000001", -ERANGE);
    static const char *const bad[] = {"",   "-1",   "Mi",  "1K",  "1mi",   "1 Mi",  "1Mi ",
                                      " 1", "1MiB", "1e",  "1e+", "1e+-1", "1e1.5", "1.2.3",
                                      ".",  "++1",  "+-1", "1MM", "1GB",   "0x10"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint64_t v;
        assert_int_equal(parse_quantity_bytes(str_from(bad[i]), &v), -EINVAL);
    }
}

static void cpu_quantities(void **state)
{
    OK(parse_quantity_millicpu, uint64_t, "500m", 500);
    OK(parse_quantity_millicpu, uint64_t, "0.5", 500);
    OK(parse_quantity_millicpu, uint64_t, "2", 2000);
    OK(parse_quantity_millicpu, uint64_t, "1.2345", 1235);
    OK(parse_quantity_millicpu, uint64_t, "1n", 1);
    OK(parse_quantity_millicpu, uint64_t, "1e2", 100000);
    OK(parse_quantity_millicpu, uint64_t, "18446744073709551", 18446744073709551000u);
    BAD(parse_quantity_millicpu, uint64_t, "18446744073709552", -ERANGE);
    BAD(parse_quantity_millicpu, uint64_t, "0", -EINVAL);
    BAD(parse_quantity_millicpu, uint64_t, "0m", -EINVAL);
    BAD(parse_quantity_millicpu, uint64_t, "-1", -EINVAL);
    BAD(parse_quantity_millicpu, uint64_t, "", -EINVAL);
    BAD(parse_quantity_millicpu, uint64_t, "half", -EINVAL);
    BAD(parse_quantity_millicpu, uint64_t, "1e30", -ERANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsigned_numbers),
        cmocka_unit_test(signed_numbers),
        cmocka_unit_test(ports),
        cmocka_unit_test(doubles),
        cmocka_unit_test(doubles_ignore_the_locale),
        cmocka_unit_test(doubles_round_trip),
        cmocka_unit_test(booleans),
        cmocka_unit_test(durations),
        cmocka_unit_test(byte_quantities),
        cmocka_unit_test(cpu_quantities),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
