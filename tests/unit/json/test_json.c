#include "json/json.h"

#include <math.h>
#include <stdio.h>

#include "../test.h"

static struct json *parsed(const char *text)
{
    struct err e = {0};
    struct json *j = json_parse(str_from(text), &e);
    if (!j) {
        print_error("%s: %s\n", text, e.msg);
    }
    assert_non_null(j);
    return j;
}

static void reads_every_type(void **state)
{
    struct json *j =
        parsed(" {\"s\":\"t\\u00e9\",\"i\":-5,\"r\":1.5,\"t\":true,\"f\":false,\"n\":null,"
               "\"a\":[1,[2]],\"o\":{\"x\":{\"y\":7}}} \n");
    assert_true(json_is_object(j));
    assert_int_equal(json_len(j), 8);
    assert_string_equal(json_cstr(json_get(j, "s")), "t\xc3\xa9");
    assert_str(json_str(json_get(j, "s")), "t\xc3\xa9");
    assert_int_equal(json_int(json_get(j, "i"), 0), -5);
    assert_true(json_num(json_get(j, "r"), 0) == 1.5);
    assert_true(json_num(json_get(j, "i"), 0) == -5.0);
    assert_int_equal(json_int(json_get(j, "r"), 9), 9);
    assert_true(json_bool(json_get(j, "t"), false));
    assert_false(json_bool(json_get(j, "f"), true));
    assert_true(json_is_null(json_get(j, "n")));
    assert_true(json_is_array(json_get(j, "a")));
    assert_int_equal(json_int(json_item(json_get(j, "a"), 0), 0), 1);
    assert_null(json_item(json_get(j, "a"), 2));
    assert_int_equal(json_int(json_at(j, "o.x.y"), 0), 7);
    assert_null(json_at(j, "o.x.z"));
    assert_null(json_at(j, "o.q.z"));
    assert_null(json_at(j, "s.x"));
    json_free(j);
}

static void nothing_is_of_no_type(void **state)
{
    assert_false(json_is_object(NULL) || json_is_array(NULL) || json_is_string(NULL) ||
                 json_is_int(NULL) || json_is_number(NULL) || json_is_bool(NULL) ||
                 json_is_null(NULL));
    assert_null(json_get(NULL, "x"));
    assert_null(json_at(NULL, "x"));
    assert_null(json_cstr(NULL));
    assert_null(json_str(NULL).p);
    assert_int_equal(json_int(NULL, 3), 3);
    assert_true(json_bool(NULL, true));
    assert_int_equal(json_len(NULL), 0);
    assert_null(json_item(NULL, 0));
    void *it = NULL;
    assert_false(json_next(NULL, &it, NULL, NULL));
    assert_string_equal(json_type_name(NULL), "nothing");
    assert_null(json_clone(NULL));
    assert_true(json_eq(NULL, NULL));
    json_free(NULL);
}

