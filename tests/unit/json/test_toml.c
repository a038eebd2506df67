#include "json/toml.h"

#include <stdio.h>

#include "dumped.h"

static void assert_toml(struct str text, const char *want)
{
    struct err e = {0};
    assert_dumped(text, toml_parse(text, &e), &e, want);
}
#define IS(text, want) assert_toml(STR(text), want)

static void assert_refused(struct str text, const char *file, int line)
{
    struct err e = {0};
    struct json *j = toml_parse(text, &e);
    if (j) {
        print_error("accepted: %.*s\n", STR_FMT(text));
        json_free(j);
        _fail(file, line);
    }
    assert_int_equal(e.code, ERR_INVALID);
    assert_memory_equal(e.msg, "line ", 5);
    assert_null(toml_parse(text, NULL));
}
#define BAD(text) assert_refused(STR(text), __FILE__, __LINE__)

static void keys(void **state)
{
    IS("", "{}");
    IS("\xef\xbb\xbf# with a mark\na=1", "{\"a\":1}");
    IS("key = \"value\"", "{\"key\":\"value\"}");
    IS("bare_key = 1\nbare-key = 2\n1234 = 3", "{\"bare_key\":1,\"bare-key\":2,\"1234\":3}");
    IS("\"127.0.0.1\" = 1\n'quoted \"value\"' = 2\n\"\\u00e9\" = 3\n\"\" = 4\n",
       "{\"127.0.0.1\":1,\"quoted \\\"value\\\"\":2,\"\xc3\xa9\":3,\"\":4}");
    IS("a.b.c = 1\na . b . \"d.e\" = 2\n3.14159 = 3",
       "{\"a\":{\"b\":{\"c\":1,\"d.e\":2}},\"3\":{\"14159\":3}}");
    IS("fruit.apple.x = 1\nother = 2\nfruit.orange = 3",
       "{\"fruit\":{\"apple\":{\"x\":1},\"orange\":3},\"other\":2}");
    BAD("key = # INVALID");
    BAD("= 1");
    BAD("key");
    BAD("key 1");
    BAD("a b = 1");
    BAD("a..b = 1");
    BAD(".a = 1");
    BAD("a. = 1");
    BAD("a = 1 b = 2");
    BAD("a = 1\na = 2");
    BAD("a = 1\n\"a\" = 2");
    BAD("a = 1\na.b = 2");
    BAD("a.b = 1\na = 2");
    BAD("a.b = 1\na.b.c = 2");
    BAD("\"\"\"a\"\"\" = 1");
    BAD("k\xc3\xa9y = 1");
    BAD("a\n= 1");
    BAD("a =\n1");
    BAD("a = 1 = 2");
}

static void comments_and_line_ends(void **state)
{
    IS("# full\n\na = 1 # tail\r\n\t b = \"# no\"\t# \xe2\x82\xac tab\t.",
       "{\"a\":1,\"b\":\"# no\"}");
    BAD("a = 1 # \x01");
    BAD("a = 1 # \x7f");
    BAD("# \r bare\na = 1");
    BAD("a = 1\rb = 2");
    BAD("a = 1 # x\r");
    BAD("a = \"\xff\"");
    BAD("# \xed\xa0\x80");
    BAD("a = 1\0");
    BAD("\xef\xbb\xbf\xef\xbb\xbf");
}

