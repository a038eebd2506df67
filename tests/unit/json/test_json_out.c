#include <errno.h>
#include <math.h>

#include "../test.h"
#include "base/utf8.h"
#include "json/json.h"

static void assert_escapes(struct str in, const char *want)
{
    struct buf b = BUF_INIT(1000);
    assert_int_equal(json_escape(&b, in), 0);
    assert_string_equal(buf_cstr(&b), want);
    buf_done(&b);
}

static void escapes(void **state)
{
    assert_escapes(STR(""), "");
    assert_escapes(STR("plain text without anything"), "plain text without anything");
    assert_escapes(STR("\b\f\n\r\t\"\\/"), "\\b\\f\\n\\r\\t\\\"\\\\/");
    assert_escapes(STR("\0\x01\x1f\x7f"), "\\u0000\\u0001\\u001f\x7f");
    assert_escapes(STR("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"),
                   "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_escapes(STR("a\xc2\x85 b\xe2\x80\xa8 c\xe2\x80\xa9."), "a\\u0085 b\\u2028 c\\u2029.");
    assert_escapes(STR("\xc2\x84\xc2\x86\xe2\x80\xa7\xe2\x80\xaa"),
                   "\xc2\x84\xc2\x86\xe2\x80\xa7\xe2\x80\xaa");
    assert_escapes(STR("a\xff\xc3(\xe2\x82"), "a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd");
}

/* One byte at a time, by the definition. */
static void naive_escape(struct buf *out, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t cp = 0;
        int len = utf8_next(str_n((const char *)p + i, n - i), &cp);
        if (len <= 0) {
            buf_add_cstr(out, "\xef\xbf\xbd");
            len = 1;
        } else if (cp == '"' || cp == '\\') {
            buf_printf(out, "\\%c", (char)cp);
        } else if (cp == '\n') {
            buf_add_cstr(out, "\\n");
        } else if (cp == '\r') {
            buf_add_cstr(out, "\\r");
        } else if (cp == '\t') {
            buf_add_cstr(out, "\\t");
        } else if (cp == '\b') {
            buf_add_cstr(out, "\\b");
        } else if (cp == '\f') {
            buf_add_cstr(out, "\\f");
        } else if (cp < 0x20 || cp == 0x85 || cp == 0x2028 || cp == 0x2029) {
            buf_printf(out, "\\u%04x", (unsigned)cp);
        } else {
            buf_add(out, p + i, (size_t)len);
        }
        i += (size_t)len;
    }
}

static void escape_agrees_with_the_definition(void **state)
{
    uint64_t seed = 31;
    uint8_t in[64];
    for (int i = 0; i < 100000; i++) {
        size_t n = test_rand(&seed) % sizeof(in);
        /* mostly plain, so that words of eight have one odd byte at any place */
        for (size_t k = 0; k < n; k++) {
            uint32_t r = test_rand(&seed);
            in[k] = r % 8 ? (uint8_t)(0x20 + r % 0x60) : (uint8_t)(r >> 8);
        }
        struct buf got = BUF_INIT(1000), want = BUF_INIT(1000);
        assert_int_equal(json_escape(&got, str_n((const char *)in, n)), 0);
        naive_escape(&want, in, n);
        assert_string_equal(buf_cstr(&got), buf_cstr(&want));
        buf_done(&got);
        buf_done(&want);
    }
}

/* Long texts, whose pieces meet at any byte, into buffers that just fit and just do not. */
static void escape_fills_a_buffer_to_its_end(void **state)
{
    static const char *const pieces[] = {
        "plain text here ", "\"",   "\n",   "\xe2\x82\xac", "\xe2\x80\xa8",
        "\xf0\x9f\x98\x80", "\xff", "\x01", "\xc3"};
    uint64_t seed = 32;
    for (int i = 0; i < 3000; i++) {
        struct buf in = BUF_INIT(10000), want = BUF_INIT(100000);
        size_t n = 900 + test_rand(&seed) % 400;
        while (in.len < n) {
            buf_add_cstr(&in, pieces[test_rand(&seed) % (test_rand(&seed) % 3 ? 2 : 9)]);
        }
        naive_escape(&want, (const uint8_t *)in.p, in.len);
        struct buf fits = BUF_INIT(want.len), small = BUF_INIT(want.len - 1);
        assert_int_equal(json_escape(&fits, buf_str(&in)), 0);
        assert_string_equal(buf_cstr(&fits), buf_cstr(&want));
        assert_int_equal(json_escape(&small, buf_str(&in)), -ENOSPC);
        assert_true(small.len < want.len);
        buf_done(&in);
        buf_done(&want);
        buf_done(&fits);
        buf_done(&small);
    }
}

static void escape_has_a_limit(void **state)
{
    struct buf b = BUF_INIT(5);
    assert_int_equal(json_escape(&b, STR("1234")), 0);
    assert_int_equal(json_escape(&b, STR("\n")), -ENOSPC);
    assert_true(buf_failed(&b));
    buf_done(&b);
}

