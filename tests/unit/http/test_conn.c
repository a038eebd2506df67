/* Connections: splitting, cutting, pipelining, keep-alive, draining of bodies. */

#include "harness.h"

static void get_hello(struct http_req *req)
{
    fx_track(req);
    http_resp_send(req, 200, "text/plain", STR("hello"));
}

static void on_collected(struct http_req *req, struct str body, void *arg)
{
    http_resp_send(req, 200, "text/plain", body);
}

static void post_collect(struct http_req *req)
{
    fx_track(req);
    http_req_collect(req, 1000, on_collected, NULL);
}

static void on_echo(struct http_req *req, struct str data, bool is_last, void *arg)
{
    if (!http_resp_write(req, data)) {
        http_req_pause(req);
    }
    if (is_last) {
        http_resp_end(req);
    }
}

static void on_writable(struct http_req *req, void *arg)
{
    http_req_resume(req);
}

static void post_echo(struct http_req *req)
{
    fx_track(req);
    http_resp_on_writable(req, on_writable, NULL);
    http_req_on_body(req, on_echo, NULL);
    http_resp_start(req, 200, NULL, -1);
}

/* Answers without looking at the body. */
static void post_ignore(struct http_req *req)
{
    fx_track(req);
    http_resp_send(req, 401, NULL, STR("no"));
}

static void get_status(struct http_req *req)
{
    fx_track(req);
    http_resp_send(req, (int)strtol(http_req_param(req, "code").p, NULL, 10), NULL, STR("body"));
}

static void get_stream(struct http_req *req)
{
    fx_track(req);
    http_resp_start(req, 200, "text/plain", -1);
    (void)http_resp_write(req, STR("one,"));
    (void)http_resp_write(req, STR("two"));
    http_resp_end(req);
}

static void on_body_late(struct http_req *req, struct str data, bool is_last, void *arg)
{
    (void)buf_add_str(&fx->log, data);
    if (is_last) {
        http_resp_send(req, 200, NULL, STR("late"));
    }
}

static const struct http_route routes[] = {
    {"GET", "/hello", HTTP_STREAM, .stream = get_hello},
    {"POST", "/collect", HTTP_STREAM, .stream = post_collect},
    {"POST", "/echo", HTTP_STREAM, .stream = post_echo},
    {"POST", "/ignore", HTTP_STREAM, .stream = post_ignore},
    {"*", "/hold", HTTP_STREAM, .stream = fx_hold},
    {"GET", "/status/{code}", HTTP_STREAM, .stream = get_status},
    {"GET", "/stream", HTTP_STREAM, .stream = get_stream},
    {0},
};

static struct http_server_opts opts = {.routes = routes};

/* ---- splitting ---- */

static const struct str dialogs[] = {
    {"GET /hello HTTP/1.1\r\nHost: t\r\n\r\n", 31},
#define D(text)                                                                                    \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }
    D(REQ("GET", "/hello", "") REQ("GET", "/stream", "") REQ("HEAD", "/hello", "")),
    D(REQ("POST", "/collect", "Content-Length: 5\r\n") "12345" REQ("GET", "/hello", "")),
    D(REQ("POST", "/echo", "Transfer-Encoding: chunked\r\n") "3\r\nxyz\r\n2;x\r\nuv\r\n0\r\nT: "
                                                             "v\r\n\r\n" REQ("GET", "/hello", "")),
    D(REQ("POST", "/ignore", "Content-Length: 7\r\n") "ignored" REQ("GET", "/hello", "")),
    D(REQ("POST", "/ignore", "Transfer-Encoding: chunked\r\n") "1\r\nx\r\n0\r\n\r\n" REQ(
        "GET", "/hello", "Connection: close\r\n")),
    D("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /stream HTTP/1.0\r\n\r\n"),
};

/* Chunk boundaries of a streamed answer follow those of the input, so bodies are compared without.
 */
static char *without_date_and_chunks(char *text)
{
    struct buf b = BUF_INIT(1u << 20);
    for (char *line = text, *next; line && *line; line = next) {
        next = strstr(line, "\r\n");
        size_t n = next ? (size_t)(next - line) : strlen(line);
        next = next ? next + 2 : NULL;
        bool is_size = n > 0 && n <= 2 && strspn(line, "0123456789abcdef") == n;
        if (n > 0 && strncmp(line, "Date: ", 6) != 0 && !is_size) {
            (void)buf_add(&b, line, n);
        }
    }
    free(text);
    return buf_take(&b);
}