static void strings(void **state)
{
    IS("a = \"\\b\\t\\n\\f\\r\\\"\\\\ \\u00E9 \\U0001F600\"",
       "{\"a\":\"\\b\\t\\n\\f\\r\\\"\\\\ \xc3\xa9 \xf0\x9f\x98\x80\"}");
    IS("a = 'C:\\Users\\n'", "{\"a\":\"C:\\\\Users\\\\n\"}");
    IS("a = \"\"\"\nRoses\nViolets\"\"\"", "{\"a\":\"Roses\\nViolets\"}");
    IS("a = \"\"\"\r\nRoses\r\nViolets\"\"\"", "{\"a\":\"Roses\\nViolets\"}");
    IS("a = \"\"\"\\\n   The quick \\\n\n\n  brown\\   \n fox.\\\n   \"\"\"",
       "{\"a\":\"The quick brownfox.\"}");
    IS("a = \"\"\"\"one\" and \"\"two\"\"\"\"\"",
       "{\"a\":\"\\\"one\\\" and \\\"\\\"two\\\"\\\"\"}");
    IS("a = \"\"\"x\\\"\"\"\\\"y\"\"\"", "{\"a\":\"x\\\"\\\"\\\"\\\"y\"}");
    IS("a = '''\nI [dw]on't \\need\n'''", "{\"a\":\"I [dw]on't \\\\need\\n\"}");
    IS("a = ''''that,' she said'''''", "{\"a\":\"'that,' she said''\"}");
    IS("a = \"\"\nb = ''\nc = \"\"\"\"\"\"\nd = ''''''",
       "{\"a\":\"\",\"b\":\"\",\"c\":\"\",\"d\":\"\"}");
    IS("a = \"tab\there\"", "{\"a\":\"tab\\there\"}");
    BAD("a = \"");
    BAD("a = \"x");
    BAD("a = \"x\n\"");
    BAD("a = 'x\n'");
    BAD("a = \"\"\"x");
    BAD("a = \"\"\"x\"\"");
    BAD("a = '''x''");
    BAD("a = \"\"\"x\"\"\"\"\"\"");
    BAD("a = ''''''''''");
    BAD("a = \"\\x41\"");
    BAD("a = \"\\e\"");
    BAD("a = \"\\ \"");
    BAD("a = \"\\u12\"");
    BAD("a = \"\\u12G4\"");
    BAD("a = \"\\ud800\"");
    BAD("a = \"\\U00110000\"");
    BAD("a = \"\\U0000000\"");
    BAD("a = \"\\u0000\"");
    BAD("a = \"\x01\"");
    BAD("a = '\x7f'");
    BAD("a = \"\"\"\x0b\"\"\"");
    BAD("a = \"\"\"x\ry\"\"\"");
    BAD("a = \"\"\"\\ x\"\"\"");
    BAD("a = \"x\" \"y\"");
    BAD("a = 'it''s'");
}

static void integers(void **state)
{
    IS("a=+99\nb=42\nc=0\nd=-17\ne=+0\nf=-0",
       "{\"a\":99,\"b\":42,\"c\":0,\"d\":-17,\"e\":0,\"f\":0}");
    IS("a=1_000\nb=5_349_221\nc=1_2_3", "{\"a\":1000,\"b\":5349221,\"c\":123}");
    IS("a=0xDEADBEEF\nb=0xdead_beef\nc=0o755\nd=0b1101_0110\ne=0x00",
       "{\"a\":3735928559,\"b\":3735928559,\"c\":493,\"d\":214,\"e\":0}");
    IS("a=9223372036854775807\nb=-9223372036854775808\nc=0x7fffffffffffffff",
       "{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":9223372036854775807}");
    BAD("a=9223372036854775808");
    BAD("a=-9223372036854775809");
    BAD("a=0x8000000000000000");
    BAD("a=0xffffffffffffffffffffff");
    BAD("a=01");
    BAD("a=-01");
    BAD("a=+01");
    BAD("a=0_1");
    BAD("a=00");
    BAD("a=1__0");
    BAD("a=_1");
    BAD("a=1_");
    BAD("a=+_1");
    BAD("a=0x");
    BAD("a=0x_1");
    BAD("a=0x1_");
    BAD("a=0xg");
    BAD("a=0o8");
    BAD("a=0b2");
    BAD("a=+0x1");
    BAD("a=-0b1");
    BAD("a=0X1");
    BAD("a=++1");
    BAD("a=+-1");
    BAD("a=--1");
    BAD("a=+");
    BAD("a=1a");
    BAD("a=1 000");
}

