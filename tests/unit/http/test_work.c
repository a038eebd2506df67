/* Work routes: bodies collected, handlers in threads, answers back, clients that leave meanwhile.
 */

#include <semaphore.h>

#include "harness.h"

static sem_t entered, leave;

static void do_echo(struct http_req *req, struct http_reply *reply)
{
    struct io_addr peer;
    must(http_req_peer(req, &peer) == 0);
    reply->status = 201;
    http_reply_header(reply, STR("X-Id"), http_req_id(req));
    (void)buf_add_str(&reply->body, http_req_body(req));
}

static void do_nothing(struct http_req *req, struct http_reply *reply)
{
}

static void do_empty(struct http_req *req, struct http_reply *reply)
{
    reply->status = 204;
}

static void do_large(struct http_req *req, struct http_reply *reply)
{
    reply->status = 200;
    reply->ctype = "text/plain";
    for (int i = 0; i < 300000; i++) {
        (void)buf_add_cstr(&reply->body, "0123456789");
    }
}

static void do_wait(struct http_req *req, struct http_reply *reply)
{
    must(sem_post(&entered) == 0);
    must(sem_wait(&leave) == 0);
    reply->status = 200;
    /* Still valid, whatever happened to the connection. */
    (void)buf_printf(&reply->body, "%.*s %.*s %s", STR_FMT(http_req_method(req)),
                     STR_FMT(http_req_body(req)), http_req_client_gone(req) ? "gone" : "here");
    must(str_eq(http_req_header(req, STR("Host")), STR("t")));
}

static size_t streamed;
static int stream_result;

static void do_stream(struct http_req *req, struct http_reply *reply)
{
    static char piece[100000];
    memset(piece, '#', sizeof(piece));
    http_reply_header(reply, STR("X-One"), STR("1"));
    stream_result = http_reply_stream(reply, 202, "text/plain");
    for (int i = 0; i < 50 && stream_result == 0; i++) {
        stream_result = http_reply_write(reply, str_n(piece, sizeof(piece)));
        __atomic_add_fetch(&streamed, stream_result == 0 ? sizeof(piece) : 0, __ATOMIC_SEQ_CST);
    }
    must(sem_post(&entered) == 0);
}

static void do_stream_nothing(struct http_req *req, struct http_reply *reply)
{
    (void)http_reply_stream(reply, 200, NULL);
}

static void pass_on(struct http_req *req, struct str body, void *arg)
{
    static const struct str to[] = {{"/stream-echo", 12}, {"/echo", 5}, {"/tight", 6}};
    http_req_redispatch(req, to[body.n - 2]);
}

static void on_body(struct http_req *req, struct str data, bool is_last, void *arg)
{
    assert_true(is_last);
    http_resp_send(req, 202, NULL, data);
}

static void post_stream_echo(struct http_req *req)
{
    http_req_on_body(req, on_body, NULL);
}

/* Looks into the body first, and then passes the request on to a worker. */
static void post_pass(struct http_req *req)
{
    http_req_collect(req, 100, pass_on, NULL);
}

static const struct http_route routes[] = {
    {"POST", "/pass", HTTP_STREAM, .stream = post_pass},
    {"POST", "/stream-echo", HTTP_STREAM, .stream = post_stream_echo},
    {"POST", "/tight", HTTP_WORK, .work = do_echo, .max_body = 3},
    {"POST", "/echo", HTTP_WORK, .work = do_echo, .max_body = 1000},
    {"GET", "/nothing", HTTP_WORK, .work = do_nothing},
    {"GET", "/empty", HTTP_WORK, .work = do_empty},
    {"GET", "/large", HTTP_WORK, .work = do_large},
    {"POST", "/wait", HTTP_WORK, .work = do_wait},
    {"GET", "/stream", HTTP_WORK, .work = do_stream},
    {"GET", "/stream-nothing", HTTP_WORK, .work = do_stream_nothing},
    {0},
};

static int setup(void **state)
{
    must(sem_init(&entered, 0, 0) == 0 && sem_init(&leave, 0, 0) == 0);
    streamed = 0;
    stream_result = 1;
    fx_start(&(struct http_server_opts){.routes = routes});
    return 0;
}

