#include "json/yaml.h"

#include <errno.h>
#include <stdio.h>

#include "dumped.h"

static void assert_yaml(struct str text, const char *want)
{
    struct err e = {0};
    assert_dumped(text, yaml_parse(text, &e), &e, want);
}
#define IS(text, want) assert_yaml(STR(text), want)

static void assert_refused(struct str text, const char *why, const char *file, int line)
{
    struct err e = {0};
    struct json *j = yaml_parse(text, &e);
    if (j || !strstr(e.msg, why)) {
        print_error("%.*s: %s\n", STR_FMT(text), j ? "accepted" : e.msg);
        json_free(j);
        _fail(file, line);
    }
    assert_null(yaml_parse(text, NULL));
}
#define BAD(text, why) assert_refused(STR(text), why, __FILE__, __LINE__)

static void structures(void **state)
{
    IS("a: 1\nb:\n  - x\n  - y: 2\n    z: 3\nc: {d: [1, 2], e: {}}\n",
       "{\"a\":1,\"b\":[\"x\",{\"y\":2,\"z\":3}],\"c\":{\"d\":[1,2],\"e\":{}}}");
    IS("- - 1\n  - 2\n-\n- []\n", "[[1,2],null,[]]");
    IS("--- \na: b\n...\n", "{\"a\":\"b\"}");
    IS("", "null");
    IS("# nothing\n", "null");
    IS("---\n", "null");
    IS("{\"a\": \"b\", \"c\": [1, true, null]}", "{\"a\":\"b\",\"c\":[1,true,null]}");
    IS("? a\n: b\n? c\n", "{\"a\":\"b\",\"c\":null}");
    IS("\xef\xbb\xbf"
       "a: 1",
       "{\"a\":1}");
}

static void scalars(void **state)
{
    IS("[~, null, Null, NULL, ]", "[null,null,null,null]");
    IS("[true, True, TRUE, false, tRue, yes, No, on, off, y]",
       "[true,true,true,false,\"tRue\",\"yes\",\"No\",\"on\",\"off\",\"y\"]");
    IS("[0, -1, +2, 0x1F, 0o17, 0644, -010, 00, 089, 1_000]",
       "[0,-1,2,31,15,420,-8,0,89,\"1_000\"]");
    IS("[9223372036854775807, -9223372036854775808]", "[9223372036854775807,-9223372036854775808]");
    IS("[1.5, -1., .5, +.5, 1e3, 1E-2, 01.5, 685.230_15]",
       "[1.5,-1.0,0.5,0.5,1000.0,0.01,1.5,\"685.230_15\"]");
    IS("[., +, -, 1.2.3, e3, .e3, 0x, 0xg, .inf, .nan, 12:30]",
       "[\".\",\"+\",\"-\",\"1.2.3\",\"e3\",\".e3\",\"0x\",\"0xg\",\".inf\",\".nan\",\"12:30\"]");
    IS("['1', \"2\", 'it''s', \"\\u00e9\\x41\\n\"]", "[\"1\",\"2\",\"it's\",\"\xc3\xa9"
                                                     "A\\n\"]");
    IS("a: |\n  x\n  y\nb: >\n  x\n  y\nc: |-\n  z\nd: plain\n  folded",
       "{\"a\":\"x\\ny\\n\",\"b\":\"x y\\n\",\"c\":\"z\",\"d\":\"plain folded\"}");
    IS("2001-01-01", "\"2001-01-01\"");
    IS("1: a\ntrue: b\n~: c\n1.50: d", "{\"1\":\"a\",\"true\":\"b\",\"~\":\"c\",\"1.50\":\"d\"}");
    BAD("9223372036854775808", "out of range");
    BAD("0xffffffffffffffff", "out of range");
    BAD("a: -9223372036854775809", "line 1 column 4: integer out of range");
}