static void floats(void **state)
{
    IS("a=+1.0\nb=3.1415\nc=-0.01\nd=5e+22\ne=1e06\nf=-2E-2\ng=6.626e-34",
       "{\"a\":1.0,\"b\":3.1415,\"c\":-0.01,\"d\":5e+22,\"e\":1000000.0,\"f\":-0.02,\"g\":6.626e-"
       "34}");
    IS("a=224_617.445_991_228\nb=1_0e1_0\nc=0.0\nd=-0.0\ne=0e0",
       "{\"a\":224617.445991228,\"b\":100000000000.0,\"c\":0.0,\"d\":-0.0,\"e\":0.0}");
    IS("a=inf\nb=+inf\nc=-inf\nd=nan\ne=+nan\nf=-nan",
       "{\"a\":\"inf\",\"b\":\"inf\",\"c\":\"-inf\",\"d\":\"nan\",\"e\":\"nan\",\"f\":\"nan\"}");
    BAD("a=.7");
    BAD("a=7.");
    BAD("a=3.e+20");
    BAD("a=1.e1");
    BAD("a=1e");
    BAD("a=1e+");
    BAD("a=1e1.5");
    BAD("a=1_.0");
    BAD("a=1._0");
    BAD("a=1.0_");
    BAD("a=1e_1");
    BAD("a=1_e1");
    BAD("a=01.0");
    BAD("a=1.0.0");
    BAD("a=1e999");
    BAD("a=Inf");
    BAD("a=NaN");
    BAD("a=+.5");
    BAD("a=infinity");
}

static void booleans_and_words(void **state)
{
    IS("a=true\nb=false", "{\"a\":true,\"b\":false}");
    BAD("a=True");
    BAD("a=FALSE");
    BAD("a=truee");
    BAD("a=yes");
    BAD("a=null");
    BAD("a=word");
    BAD("a=");
}

static void dates(void **state)
{
    IS("a=1979-05-27T07:32:00Z\nb=1979-05-27T00:32:00.999999-07:00\nc=1979-05-27 07:32:00z",
       "{\"a\":\"1979-05-27T07:32:00Z\",\"b\":\"1979-05-27T00:32:00.999999-07:00\",\"c\":\"1979-05-"
       "27T07:32:00Z\"}");
    IS("a=1979-05-27T07:32:00\nb=1979-05-27t00:32:00.5\nc=1979-05-27\nd=07:32:00\ne=00:32:00.999 # "
       "x",
       "{\"a\":\"1979-05-27T07:32:00\",\"b\":\"1979-05-27T00:32:00.5\",\"c\":\"1979-05-27\",\"d\":"
       "\"07:32:00\",\"e\":\"00:32:00.999\"}");
    IS("a=1979-05-27 # a day\nb=[1979-05-27 ,07:32:00]\nc=2000-02-29\nd=1990-12-31T23:59:60Z",
       "{\"a\":\"1979-05-27\",\"b\":[\"1979-05-27\",\"07:32:00\"],\"c\":\"2000-02-29\",\"d\":"
       "\"1990-12-31T23:59:60Z\"}");
    BAD("a=1979-13-27");
    BAD("a=1979-00-27");
    BAD("a=1979-05-32");
    BAD("a=1979-05-00");
    BAD("a=2001-02-29");
    BAD("a=1900-02-29");
    BAD("a=1979-5-27");
    BAD("a=79-05-27");
    BAD("a=1979-05-27T");
    BAD("a=1979-05-27T07:32");
    BAD("a=1979-05-27T07:32Z");
    BAD("a=1979-05-27T24:00:00Z");
    BAD("a=1979-05-27T07:60:00Z");
    BAD("a=1979-05-27T07:32:61Z");
    BAD("a=1979-05-27T07:32:00.Z");
    BAD("a=1979-05-27T07:32:00+25:00");
    BAD("a=1979-05-27T07:32:00+07:60");
    BAD("a=1979-05-27T07:32:00+07");
    BAD("a=1979-05-27T07:32:00+0700");
    BAD("a=1979-05-27T07:32:00ZZ");
    BAD("a=1979-05-27  07:32:00");
    BAD("a=1979-05-2707:32:00");
    BAD("a=07:32");
    BAD("a=7:32:00");
    BAD("a=24:00:00");
    BAD("a=07:32:00Z");
    BAD("a=07:32:00.");
}