static int teardown(void **state)
{
    fx_stop();
    (void)sem_destroy(&entered);
    (void)sem_destroy(&leave);
    return 0;
}

/* Turns the loop until `n` requests are over. */
static void wait_for(int n)
{
    while (fx->n_after < n) {
        io_loop_turn(fx->loop, true);
    }
}

/* Sends and waits until the request is over, reading along. */
static char *ask(struct str in, bool *ret_closed)
{
    struct buf out = BUF_INIT(64u << 20);
    int n = fx->n_after, fd = fx_connect();
    bool closed = false;
    fx_send(fd, in);
    while (fx->n_after == n) {
        closed = fx_recv(fd, &out) || closed;
        if (fx->n_after == n) {
            io_loop_turn(fx->loop, true);
        }
    }
    closed = fx_recv(fd, &out) || closed;
    if (ret_closed) {
        *ret_closed = closed;
    }
    (void)close(fd);
    fx_turns(3);
    return buf_take(&out);
}

static void test_answers(void **state)
{
    char *out =
        ask(LIT(REQ("POST", "/echo", "X-Request-ID: r1\r\nContent-Length: 3\r\n") "abc"), NULL);
    assert_int_equal(fx_status(out), 201);
    assert_non_null(strstr(out, "X-Id: r1\r\n"));
    assert_non_null(strstr(out, "Content-Type: application/json\r\n"));
    assert_non_null(strstr(out, "\r\n\r\nabc"));
    free(out);
    out = ask(LIT(REQ("GET", "/nothing", "")), NULL);
    assert_int_equal(fx_status(out), 500);
    free(out);
    out = ask(LIT(REQ("GET", "/empty", "")), NULL);
    assert_int_equal(fx_status(out), 204);
    assert_null(strstr(out, "Content-Type"));
    free(out);
    out = ask(LIT(REQ("GET", "/large", "")), NULL);
    assert_true(strlen(out) > 3000000);
    assert_non_null(strstr(out, "Content-Length: 3000000\r\n"));
    free(out);
    out = ask(LIT(REQ("HEAD", "/large", "")), NULL);
    assert_non_null(strstr(out, "Content-Length: 3000000\r\n"));
    assert_true(strlen(out) < 1000);
    free(out);
}

static void test_passed_on_with_its_body(void **state)
{
    char *out = ask(LIT(REQ("POST", "/pass", "Content-Length: 3\r\n") "abc"), NULL);
    assert_int_equal(fx_status(out), 201);
    assert_non_null(strstr(out, "\r\n\r\nabc"));
    free(out);
    out = ask(LIT(REQ("POST", "/pass", "Content-Length: 2\r\n") "ab"), NULL);
    assert_int_equal(fx_status(out), 202);
    assert_non_null(strstr(out, "\r\n\r\nab"));
    free(out);
    out = ask(LIT(REQ("POST", "/pass", "Content-Length: 4\r\n") "abcd"), NULL);
    assert_int_equal(fx_status(out), 413);
    free(out);
}

static void test_too_large(void **state)
{
    bool closed;
    char *out = ask(LIT(REQ("POST", "/echo", "Content-Length: 1001\r\n")), &closed);
    assert_int_equal(fx_status(out), 413);
    assert_true(closed);
    free(out);
}

static void test_pipelined(void **state)
{
    struct buf out = BUF_INIT(1u << 20);
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("POST", "/echo", "Content-Length: 1\r\n") "1" REQ(
                    "POST", "/echo", "Content-Length: 1\r\n") "2" REQ("GET", "/empty", "")));
    wait_for(3);
    (void)fx_recv(fd, &out);
    const char *one = strstr(buf_cstr(&out), "\r\n\r\n1"),
               *two = strstr(buf_cstr(&out), "\r\n\r\n2");
    assert_non_null(one);
    assert_true(two > one);
    (void)close(fd);
    buf_done(&out);
    fx_turns(3);
}