static void tags(void **state)
{
    IS("[!!str 1, !!int 5, !!float 1, !!bool true, !!null ~, ! 7, !!str true]",
       "[\"1\",5,1.0,true,null,\"7\",\"true\"]");
    IS("!!map {a: !!seq [1]}", "{\"a\":[1]}");
    IS("!!int '5'", "5");
    BAD("!!int x", "does not fit");
    BAD("!!bool 1", "does not fit");
    BAD("!custom x", "custom tags");
    BAD("!!binary aGk=", "custom tags");
    BAD("!!python/object:os.system [x]", "custom tags");
    BAD("!!set {a}", "custom tags");
    BAD("!!seq {a: 1}", "custom tags");
}

static void anchors(void **state)
{
    IS("a: &x {k: [1]}\nb: *x\nc: &y 5\nd: *y",
       "{\"a\":{\"k\":[1]},\"b\":{\"k\":[1]},\"c\":5,\"d\":5}");
    IS("- &x 1\n- &x 2\n- *x", "[1,2,2]");
    BAD("a: *x", "unknown alias");
    BAD("&x [*x]", "unknown alias");
    BAD("&x {a: *x}", "unknown alias");
    BAD("a: &x 1\n<<: *x", "merge keys");
    BAD("a: &x 1\n*x : 2", "alias cannot be a key");
    BAD("&x a: 1", "anchor");
    IS("'<<': 1", "{\"<<\":1}");
    struct err e = {0};
    assert_null(
        yaml_parse_all(STR("--- &x 1\n--- *x\n"), &e)); /* an anchor ends with its document */
}

static void refuses(void **state)
{
    BAD("a: 1\na: 2", "twice");
    BAD("{a: 1, 'a': 2}", "twice");
    BAD("? [1]\n: 2", "cannot be a key");
    BAD("? {a: 1}\n: 2", "cannot be a key");
    BAD("{[1]: 2}", "cannot be a key");
    BAD("a: 1\n b: 2", "line 2");
    BAD("[1", "line");
    BAD("a: \"x", "line");
    BAD("\ta: 1", "line 1");
    BAD("a: \"\\0\"", "NUL");
    BAD("\"\\0\": 1", "NUL");
    BAD("a: \xff", "line");
    BAD("a: \x01", "line");
    BAD("--- 1\n--- 2", "more than one document");
    BAD("%YAML 9.0\n--- 1", "line");
    BAD("@", "line");
}

static void many_documents(void **state)
{
    struct json *j = yaml_parse_all(STR("a: 1\n---\n- 2\n---\n"), NULL);
    assert_int_equal(json_len(j), 3);
    assert_int_equal(json_int(json_get(json_item(j, 0), "a"), 0), 1);
    assert_true(json_is_null(json_item(j, 2)));
    json_free(j);
    j = yaml_parse_all(STR(""), NULL);
    assert_int_equal(json_len(j), 0);
    json_free(j);
}