static void arrays(void **state)
{
    IS("a=[]\nb=[ 1, 2 , 3 ]\nc=[1,]\nd=[[1,2],[\"a\",'b']]",
       "{\"a\":[],\"b\":[1,2,3],\"c\":[1],\"d\":[[1,2],[\"a\",\"b\"]]}");
    IS("a=[ # c\n 1,\n# c, ]\n 2 # c\n , # c\n\n]", "{\"a\":[1,2]}");
    IS("a=[1, 2.0, \"x\", {b=1}, [true]]", "{\"a\":[1,2.0,\"x\",{\"b\":1},[true]]}");
    BAD("a=[");
    BAD("a=[1");
    BAD("a=[1,");
    BAD("a=[,]");
    BAD("a=[,1]");
    BAD("a=[1,,2]");
    BAD("a=[1 2]");
    BAD("a=[1}");
    BAD("a=[1]]");
    BAD("a=[1] 2");
    BAD("a=[1]\n[a]");
    BAD("a=[{b=1}]\n[a.c]");
    BAD("a=[]\n[[a]]");
    BAD("a=[{}]\n[[a]]");
}

static void tables(void **state)
{
    IS("[a]\nx=1\n[b]\ny=2\n", "{\"a\":{\"x\":1},\"b\":{\"y\":2}}");
    IS("[a.b.c]\n[ d . \"e.f\" ]\n[ \t g ] # c",
       "{\"a\":{\"b\":{\"c\":{}}},\"d\":{\"e.f\":{}},\"g\":{}}");
    IS("[x.y.z.w]\n[x]\na=1", "{\"x\":{\"y\":{\"z\":{\"w\":{}}},\"a\":1}}");
    IS("[fruit]\napple.color=1\napple.taste.sweet=true\n[fruit.apple.texture]\nsmooth=true",
       "{\"fruit\":{\"apple\":{\"color\":1,\"taste\":{\"sweet\":true},\"texture\":{\"smooth\":true}"
       "}}}");
    IS("[a.b]\nx=1\n[a]\ny=2\nc.d=3", "{\"a\":{\"b\":{\"x\":1},\"y\":2,\"c\":{\"d\":3}}}");
    BAD("[a]\n[a]");
    BAD("[a]\nb=1\n[a.b]");
    BAD("[a]\nb.c=1\n[a.b]");
    BAD("[fruit]\napple.taste.sweet=true\n[fruit.apple.taste]");
    BAD("a.b=1\n[a]");
    BAD("[a.b]\nx=1\n[a]\nb.y=2");
    BAD("[a.b.c]\nz=9\n[a]\nb.c.t=1");
    BAD("[a.b.c.d]\nz=9\n[a]\nb.c.d.k.t=1");
    BAD("[a]\nb.c=1\n[x]\n[a.b]");
    BAD("a=1\n[a]");
    BAD("a=1\n[a.b]");
    BAD("[]");
    BAD("[a");
    BAD("[a]]");
    BAD("[a.]");
    BAD("[.a]");
    BAD("[a..b]");
    BAD("[a b]");
    BAD("[a]b=1");
    BAD("[a] x");
    BAD("[\na]");
    BAD("[a\n]");
    BAD("[ [a] ]");
    BAD("[[a] ]");
}

