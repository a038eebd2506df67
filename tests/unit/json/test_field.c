#include "json/field.h"

#include <stdio.h>

#include "../test.h"

struct port {
    struct opt_int number;
    const char *name;
};
static const struct json_field port_fields[] = {
    JSON_FIELD(struct port, number, "number", JSON_F_INT, .required = true, .min = 1, .max = 65535),
    JSON_FIELD(struct port, name, "name", JSON_F_STR, .omit_empty = true),
    {0},
};
static const struct json_table port_table = {"Port", sizeof(struct port), port_fields,
                                             JSON_UNKNOWN_ERROR};

static const char *const modes[] = {"ro", "rw", NULL};

struct box {
    const char *id, *mode, *nick;
    struct opt_int timeout, small, created;
    struct opt_num ratio;
    struct opt_bool on;
    struct str_list args;
    struct str_map labels;
    struct port *main;
    struct obj_list ports;
    struct json *extra;
};
static const struct json_field box_fields[] = {
    JSON_FIELD(struct box, id, "id", JSON_F_STR, .required = true, .min_len = 1, .max_len = 4,
               .pattern = "^[a-z\xc3\xa9]+$"),
    JSON_FIELD(struct box, mode, "mode", JSON_F_STR, .choices = modes),
    JSON_FIELD(struct box, nick, "nickName", JSON_F_STR, .alias = "nick_name", .ignore_case = true),
    JSON_FIELD(struct box, timeout, "timeout", JSON_F_INT, .min = 60, .encode_null = true),
    JSON_FIELD(struct box, small, "small", JSON_F_INT, .max = 5, .omit_empty = true),
    JSON_FIELD(struct box, created, "createdAt", JSON_F_TIME),
    JSON_FIELD(struct box, ratio, "ratio", JSON_F_NUM, .min = -1, .max = 1),
    JSON_FIELD(struct box, on, "on", JSON_F_BOOL, .not_null = true),
    JSON_FIELD(struct box, args, "args", JSON_F_STR_LIST, .max_len = 3, .pattern = "^[^ ]*$"),
    JSON_FIELD(struct box, labels, "labels", JSON_F_STR_MAP, .max_len = 2),
    JSON_FIELD(struct box, main, "main", JSON_F_OBJ, .sub = &port_table),
    JSON_FIELD(struct box, ports, "ports", JSON_F_OBJ_LIST, .sub = &port_table, .max_len = 3),
    JSON_FIELD(struct box, extra, "extra", JSON_F_ANY),
    {0},
};
static const struct json_table box_table = {"Box", sizeof(struct box), box_fields};

static struct arena arena;
static struct json_issues issues;
static struct box box;
static struct err e;

static int decode(const char *text)
{
    arena_done(&arena);
    e = (struct err){0};
    struct json *j = json_parse(str_from(text), &e);
    if (!j) {
        print_error("%s: %s\n", text, e.msg);
    }
    assert_non_null(j);
    int r = json_decode(&arena, &box_table, j, &box, &issues, &e);
    if (r == 0) {
        box.extra = NULL; /* borrowed from the tree */
    }
    json_free(j);
    return r;
}

static void assert_issue(const char *text, enum json_issue_kind kind, const char *path,
                         const char *msg)
{
    assert_int_equal(decode(text), -1);
    assert_int_equal(issues.n, 1);
    assert_int_equal(issues.v[0].kind, kind);
    assert_string_equal(issues.v[0].path, path);
    assert_string_equal(issues.v[0].msg, msg);
    assert_int_equal(e.code, ERR_INVALID);
    char both[ERR_MSG_MAX];
    snprintf(both, sizeof(both), "%s%s%s", path, path[0] ? ": " : "", msg);
    assert_string_equal(e.msg, both);
}

