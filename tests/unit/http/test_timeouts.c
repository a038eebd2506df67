/* Every wait has an end: with a clock that only the test moves. */

#include "harness.h"

static void get_hello(struct http_req *req)
{
    fx_track(req);
    http_resp_send(req, 200, NULL, STR("hello"));
}

static void on_collected(struct http_req *req, struct str body, void *arg)
{
    http_resp_send(req, 200, NULL, body);
}

static void post_collect(struct http_req *req)
{
    fx_track(req);
    http_req_collect(req, 1u << 20, on_collected, NULL);
}

static void on_ignored(struct http_req *req, struct str data, bool is_last, void *arg)
{
}

static void post_started(struct http_req *req)
{
    fx_track(req);
    http_req_on_body(req, on_ignored, NULL);
    http_resp_start(req, 200, NULL, -1);
}

static void get_big(struct http_req *req)
{
    static char zeros[4u << 20];
    fx_track(req);
    http_resp_send(req, 200, NULL, str_n(zeros, sizeof(zeros)));
}

static void get_hold(struct http_req *req)
{
    fx_track(req);
}

static void post_ignore(struct http_req *req)
{
    fx_track(req);
    http_resp_send(req, 401, NULL, STR(""));
}

static const struct http_route routes[] = {
    {"GET", "/hello", HTTP_STREAM, .stream = get_hello},
    {"POST", "/collect", HTTP_STREAM, .stream = post_collect},
    {"POST", "/started", HTTP_STREAM, .stream = post_started},
    {"GET", "/big", HTTP_STREAM, .stream = get_big},
    {"GET", "/hold", HTTP_STREAM, .stream = get_hold},
    {"POST", "/ignore", HTTP_STREAM, .stream = post_ignore},
    {0},
};

static struct http_server_opts opts = {.routes = routes};

static void advance(uint64_t ms)
{
    io_clock_advance(fx->loop, ms);
    fx_turns(3);
}

/* The answer so far; *closed as in fx_recv. */
static char *so_far(int fd, bool *closed)
{
    struct buf out = BUF_INIT(16u << 20);
    *closed = fx_recv(fd, &out);
    return buf_take(&out);
}

static void expect_open(int fd)
{
    bool closed;
    free(so_far(fd, &closed));
    assert_false(closed);
}

static void expect_end(int fd, int status)
{
    bool closed;
    char *out = so_far(fd, &closed);
    assert_true(closed);
    if (status) {
        assert_int_equal(fx_status(out), status);
        assert_non_null(strstr(out, "Connection: close"));
    } else {
        assert_string_equal(out, "");
    }
    free(out);
    (void)close(fd);
    fx_turns(3);
    assert_int_equal(http_server_connections(fx->server), 0);
}

static void test_idle_from_the_start(void **state)
{
    int fd = fx_connect();
    advance(HTTP_IDLE_TIMEOUT_MS - 1);
    expect_open(fd);
    advance(1);
    expect_end(fd, 0);
}

static void test_idle_between_requests(void **state)
{
    int fd = fx_connect();
    for (int i = 0; i < 3; i++) {
        advance(HTTP_IDLE_TIMEOUT_MS - 1);
        fx_send(fd, LIT(REQ("GET", "/hello", "")));
        expect_open(fd);
    }
    advance(HTTP_IDLE_TIMEOUT_MS - 1);
    expect_open(fd);
    advance(1);
    expect_end(fd, 0);
}

/* Counts from the first byte of the head, not from the last: a slow sender gets no more time. */
static void test_head(void **state)
{
    int fd = fx_connect();
    fx_send(fd, LIT("GET /hello HT"));
    advance(HTTP_HEAD_TIMEOUT_MS - 1);
    fx_send(fd, LIT("TP/1.1\r\nHos"));
    expect_open(fd);
    advance(1);
    expect_end(fd, 408);
    assert_int_equal(fx->last_status, 408);
    assert_int_equal(fx->n_begun, 0);
}

