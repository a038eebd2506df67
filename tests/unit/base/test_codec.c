#include "base/codec.h"

#include <errno.h>

#include "../test.h"

static void hex(void **state)
{
    struct buf b = BUF_INIT(100);
    assert_int_equal(hex_encode(&b, "\x00\x7f\xff", 3), 0);
    assert_string_equal(buf_cstr(&b), "007fff");
    uint8_t out[4];
    assert_int_equal(hex_decode(STR("007fFF"), out, sizeof(out)), 3);
    assert_memory_equal(out, "\x00\x7f\xff", 3);
    assert_int_equal(hex_decode(STR(""), out, 0), 0);
    assert_int_equal(hex_decode(STR("0"), out, 4), -EINVAL);
    assert_int_equal(hex_decode(STR("0g"), out, 4), -EINVAL);
    assert_int_equal(hex_decode(STR("0x"), out, 4), -EINVAL);
    assert_int_equal(hex_decode(STR("00 1"), out, 4), -EINVAL);
    assert_int_equal(hex_decode(STR("0011223344"), out, 4), -ENOSPC);
    struct buf small = BUF_INIT(3);
    assert_int_equal(hex_encode(&small, "ab", 2), -ENOSPC);
    assert_true(buf_failed(&small));
    buf_done(&small);
    buf_done(&b);
}