static void decodes_everything(void **state)
{
    assert_int_equal(
        decode("{\"id\":\"ab\",\"mode\":\"rw\",\"nick_name\":\"n\",\"timeout\":60,\"small\":-0,"
               "\"createdAt\":\"1970-01-01T00:00:01.5Z\",\"ratio\":0.5,\"on\":false,"
               "\"args\":[\"x\",\"\"],\"labels\":{\"b\":\"1\",\"a\":\"2\"},"
               "\"main\":{\"number\":80},\"ports\":[{\"number\":1},{\"number\":2,\"name\":\"q\"}],"
               "\"ignored\":[1,2]}"),
        0);
    assert_int_equal(issues.n, 0);
    assert_string_equal(box.id, "ab");
    assert_string_equal(box.mode, "rw");
    assert_string_equal(box.nick, "n");
    assert_true(box.timeout.has && box.timeout.v == 60);
    assert_true(box.small.has && box.small.v == 0);
    assert_true(box.created.has && box.created.v == 1500000);
    assert_true(box.ratio.has && box.ratio.v == 0.5);
    assert_true(box.on.has && !box.on.v);
    assert_int_equal(box.args.n, 2);
    assert_string_equal(box.args.v[1], "");
    assert_int_equal(box.labels.n, 2);
    assert_string_equal(box.labels.v[0].key, "b"); /* in the order of the text */
    assert_string_equal(str_map_get(&box.labels, "a"), "2");
    assert_null(str_map_get(&box.labels, "c"));
    assert_int_equal(box.main->number.v, 80);
    assert_null(box.main->name);
    const struct port *ports = box.ports.v;
    assert_int_equal(box.ports.n, 2);
    assert_string_equal(ports[1].name, "q");
}

static void absent_and_null_are_alike(void **state)
{
    assert_int_equal(decode("{\"id\":\"a\"}"), 0);
    assert_null(box.mode);
    assert_false(box.timeout.has || box.created.has || box.ratio.has || box.on.has);
    assert_null(box.args.v);
    assert_false(box.labels.has || box.ports.has);
    assert_null(box.main);
    assert_int_equal(
        decode("{\"id\":\"a\",\"mode\":null,\"timeout\":null,\"createdAt\":null,\"args\":null,"
               "\"labels\":null,\"main\":null,\"ports\":null,\"extra\":null}"),
        0);
    assert_null(box.mode);
    assert_false(box.timeout.has || box.labels.has || box.ports.has);
    assert_int_equal(decode("{\"id\":\"a\",\"args\":[],\"labels\":{},\"ports\":[]}"), 0);
    assert_non_null(box.args.v); /* present and empty can be told from absent */
    assert_true(box.labels.has && box.ports.has);
}

static void finds_each_kind_of_issue(void **state)
{
    assert_issue("[]", JSON_BAD_TYPE, "", "expected object, got array");
    assert_issue("{}", JSON_MISSING, "id", "is required");
    assert_issue("{\"id\":null}", JSON_BAD_TYPE, "id", "must not be null");
    assert_issue("{\"id\":1}", JSON_BAD_TYPE, "id", "expected string, got integer");
    assert_issue("{\"id\":\"\"}", JSON_BAD_LENGTH, "id", "must have at least 1 characters, has 0");
    assert_issue("{\"id\":\"abcde\"}", JSON_BAD_LENGTH, "id",
                 "must have at most 4 characters, has 5");
    assert_int_equal(decode("{\"id\":\"\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\"}"),
                     0); /* characters, not bytes */
    assert_issue("{\"id\":\"A\"}", JSON_BAD_PATTERN, "id", "must match ^[a-z\xc3\xa9]+$");
    assert_issue("{\"id\":\"a\\n\"}", JSON_BAD_PATTERN, "id", "must match ^[a-z\xc3\xa9]+$");
    assert_issue("{\"id\":\"a\",\"mode\":\"rx\"}", JSON_BAD_CHOICE, "mode",
                 "must be one of: ro, rw");
    assert_issue("{\"id\":\"a\",\"timeout\":59}", JSON_OUT_OF_RANGE, "timeout",
                 "must be at least 60");
    assert_issue("{\"id\":\"a\",\"timeout\":\"60\"}", JSON_BAD_TYPE, "timeout",
                 "expected integer, got string");
    assert_issue("{\"id\":\"a\",\"timeout\":60.5}", JSON_BAD_TYPE, "timeout",
                 "expected integer, got number");
    assert_issue("{\"id\":\"a\",\"timeout\":1e300}", JSON_BAD_TYPE, "timeout",
                 "expected integer, got number");
    assert_issue("{\"id\":\"a\",\"timeout\":true}", JSON_BAD_TYPE, "timeout",
                 "expected integer, got boolean");
    assert_issue("{\"id\":\"a\",\"small\":6}", JSON_OUT_OF_RANGE, "small",
                 "must be between 0 and 5");
    assert_issue("{\"id\":\"a\",\"small\":-1}", JSON_OUT_OF_RANGE, "small",
                 "must be between 0 and 5");
    assert_issue("{\"id\":\"a\",\"ratio\":1.01}", JSON_OUT_OF_RANGE, "ratio",
                 "must be between -1 and 1");
    assert_issue("{\"id\":\"a\",\"ratio\":[]}", JSON_BAD_TYPE, "ratio",
                 "expected number, got array");
    assert_issue("{\"id\":\"a\",\"createdAt\":\"today\"}", JSON_BAD_TIME, "createdAt",
                 "must be an RFC 3339 date-time");
    assert_issue("{\"id\":\"a\",\"createdAt\":5}", JSON_BAD_TYPE, "createdAt",
                 "expected date-time string, got integer");
    assert_issue("{\"id\":\"a\",\"on\":null}", JSON_BAD_TYPE, "on", "must not be null");
    assert_issue("{\"id\":\"a\",\"on\":1}", JSON_BAD_TYPE, "on", "expected boolean, got integer");
    assert_issue("{\"id\":\"a\",\"args\":\"x\"}", JSON_BAD_TYPE, "args",
                 "expected array of strings, got string");
    assert_issue("{\"id\":\"a\",\"args\":[\"x\",null]}", JSON_BAD_TYPE, "args[1]",
                 "expected string, got null");
    assert_issue("{\"id\":\"a\",\"args\":[\"x\",\"y z\"]}", JSON_BAD_PATTERN, "args[1]",
                 "must match ^[^ ]*$");
    assert_issue("{\"id\":\"a\",\"args\":[\"\",\"\",\"\",\"\"]}", JSON_BAD_LENGTH, "args",
                 "must have at most 3 entries, has 4");
    assert_issue("{\"id\":\"a\",\"labels\":[]}", JSON_BAD_TYPE, "labels",
                 "expected object with string values, got array");
    assert_issue("{\"id\":\"a\",\"labels\":{\"x\":1}}", JSON_BAD_TYPE, "labels.x",
                 "expected string, got integer");
    assert_issue("{\"id\":\"a\",\"main\":[]}", JSON_BAD_TYPE, "main", "expected object, got array");
    assert_issue("{\"id\":\"a\",\"main\":{}}", JSON_MISSING, "main.number", "is required");
    assert_issue("{\"id\":\"a\",\"ports\":{}}", JSON_BAD_TYPE, "ports",
                 "expected array, got object");
    assert_issue("{\"id\":\"a\",\"ports\":[{\"number\":1},2]}", JSON_BAD_TYPE, "ports[1]",
                 "expected object, got integer");
    assert_issue("{\"id\":\"a\",\"ports\":[{\"number\":1},{\"number\":0}]}", JSON_OUT_OF_RANGE,
                 "ports[1].number", "must be between 1 and 65535");
    assert_issue("{\"id\":\"a\",\"main\":{\"number\":1,\"nam\":\"\"}}", JSON_UNKNOWN_FIELD,
                 "main.nam", "unknown field");
}

