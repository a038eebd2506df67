/* Responses: framing, backpressure, files, aborts, and what a handler may not do. */

#include "harness.h"

static bool is_writable;

static void on_writable(struct http_req *req, void *arg)
{
    is_writable = true;
}

static void hold(struct http_req *req)
{
    fx_hold(req);
    http_resp_on_writable(req, on_writable, NULL);
}

static const struct http_route routes[] = {{"*", "/hold", HTTP_STREAM, .stream = hold}, {0}};

static int client = -1;

static int setup(void **state)
{
    fx_start(&(struct http_server_opts){.routes = routes, .server_header = "test"});
    client = fx_connect();
    is_writable = false;
    return 0;
}

static int teardown(void **state)
{
    (void)close(client);
    fx_turns(3);
    fx_stop();
    return 0;
}

static void request(const char *method, int minor)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "%s /hold HTTP/1.%d\r\nHost: t\r\n%s\r\n", method, minor,
                   minor ? "" : "Connection: keep-alive\r\n");
    fx_send(client, str_from(text));
    assert_non_null(fx_held);
}

/* What the client has got so far; *ret_closed may be NULL. */
static char *got(bool *ret_closed)
{
    struct buf out = BUF_INIT(64u << 20);
    bool closed = fx_recv(client, &out);
    if (ret_closed) {
        *ret_closed = closed;
    }
    return buf_take(&out);
}

static void expect_got(const char *contains, const char *lacks)
{
    char *out = got(NULL);
    if (!strstr(out, contains) || (lacks && strstr(out, lacks))) {
        fail_msg("\"%s\" instead of \"%s\" without \"%s\"", out, contains, lacks ? lacks : "");
    }
    free(out);
}

static void test_headers(void **state)
{
    request("GET", 1);
    http_resp_header(fx_held, STR("X-One"), STR("1"));
    http_resp_header(fx_held, STR("Date"), STR("today"));
    http_resp_header(fx_held, STR("Server"), STR("me"));
    http_resp_send(fx_held, 200, "text/plain", STR("body"));
    char *out = got(NULL);
    assert_non_null(strstr(out, "\r\nX-One: 1\r\n"));
    assert_int_equal(fx_count(out, "Date: "), 1);
    assert_non_null(strstr(out, "Date: today\r\n"));
    assert_int_equal(fx_count(out, "Server: "), 1);
    assert_non_null(strstr(out, "Content-Type: text/plain\r\n"));
    free(out);
}

static void test_date(void **state)
{
    request("GET", 1);
    http_resp_send(fx_held, 200, NULL, STR(""));
    char *out = got(NULL);
    const char *date = strstr(out, "Date: ");
    assert_non_null(date);
    assert_non_null(strstr(date, " GMT\r\n"));
    assert_int_equal(strstr(date, "\r\n") - date, 6 + 29);
    assert_non_null(strstr(out, "Server: test\r\n"));
    assert_non_null(strstr(out, "Content-Length: 0\r\n"));
    free(out);
}

/* Nothing that comes from outside can end a header line or change the framing. */
static void test_injection(void **state)
{
    unsigned long bugs = bug_count();
    request("GET", 1);
    http_resp_header(fx_held, STR("X-A"), STR("1\r\nX-Evil: 1"));
    http_resp_header(fx_held, STR("X-B\r\nX-Evil"), STR("1"));
    http_resp_header(fx_held, STR("X-C"), STR("a\nb"));
    http_resp_header(fx_held, STR("X-D"), STR("a\0b"));
    http_resp_header(fx_held, STR("X E"), STR("a"));
    http_resp_header(fx_held, STR("Content-Length"), STR("0"));
    http_resp_header(fx_held, STR("transfer-encoding"), STR("chunked"));
    http_resp_header(fx_held, STR("Connection"), STR("close"));
    assert_int_equal(bug_count(), bugs + 8);
    http_resp_send(fx_held, 200, NULL, STR("body"));
    char *out = got(NULL);
    assert_null(strstr(out, "Evil"));
    assert_null(strstr(out, "X-"));
    assert_int_equal(fx_count(out, "Content-Length"), 1);
    assert_null(strstr(out, "chunked"));
    free(out);
}

