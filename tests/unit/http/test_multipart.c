/* multipart/form-data: the same parts however the body is cut, and nothing out of a malformed one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "base/must.h"
#include "http/multipart.h"

struct seen {
    struct buf log;
    int fail_at; /* the callback that shall fail, counted from 1; 0: none */
    int calls;
};

static int count(struct seen *s)
{
    return ++s->calls == s->fail_at ? -ECANCELED : 0;
}

static int on_part(const struct multipart_part *part, void *arg)
{
    struct seen *s = arg;
    (void)buf_printf(&s->log, "[%.*s", STR_FMT(part->name));
    if (part->filename.p) {
        (void)buf_printf(&s->log, "|%.*s", STR_FMT(part->filename));
    }
    if (part->content_type.p) {
        (void)buf_printf(&s->log, "|%.*s", STR_FMT(part->content_type));
    }
    (void)buf_add_char(&s->log, ':');
    return count(s);
}

static int on_data(struct str data, void *arg)
{
    struct seen *s = arg;
    assert_true(data.n > 0);
    (void)buf_add_str(&s->log, data);
    return 0; /* how many pieces there are depends on the cuts, so they do not count */
}

static int on_part_end(void *arg)
{
    struct seen *s = arg;
    (void)buf_add_char(&s->log, ']');
    return count(s);
}

static const struct multipart_ops ops = {on_part, on_data, on_part_end};

/* Feeds in pieces of every size, and cut in two at every place. */
static void expect_rc(struct str boundary, struct str in, int fail_at, int want_rc, bool want_done,
                      const char *want)
{
    for (size_t k = 1; k <= 2 * in.n + 1; k++) {
        size_t piece = k <= in.n ? k : in.n;
        size_t first = k <= in.n ? piece : k - in.n - 1;
        struct seen s = {.log = BUF_INIT(1 << 20), .fail_at = fail_at};
        struct multipart *m = multipart_new(boundary, &ops, &s);
        int rc = 0;
        for (size_t at = 0; at < in.n && rc == 0;) {
            size_t n = at == 0 && first ? MIN(first, in.n) : MIN(piece, in.n - at);
            rc = multipart_feed(m, str_n(in.p + at, n));
            at += n;
        }
        assert_int_equal(rc, want_rc);
        assert_int_equal(multipart_done(m), want_done);
        if (want) {
            assert_string_equal(buf_cstr(&s.log), want);
        }
        if (rc < 0) {
            assert_true(multipart_feed(m, STR("--x--")) < 0); /* it stays failed */
        }
        multipart_free(m);
        buf_done(&s.log);
    }
}

static void expect(struct str in, const char *want)
{
    expect_rc(STR("xx"), in, 0, 0, true, want);
}

static void expect_bad(struct str in)
{
    expect_rc(STR("xx"), in, 0, -EPROTO, false, NULL);
}

#define CD "Content-Disposition: form-data; "
#define HEAD CD "name=\"a\"\r\n\r\n"

static void test_parts(void **state)
{
    expect(STR("--xx\r\n" HEAD "hello\r\n--xx--\r\n"), "[a:hello]");
    expect(STR("--xx\r\n" HEAD "hello\r\n--xx--"), "[a:hello]");
    expect(STR("--xx\r\n" HEAD "1\r\n--xx\r\n" CD "name=b\r\n\r\n2\r\n--xx--"), "[a:1][b:2]");
    expect(STR("--xx\r\n" HEAD "\r\n--xx--"), "[a:]");
    expect(STR("--xx\r\n" HEAD "--xx--"), "[a:]"); /* the empty line is the delimiter's line end */
    expect(STR("--xx--\r\n"), "");
    expect(STR("--xx \t \r\n" HEAD "1\r\n--xx  \r\n" HEAD "2\r\n--xx--"), "[a:1][a:2]");
}

static void test_preamble_epilogue(void **state)
{
    expect(STR("for old readers\r\n--xx\r\n" HEAD "1\r\n--xx--\r\nignored\r\n--xx\r\n"), "[a:1]");
    expect(STR("\r\n--xx\r\n" HEAD "1\r\n--xx--"), "[a:1]");
    expect(STR("--x\r\n--xx\r\n" HEAD "1\r\n--xx--"), "[a:1]");
}