static void whole_numbers_may_have_a_fraction_of_zero(void **state)
{
    assert_int_equal(decode("{\"id\":\"a\",\"timeout\":61.0}"), 0);
    assert_int_equal(box.timeout.v, 61);
    assert_int_equal(decode("{\"id\":\"a\",\"timeout\":9223372036854775807}"), 0);
    assert_true(box.timeout.v == INT64_MAX);
}

static void lenient_fields(void **state)
{
    struct loose {
        struct opt_int n, at;
        struct opt_bool b;
    } v;
    static const struct json_field fields[] = {
        JSON_FIELD(struct loose, n, "n", JSON_F_INT, .lenient = true, .max = 9),
        JSON_FIELD(struct loose, at, "at", JSON_F_TIME, .lenient = true),
        JSON_FIELD(struct loose, b, "b", JSON_F_BOOL, .lenient = true),
        {0},
    };
    static const struct json_table t = {"Loose", sizeof(struct loose), fields};
    static const struct {
        const char *text;
        int64_t n, at, b; /* -1: absent */
    } good[] = {
        {"{\"n\":\"7\"}", 7, -1, -1},
        {"{\"n\":\" 7 \"}", 7, -1, -1},
        {"{\"n\":7.0}", 7, -1, -1},
        {"{\"at\":5}", -1, 5000000, -1},
        {"{\"at\":5.0}", -1, 5000000, -1},
        {"{\"at\":\"1970-01-02\"}", -1, 86400000000, -1},
        {"{\"at\":\"1970-01-01T00:00:01Z\"}", -1, 1000000, -1},
        {"{\"b\":\"Yes\"}", -1, -1, 1},
        {"{\"b\":0}", -1, -1, 0},
        {"{\"b\":\"F\"}", -1, -1, 0},
        {"{\"b\":true}", -1, -1, 1},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct json *j = json_parse(str_from(good[i].text), NULL);
        assert_int_equal(json_decode(&arena, &t, j, &v, NULL, NULL), 0);
        assert_int_equal(v.n.has ? v.n.v : -1, good[i].n);
        assert_int_equal(v.at.has ? v.at.v : -1, good[i].at);
        assert_int_equal(v.b.has ? v.b.v : -1, good[i].b);
        json_free(j);
    }
    static const char *const bad[] = {
        "{\"n\":\"x\"}",
        "{\"n\":\"\"}",
        "{\"n\":\"10\"}",
        "{\"n\":true}",
        "{\"at\":-1}",
        "{\"at\":1e300}",
        "{\"at\":1.5}",
        "{\"at\":\"1970-13-02\"}",
        "{\"at\":\"1970-1-02x\"}",
        "{\"b\":2}",
        "{\"b\":\"\"}",
        "{\"b\":\"maybe\"}",
        "{\"b\":1.0}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct json *j = json_parse(str_from(bad[i]), NULL);
        assert_int_equal(json_decode(&arena, &t, j, &v, NULL, NULL), -1);
        json_free(j);
    }
}