static void test_split_everywhere(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(dialogs); i++) {
        bool closed, closed_split;
        char *whole = without_date_and_chunks(fx_talk(dialogs[i], &closed));
        for (size_t cut = 1; cut < dialogs[i].n; cut++) {
            struct buf out = BUF_INIT(1u << 20);
            int fd = fx_connect();
            fx_send(fd, str_sub(dialogs[i], 0, cut));
            fx_send(fd, str_sub(dialogs[i], cut, dialogs[i].n));
            closed_split = fx_recv(fd, &out);
            char *split = without_date_and_chunks(buf_take(&out));
            assert_string_equal(split, whole);
            assert_int_equal(closed_split, closed);
            free(split);
            (void)close(fd);
        }
        free(whole);
    }
}

static void test_byte_by_byte(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(dialogs); i++) {
        char *whole = without_date_and_chunks(fx_talk(dialogs[i], NULL));
        struct buf out = BUF_INIT(1u << 20);
        int fd = fx_connect();
        for (size_t k = 0; k < dialogs[i].n; k++) {
            fx_send(fd, str_sub(dialogs[i], k, k + 1));
        }
        (void)fx_recv(fd, &out);
        char *split = without_date_and_chunks(buf_take(&out));
        assert_string_equal(split, whole);
        free(split);
        free(whole);
        (void)close(fd);
    }
}

/* ---- cutting ---- */

static void cut_at(struct str in, size_t n, int how)
{
    int fd = fx_connect();
    fx_send(fd, str_sub(in, 0, n));
    if (how >= 0) {
        (void)shutdown(fd, how);
        fx_turns(3);
    }
    (void)close(fd);
    fx_turns(3);
    assert_int_equal(http_server_connections(fx->server), 0);
    assert_int_equal(fx->n_begun, fx->n_ended);
}

static void test_cut_everywhere(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(dialogs); i++) {
        for (size_t n = 0; n <= dialogs[i].n; n++) {
            cut_at(dialogs[i], n, -1);
            cut_at(dialogs[i], n, SHUT_WR);
            cut_at(dialogs[i], n, SHUT_RDWR);
        }
    }
}

/* The client leaves while the handler has not answered: the handler hears of it, once. */
static void test_leave_while_pending(void **state)
{
    static const struct str requests[] = {
        D(REQ("GET", "/hold", "")),
        D(REQ("POST", "/hold", "Content-Length: 5\r\n")),    /* body never asked for */
        D(REQ("GET", "/hold", "") REQ("GET", "/hello", "")), /* another one waits */
        D(REQ("POST", "/hold", "Content-Length: 5\r\n") "12345"),
    };
    for (size_t i = 0; i < ARRAY_LEN(requests); i++) {
        int before = fx->n_completed;
        int fd = fx_connect();
        fx_send(fd, requests[i]);
        assert_non_null(fx_held);
        assert_false(http_req_client_gone(fx_held));
        (void)close(fd);
        fx_turns(3);
        assert_null(fx_held);
        assert_int_equal(fx->n_completed, before);
        assert_int_equal(http_server_connections(fx->server), 0);
    }
    assert_int_equal(fx->n_after, ARRAY_LEN(requests));
    assert_int_equal(fx->last_status, 0);
}

static void on_body_pause(struct http_req *req, struct str data, bool is_last, void *arg)
{
    http_req_pause(req);
}

static void test_leave_while_paused(void **state)
{
    static char body[100000];
    for (int round = 0; round < 2; round++) {
        int fd = fx_connect();
        if (round == 1) { /* not the first on its connection that is watched */
            fx_send(fd, LIT(REQ("GET", "/hold", "") REQ("GET", "/hello", "")));
            http_resp_send(fx_held, 200, NULL, STR(""));
            fx_turns(3);
        }
        fx_send(fd, LIT(REQ("POST", "/hold", "Content-Length: 1000000\r\n")));
        http_req_on_body(fx_held, on_body_pause, NULL);
        fx_turns(2);
        (void)send(fd, body, sizeof(body), MSG_NOSIGNAL);
        fx_turns(3);
        assert_non_null(fx_held);
        (void)close(fd);
        fx_turns(3);
        assert_null(fx_held);
    }
    assert_int_equal(fx->n_ended, 4);
    assert_int_equal(fx->n_completed, 2);
}