static void arrays_of_tables(void **state)
{
    IS("[[p]]\nn=1\n[[p]]\n[[p]]\nn=3\n", "{\"p\":[{\"n\":1},{},{\"n\":3}]}");
    IS("[[f]]\nn=1\n[f.ph]\nc=1\n[[f.v]]\nx=1\n[[f.v]]\nx=2\n[[f]]\nn=2\n[[f.v]]\nx=3\n[f.ph]\nc=2",
       "{\"f\":[{\"n\":1,\"ph\":{\"c\":1},\"v\":[{\"x\":1},{\"x\":2}]},{\"n\":2,\"v\":[{\"x\":3}],"
       "\"ph\":{\"c\":2}}]}");
    IS("[[a.b]]\n[a]\nc=1", "{\"a\":{\"b\":[{}],\"c\":1}}");
    BAD("[f.ph]\nc=1\n[[f]]");
    BAD("[[f]]\n[f]");
    BAD("[f]\n[[f]]");
    BAD("[[f]]\n[[f.v]]\n[f.v]");
    BAD("[[f]]\n[f.v]\n[[f.v]]");
    BAD("f=[]\n[[f]]");
    BAD("f.x=1\n[[f]]");
    BAD("[[a.b]]\n[a]\nb.c=1");
    BAD("[[a]]\n[a.b]\n[a.b]");
    BAD("[[]]");
    BAD("[[a]");
    BAD("[[a] ]");
    BAD("[ [a]]");
}

static void inline_tables(void **state)
{
    IS("a={}\nb={ }\nc={x=1,y={z=2}}\nd={ \"q\" = 1 , r.s=2, r.t=3 }",
       "{\"a\":{},\"b\":{},\"c\":{\"x\":1,\"y\":{\"z\":2}},\"d\":{\"q\":1,\"r\":{\"s\":2,\"t\":3}}"
       "}");
    IS("a={b=[\n1,\n2]}\nc=[{x=1},\n{x=2}]", "{\"a\":{\"b\":[1,2]},\"c\":[{\"x\":1},{\"x\":2}]}");
    IS("[t]\na.b=1\nc={d.e=1}\na.f=2", "{\"t\":{\"a\":{\"b\":1,\"f\":2},\"c\":{\"d\":{\"e\":1}}}}");
    BAD("a={x=1,}");
    BAD("a={,}");
    BAD("a={x=1,,y=2}");
    BAD("a={x=1 y=2}");
    BAD("a={x=1\n}");
    BAD("a={\nx=1}");
    BAD("a={x=1, # c\ny=2}");
    BAD("a={x}");
    BAD("a={x=1");
    BAD("a={");
    BAD("a={x=1]");
    BAD("a={x=1,x=2}");
    BAD("a={x=1,x.y=2}");
    BAD("a={x.y=1,x=2}");
    BAD("a={x={y=1},x.z=2}");
    BAD("a={x=1}\na.y=2");
    BAD("a={x=1}\n[a]");
    BAD("a={x=1}\n[a.b]");
    BAD("a={b={}}\n[a.b.c]");
    BAD("a={b=[]}\n[[a.b]]");
    BAD("[t]\na={}\na.b=1");
    BAD("a.b={}\na.b.c=1");
}

static void errors_name_the_line(void **state)
{
    struct err e = {0};
    assert_null(toml_parse(STR("a = 1\r\n\nb = \"\"\"\nx\n\"\"\"\nc = oops\n"), &e));
    assert_string_equal(e.msg, "line 6: expected a value (strings need quotes)");
    assert_null(toml_parse(STR("a=1\nb=[\n1,\n2\nc=3"), &e));
    assert_memory_equal(e.msg, "line 5: ", 8);
    assert_null(toml_parse(STR("a=1\n\nb=\"\xff\""), &e));
    assert_string_equal(e.msg, "line 3: not valid UTF-8");
    assert_null(toml_parse(STR("[server]\nport = 1\nport = 2"), &e));
    assert_string_equal(e.msg, "line 3: \"port\" is defined twice");
}