static void base64_known(void **state)
{
    static const struct {
        const char *plain, *std, *url;
    } rows[] = {
        {"", "", ""},
        {"f", "Zg==", "Zg"},
        {"fo", "Zm8=", "Zm8"},
        {"foo", "Zm9v", "Zm9v"},
        {"foob", "Zm9vYg==", "Zm9vYg"},
        {"fooba", "Zm9vYmE=", "Zm9vYmE"},
        {"foobar", "Zm9vYmFy", "Zm9vYmFy"},
        {"\xfb\xff\xfe", "+//+", "-__-"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct buf b = BUF_INIT(100);
        assert_int_equal(base64_encode(&b, rows[i].plain, strlen(rows[i].plain)), 0);
        assert_string_equal(buf_cstr(&b), rows[i].std);
        buf_clear(&b);
        assert_int_equal(base64url_encode(&b, rows[i].plain, strlen(rows[i].plain)), 0);
        assert_string_equal(buf_cstr(&b), rows[i].url);
        buf_done(&b);
    }
}

static void base64_is_strict(void **state)
{
    uint8_t out[64];
    static const char *const bad[] = {"Z",    "Zg",       "Zg=",  "Zg===",    "Z===",   "====",
                                      "=",    "Zh==",     "Zm9=", "Zg==Zg==", "Zm9v\n", " Zm9",
                                      "Zm-_", "Zm9v====", "Z=g=", "Zg=a"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(base64_decode(str_from(bad[i]), out, sizeof(out)), -EINVAL);
    }
    static const char *const bad_url[] = {"Z", "Zh", "Zg==", "Zm9", "Zm9vY", "a+b/", "Zg\n"};
    for (size_t i = 0; i < sizeof(bad_url) / sizeof(bad_url[0]); i++) {
        assert_int_equal(base64url_decode(str_from(bad_url[i]), out, sizeof(out)), -EINVAL);
    }
    assert_int_equal(base64_decode(STR("Zm9vYmFy"), out, 5), -ENOSPC);
    assert_int_equal(base64_decode(STR("Zm9vYmFy"), out, 6), 6);
}

static void base64_round_trip(void **state)
{
    uint64_t seed = 11;
    for (size_t n = 0; n < 300; n++) {
        uint8_t in[300], out[300];
        for (size_t i = 0; i < n; i++) {
            in[i] = (uint8_t)test_rand(&seed);
        }
        struct buf b = BUF_INIT(1000);
        assert_int_equal(base64_encode(&b, in, n), 0);
        assert_int_equal(b.len % 4, 0);
        assert_int_equal(base64_decode(buf_str(&b), out, n), n);
        assert_memory_equal(in, out, n);
        buf_clear(&b);
        assert_int_equal(base64url_encode(&b, in, n), 0);
        assert_int_equal(base64url_decode(buf_str(&b), out, n), n);
        assert_memory_equal(in, out, n);
        buf_clear(&b);
        assert_int_equal(hex_encode(&b, in, n), 0);
        assert_int_equal(hex_decode(buf_str(&b), out, n), n);
        assert_memory_equal(in, out, n);
        buf_done(&b);
    }
}

/* Every text that decodes is the only one for its bytes. */
static void base64_texts_are_unique(void **state)
{
    static const char alphabet[] = "AQgw/+Zh=";
    char text[4];
    for (size_t i = 0; i < 9 * 9 * 9 * 9; i++) {
        size_t v = i;
        for (size_t k = 0; k < 4; k++, v /= 9) {
            text[k] = alphabet[v % 9];
        }
        uint8_t out[3];
        ssize_t n = base64_decode(str_n(text, 4), out, sizeof(out));
        if (n >= 0) {
            struct buf b = BUF_INIT(8);
            assert_int_equal(base64_encode(&b, out, (size_t)n), 0);
            assert_memory_equal(b.p, text, 4);
            buf_done(&b);
        }
    }
}

static void base36(void **state)
{
    static const uint64_t values[] = {0, 1, 35, 36, 1295, 1296, 123456789, UINT64_MAX};
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        struct buf b = BUF_INIT(20);
        assert_int_equal(base36_encode(&b, values[i]), 0);
        uint64_t back;
        assert_int_equal(base36_decode(buf_str(&b), &back), 0);
        assert_int_equal(back, values[i]);
        buf_done(&b);
    }
    uint64_t v;
    assert_int_equal(base36_decode(STR("zz"), &v), 0);
    assert_int_equal(v, 1295);
    assert_int_equal(base36_decode(STR("ZZ"), &v), 0);
    assert_int_equal(v, 1295);
    assert_int_equal(base36_decode(STR(""), &v), -EINVAL);
    assert_int_equal(base36_decode(STR("a-b"), &v), -EINVAL);
    assert_int_equal(base36_decode(STR("3w5e11264sgsf"), &v), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(base36_decode(STR("3w5e11264sgsg"), &v), -ERANGE);
    assert_int_equal(base36_decode(STR("zzzzzzzzzzzzzzzzzzzz"), &v), -ERANGE);
    assert_int_equal(base36_decode(STR("zzzzzzzzzzzzzzzzzzz!"), &v), -EINVAL);
}

static void percent(void **state)
{
    struct buf b = BUF_INIT(100);
    assert_int_equal(percent_decode(&b, STR("a%20b+c%2f%2F"), false), 0);
    assert_string_equal(buf_cstr(&b), "a b+c//");
    buf_clear(&b);
    assert_int_equal(percent_decode(&b, STR("a+b%2B"), true), 0);
    assert_string_equal(buf_cstr(&b), "a b+");
    buf_clear(&b);
    assert_int_equal(percent_decode(&b, STR("%00"), false), 0);
    assert_int_equal(b.len, 1);
    static const char *const bad[] = {"%", "%1", "a%", "a%f", "%gg", "%1g", "%%20", "% 1"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        buf_clear(&b);
        assert_int_equal(percent_decode(&b, str_from(bad[i]), false), -EINVAL);
    }
    buf_clear(&b);
    assert_int_equal(percent_encode(&b, STR("aZ0-._~/ \xc3\xa9%"), true), 0);
    assert_string_equal(buf_cstr(&b), "aZ0-._~/%20%C3%A9%25");
    buf_clear(&b);
    assert_int_equal(percent_encode(&b, STR("/"), false), 0);
    assert_string_equal(buf_cstr(&b), "%2F");
    buf_done(&b);
    struct buf small = BUF_INIT(2);
    assert_int_equal(percent_encode(&small, STR(" "), false), -ENOSPC);
    buf_clear(&small);
    assert_int_equal(percent_decode(&small, STR("abc"), false), -ENOSPC);
    buf_done(&small);
}

static void percent_round_trip(void **state)
{
    struct buf all = BUF_INIT(256), enc = BUF_INIT(1000), dec = BUF_INIT(256);
    for (int i = 0; i < 256; i++) {
        buf_add_char(&all, (char)i);
    }
    for (int slash = 0; slash < 2; slash++) {
        buf_clear(&enc);
        buf_clear(&dec);
        assert_int_equal(percent_encode(&enc, buf_str(&all), slash), 0);
        assert_int_equal(percent_decode(&dec, buf_str(&enc), true), 0);
        assert_int_equal(dec.len, 256);
        assert_memory_equal(dec.p, all.p, 256);
    }
    buf_done(&all);
    buf_done(&enc);
    buf_done(&dec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex),
        cmocka_unit_test(base64_known),
        cmocka_unit_test(base64_is_strict),
        cmocka_unit_test(base64_round_trip),
        cmocka_unit_test(base64_texts_are_unique),
        cmocka_unit_test(base36),
        cmocka_unit_test(percent),
        cmocka_unit_test(percent_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