/* The socket is full and the client closes it: the next write says so. */
static void test_leave_while_blocked(void **state)
{
    static char piece[64u << 10];
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("GET", "/hold", "")));
    http_resp_start(fx_held, 200, NULL, -1);
    while (http_resp_write(fx_held, str_n(piece, sizeof(piece)))) {
        fx_turns(1);
    }
    assert_non_null(fx_held);
    (void)close(fd);
    fx_turns(3);
    assert_null(fx_held);
    assert_int_equal(fx->n_completed, 0);
}

/* What the handler has ended goes out, also to a client that has closed its sending side. */
static void test_half_closed_client_gets_a_long_answer(void **state)
{
    static char body[4u << 20];
    struct buf out = BUF_INIT(64u << 20);
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("GET", "/hold", "")));
    http_resp_send(fx_held, 200, NULL, str_n(body, sizeof(body)));
    (void)shutdown(fd, SHUT_WR);
    fx_turns(5);
    assert_non_null(fx_held);
    assert_true(fx_recv(fd, &out));
    assert_true(out.len > sizeof(body));
    assert_int_equal(fx->n_completed, 1);
    (void)close(fd);
    buf_done(&out);
}

static void test_half_closed_client_gets_its_answer(void **state)
{
    struct buf out = BUF_INIT(64u << 20);
    int fd = fx_connect();
    must(send(fd, REQ("GET", "/hello", ""), sizeof(REQ("GET", "/hello", "")) - 1, 0) > 0);
    (void)shutdown(fd, SHUT_WR);
    assert_true(fx_recv(fd, &out));
    assert_int_equal(fx_status(buf_cstr(&out)), 200);
    (void)close(fd);
    buf_done(&out);
    assert_int_equal(fx->n_completed, 1);
}

/* ---- order ---- */

static void test_pipeline(void **state)
{
    enum { N = 3 * HTTP_MAX_PIPELINE };
    struct buf in = BUF_INIT(1u << 20), out = BUF_INIT(1u << 20);
    for (int i = 0; i < N; i++) {
        (void)buf_printf(&in, REQ("GET", "/status/%d", ""), 200 + i);
    }
    int fd = fx_connect();
    fx_send(fd, buf_str(&in));
    fx_turns(10);
    assert_false(fx_recv(fd, &out));
    const char *p = buf_cstr(&out);
    for (int i = 0; i < N; i++) {
        char line[32];
        (void)snprintf(line, sizeof(line), "HTTP/1.1 %d ", 200 + i);
        p = strstr(p, line);
        assert_non_null(p);
    }
    assert_int_equal(fx->n_completed, N);
    (void)close(fd);
    buf_done(&in);
    buf_done(&out);
}

static void test_pipeline_waits_for_the_first(void **state)
{
    struct buf out = BUF_INIT(1u << 20);
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("GET", "/hold", "") REQ("GET", "/hello", "")));
    assert_non_null(fx_held);
    assert_false(fx_recv(fd, &out));
    assert_int_equal(out.len, 0);
    http_resp_send(fx_held, 201, NULL, STR("first"));
    assert_false(fx_recv(fd, &out));
    assert_int_equal(fx_status(buf_cstr(&out)), 201);
    assert_non_null(strstr(buf_cstr(&out), "hello"));
    (void)close(fd);
    buf_done(&out);
}

/* ---- connection persistence ---- */

