/* The opening handshake, our client against our server, and each against a peer that gets it wrong.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/ws.h"
#include "io/stream.h"
#include "upstream.h"

struct fixture {
    struct io_loop *loop;
    struct http_server *server;
    struct http_client *client;
    struct http_target target;
    struct ws_opts server_opts;
    int n_ended;
    /* the client's end */
    struct ws_conn *ws;
    bool called;
    int error, status;
    struct buf got;
    unsigned code;
};

static void server_message(struct ws_conn *ws, enum ws_opcode op, struct str data, void *arg)
{
    (void)ws_send(ws, op, data);
}

static const struct ws_ops server_ops = {.on_message = server_message};

static void on_req_end(struct http_req *req, bool completed, void *arg)
{
    assert_true(completed);
    ((struct fixture *)arg)->n_ended++;
}

static void handle(struct http_req *req)
{
    struct fixture *f = http_req_app(req);
    http_req_on_end(req, on_req_end, f);
    http_resp_header(req, STR("X-Session"), STR("7"));
    (void)ws_accept(req, &f->server_opts, &server_ops, f);
}

static const struct http_route routes[] = {{"*", "/ws", HTTP_STREAM, .stream = handle}, {0}};

static void client_message(struct ws_conn *ws, enum ws_opcode op, struct str data, void *arg)
{
    (void)buf_add_str(&((struct fixture *)arg)->got, data);
}

static void client_close(struct ws_conn *ws, unsigned code, struct str reason, void *arg)
{
    ((struct fixture *)arg)->code = code;
}

static const struct ws_ops client_ops = {.on_message = client_message, .on_close = client_close};

static void on_connect(struct ws_conn *ws, int error, int status, void *arg)
{
    struct fixture *f = arg;
    assert_false(f->called);
    f->called = true;
    f->ws = ws;
    f->error = error;
    f->status = status;
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err e = {0};
    struct io_addr any;
    f->loop = io_loop_new();
    f->got = BUF_INIT(1 << 20);
    f->client = http_client_new(f->loop, NULL);
    f->server = http_server_new(f->loop, &(struct http_server_opts){.routes = routes, .app = f});
    f->target = (struct http_target){.key = STR("x"), .netns_fd = -1};
    assert_int_equal(io_addr_ip(STR("127.0.0.1"), 0, &any), 0);
    assert_int_equal(
        http_server_listen(f->server, &any, &(struct io_listen_opts){0}, &f->target.addr, &e), 0);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    http_server_free(f->server);
    http_client_free(f->client);
    wait_for(f->loop, io_stream_count() == 0);
    io_loop_free(f->loop);
    buf_done(&f->got);
    assert_int_equal(bug_count(), 0);
    free(f);
    return 0;
}

static struct ws_connect *connect_to(struct fixture *f, const char *path, const char *subprotocol)
{
    f->called = false;
    return ws_connect(f->client, &f->target, str_from(path), NULL, 0,
                      &(struct ws_opts){.subprotocol = subprotocol}, &client_ops, on_connect, f);
}

static void test_both_ends(void **state)
{
    struct fixture *f = *state;
    f->server_opts.subprotocol = "b";
    static const char *const offers[] = {NULL, "b"};
    for (int i = 0; i < 2; i++) {
        (void)connect_to(f, "/ws", offers[i]);
        assert_false(f->called);
        wait_for(f->loop, f->called);
        assert_non_null(f->ws);
        assert_int_equal(f->status, 101);
        assert_true(ws_send(f->ws, WS_TEXT, STR("hello")));
        wait_for(f->loop, f->got.len == 5);
        buf_clear(&f->got);
        assert_int_equal(f->n_ended, i + 1); /* the request is over, its connection is not */
        ws_close(f->ws, 4000, STR("x"));
        wait_for(f->loop, f->code == 4000);
        wait_for(f->loop, io_stream_count() == 0);
    }
}

