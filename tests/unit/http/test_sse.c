/* Events out, and in again. */

#include "harness.h"
#include "http/sse.h"

static void (*script)(struct http_req *req);

static void get_events(struct http_req *req)
{
    fx_track(req);
    sse_start(req, 200);
    script(req);
    http_resp_end(req);
}

static const struct http_route routes[] = {{"GET", "/", HTTP_STREAM, .stream = get_events}, {0}};

/* The body, with the chunk framing taken off by our own decoder. */
static char *stream_of(void (*fn)(struct http_req *req))
{
    struct buf out = BUF_INIT(4u << 20);
    script = fn;
    fx_start(&(struct http_server_opts){.routes = routes});
    char *text = fx_talk(LIT(REQ("GET", "/", "")), NULL);
    assert_non_null(strstr(text, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(text, "Cache-Control: no-cache\r\n"));
    assert_non_null(strstr(text, "X-Accel-Buffering: no\r\n"));
    struct str in = str_from(strstr(text, "\r\n\r\n") + 4), data;
    struct h1_chunked c = {0};
    int r;
    while ((r = h1_chunked_next(&c, &in, &data)) == 1) {
        must(buf_add_str(&out, data) == 0);
    }
    assert_int_equal(r, 2);
    free(text);
    fx_stop();
    return buf_take(&out);
}

static void send_bare(struct http_req *req)
{
    static char large[5000];
    assert_true(sse_send_bare(req, STR("{\"a\":1}")));
    memset(large, 'x', sizeof(large));
    assert_true(sse_send_bare(req, str_n(large, sizeof(large))));
}

static void test_bare(void **state)
{
    char *out = stream_of(send_bare);
    assert_true(strncmp(out, "{\"a\":1}\n\nxxx", 12) == 0);
    assert_int_equal(strlen(out), 9 + 5002);
    assert_string_equal(out + strlen(out) - 3, "x\n\n");
    free(out);
}

static void send_standard(struct http_req *req)
{
    assert_true(sse_send(req, STR("e"), STR("1"), STR("one")));
    assert_true(sse_send(req, STR_NULL, STR_NULL, STR("a\nb\r\nc\rd")));
    assert_true(sse_send(req, STR_NULL, STR_NULL, STR("")));
    assert_true(sse_send(req, STR_NULL, STR_NULL, STR("end\n")));
    assert_true(sse_send(req, STR("bad\nname"), STR("x\ry"), STR("ok")));
}

static void test_standard(void **state)
{
    char *out = stream_of(send_standard);
    assert_string_equal(out, "event: e\nid: 1\ndata: one\n\n"
                             "data: a\ndata: b\ndata: c\ndata: d\n\n"
                             "data: \n\n"
                             "data: end\ndata: \n\n"
                             "data: ok\n\n");
    free(out);
}

/* ---- parsing ---- */

static void on_event(const struct sse_event *ev, void *arg)
{
    struct buf *b = arg;
    (void)buf_printf(b, "[%.*s|%.*s|%.*s]", STR_FMT(ev->event), STR_FMT(ev->id), STR_FMT(ev->data));
}

static void expect(const char *in, const char *want)
{
    struct str text = str_from(in);
    for (size_t step = 1; step <= text.n; step++) {
        struct buf b = BUF_INIT(1u << 20);
        struct sse_parser *p = sse_parser_new(1000, on_event, &b);
        for (size_t at = 0; at < text.n; at += step) {
            assert_int_equal(sse_parser_feed(p, str_sub(text, at, at + step)), 0);
        }
        assert_int_equal(sse_parser_end(p), 0);
        assert_string_equal(buf_cstr(&b), want);
        sse_parser_free(p);
        buf_done(&b);
    }
}

static void test_parse(void **state)
{
    expect("data: a\n\n", "[||a]");
    expect("data:a\ndata: b\ndata:  c\n\n", "[||a\nb\n c]");
    expect("event: e\nid: 7\ndata: x\n\ndata: y\n\n", "[e|7|x][|7|y]");
    expect(": comment\n\nretry: 5\n\ndata\n\n", "[||]");
    expect("data: a\r\n\r\ndata: b\r\rdata: c\n\n", "[||a][||b][||c]");
    expect("{\"a\":\"b: c\"}\n\n[1]\n\n", "[||{\"a\":\"b: c\"}][||[1]]");
    expect("data: unfinished", "[||unfinished]");
    expect("{\"a\":1}", "[||{\"a\":1}]");
    expect("event: only\n\n", "");
    expect("unknown: x\ndata: 1\n\n", "[||1]");
}

static void test_parse_limit(void **state)
{
    struct buf b = BUF_INIT(1000);
    struct sse_parser *p = sse_parser_new(10, on_event, &b);
    assert_int_equal(sse_parser_feed(p, STR("data: 1234\n\n")), 0);
    assert_int_equal(sse_parser_feed(p, STR("data: 12345678")), -EMSGSIZE);
    assert_int_equal(sse_parser_feed(p, STR("\n\n")), -EMSGSIZE);
    assert_int_equal(sse_parser_end(p), -EMSGSIZE);
    sse_parser_free(p);
    p = sse_parser_new(10, on_event, &b);
    for (int i = 0; i < 5; i++) { /* many lines, each short */
        (void)sse_parser_feed(p, STR("data: ab\n"));
    }
    assert_int_equal(sse_parser_end(p), -EMSGSIZE);
    sse_parser_free(p);
    sse_parser_free(NULL);
    assert_string_equal(buf_cstr(&b), "[||1234]");
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bare),
        cmocka_unit_test(test_standard),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