static void test_near_delimiters(void **state)
{
    expect(STR("--xx\r\n" HEAD "\r\r\n\r\n-\r\n--\r\n--x\r\n--yx\r\r\n--xx--"),
           "[a:\r\r\n\r\n-\r\n--\r\n--x\r\n--yx\r]");
    expect(STR("--xx\r\n" HEAD "--x\r\n--xx--"), "[a:--x]");
    expect(STR("--xx\r\n" HEAD "-\r\n--xx--"), "[a:-]");
    expect(STR("--xx\r\n" HEAD "a\n--xx--\r\n--xx--"),
           "[a:a\n--xx--]"); /* a bare LF begins nothing */
    expect_rc(STR("---"),
              STR("-----\r\n" HEAD "\r\n----\r\n------\r\n-----\r\n" HEAD "\r\n-------"), 0,
              -EPROTO, false, NULL);
    expect_rc(STR("-"), STR("---\r\n" HEAD "\r\n--\r\n-----"), 0, 0, true, "[a:\r\n--]");
}

static void test_header_fields(void **state)
{
    expect(STR("--xx\r\nX: y\r\nCONTENT-type:  text/plain \r\n" CD
               "filename=\"f\"; name=\"a\"\r\n\r\n1\r\n--xx--"),
           "[a|f|text/plain:1]");
    expect(STR("--xx\r\n" CD "name=\"a\"; filename=\"\"\r\n\r\n--xx--"), "[a|:]");
    expect(STR("--xx\r\n" CD "name=\"q\\\"\\\\;,=x\"; filename=\"C:\\dir\\f;.txt\"\r\n\r\n--xx--"),
           "[q\"\\;,=x|C:\\dir\\f;.txt:]");
    expect(STR("--xx\r\n" CD "name=\"a\"; filename=\"\xc3\xa4 %22\xe2\x82\xac\"\r\n\r\n--xx--"),
           "[a|\xc3\xa4 %22\xe2\x82\xac:]");
    expect(STR("--xx\r\n" CD "name=a; filename=x; filename*=utf-8''%c3%a4%20b\r\n\r\n--xx--"),
           "[a|\xc3\xa4 b:]");
    expect(STR("--xx\r\n" CD "name=\"a\" ;\r\n\r\n--xx--"), "[a:]");
    expect(STR("--xx\r\nContent-Transfer-Encoding: Binary\r\n" HEAD "1\r\n--xx--"), "[a:1]");
}

static void test_malformed(void **state)
{
    expect_bad(STR("--xxy\r\n" HEAD "1\r\n--xx--"));
    expect_bad(STR("--xx-y\r\n"));
    expect_bad(STR("--xx\n" HEAD));
    expect_bad(STR("--xx\r\n\r\n1\r\n--xx--")); /* no disposition */
    expect_bad(STR("--xx\r\nContent-Type: x\r\n\r\n1\r\n--xx--"));
    expect_bad(STR("--xx\r\n" CD "filename=x\r\n\r\n")); /* no name */
    expect_bad(STR("--xx\r\nContent-Disposition: attachment; name=a\r\n\r\n"));
    expect_bad(STR("--xx\r\n" CD "name=a\r\n" CD "name=b\r\n\r\n")); /* two of them */
    expect_bad(STR("--xx\r\n" CD "name=a; name=b\r\n\r\n"));
    expect_bad(STR("--xx\r\n" CD "name=\"a\r\n\r\n"));
    expect_bad(STR("--xx\r\n" CD "name=\"a\"x\r\n\r\n"));
    expect_bad(STR("--xx\r\n" CD "name\r\n\r\n"));
    expect_bad(STR("--xx\r\nno colon\r\n\r\n"));
    expect_bad(STR("--xx\r\nbad name: x\r\n\r\n"));
    expect_bad(STR("--xx\r\n" CD "name=a\n\r\n\r\n"));  /* bare LF */
    expect_bad(STR("--xx\r\n" CD "name=a\rb\r\n\r\n")); /* bare CR */
    expect_bad(str_n("--xx\r\nX: \0\r\n\r\n", 15));
    expect_bad(STR("--xx\r\n" CD "name=a; filename*=latin1''x\r\n\r\n"));
    expect_bad(STR("--xx\r\n" CD "name=a; filename*=utf-8''%ff\r\n\r\n"));
    expect_bad(STR("--xx\r\n" CD "name=a; filename*=utf-8''%4\r\n\r\n"));
    expect_bad(STR("--xx\r\nContent-Transfer-Encoding: base64\r\n" HEAD));
}