static void keys_in_another_case(void **state)
{
    assert_int_equal(decode("{\"id\":\"a\",\"NICKNAME\":\"x\"}"), 0);
    assert_string_equal(box.nick, "x");
    assert_int_equal(decode("{\"id\":\"a\",\"NICKNAME\":\"x\",\"nickName\":\"exact\"}"), 0);
    assert_string_equal(box.nick, "exact");
    assert_issue("{\"ID\":\"a\"}", JSON_MISSING, "id", "is required"); /* only where allowed */
    struct json_table any_case = box_table;
    any_case.ignore_case = true;
    any_case.unknown = JSON_UNKNOWN_ERROR;
    struct json *j = json_parse(STR("{\"ID\":\"a\",\"Nick_Name\":\"b\"}"), NULL);
    assert_int_equal(json_decode(&arena, &any_case, j, &box, NULL, NULL), 0);
    assert_string_equal(box.nick, "b");
    json_free(j);
}

static void collects_all_issues_up_to_a_limit(void **state)
{
    assert_int_equal(decode("{\"id\":5,\"mode\":\"x\",\"small\":9,\"ports\":[{},{\"number\":0}]}"),
                     -1);
    assert_int_equal(issues.n, 5);
    assert_string_equal(issues.v[4].path, "ports[1].number");
    assert_string_equal(e.msg, "id: expected string, got integer");

    struct buf text = BUF_INIT(10000);
    buf_add_cstr(&text, "{\"main\":{");
    for (int i = 0; i < 100; i++) {
        buf_printf(&text, "%s\"k%d\":1", i ? "," : "", i);
    }
    buf_add_cstr(&text, "},\"id\":\"a\"}");
    assert_int_equal(decode(buf_cstr(&text)), -1);
    assert_int_equal(issues.n, JSON_MAX_ISSUES);
    buf_done(&text);

    json_issue_add(&arena, &issues, JSON_BAD_VALUE, "x", "no room for %d", 1); /* dropped */
    assert_int_equal(issues.n, JSON_MAX_ISSUES);
    issues.n = 0;
    json_issue_add(&arena, &issues, JSON_BAD_VALUE, "spec.cpu", "%d is odd", 3);
    assert_int_equal(issues.n, 1);
    assert_string_equal(issues.v[0].path, "spec.cpu");
    assert_string_equal(issues.v[0].msg, "3 is odd");
}

static void long_keys_are_cut_in_paths(void **state)
{
    struct buf text = BUF_INIT(100000);
    buf_add_cstr(&text, "{\"id\":\"a\",\"main\":{\"number\":1,\"");
    for (int i = 0; i < 20000; i++) {
        buf_add_cstr(&text, "\xe2\x82\xac");
    }
    buf_add_cstr(&text, "\":1}}");
    assert_int_equal(decode(buf_cstr(&text)), -1);
    assert_true(strlen(issues.v[0].path) < 150);
    assert_true(str_ends(str_from(issues.v[0].path), STR("\xe2\x82\xac...")));
    buf_done(&text);
}