static void test_refused_by_status(void **state)
{
    struct fixture *f = *state;
    (void)connect_to(f, "/nowhere", NULL);
    wait_for(f->loop, f->called);
    assert_null(f->ws);
    assert_int_equal(f->status, 404);
    assert_true(f->error < 0);
}

static void test_refused_connection(void **state)
{
    struct fixture *f = *state;
    struct upstream u;
    upstream_open(&u, f->loop);
    f->target.addr = u.addr;
    upstream_close(&u);
    (void)connect_to(f, "/ws", NULL);
    wait_for(f->loop, f->called);
    assert_null(f->ws);
    assert_int_equal(f->error, -ECONNREFUSED);
    assert_int_equal(f->status, 0);
}

static void test_cancel(void **state)
{
    struct fixture *f = *state;
    ws_connect_cancel(connect_to(f, "/ws", NULL)); /* while it connects */
    struct upstream u;
    upstream_open(&u, f->loop);
    f->target = (struct http_target){.key = STR("y"), .addr = u.addr, .netns_fd = -1};
    struct ws_connect *w = connect_to(f, "/ws", NULL);
    int fd = upstream_accept(&u);
    struct buf in = BUF_INIT(4096);
    peer_read(f->loop, fd, &in, 0);
    assert_non_null(strstr(buf_cstr(&in), "\r\nSec-WebSocket-Version: 13\r\n"));
    assert_non_null(strstr(buf_cstr(&in), "\r\nHost: 127.0.0.1:"));
    ws_connect_cancel(w); /* while it waits for the answer */
    peer_wait_closed(f->loop, fd);
    assert_false(f->called);
    buf_done(&in);
    (void)close(fd);
    upstream_close(&u);
}

/* What the server answers to a raw request. */
static void expect_answer(struct fixture *f, const char *request, const char *status,
                          const char *contains)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct buf in = BUF_INIT(1 << 16);
    assert_int_equal(connect(fd, &f->target.addr.sa, f->target.addr.len), 0);
    int flags = fcntl(fd, F_GETFL);
    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
    peer_send(f->loop, fd, str_from(request));
    peer_read(f->loop, fd, &in, 0);
    assert_true(str_starts(buf_str(&in), str_from(status)));
    assert_non_null(strstr(buf_cstr(&in), contains));
    buf_done(&in);
    (void)close(fd);
}

#define WS_HEAD "GET /ws HTTP/1.1\r\nHost: h\r\n"
#define WS_KEY "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
#define WS_UP "Upgrade: websocket\r\nConnection: Upgrade\r\n"
#define WS_13 "Sec-WebSocket-Version: 13\r\n"

static void test_server_checks(void **state)
{
    struct fixture *f = *state;
    expect_answer(f, WS_HEAD WS_KEY WS_UP WS_13 "\r\n", "HTTP/1.1 101 ",
                  "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nX-Session: 7\r\n\r\n");
    expect_answer(f, WS_HEAD WS_KEY WS_UP "Sec-WebSocket-Version: 12\r\n\r\n", "HTTP/1.1 426 ",
                  "Sec-WebSocket-Version: 13\r\n");
    expect_answer(f, WS_HEAD WS_UP WS_13 "\r\n", "HTTP/1.1 400 ", "Content-Length");
    expect_answer(f, WS_HEAD "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=!\r\n" WS_UP WS_13 "\r\n",
                  "HTTP/1.1 400 ", "Content-Length");
    expect_answer(f, WS_HEAD WS_KEY WS_13 "\r\n", "HTTP/1.1 426 ", "Upgrade: websocket\r\n");
    expect_answer(f,
                  "POST /ws HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n" WS_KEY WS_UP WS_13 "\r\n",
                  "HTTP/1.1 400 ", "Content-Length");
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_both_ends), T(test_refused_by_status), T(test_refused_connection),
        T(test_cancel),    T(test_server_checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