static void test_not_done(void **state)
{
    struct str whole = STR("--xx\r\n" HEAD "hello\r\n--xx--");
    for (size_t n = 0; n < whole.n; n++) {
        struct seen s = {.log = BUF_INIT(1 << 20)};
        struct multipart *m = multipart_new(STR("xx"), &ops, &s);
        assert_int_equal(multipart_feed(m, str_n(whole.p, n)), 0);
        assert_false(multipart_done(m));
        multipart_free(m);
        buf_done(&s.log);
    }
}

static void test_head_limit(void **state)
{
    struct buf b = BUF_INIT(1 << 20);
    (void)buf_add_cstr(&b, "--xx\r\nX: ");
    for (int i = 0; i < 20000; i++) {
        (void)buf_add_char(&b, 'y');
    }
    struct seen s = {.log = BUF_INIT(100)};
    struct multipart *m = multipart_new(STR("xx"), &ops, &s);
    assert_int_equal(multipart_feed(m, buf_str(&b)), -EPROTO);
    multipart_free(m);
    buf_done(&b);
}

static void test_callback_errors(void **state)
{
    struct str in = STR("--xx\r\n" HEAD "1\r\n--xx\r\n" HEAD "2\r\n--xx--");
    for (int at = 1; at <= 4; at++) {
        expect_rc(STR("xx"), in, at, -ECANCELED, false, NULL);
    }
    expect_rc(STR("xx"), in, 5, 0, true, "[a:1][a:2]");
}

static void test_boundary(void **state)
{
    static const struct {
        const char *type, *want;
    } cases[] = {
        {"multipart/form-data; boundary=abc", "abc"},
        {"Multipart/Form-Data;charset=utf-8;Boundary=\"a b:c\"", "a b:c"},
        {"multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
         "----WebKitFormBoundary7MA4YWxkTrZu0gW"},
        {"multipart/form-data; boundary=abc; ", "abc"},
        {"multipart/form-data", NULL},
        {"multipart/form-data; boundary=", NULL},
        {"multipart/form-data; boundary=\"\"", NULL},
        {"multipart/form-data; boundary=\"abc", NULL},
        {"multipart/form-data; boundary=\"abc \"", NULL},
        {"multipart/form-data; boundary=a;boundary=b", NULL},
        {"multipart/form-data; boundary=a{b", NULL},
        {"multipart/mixed; boundary=abc", NULL},
        {"text/plain; boundary=abc", NULL},
        {"", NULL},
        {"multipart/form-data; "
         "boundary=1234567890123456789012345678901234567890123456789012345678901234567890",
         "1234567890123456789012345678901234567890123456789012345678901234567890"},
        {"multipart/form-data; "
         "boundary=12345678901234567890123456789012345678901234567890123456789012345678901",
         NULL},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct str got;
        int rc = multipart_boundary(str_from(cases[i].type), &got);
        assert_int_equal(rc, cases[i].want ? 0 : -EINVAL);
        if (cases[i].want) {
            assert_true(str_eq(got, str_from(cases[i].want)));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),           cmocka_unit_test(test_preamble_epilogue),
        cmocka_unit_test(test_near_delimiters), cmocka_unit_test(test_header_fields),
        cmocka_unit_test(test_malformed),       cmocka_unit_test(test_not_done),
        cmocka_unit_test(test_head_limit),      cmocka_unit_test(test_callback_errors),
        cmocka_unit_test(test_boundary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