static void test_second_head(void **state)
{
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("GET", "/hello", "") "GET"));
    expect_open(fd);
    advance(HTTP_HEAD_TIMEOUT_MS);
    expect_end(fd, 408);
}

/* Counts from the last byte of the body: progress buys time. */
static void test_body(void **state)
{
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("POST", "/collect", "Content-Length: 10\r\n")));
    for (int i = 0; i < 5; i++) {
        advance(HTTP_BODY_TIMEOUT_MS - 1);
        fx_send(fd, LIT("x"));
    }
    expect_open(fd);
    advance(HTTP_BODY_TIMEOUT_MS - 1);
    expect_open(fd);
    advance(1);
    expect_end(fd, 408);
    assert_int_equal(fx->n_ended, 1);
    assert_int_equal(fx->n_completed, 0);
}

static void test_body_after_start(void **state)
{
    bool closed;
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("POST", "/started", "Content-Length: 10\r\n")));
    advance(HTTP_BODY_TIMEOUT_MS);
    char *out = so_far(fd, &closed);
    assert_true(closed);
    assert_int_equal(fx_status(out), 200);
    assert_null(strstr(out, "\r\n0\r\n"));
    free(out);
    (void)close(fd);
    fx_turns(2);
    assert_int_equal(fx->n_completed, 0);
}

/* A reader that takes something now and then is served on; one that stops is not. */
static void test_write(void **state)
{
    char chunk[65536];
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("GET", "/big", "")));
    for (int i = 0; i < 3; i++) {
        advance(HTTP_WRITE_TIMEOUT_MS - 1);
        assert_true(recv(fd, chunk, sizeof(chunk), 0) > 0);
        while (recv(fd, chunk, sizeof(chunk), 0) > 0) {
        }
        fx_turns(2);
    }
    assert_int_equal(http_server_connections(fx->server), 1);
    advance(HTTP_WRITE_TIMEOUT_MS - 1);
    assert_int_equal(http_server_connections(fx->server), 1);
    advance(1);
    assert_int_equal(http_server_connections(fx->server), 0);
    assert_int_equal(fx->n_ended, 1);
    assert_int_equal(fx->n_completed, 0);
    (void)close(fd);
}

/* The server has no opinion on how long a handler may take. */
static void test_handler_takes_its_time(void **state)
{
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("GET", "/hold", "")));
    advance(10 * HTTP_IDLE_TIMEOUT_MS);
    expect_open(fd);
    assert_int_equal(fx->n_ended, 0);
    (void)close(fd);
}

/* After a refusal the client may still be sending: reading goes on, but not for long. */
static void test_linger(void **state)
{
    bool closed;
    int fd = fx_connect();
    fx_send(fd, LIT("GET / HTTP/1.1\n"));
    free(so_far(fd, &closed));
    assert_true(closed); /* its sending side */
    for (int i = 0; i < 9; i++) {
        advance(HTTP_LINGER_MS / 10);
        assert_int_equal(http_server_connections(fx->server), 1);
        fx_send(fd, LIT("more"));
    }
    advance(HTTP_LINGER_MS / 10);
    assert_int_equal(http_server_connections(fx->server), 0);
    (void)close(fd);
}

static void test_unread_body_never_comes(void **state)
{
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("POST", "/ignore", "Content-Length: 10\r\n") "123"));
    assert_int_equal(fx->n_completed, 1);
    expect_open(fd);
    advance(HTTP_BODY_TIMEOUT_MS);
    expect_end(fd, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_SERVER(test_idle_from_the_start),
        ON_SERVER(test_idle_between_requests),
        ON_SERVER(test_head),
        ON_SERVER(test_second_head),
        ON_SERVER(test_body),
        ON_SERVER(test_body_after_start),
        ON_SERVER(test_write),
        ON_SERVER(test_handler_takes_its_time),
        ON_SERVER(test_linger),
        ON_SERVER(test_unread_body_never_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