/* Small text, large structs: must be refused, not abort. */
static void large_input_is_an_issue(void **state)
{
    struct json_field fields[] = {
        JSON_FIELD(struct box, ports, "ports", JSON_F_OBJ_LIST, .sub = &port_table),
        JSON_FIELD(struct box, args, "args", JSON_F_STR_LIST),
        JSON_FIELD(struct box, labels, "labels", JSON_F_STR_MAP),
        {0},
    };
    struct json_table t = {"T", sizeof(struct box), fields};
    static const char *const starts[] = {"{\"ports\":[", "{\"args\":[", "{\"labels\":{"};
    for (int kind = 0; kind < 3; kind++) {
        struct buf text = BUF_INIT(1000000);
        buf_add_cstr(&text, starts[kind]);
        for (int i = 0; i < 1000; i++) {
            buf_add_cstr(&text, i ? "," : "");
            if (kind == 0) {
                buf_add_cstr(&text, "{\"number\":1,\"name\":\"some name of some length\"}");
            } else if (kind == 1) {
                buf_add_cstr(&text, "\"argument of some length\"");
            } else {
                buf_printf(&text, "\"k%d\":\"value of some length\"", i);
            }
        }
        buf_add_cstr(&text, kind == 2 ? "}}" : "]}");
        struct json *j = json_parse(buf_str(&text), NULL);
        assert_non_null(j);
        for (size_t max = 64; max < 35000; max = max * 3 / 2) {
            struct arena small = {.max = max};
            struct err why = {0};
            int r = json_decode(&small, &t, j, &box, &issues, &why);
            assert_int_equal(r, -1);
            assert_int_equal(why.code, ERR_LIMIT);
            assert_true(issues.n >= 1);
            arena_done(&small);
        }
        struct arena enough = {.max = 1u << 20};
        assert_int_equal(json_decode(&enough, &t, j, &box, &issues, NULL), 0);
        arena_done(&enough);
        json_free(j);
        buf_done(&text);
    }
}

static const char *encode(const void *in)
{
    static struct buf b = {.max = 10000};
    struct json_out o;
    buf_clear(&b);
    json_out_init(&o, &b);
    json_encode(&o, &box_table, in);
    assert_false(buf_failed(&b));
    return buf_cstr(&b);
}

static void encodes(void **state)
{
    assert_string_equal(encode(&(struct box){0}), "{\"timeout\":null}");
    struct json *extra = json_parse(STR("[1,{\"k\":null}]"), NULL);
    static const char *args[] = {"a", "b"};
    static struct str_pair pairs[] = {{"k", "v"}};
    struct port ports[] = {{{true, 1}, ""}, {{true, 2}, "n"}};
    struct box full = {
        .id = "x\"",
        .mode = "",
        .timeout = {true, 0},
        .small = {true, 0},
        .created = {true, 1000000},
        .ratio = {true, 0.5},
        .on = {true, false},
        .args = {args, 2},
        .labels = {pairs, 1, false},
        .main = ports,
        .ports = {ports, 2, false},
        .extra = extra,
    };
    assert_string_equal(
        encode(&full),
        "{\"id\":\"x\\\"\",\"mode\":\"\",\"timeout\":0,\"createdAt\":\"1970-01-01T00:00:01Z\","
        "\"ratio\":0.5,\"on\":false,\"args\":[\"a\",\"b\"],\"labels\":{\"k\":\"v\"},"
        "\"main\":{\"number\":1},\"ports\":[{\"number\":1},{\"number\":2,\"name\":\"n\"}],"
        "\"extra\":[1,{\"k\":null}]}");
    json_free(extra);
    struct box empty = {
        .args = {args, 0}, .labels.has = true, .ports.has = true, .created = {true, 1}};
    assert_string_equal(encode(&empty),
                        "{\"timeout\":null,\"createdAt\":\"1970-01-01T00:00:00.000001Z\","
                        "\"args\":[],\"labels\":{},\"ports\":[]}");
}

static void round_trip(void **state)
{
    static const char text[] =
        "{\"id\":\"ab\",\"mode\":\"ro\",\"nickName\":\"\xe2\x82\xac\",\"timeout\":100,\"small\":5,"
        "\"createdAt\":\"2026-01-02T03:04:05.678901Z\",\"ratio\":-0.125,\"on\":true,"
        "\"args\":[\"x\"],\"labels\":{\"\":\"\"},\"main\":{\"number\":80,\"name\":\"web\"},"
        "\"ports\":[]}";
    assert_int_equal(decode(text), 0);
    assert_string_equal(encode(&box), text);
}

static int teardown(void **state)
{
    arena_done(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decodes_everything),
        cmocka_unit_test(absent_and_null_are_alike),
        cmocka_unit_test(finds_each_kind_of_issue),
        cmocka_unit_test(whole_numbers_may_have_a_fraction_of_zero),
        cmocka_unit_test(lenient_fields),
        cmocka_unit_test(keys_in_another_case),
        cmocka_unit_test(collects_all_issues_up_to_a_limit),
        cmocka_unit_test(long_keys_are_cut_in_paths),
        cmocka_unit_test(large_input_is_an_issue),
        cmocka_unit_test(encodes),
        cmocka_unit_test(round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