static void test_keep_alive(void **state)
{
    fx_expect(LIT(REQ("GET", "/hello", "")), 200, false, "hello");
    fx_expect(LIT(REQ("GET", "/hello", "Connection: close\r\n")), 200, true,
              "Connection: close\r\n");
    fx_expect(LIT("GET /hello HTTP/1.0\r\n\r\n"), 200, true, "Connection: close\r\n");
    fx_expect(LIT("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), 200, false,
              "Connection: keep-alive\r\n");
    /* A body of unknown length in 1.0 ends with the connection. */
    bool closed;
    char *out = fx_talk(LIT("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"), &closed);
    assert_true(closed);
    assert_null(strstr(out, "chunked"));
    assert_non_null(strstr(out, "\r\n\r\none,two"));
    free(out);
}

static void test_head_and_bodiless(void **state)
{
    char *out = fx_talk(LIT(REQ("HEAD", "/hello", "")), NULL);
    assert_non_null(strstr(out, "Content-Length: 5\r\n"));
    assert_string_equal(out + strlen(out) - 4, "\r\n\r\n");
    free(out);
    out = fx_talk(LIT(REQ("HEAD", "/stream", "") REQ("GET", "/hello", "")), NULL);
    assert_non_null(strstr(out, "Transfer-Encoding: chunked\r\n"));
    assert_null(strstr(out, "one"));
    assert_int_equal(fx_count(out, "HTTP/1.1 200"), 2);
    free(out);
    out = fx_talk(LIT(REQ("GET", "/status/204", "") REQ("GET", "/status/304", "")), NULL);
    assert_int_equal(fx_count(out, "body"), 0);
    assert_int_equal(fx_count(out, "Content-Length"), 0);
    assert_int_equal(fx_count(out, "HTTP/1.1 "), 2);
    free(out);
}

/* ---- bodies ---- */

static void test_expect_continue(void **state)
{
    struct buf out = BUF_INIT(1u << 20);
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("POST", "/collect", "Content-Length: 3\r\nExpect: 100-continue\r\n")));
    assert_false(fx_recv(fd, &out));
    assert_string_equal(buf_cstr(&out), "HTTP/1.1 100 Continue\r\n\r\n");
    fx_send(fd, LIT("abc"));
    assert_false(fx_recv(fd, &out));
    assert_non_null(strstr(buf_cstr(&out), "\r\n\r\nabc"));
    (void)close(fd);
    buf_done(&out);
    /* A body that is there already needs no invitation, one that is not wanted gets none. */
    char *text = fx_talk(
        LIT(REQ("POST", "/collect", "Content-Length: 3\r\nExpect: 100-continue\r\n") "abc"), NULL);
    assert_int_equal(fx_status(text), 200);
    free(text);
    fx_expect(LIT(REQ("POST", "/ignore", "Content-Length: 3\r\nExpect: 100-continue\r\n")), 401,
              true, "Connection: close");
    fx_expect(LIT(REQ("POST", "/collect", "Content-Length: 3000\r\nExpect: 100-continue\r\n")), 413,
              true, "Connection: close");
}

static void test_unread_bodies(void **state)
{
    /* Small: dropped, and the connection goes on. */
    char *out = fx_talk(
        LIT(REQ("POST", "/ignore", "Content-Length: 4\r\n") "GET " REQ("GET", "/hello", "")), NULL);
    assert_int_equal(fx_count(out, "HTTP/1.1 401"), 1);
    assert_int_equal(fx_count(out, "HTTP/1.1 200"), 1);
    free(out);
    /* Large: announced and closed, and what follows is not taken for a request. */
    struct buf in = BUF_INIT(4u << 20);
    (void)buf_printf(&in, REQ("POST", "/ignore", "Content-Length: %u\r\n"), HTTP_MAX_DRAIN + 1);
    for (int i = 0; i < 10; i++) {
        (void)buf_add_str(&in, LIT(REQ("GET", "/hello", "")));
    }
    bool closed;
    out = fx_talk(buf_str(&in), &closed);
    assert_int_equal(fx_status(out), 401);
    assert_non_null(strstr(out, "Connection: close"));
    assert_int_equal(fx_count(out, "HTTP/1.1 "), 1);
    assert_true(closed);
    free(out);
    /* Chunked without end: closed at the limit. */
    buf_clear(&in);
    (void)buf_printf(&in, REQ("POST", "/ignore", "Transfer-Encoding: chunked\r\n"));
    for (unsigned i = 0; i < HTTP_MAX_DRAIN / 1000 + 10; i++) {
        (void)buf_printf(&in, "3e8\r\n%01000d\r\n", 0);
    }
    out = fx_talk(buf_str(&in), &closed);
    assert_true(closed);
    free(out);
    buf_done(&in);
}