static void writes_values(void **state)
{
    struct buf b = BUF_INIT(1000);
    struct json_out o;
    json_out_init(&o, &b);
    json_obj_begin(&o);
    json_key(&o, "a\"");
    json_put_str(&o, STR("x\ny"));
    json_key(&o, "n");
    json_put_cstr(&o, NULL);
    json_key(&o, "list");
    json_arr_begin(&o);
    json_put_int(&o, INT64_MIN);
    json_put_int(&o, INT64_MAX);
    json_put_num(&o, 1);
    json_put_num(&o, -0.25);
    json_put_num(&o, 1e300);
    json_put_num(&o, NAN);
    json_put_bool(&o, true);
    json_put_null(&o);
    json_obj_begin(&o);
    json_obj_end(&o);
    json_arr_begin(&o);
    json_arr_end(&o);
    json_put_raw(&o, STR("{\"raw\":1}"));
    struct json *tree = json_parse(STR("{\"t\":[1.0]}"), NULL);
    json_put_tree(&o, tree);
    json_put_tree(&o, NULL);
    json_free(tree);
    json_arr_end(&o);
    json_key(&o, "end");
    json_put_cstr(&o, "");
    json_obj_end(&o);
    assert_string_equal(buf_cstr(&b),
                        "{\"a\\\"\":\"x\\ny\",\"n\":null,\"list\":[-9223372036854775808,"
                        "9223372036854775807,1,-0.25,1e+300,null,true,null,{},[],{\"raw\":1},"
                        "{\"t\":[1.0]},null],\"end\":\"\"}");
    buf_done(&b);
}

static void nests_to_the_limit(void **state)
{
    struct buf b = BUF_INIT(10000);
    struct json_out o;
    json_out_init(&o, &b);
    for (int i = 0; i < JSON_MAX_DEPTH; i++) {
        json_arr_begin(&o);
    }
    json_put_int(&o, 1);
    json_put_int(&o, 2);
    for (int i = 0; i < JSON_MAX_DEPTH; i++) {
        json_arr_end(&o);
    }
    struct json *j = json_parse(buf_str(&b), NULL);
    assert_non_null(j);
    buf_clear(&b);
    /* a tree as deep as trees get, inside an object */
    json_out_init(&o, &b);
    json_obj_begin(&o);
    json_key(&o, "x");
    json_put_tree(&o, j);
    json_key(&o, "y");
    json_put_int(&o, 1);
    json_obj_end(&o);
    assert_true(str_ends(buf_str(&b), STR("]],\"y\":1}")));
    json_free(j);
    buf_done(&b);
}

static struct buf scratch = {.max = 10000};
static void too_deep(void)
{
    struct json_out o;
    json_out_init(&o, &scratch);
    for (int i = 0; i <= JSON_MAX_DEPTH; i++) {
        json_arr_begin(&o);
    }
}
static void end_without_begin(void)
{
    struct json_out o;
    json_out_init(&o, &scratch);
    json_arr_end(&o);
}
static void key_without_value(void)
{
    struct json_out o;
    json_out_init(&o, &scratch);
    json_obj_begin(&o);
    json_key(&o, "a");
    json_key(&o, "b");
}
static void misuse_aborts(void **state)
{
    assert_aborts(too_deep);
    assert_aborts(end_without_begin);
    assert_aborts(key_without_value);
}

static void numbers_read_back(void **state)
{
    uint64_t seed = 41;
    for (int i = 0; i < 20000; i++) {
        double d;
        if (i % 2) {
            uint64_t bits = (uint64_t)test_rand(&seed) << 33 ^ (uint64_t)test_rand(&seed) << 10 ^
                            test_rand(&seed);
            memcpy(&d, &bits, sizeof(d));
        } else {
            d = (int32_t)test_rand(&seed) / 1000.0;
        }
        if (!isfinite(d)) {
            continue;
        }
        struct json *j = json_num_new(d);
        struct buf b = BUF_INIT(100);
        assert_int_equal(json_dump(j, &b, 0), 0);
        struct json *back = json_parse(buf_str(&b), NULL);
        assert_true(json_eq(j, back)); /* still a real number, and the same one */
        json_free(j);
        json_free(back);
        buf_done(&b);
    }
    struct buf b = BUF_INIT(100);
    struct json_out o;
    json_out_init(&o, &b);
    json_arr_begin(&o);
    json_put_num(&o, 0.1);
    json_put_num(&o, 100);
    json_put_num(&o, 1.0 / 3);
    json_put_num(&o, 5e-324);
    json_arr_end(&o);
    assert_string_equal(buf_cstr(&b), "[0.1,100,0.3333333333333333,4.94065645841247e-324]");
    buf_done(&b);
}

static void dumps_for_people(void **state)
{
    struct json *j = json_parse(STR("{\"a\":[1,{\"b\":[]}],\"c\":{},\"d\":\"\\n\"}"), NULL);
    struct buf b = BUF_INIT(1000);
    assert_int_equal(json_dump(j, &b, 2), 0);
    assert_string_equal(buf_cstr(&b), "{\n  \"a\": [\n    1,\n    {\n      \"b\": []\n    }\n  ],\n"
                                      "  \"c\": {},\n  \"d\": \"\\n\"\n}");
    struct buf small = BUF_INIT(10);
    assert_int_equal(json_dump(j, &small, 0), -ENOSPC);
    buf_done(&small);
    json_free(j);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(escapes),
        cmocka_unit_test(escape_agrees_with_the_definition),
        cmocka_unit_test(escape_fills_a_buffer_to_its_end),
        cmocka_unit_test(escape_has_a_limit),
        cmocka_unit_test(writes_values),
        cmocka_unit_test(nests_to_the_limit),
        cmocka_unit_test(misuse_aborts),
        cmocka_unit_test(numbers_read_back),
        cmocka_unit_test(dumps_for_people),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