static void limits(void **state)
{
    struct err e = {0};
    struct json *j = yaml_parse(
        STR("a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            "b: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\n"
            "d: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]\n"
            "f: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"),
        &e);
    assert_null(j);
    assert_int_equal(e.code, ERR_LIMIT);
    assert_non_null(strstr(e.msg, "too many nodes"));

    struct buf b = BUF_INIT(8u << 20);
    for (int n = JSON_MAX_DEPTH - 1; n <= JSON_MAX_DEPTH + 1; n++) {
        buf_clear(&b);
        for (int i = 0; i < n; i++) {
            buf_add_char(&b, '[');
        }
        for (int i = 0; i < n; i++) {
            buf_add_char(&b, ']');
        }
        j = yaml_parse(buf_str(&b), &e);
        assert_int_equal(j != NULL, n <= JSON_MAX_DEPTH);
        json_free(j);
    }
    /* an alias inside an alias inside ... is deep too */
    buf_clear(&b);
    buf_add_cstr(&b, "a0: &a0 [1]\n");
    for (int i = 1; i < 100; i++) {
        buf_printf(&b, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    }
    assert_null(yaml_parse(buf_str(&b), &e));
    assert_non_null(strstr(e.msg, "nested too deeply"));
    /* hostile nesting is refused at once */
    buf_clear(&b);
    for (int i = 0; i < 1000000; i++) {
        buf_add_char(&b, i % 2 ? '{' : '[');
    }
    assert_null(yaml_parse(buf_str(&b), &e));
    while (b.len <= (4u << 20)) {
        buf_add_char(&b, '#');
    }
    assert_null(yaml_parse(buf_str(&b), &e));
    assert_int_equal(e.code, ERR_LIMIT);
    buf_done(&b);
}

static void dump_is(const char *json, const char *want)
{
    struct err e = {0};
    struct json *j = json_parse(str_from(json), &e);
    assert_non_null(j);
    struct buf b = BUF_INIT(10000);
    assert_int_equal(yaml_dump(j, &b), 0);
    assert_string_equal(buf_cstr(&b), want);
    buf_done(&b);
    json_free(j);
}

static void dumps_for_people(void **state)
{
    dump_is("{\"a\":1,\"b\":[\"x\",{\"p\":2,\"z\":[]}],\"c\":{}}",
            "a: 1\nb:\n- x\n- p: 2\n  z: []\nc: {}\n");
    dump_is("[[1,[2]],{\"a\":{\"b\":null}}]", "- - 1\n  - - 2\n- a:\n    b: null\n");
    dump_is("\"x\"", "x\n");
    dump_is("1.0", "1.0\n");
    dump_is("{}", "{}\n");
    dump_is("{\"image\":\"python:3.11-slim\",\"cmd\":\"sleep "
            "10\",\"mem\":\"512Mi\",\"u\":\"http://h:1/p?q\"}",
            "image: python:3.11-slim\ncmd: sleep 10\nmem: 512Mi\nu: 'http://h:1/p?q'\n");
    dump_is("{\"s\":\"a\\nb\\n\",\"t\":\"a\\n b\",\"u\":\"a\\n\\n\",\"w\":[\"x\\ny\\n\"]}",
            "s: |\n  a\n  b\nt: |-\n  a\n   b\nu: |+\n  a\n\nw:\n- |\n  x\n  y\n");
    dump_is("[\"\",\"yes\",\"1\",\"0x1\",\"1e3\",\"null\",\"~\",\"- a\",\"a: b\",\"a #b\",\" "
            "a\",\"a \",\"<<\",\"12:30:00\",\"2001-01-01\"]",
            "- ''\n- 'yes'\n- '1'\n- '0x1'\n- '1e3'\n- 'null'\n- '~'\n- '- a'\n- "
            "'a: b'\n- 'a #b'\n- ' a'\n"
            "- 'a '\n- '<<'\n- '12:30:00'\n- '2001-01-01'\n");
    dump_is("[\"-la\",\"--\",\"-\",\"it's\",\"-1\",\"a\\tb'\"]",
            "- -la\n- '--'\n- '-'\n- 'it''s'\n- '-1'\n- \"a\\tb'\"\n");
    struct json *j = json_parse(STR("{\"a\":1}"), NULL);
    struct buf small = BUF_INIT(3);
    assert_int_equal(yaml_dump(j, &small), -ENOSPC);
    buf_done(&small);
    json_free(j);
}

/* Trees with every kind of odd string. */
static struct json *random_tree(uint64_t *seed, int depth)
{
    static const char *const pieces[] = {"a",
                                         "key",
                                         " ",
                                         "\n",
                                         ":",
                                         "#",
                                         "-",
                                         "1",
                                         "yes",
                                         "\t",
                                         "\"",
                                         "'",
                                         "\\",
                                         "{",
                                         "[",
                                         "&",
                                         "*",
                                         "!",
                                         "|",
                                         ">",
                                         "%",
                                         "@",
                                         "`",
                                         "\r",
                                         "\x7f",
                                         "? ",
                                         ": ",
                                         " #",
                                         "...",
                                         "---",
                                         "\xc2\x85",
                                         "\xe2\x80\xa8",
                                         "\xc2\xa0",
                                         "\xef\xbb\xbf",
                                         "\xf0\x9f\x98\x80",
                                         "\x01",
                                         "0x",
                                         ".",
                                         "e3",
                                         "null"};
    uint32_t kind = test_rand(seed) % (depth > 0 ? 10 : 7);
    struct buf text = BUF_INIT(10000);
    unsigned n = test_rand(seed) % 6;
    for (unsigned i = 0; i < n; i++) {
        buf_add_cstr(&text, pieces[test_rand(seed) % (sizeof(pieces) / sizeof(pieces[0]))]);
    }
    struct json *j = NULL;
    if (kind < 4) {
        j = json_string_new(buf_str(&text));
    } else if (kind == 4) {
        j = json_int_new((int64_t)test_rand(seed) - (1 << 30));
    } else if (kind == 5) {
        j = test_rand(seed) % 2 ? json_num_new((int32_t)test_rand(seed) / 997.0)
                                : json_num_new(1e22);
    } else if (kind == 6) {
        j = test_rand(seed) % 2 ? json_null_new() : json_bool_new(test_rand(seed) % 2);
    } else if (kind == 7) {
        j = json_array_new();
        for (unsigned i = 0; i < n; i++) {
            json_push(j, random_tree(seed, depth - 1));
        }
    } else {
        j = json_object_new();
        for (unsigned i = 0; i < n; i++) {
            struct json *key = random_tree(seed, 0);
            json_set(j, json_is_string(key) ? json_cstr(key) : "k", random_tree(seed, depth - 1));
            json_free(key);
        }
    }
    buf_done(&text);
    return j;
}

static void dump_reads_back(void **state)
{
    uint64_t seed = 51;
    for (int i = 0; i < 20000; i++) {
        struct json *j = random_tree(&seed, 4);
        struct buf b = BUF_INIT(1u << 20);
        assert_int_equal(yaml_dump(j, &b), 0);
        struct err e = {0};
        struct json *back = yaml_parse(buf_str(&b), &e);
        if (!json_eq(j, back)) {
            struct buf js = BUF_INIT(1u << 20);
            (void)json_dump(j, &js, 0);
            print_error("%s\n--\n%s\n--\n%s\n", buf_cstr(&js), buf_cstr(&b), e.msg);
            fail();
        }
        json_free(j);
        json_free(back);
        buf_done(&b);
    }
}

static void long_keys_read_back(void **state)
{
    for (int n = 500; n < 3000; n += 250) {
        struct buf key = BUF_INIT(10000), b = BUF_INIT(100000);
        for (int i = 0; i < n; i++) {
            buf_add_char(&key, i % 50 == 49 ? ' ' : 'k');
        }
        buf_add_char(&key, '.');
        struct json *j = json_object_new();
        struct json *inner = json_object_new();
        json_set(inner, buf_cstr(&key), json_int_new(1));
        json_set(j, buf_cstr(&key), inner);
        json_set(j, "after", json_string_new(STR("a\nb")));
        assert_int_equal(yaml_dump(j, &b), 0);
        struct json *back = yaml_parse(buf_str(&b), NULL);
        assert_true(back && json_eq(j, back));
        json_free(back);
        json_free(j);
        buf_done(&key);
        buf_done(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(structures),
        cmocka_unit_test(scalars),
        cmocka_unit_test(tags),
        cmocka_unit_test(anchors),
        cmocka_unit_test(refuses),
        cmocka_unit_test(many_documents),
        cmocka_unit_test(limits),
        cmocka_unit_test(dumps_for_people),
        cmocka_unit_test(dump_reads_back),
        cmocka_unit_test(long_keys_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