static void test_too_large(void **state)
{
    fx_expect(LIT(REQ("POST", "/collect", "Content-Length: 1001\r\n")), 413, true, "too large");
    struct buf in = BUF_INIT(1u << 20);
    (void)buf_printf(&in,
                     REQ("POST", "/collect", "Transfer-Encoding: chunked\r\n") "3e9\r\n%01001d", 0);
    fx_expect(buf_str(&in), 413, true, "too large");
    buf_done(&in);
    assert_int_equal(fx->n_completed, 0);
    assert_int_equal(fx->n_ended, 2);
}

static void test_body_asked_for_later(void **state)
{
    struct buf out = BUF_INIT(1u << 20);
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("POST", "/hold", "Content-Length: 6\r\n") "abc"));
    fx_send(fd, LIT("def"));
    assert_non_null(fx_held);
    http_req_on_body(fx_held, on_body_late, NULL);
    assert_false(fx_recv(fd, &out));
    assert_int_equal(fx_status(buf_cstr(&out)), 200);
    assert_true(str_eq(buf_str(&fx->log), STR("abcdef")));
    (void)close(fd);
    buf_done(&out);
}

static void test_malformed_chunks(void **state)
{
    fx_expect(LIT(REQ("POST", "/collect", "Transfer-Encoding: chunked\r\n") "5\nhello"), 400, true,
              "malformed chunked body");
    /* The answer has begun: all that is left is to cut it. */
    bool closed;
    char *out =
        fx_talk(LIT(REQ("POST", "/echo", "Transfer-Encoding: chunked\r\n") "1\r\nx\r\nz"), &closed);
    assert_true(closed);
    assert_int_equal(fx_status(out), 200);
    assert_null(strstr(out, "\r\n0\r\n"));
    free(out);
    assert_int_equal(fx->n_completed, 0);
}

static void test_refusals(void **state)
{
    fx_expect(LIT("GET / HTTP/1.1\r\n\r\n"), 400, true, "missing Host");
    fx_expect(LIT("GET / HTTP/1.1\nHost: a\n\n"), 400, true, "bad_request");
    fx_expect(LIT("GET / HTTP/3.0\r\n\r\n"), 505, true, NULL);
    fx_expect(LIT(REQ("POST", "/", "Transfer-Encoding: gzip\r\n")), 501, true, NULL);
    struct buf in = BUF_INIT(1u << 20);
    (void)buf_printf(&in, "GET /%033000d HTTP/1.1\r\n", 0);
    fx_expect(buf_str(&in), 414, true, NULL);
    buf_clear(&in);
    (void)buf_printf(&in, "GET / HTTP/1.1\r\nX: %070000d", 0);
    fx_expect(buf_str(&in), 431, true, NULL);
    buf_clear(&in);
    (void)buf_printf(&in, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < HTTP_MAX_HEADERS; i++) {
        (void)buf_printf(&in, "X: y\r\n");
    }
    fx_expect(buf_str(&in), 431, true, NULL);
    buf_done(&in);
    assert_int_equal(fx->n_after, 7);
}

static void test_large_head(void **state)
{
    struct buf in = BUF_INIT(1u << 20);
    (void)buf_printf(&in, "GET /hello?%020000d HTTP/1.1\r\nHost: t\r\nX: %030000d\r\n\r\n", 0, 0);
    (void)buf_add_str(&in, LIT(REQ("GET", "/hello", "")));
    char *out = fx_talk(buf_str(&in), NULL);
    assert_int_equal(fx_count(out, "HTTP/1.1 200"), 2);
    free(out);
    buf_done(&in);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SERVER(test_split_everywhere),
        ON_SERVER(test_byte_by_byte),
        ON_SERVER(test_cut_everywhere),
        ON_SERVER(test_leave_while_pending),
        ON_SERVER(test_leave_while_paused),
        ON_SERVER(test_leave_while_blocked),
        ON_SERVER(test_half_closed_client_gets_a_long_answer),
        ON_SERVER(test_half_closed_client_gets_its_answer),
        ON_SERVER(test_pipeline),
        ON_SERVER(test_pipeline_waits_for_the_first),
        ON_SERVER(test_keep_alive),
        ON_SERVER(test_head_and_bodiless),
        ON_SERVER(test_expect_continue),
        ON_SERVER(test_unread_bodies),
        ON_SERVER(test_too_large),
        ON_SERVER(test_body_asked_for_later),
        ON_SERVER(test_malformed_chunks),
        ON_SERVER(test_refusals),
        ON_SERVER(test_large_head),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