static void test_chunked(void **state)
{
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, -1);
    assert_true(http_resp_started(fx_held));
    expect_got("Transfer-Encoding: chunked\r\n",
               "Content-Length"); /* the head goes out by itself */
    assert_true(http_resp_write(fx_held, STR("hello")));
    assert_true(http_resp_write(fx_held, STR("")));
    char *out = got(NULL);
    assert_string_equal(out, "5\r\nhello\r\n");
    free(out);
    http_resp_end(fx_held);
    out = got(NULL);
    assert_string_equal(out, "0\r\n\r\n");
    free(out);
    assert_int_equal(fx->n_completed, 1);
    assert_int_equal(fx->last_status, 200);
}

static void test_with_length(void **state)
{
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, 5);
    (void)http_resp_write(fx_held, STR("hel"));
    (void)http_resp_write(fx_held, STR("lo"));
    http_resp_end(fx_held);
    expect_got("Content-Length: 5\r\n", "chunked");
    request("GET", 1); /* the connection lives */
    http_resp_send(fx_held, 200, NULL, STR("next"));
    expect_got("next", NULL);
}

static void test_too_short_is_cut(void **state)
{
    bool closed;
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, 5);
    (void)http_resp_write(fx_held, STR("hel"));
    http_resp_end(fx_held);
    char *out = got(&closed);
    assert_true(closed);
    assert_non_null(strstr(out, "hel"));
    free(out);
    assert_int_equal(fx->n_completed, 0);
}

static void test_too_long_is_clipped(void **state)
{
    unsigned long bugs = bug_count();
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, 3);
    (void)http_resp_write(fx_held, STR("hello"));
    http_resp_end(fx_held);
    expect_got("\r\n\r\nhel", "hell");
    assert_int_equal(bug_count(), bugs + 1);
}

static void test_http10_stream(void **state)
{
    bool closed;
    request("GET", 0);
    http_resp_start(fx_held, 200, NULL, -1);
    (void)http_resp_write(fx_held, STR("hello"));
    http_resp_end(fx_held);
    char *out = got(&closed);
    assert_true(closed);
    assert_null(strstr(out, "chunked"));
    assert_non_null(strstr(out, "Connection: close\r\n"));
    assert_string_equal(strstr(out, "\r\n\r\n"), "\r\n\r\nhello");
    free(out);
    assert_int_equal(fx->n_completed, 1);
}

static void test_close_after(void **state)
{
    bool closed;
    request("GET", 1);
    http_resp_close_after(fx_held);
    http_resp_send(fx_held, 200, NULL, STR("bye"));
    char *out = got(&closed);
    assert_true(closed);
    assert_non_null(strstr(out, "Connection: close\r\n"));
    free(out);
}

static void test_abort(void **state)
{
    bool closed;
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, -1);
    (void)http_resp_write(fx_held, STR("partial"));
    http_resp_abort(fx_held);
    assert_non_null(fx_held); /* not out of the call itself */
    char *out = got(&closed);
    assert_true(closed);
    assert_non_null(strstr(out, "partial"));
    assert_null(strstr(out, "\r\n0\r\n"));
    free(out);
    assert_null(fx_held);
    assert_int_equal(fx->n_completed, 0);
}

/* A reader that does not read: the queue stays within its limit, then the producer goes on. */
static void test_backpressure(void **state)
{
    static char piece[32u << 10];
    size_t written = 0, most = 0;
    memset(piece, 'x', sizeof(piece));
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, 16 << 20);
    bool room = true;
    while (room) {
        room = http_resp_write(fx_held, str_n(piece, sizeof(piece)));
        written += sizeof(piece);
        most = MAX(most, http_resp_queued(fx_held));
        fx_turns(1);
    }
    assert_true(most >= HTTP_OUT_HIGH);
    assert_true(most <= HTTP_OUT_HIGH + sizeof(piece));
    assert_false(is_writable);
    fx_turns(5);
    assert_false(is_writable);
    struct buf out = BUF_INIT(32u << 20);
    while (written < 16u << 20) {
        assert_false(fx_recv(client, &out));
        assert_true(is_writable);
        assert_true(http_resp_queued(fx_held) <= HTTP_OUT_LOW);
        is_writable = false;
        room = true;
        while (room && written < 16u << 20) {
            room = http_resp_write(fx_held, str_n(piece, sizeof(piece)));
            written += sizeof(piece);
        }
    }
    http_resp_end(fx_held);
    assert_false(fx_recv(client, &out));
    assert_true(out.len > 16u << 20);
    assert_int_equal(fx->n_completed, 1);
    assert_true(fx->last_bytes == out.len);
    buf_done(&out);
}