static void types_have_names(void **state)
{
    static const struct {
        const char *text, *name;
    } rows[] = {{"{}", "object"},  {"[]", "array"},     {"\"\"", "string"},   {"1", "integer"},
                {"1.0", "number"}, {"true", "boolean"}, {"false", "boolean"}, {"null", "null"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json *j = parsed(rows[i].text);
        assert_string_equal(json_type_name(j), rows[i].name);
        json_free(j);
    }
}

static void integers_are_exact(void **state)
{
    struct json *j = parsed("[9007199254740993,9223372036854775807,-9223372036854775808]");
    assert_int_equal(json_int(json_item(j, 0), 0), 9007199254740993);
    assert_int_equal(json_int(json_item(j, 1), 0), INT64_MAX);
    assert_int_equal(json_int(json_item(j, 2), 0), INT64_MIN);
    json_free(j);
}

static void refuses(void **state)
{
    static const char *const bad[] = {
        "",
        "  ",
        "{",
        "[",
        "{\"a\":1,}",
        "[1,]",
        "[1 2]",
        "{a:1}",
        "{'a':1}",
        "01",
        "+1",
        ".5",
        "1.",
        "1e999",
        "9223372036854775808",
        "nul",
        "true false",
        "{} {}",
        "{}x",
        "\"\n\"",
        "\"\\x\"",
        "\"\\ud800\"",
        "\"\xff\"",
        "\"\xed\xa0\x80\"",
        "\"\\u0000\"",
        "{\"a\":1,\"a\":2}",
        "{\"\\u0000\":1}",
        "// c\n1",
        "NaN",
        "Infinity",
        "\xef\xbb\xbf{}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err e = {0};
        assert_null(json_parse(str_from(bad[i]), &e));
        assert_int_equal(e.code, ERR_INVALID);
        assert_true(strlen(e.msg) > 5);
        assert_null(json_parse(str_from(bad[i]), NULL));
    }
    struct err e = {0};
    assert_null(json_parse(STR("{\n  \"a\": 1,\n  oops\n}"), &e));
    assert_memory_equal(e.msg, "line 3 column ", 14);
    assert_null(json_parse(STR("1\0"), &e));
    assert_null(json_parse(STR_NULL, &e));
}

static void depth_is_limited(void **state)
{
    char text[400];
    for (size_t depth = JSON_MAX_DEPTH - 1; depth <= JSON_MAX_DEPTH + 1; depth++) {
        for (int kind = 0; kind < 2; kind++) {
            size_t n = 0;
            for (size_t i = 0; i < depth; i++) {
                n += (size_t)snprintf(text + n, sizeof(text) - n, kind ? "{\"\":" : "[");
            }
            n += (size_t)snprintf(text + n, sizeof(text) - n, "1");
            for (size_t i = 0; i < depth; i++) {
                text[n++] = kind ? '}' : ']';
            }
            struct err e = {0};
            struct json *j = json_parse(str_n(text, n), &e);
            assert_int_equal(j != NULL, depth <= JSON_MAX_DEPTH);
            json_free(j);
        }
    }
    /* brackets inside strings do not count, nor does what follows the first value */
    char many[300];
    memset(many, '[', sizeof(many));
    struct buf b = BUF_INIT(1000);
    buf_printf(&b, "[\"\\\"%.*s\"]", (int)sizeof(many), many);
    struct json *j = json_parse(buf_str(&b), NULL);
    assert_non_null(j);
    json_free(j);
    buf_clear(&b);
    buf_printf(&b, "{}%.*s", (int)sizeof(many), many);
    j = json_parse_first(buf_str(&b), NULL);
    assert_non_null(j);
    json_free(j);
    buf_done(&b);
}

static void number_of_values_is_limited(void **state)
{
    struct buf b = BUF_INIT(8u << 20);
    buf_add_cstr(&b, "[1");
    for (size_t i = 0; i < JSON_MAX_NODES - 2; i++) {
        (void)buf_add(&b, ",1", 2);
    }
    buf_add_char(&b, ']');
    struct err e = {0};
    struct json *j = json_parse(buf_str(&b), &e);
    assert_non_null(j);
    assert_int_equal(json_len(j), JSON_MAX_NODES - 1);
    json_free(j);
    b.len--;
    buf_add_cstr(&b, ",1]");
    assert_null(json_parse(buf_str(&b), &e));
    assert_int_equal(e.code, ERR_INVALID);
    assert_null(json_parse_first(buf_str(&b), &e));
    buf_clear(&b); /* commas in a string are text */
    buf_add_char(&b, '"');
    for (size_t i = 0; i < JSON_MAX_NODES + 10; i++) {
        buf_add_char(&b, ',');
    }
    buf_add_char(&b, '"');
    j = json_parse(buf_str(&b), &e);
    assert_non_null(j);
    json_free(j);
    buf_done(&b);
}

static void first_value_only(void **state)
{
    static const struct {
        const char *text, *dump;
    } rows[] = {
        {"{\"a\":1} trailing", "{\"a\":1}"}, {"[1]{", "[1]"}, {"{}{}", "{}"}, {" {} ", "{}"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json *j = json_parse_first(str_from(rows[i].text), NULL);
        assert_non_null(j);
        struct buf b = BUF_INIT(100);
        assert_int_equal(json_dump(j, &b, 0), 0);
        assert_string_equal(buf_cstr(&b), rows[i].dump);
        buf_done(&b);
        json_free(j);
    }
    struct err e = {0};
    assert_null(json_parse_first(STR("{\"a\""), &e));
    assert_null(json_parse_first(STR(""), &e));
}

static void iterates_in_order(void **state)
{
    struct json *j = parsed("{\"z\":0,\"a\":1,\"m\":2,\"b\":3}");
    json_del(j, "a");
    json_del(j, "absent");
    json_set(j, "new", json_int_new(9));
    json_set(j, "z", json_int_new(10)); /* keeps its place */
    static const char *const keys[] = {"z", "m", "b", "new"};
    void *it = NULL;
    const char *key;
    struct json *value;
    size_t n = 0;
    while (json_next(j, &it, &key, &value)) {
        assert_string_equal(key, keys[n++]);
    }
    assert_int_equal(n, 4);
    assert_int_equal(json_int(json_get(j, "z"), 0), 10);
    json_free(j);
}

static void builds(void **state)
{
    struct json *o = json_object_new();
    json_set(o, "s", json_string_new(STR("x")));
    json_set(o, "bad", json_string_new(STR("a\xff\0b")));
    json_set(o, "k\xff", json_bool_new(true));
    json_set(o, "i", json_int_new(INT64_MIN));
    json_set(o, "d", json_num_new(0.1));
    json_set(o, "nan", json_num_new(NAN));
    json_set(o, "inf", json_num_new(INFINITY));
    json_set(o, "e", json_string_new(STR_NULL));
    struct json *a = json_array_new();
    json_push(a, json_null_new());
    json_push(a, json_bool_new(false));
    json_set(o, "a", a);
    struct buf b = BUF_INIT(1000);
    assert_int_equal(json_dump(o, &b, 0), 0);
    assert_string_equal(buf_cstr(&b),
                        "{\"s\":\"x\",\"bad\":\"a\xef\xbf\xbd\xef\xbf\xbd"
                        "b\",\"k\xef\xbf\xbd\":true,\"i\":-9223372036854775808,"
                        "\"d\":0.1,\"nan\":null,\"inf\":null,\"e\":\"\",\"a\":[null,false]}");
    struct json *copy = json_clone(o);
    assert_true(json_eq(o, copy));
    json_push(json_get(copy, "a"), json_int_new(1));
    assert_false(json_eq(o, copy));
    assert_int_equal(json_len(json_get(o, "a")), 2); /* deep */
    struct json *same = json_ref(o);
    json_free(o);
    assert_string_equal(json_cstr(json_get(same, "s")), "x");
    json_free(same);
    json_free(copy);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_type),
        cmocka_unit_test(nothing_is_of_no_type),
        cmocka_unit_test(types_have_names),
        cmocka_unit_test(integers_are_exact),
        cmocka_unit_test(refuses),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(number_of_values_is_limited),
        cmocka_unit_test(first_value_only),
        cmocka_unit_test(iterates_in_order),
        cmocka_unit_test(builds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