/* Two workers and four places to wait: the seventh is told to come back. */
static void test_queue_full(void **state)
{
    int fds[7];
    for (int i = 0; i < 6; i++) {
        fds[i] = fx_connect();
        fx_send(fds[i], LIT(REQ("POST", "/wait", "Content-Length: 1\r\n") "x"));
        if (i < 2) {
            must(sem_wait(&entered) == 0);
        }
    }
    bool closed;
    char *out = ask(LIT(REQ("POST", "/wait", "Content-Length: 1\r\n") "x"), &closed);
    assert_int_equal(fx_status(out), 503);
    assert_non_null(strstr(out, "Retry-After: 1\r\n"));
    free(out);
    for (int i = 0; i < 6; i++) {
        must(sem_post(&leave) == 0);
    }
    wait_for(7);
    for (int i = 0; i < 6; i++) {
        struct buf b = BUF_INIT(1000);
        (void)fx_recv(fds[i], &b);
        assert_non_null(strstr(buf_cstr(&b), "POST x here"));
        buf_done(&b);
        (void)close(fds[i]);
    }
    fx_turns(3);
}

static void test_client_leaves(void **state)
{
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("POST", "/wait", "Content-Length: 4\r\n") "data"));
    must(sem_wait(&entered) == 0);
    (void)close(fd);
    fx_turns(3);
    assert_int_equal(http_server_connections(fx->server), 0);
    assert_int_equal(fx->n_after, 0); /* the worker still has it */
    must(sem_post(&leave) == 0);
    wait_for(1);
    assert_int_equal(fx->last_status, 0);
}

static void test_server_freed_meanwhile(void **state)
{
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("POST", "/wait", "Content-Length: 4\r\n") "data"));
    must(sem_wait(&entered) == 0);
    http_server_free(fx->server);
    must(sem_post(&leave) == 0);
    io_pool_free(fx->pool);
    fx_turns(2);
    fx->pool = io_pool_new("test", 1, 1);
    fx->server =
        http_server_new(fx->loop, &(struct http_server_opts){.routes = routes, .pool = fx->pool});
    (void)close(fd);
}

static void test_stream(void **state)
{
    char *out = ask(LIT(REQ("GET", "/stream", "")), NULL);
    assert_int_equal(fx_status(out), 202);
    assert_non_null(strstr(out, "X-One: 1\r\n"));
    assert_non_null(strstr(out, "Transfer-Encoding: chunked\r\n"));
    size_t n = 0;
    for (const char *p = out; *p; p++) {
        n += *p == '#';
    }
    assert_int_equal(n, 5000000);
    assert_string_equal(out + strlen(out) - 7, "\r\n0\r\n\r\n");
    free(out);
    out = ask(LIT(REQ("GET", "/stream-nothing", "")), NULL);
    assert_int_equal(fx_status(out), 200);
    assert_string_equal(out + strlen(out) - 5, "0\r\n\r\n");
    free(out);
}

/* A client that does not read stops the worker; one that leaves lets it go with -EPIPE. */
static void test_stream_to_a_slow_client(void **state)
{
    int fd = fx_connect();
    fx_send(fd, LIT(REQ("GET", "/stream", "")));
    size_t before;
    do {
        before = __atomic_load_n(&streamed, __ATOMIC_SEQ_CST);
        for (int i = 0; i < 50; i++) {
            fx_turns(1);
            (void)poll(NULL, 0, 1);
        }
    } while (before != __atomic_load_n(&streamed, __ATOMIC_SEQ_CST));
    assert_true(before < 5000000);
    assert_true(before <= 2 * HTTP_OUT_HIGH + (1u << 20)); /* ours, and the kernel's */
    (void)close(fd);
    fx_turns(3);
    must(sem_wait(&entered) == 0);
    wait_for(1);
    assert_int_equal(stream_result, -EPIPE);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_answers),
        T(test_passed_on_with_its_body),
        T(test_too_large),
        T(test_pipelined),
        T(test_queue_full),
        T(test_client_leaves),
        T(test_server_freed_meanwhile),
        T(test_stream),
        T(test_stream_to_a_slow_client),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