static void limits(void **state)
{
    struct buf b = BUF_INIT(3u << 20);
    struct err e = {0};
    buf_add_cstr(&b, "a=1\n#");
    while (b.len < (1u << 20)) {
        buf_add_char(&b, 'x');
    }
    struct json *j = toml_parse(buf_str(&b), &e);
    assert_non_null(j);
    json_free(j);
    buf_add_char(&b, 'x');
    assert_null(toml_parse(buf_str(&b), &e));
    assert_int_equal(e.code, ERR_LIMIT);
    static const struct {
        const char *head, *piece, *tail;
        int levels; /* that the text has beside the pieces */
    } deep[] = {{"a=", "[", "", 1},   {"a", ".a", "=1", 1},   {"[a", ".a", "]", 2},
                {"a=", "{a=", "", 1}, {"[[a", ".a", "]]", 3}, {"[[a]]\n[a", ".a", "]\nx={}", 4}};
    for (size_t i = 0; i < sizeof(deep) / sizeof(deep[0]); i++) {
        for (int n = JSON_MAX_DEPTH - deep[i].levels; n <= JSON_MAX_DEPTH + 3; n += 1) {
            buf_clear(&b);
            buf_add_cstr(&b, deep[i].head);
            for (int k = 0; k < n; k++) {
                buf_add_cstr(&b, deep[i].piece);
            }
            if (deep[i].piece[0] == '{') {
                buf_add_cstr(&b, "1");
            }
            for (int k = 0; k < n && !deep[i].tail[0]; k++) {
                buf_add_char(&b, deep[i].piece[0] == '[' ? ']' : '}');
            }
            buf_add_cstr(&b, deep[i].tail);
            j = toml_parse(buf_str(&b), &e);
            assert_int_equal(j != NULL, n + deep[i].levels <= JSON_MAX_DEPTH);
            if (j) { /* what is accepted can be read again as JSON */
                struct buf out = BUF_INIT(10000);
                assert_int_equal(json_dump(j, &out, 0), 0);
                struct json *back = json_parse(buf_str(&out), &e);
                assert_true(json_eq(j, back));
                json_free(back);
                buf_done(&out);
            }
            json_free(j);
        }
    }
    buf_clear(&b);
    for (int i = 0; i < 2000; i++) {
        buf_add_char(&b, 'k');
    }
    buf_add_cstr(&b, "=1");
    assert_null(toml_parse(buf_str(&b), &e));
    buf_done(&b);
}

static void lines_of_keys(void **state)
{
    struct json *lines = NULL;
    struct json *j =
        toml_parse_lines(STR("top = 1\n[server]\n\nport = 2\na.b = 3\nx = [\n {y = 1},\n {y = 2}]\n"
                             "[[vol]]\nname = 1\n[[vol]]\nname = 2\n[vol.sub]\nq = 1\n"),
                         &lines, NULL);
    assert_non_null(j);
    static const struct {
        const char *path;
        int line;
    } want[] = {{"top", 1},          {"server", 2},        {"server.port", 4},   {"server.a.b", 5},
                {"server.x", 6},     {"server.x[0].y", 7}, {"server.x[1].y", 8}, {"vol[0]", 9},
                {"vol[0].name", 10}, {"vol[1].name", 12},  {"vol[1].sub.q", 14}};
    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        assert_int_equal(json_int(json_get(lines, want[i].path), 0), want[i].line);
    }
    json_free(lines);
    json_free(j);
    lines = NULL;
    assert_null(toml_parse_lines(STR("a=1\na=2"), &lines, NULL));
    assert_null(lines);
    /* paths that grow too long are left out, the rest is right */
    struct buf b = BUF_INIT(10000);
    for (int i = 0; i < 900; i++) {
        buf_add_char(&b, 'k');
    }
    buf_add_cstr(&b, "={x={y=1},z=2}\nafter=1\n[t]\nu=1");
    j = toml_parse_lines(buf_str(&b), &lines, NULL);
    assert_non_null(j);
    assert_int_equal(json_len(lines), 3);
    assert_int_equal(json_int(json_get(lines, "after"), 0), 2);
    assert_int_equal(json_int(json_get(lines, "t.u"), 0), 4);
    json_free(lines);
    json_free(j);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys),          cmocka_unit_test(comments_and_line_ends),
        cmocka_unit_test(strings),       cmocka_unit_test(integers),
        cmocka_unit_test(floats),        cmocka_unit_test(booleans_and_words),
        cmocka_unit_test(dates),         cmocka_unit_test(arrays),
        cmocka_unit_test(tables),        cmocka_unit_test(arrays_of_tables),
        cmocka_unit_test(inline_tables), cmocka_unit_test(errors_name_the_line),
        cmocka_unit_test(limits),        cmocka_unit_test(lines_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