static int temp_file(size_t n)
{
    char path[] = "/tmp/osb-test-resp-XXXXXX";
    int fd = mkstemp(path);
    must(fd >= 0 && unlink(path) == 0);
    for (size_t i = 0; i < n; i++) {
        char c = (char)('a' + i % 26);
        must(write(fd, &c, 1) == 1);
    }
    return fd;
}

static void test_sendfile(void **state)
{
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, 12);
    (void)http_resp_write(fx_held, STR("<"));
    http_resp_sendfile(fx_held, temp_file(100), 26, 10);
    (void)http_resp_write(fx_held, STR(">"));
    http_resp_end(fx_held);
    expect_got("\r\n\r\n<abcdefghij>", NULL);
    request("HEAD", 1);
    http_resp_start(fx_held, 200, NULL, 10);
    http_resp_sendfile(fx_held, temp_file(100), 0, 10);
    http_resp_end(fx_held);
    char *out = got(NULL);
    assert_non_null(strstr(out, "Content-Length: 10\r\n"));
    assert_string_equal(strstr(out, "\r\n\r\n"), "\r\n\r\n");
    free(out);
}

static void test_sendfile_of_a_shrunken_file(void **state)
{
    bool closed;
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, 1000);
    http_resp_sendfile(fx_held, temp_file(100), 0, 1000);
    http_resp_end(fx_held);
    free(got(&closed));
    assert_true(closed);
    assert_int_equal(fx->n_completed, 0);
}

static void test_large_file_to_a_slow_reader(void **state)
{
    int fd = temp_file(0);
    must(ftruncate(fd, 8 << 20) == 0);
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, 8 << 20);
    http_resp_sendfile(fx_held, fd, 0, 8 << 20);
    http_resp_end(fx_held);
    fx_turns(5);
    assert_int_equal(fx->n_ended, 0);
    char *out = got(NULL);
    free(out);
    assert_int_equal(fx->n_completed, 1);
    assert_true(fx->last_bytes > 8 << 20);
}

/* Calls after the end, or twice, do nothing worse than being reported. */
static void test_misuse(void **state)
{
    request("GET", 1);
    http_resp_send(fx_held, 200, NULL, STR("once"));
    http_resp_send(fx_held, 500, NULL, STR("twice"));
    http_resp_end(fx_held);
    assert_false(http_resp_write(fx_held, STR("more")));
    http_resp_header(fx_held, STR("X"), STR("y"));
    http_resp_continue(fx_held);
    expect_got("once", "twice");
    assert_int_equal(fx->n_ended, 1);
}

/* The client is gone, the handler has not heard of it yet. */
static void test_write_to_a_gone_client(void **state)
{
    static char piece[64u << 10];
    request("GET", 1);
    http_resp_start(fx_held, 200, NULL, -1);
    free(got(NULL));
    (void)close(client);
    assert_false(http_resp_write(fx_held, str_n(piece, sizeof(piece))));
    assert_non_null(fx_held);
    assert_false(http_resp_write(fx_held, STR("x")));
    fx_turns(2);
    assert_null(fx_held);
    assert_int_equal(fx->n_completed, 0);
    client = fx_connect();
}

static void test_take_stream(void **state)
{
    struct buf early = BUF_INIT(1000);
    fx_send(client, LIT(REQ("GET", "/hold", "Connection: upgrade\r\nUpgrade: x\r\n") "early"));
    assert_true(http_req_is_upgrade(fx_held, STR("x")));
    assert_false(http_req_is_upgrade(fx_held, STR("y")));
    struct io_stream *s = http_req_take_stream(fx_held, &early);
    assert_non_null(s);
    assert_true(str_eq(buf_str(&early), STR("early")));
    assert_non_null(fx_held);
    fx_turns(2);
    assert_null(fx_held);
    assert_int_equal(fx->n_completed, 1);
    assert_int_equal(http_server_connections(fx->server), 0);
    assert_true(io_stream_write(s, "raw", 3) == 3);
    expect_got("raw", NULL);
    io_stream_close(s);
    buf_done(&early);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_headers),
        T(test_date),
        T(test_injection),
        T(test_chunked),
        T(test_with_length),
        T(test_too_short_is_cut),
        T(test_too_long_is_clipped),
        T(test_http10_stream),
        T(test_close_after),
        T(test_abort),
        T(test_backpressure),
        T(test_sendfile),
        T(test_sendfile_of_a_shrunken_file),
        T(test_large_file_to_a_slow_reader),
        T(test_misuse),
        T(test_write_to_a_gone_client),
        T(test_take_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
