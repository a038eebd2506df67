/* WebSocket connections over a socket pair: one end is under test, the other sends raw frames. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/ws_internal.h"
#include "upstream.h"

struct fixture {
    struct io_loop *loop;
    struct ws_conn *ws;
    int fd; /* the peer's end */
    struct buf log;
    int n_close, n_writable;
    unsigned code;
    enum { DO_NOTHING, PAUSE, ABORT, CLOSE, ECHO } on_message;
    bool abort_in_close;
};

static void on_message(struct ws_conn *ws, enum ws_opcode op, struct str data, void *arg)
{
    struct fixture *f = arg;
    assert_int_equal(f->n_close, 0);
    assert_ptr_equal(ws_arg(ws), f);
    (void)buf_printf(&f->log, "%c:%.*s ", op == WS_TEXT ? 'T' : 'B', STR_FMT(data));
    if (f->on_message == PAUSE) {
        ws_pause(ws);
    } else if (f->on_message == ABORT) {
        ws_abort(ws);
    } else if (f->on_message == CLOSE) {
        ws_close(ws, 4001, STR("enough"));
    } else if (f->on_message == ECHO) {
        (void)ws_send(ws, op, data);
    }
}

static void on_writable(struct ws_conn *ws, void *arg)
{
    ((struct fixture *)arg)->n_writable++;
}

static void on_close(struct ws_conn *ws, unsigned code, struct str reason, void *arg)
{
    struct fixture *f = arg;
    f->n_close++;
    f->code = code;
    (void)buf_printf(&f->log, "C%u:%.*s ", code, STR_FMT(reason));
    if (f->abort_in_close) {
        ws_abort(ws);
    }
}

static void on_pong(struct ws_conn *ws, struct str data, void *arg)
{
    (void)buf_printf(&((struct fixture *)arg)->log, "O:%.*s ", STR_FMT(data));
}

static const struct ws_ops ops = {on_message, on_writable, on_close, on_pong};

static void open_ws(struct fixture *f, bool is_server, const struct ws_opts *o, struct str early)
{
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    f->fd = fds[1];
    buf_clear(&f->log);
    f->n_close = f->n_writable = 0;
    f->code = 0;
    f->on_message = DO_NOTHING;
    f->abort_in_close = false;
    f->ws =
        ws_conn_new(io_stream_from_fd(f->loop, fds[0], NULL, NULL), is_server, o, &ops, f, early);
}

/* The peer goes; everything of the connection must go with it. */
static void close_peer(struct fixture *f)
{
    (void)close(f->fd);
    wait_for(f->loop, io_stream_count() == 0);
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    f->loop = io_loop_new();
    f->log = BUF_INIT(1 << 20);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(io_stream_count(), 0);
    assert_int_equal(bug_count(), 0);
    io_loop_free(f->loop);
    buf_done(&f->log);
    free(f);
    return 0;
}

#define SEND(f, lit) peer_send((f)->loop, (f)->fd, str_n((lit), sizeof(lit) - 1))

/* The peer must receive exactly these bytes next. */
static void expect_bytes(struct fixture *f, struct str want)
{
    struct buf in = BUF_INIT(1 << 20);
    peer_read(f->loop, f->fd, &in, want.n);
    assert_memory_equal(in.p, want.p, want.n);
    buf_done(&in);
}
#define EXPECT(f, lit) expect_bytes((f), str_n((lit), sizeof(lit) - 1))

#define M "\x01\x02\x03\x04" /* a mask; payloads below are written with it applied */

static void test_client_receives(void **state)
{
    struct fixture *f = *state;
    open_ws(f, false, NULL, STR_NULL);
    SEND(f, "\x81\x02hi\x01\x01"
            "a\x89\x01p\x80\x01"
            "b\x8a\x01q\x82\x00");
    struct buf in = BUF_INIT(100);
    peer_read(f->loop, f->fd, &in, 7); /* the pong, masked */
    assert_memory_equal(in.p, "\x8a\x81", 2);
    assert_int_equal(in.p[6] ^ in.p[2], 'p');
    buf_done(&in);
    wait_for(f->loop, f->log.len > 0);
    settle(f->loop);
    assert_string_equal(buf_cstr(&f->log), "T:hi T:ab O:q B: ");
    close_peer(f);
    assert_int_equal(f->code, 1006);
    assert_int_equal(f->n_close, 1);
}

static void test_server_echoes(void **state)
{
    struct fixture *f = *state;
    open_ws(f, true, NULL, STR("\x81\x82" M "ik" /* "hi" */));
    f->on_message = ECHO;
    assert_int_equal(f->log.len, 0); /* not before the caller has its pointer */
    EXPECT(f, "\x81\x02hi");
    SEND(f, "\x82\x80" M "\x89\x81" M "a");
    EXPECT(f, "\x82\x00\x8a\x01`");
    assert_true(ws_send(f->ws, WS_PING, STR("x")));
    EXPECT(f, "\x89\x01x");
    close_peer(f);
}

static void test_peer_closes(void **state)
{
    struct fixture *f = *state;
    open_ws(f, false, NULL, STR_NULL);
    SEND(f, "\x88\x05\x03\xe8"
            "bye");
    wait_for(f->loop, f->n_close > 0);
    assert_string_equal(buf_cstr(&f->log), "C1000:bye ");
    struct buf in = BUF_INIT(100);
    peer_read(f->loop, f->fd, &in, 8); /* its code is echoed */
    assert_memory_equal(in.p, "\x88\x82", 2);
    assert_int_equal(in.p[6] ^ in.p[2], 0x03);
    assert_int_equal((uint8_t)(in.p[7] ^ in.p[3]), 0xe8);
    buf_done(&in);
    peer_wait_closed(f->loop, f->fd);
    close_peer(f);
    assert_int_equal(f->n_close, 1);

    open_ws(f, true, NULL, STR_NULL); /* without a code */
    SEND(f, "\x88\x80" M);
    EXPECT(f, "\x88\x00");
    assert_string_equal(buf_cstr(&f->log), "C1005: ");
    peer_wait_closed(f->loop, f->fd);
    close_peer(f);
}

static void test_we_close(void **state)
{
    struct fixture *f = *state;
    open_ws(f, true, NULL, STR_NULL);
    ws_close(f->ws, 1000, STR("done"));
    ws_close(f->ws, 1001, STR("twice is nothing"));
    assert_false(ws_send(f->ws, WS_TEXT, STR("too late")));
    EXPECT(f, "\x88\x06\x03\xe8"
              "done");
    SEND(f, "\x81\x81" M "`");        /* still under way when the peer got our Close */
    SEND(f, "\x88\x82" M "\x02\xea"); /* 1000 */
    wait_for(f->loop, f->n_close > 0);
    assert_string_equal(buf_cstr(&f->log), "T:a C1000: ");
    peer_wait_closed(f->loop, f->fd);
    close_peer(f);
}

static void test_we_leave(void **state)
{
    struct fixture *f = *state;
    open_ws(f, true, NULL, STR_NULL);
    ws_leave(f->ws, 4001, STR("bye"));
    EXPECT(f, "\x88\x05\x0f\xa1"
              "bye");
    SEND(f, "\x81\x81" M "`"
            "\x88\x82" M "\x0e\xa3");
    peer_wait_closed(f->loop, f->fd);
    close_peer(f);
    assert_int_equal(f->n_close, 0);
    assert_int_equal(f->log.len, 0);
}

static void test_close_deadline(void **state)
{
    struct fixture *f = *state;
    io_clock_fake(f->loop);
    open_ws(f, true, NULL, STR_NULL);
    ws_close(f->ws, 1000, STR(""));
    settle(f->loop);
    io_clock_advance(f->loop, HTTP_WS_CLOSE_MS - 1);
    assert_int_equal(f->n_close, 0);
    io_clock_advance(f->loop, 1);
    assert_int_equal(f->code, 1006);
    settle(f->loop);
    assert_int_equal(io_stream_count(), 0);
    (void)close(f->fd);

    open_ws(f, true, NULL, STR_NULL); /* the peer said Close, but its socket stays open */
    SEND(f, "\x88\x80" M);
    wait_for(f->loop, f->n_close > 0);
    assert_int_equal(io_stream_count(), 1);
    io_clock_advance(f->loop, HTTP_WS_CLOSE_MS);
    settle(f->loop);
    assert_int_equal(io_stream_count(), 0);
    assert_int_equal(f->n_close, 1);
    (void)close(f->fd);
}

static void test_violations(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct str in;
        unsigned code;
        const char *frame;
    } cases[] = {
        {{"\x81\x02hi", 4}, 1002, "\x88\x02\x03\xea"},         /* not masked */
        {{"\xc1\x80" M, 6}, 1002, "\x88\x02\x03\xea"},         /* reserved bit */
        {{"\x81\x81" M "\xfe", 7}, 1007, "\x88\x02\x03\xef"},  /* 0xff is no UTF-8 */
        {{"\x82\xfe\x04\x01" M, 8}, 1009, "\x88\x02\x03\xf1"}, /* 1025 bytes, limit 1024 */
        {{"\x88\x81" M "\x02", 7}, 1002, "\x88\x02\x03\xea"},  /* half a code */
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        open_ws(f, true, &(struct ws_opts){.max_message = 1024}, STR_NULL);
        peer_send(f->loop, f->fd, cases[i].in);
        expect_bytes(f, str_n(cases[i].frame, 4));
        wait_for(f->loop, f->n_close > 0);
        assert_int_equal(f->code, cases[i].code);
        peer_wait_closed(f->loop, f->fd);
        SEND(f, "garbage behind it is dropped");
        settle(f->loop);
        close_peer(f);
        assert_int_equal(f->n_close, 1);
    }
}

static void test_pause(void **state)
{
    struct fixture *f = *state;
    open_ws(f, false, NULL, STR_NULL);
    f->on_message = PAUSE;
    SEND(f, "\x81\x01"
            "a\x81\x01"
            "b\x81\x01"
            "c");
    wait_for(f->loop, f->log.len > 0);
    settle(f->loop);
    assert_string_equal(buf_cstr(&f->log), "T:a ");
    ws_resume(f->ws);
    assert_string_equal(buf_cstr(&f->log), "T:a "); /* not from inside */
    settle(f->loop);
    assert_string_equal(buf_cstr(&f->log), "T:a T:b ");
    f->on_message = DO_NOTHING;
    ws_resume(f->ws);
    settle(f->loop);
    assert_string_equal(buf_cstr(&f->log), "T:a T:b T:c ");
    /* closing while paused finds the peer's Close behind messages that nobody wants */
    ws_pause(f->ws);
    SEND(f, "\x81\x01"
            "d\x88\x02\x03\xe8");
    settle(f->loop);
    assert_int_equal(f->n_close, 0);
    ws_close(f->ws, 1000, STR(""));
    wait_for(f->loop, f->n_close > 0);
    assert_string_equal(buf_cstr(&f->log), "T:a T:b T:c C1000: ");
    close_peer(f);
}

/* While paused the peer can send no more than what the socket and one read hold. */
static void test_pause_is_backpressure(void **state)
{
    struct fixture *f = *state;
    open_ws(f, false, NULL, STR_NULL);
    ws_pause(f->ws);
    static char frame[4 + 1000] = "\x82\x7e\x03\xe8";
    size_t sent = 0;
    for (int quiet = 0; quiet < 20;) {
        ssize_t n = send(f->fd, frame, sizeof(frame), MSG_NOSIGNAL);
        quiet = n > 0 ? 0 : quiet + 1;
        sent += n > 0 ? (size_t)n : 0;
        assert_true(sent < 8u << 20);
        io_loop_turn(f->loop, false);
    }
    assert_int_equal(f->log.len, 0);
    ws_abort(f->ws);
    settle(f->loop);
    (void)close(f->fd);
}

static void test_send_backpressure(void **state)
{
    struct fixture *f = *state;
    open_ws(f, true, NULL, STR_NULL);
    static char data[50000];
    size_t n_sent = 0;
    while (ws_send(f->ws, WS_BINARY, str_n(data, sizeof(data)))) {
        assert_true(++n_sent < 1000);
    }
    n_sent++;
    assert_true(ws_queued(f->ws) >= HTTP_OUT_HIGH);
    settle(f->loop);
    assert_int_equal(f->n_writable, 0);
    struct buf in = BUF_INIT(64u << 20);
    peer_read(f->loop, f->fd, &in, n_sent * (4 + sizeof(data)));
    buf_done(&in);
    wait_for(f->loop, f->n_writable == 1);
    assert_int_equal(ws_queued(f->ws), 0);
    assert_true(ws_send(f->ws, WS_TEXT, STR("x")));
    EXPECT(f, "\x81\x01x");
    close_peer(f);
}

/* A peer that sends pings and never reads is not read for ever. */
static void test_ping_flood(void **state)
{
    struct fixture *f = *state;
    open_ws(f, true, NULL, STR_NULL);
    char pings[131 * 100];
    for (size_t i = 0; i < 100; i++) {
        memset(pings + 131 * i, 0, 131);
        memcpy(pings + 131 * i, "\x89\xfd" M, 6);
    }
    size_t sent = 0;
    for (int quiet = 0; quiet < 50;) {
        ssize_t n = send(f->fd, pings + sent % sizeof(pings), sizeof(pings) - sent % sizeof(pings),
                         MSG_NOSIGNAL);
        quiet = n > 0 ? 0 : quiet + 1;
        sent += n > 0 ? (size_t)n : 0;
        assert_true(sent < 16u << 20);
        io_loop_turn(f->loop, false);
    }
    assert_true(ws_queued(f->ws) < 2 * HTTP_OUT_HIGH);
    ws_abort(f->ws);
    settle(f->loop);
    (void)close(f->fd);
}

static void test_timers(void **state)
{
    struct fixture *f = *state;
    io_clock_fake(f->loop);
    open_ws(f, true, &(struct ws_opts){.ping_ms = 1000, .idle_ms = 2500}, STR_NULL);
    io_clock_advance(f->loop, 1000);
    EXPECT(f, "\x89\x00");
    io_clock_advance(f->loop, 1000);
    EXPECT(f, "\x89\x00");
    SEND(f, "\x8a\x80" M); /* alive: the count begins again */
    settle(f->loop);
    assert_string_equal(buf_cstr(&f->log), "O: ");
    io_clock_advance(f->loop, 1000);
    io_clock_advance(f->loop, 1000);
    EXPECT(f, "\x89\x00\x89\x00");
    assert_int_equal(f->n_close, 0);
    io_clock_advance(f->loop, 500);
    assert_int_equal(f->code, 1001);
    EXPECT(f, "\x88\x06\x03\xe9idle");
    close_peer(f);
}

static void test_abort(void **state)
{
    struct fixture *f = *state;
    open_ws(f, false, NULL, STR_NULL);
    f->on_message = ABORT;
    SEND(f, "\x81\x01"
            "a\x81\x01"
            "b");
    peer_wait_closed(f->loop, f->fd);
    settle(f->loop);
    assert_string_equal(buf_cstr(&f->log), "T:a ");
    (void)close(f->fd);

    open_ws(f, false, NULL,
            STR("\x81\x01"
                "a")); /* with work deferred */
    ws_resume(f->ws);
    ws_abort(f->ws);
    settle(f->loop);
    assert_int_equal(f->log.len, 0);
    (void)close(f->fd);

    open_ws(f, false, NULL, STR_NULL); /* inside its own on_close */
    f->abort_in_close = true;
    SEND(f, "\x88\x00");
    wait_for(f->loop, f->n_close > 0);
    settle(f->loop);
    assert_int_equal(io_stream_count(), 0);
    (void)close(f->fd);

    open_ws(f, false, NULL, STR_NULL); /* closing inside a message */
    f->on_message = CLOSE;
    SEND(f, "\x81\x01"
            "a\x81\x01"
            "b\x88\x02\x0f\xa1");
    wait_for(f->loop, f->n_close > 0);
    assert_string_equal(buf_cstr(&f->log), "T:a T:b C4001: ");
    close_peer(f);
}

static void test_peer_vanishes(void **state)
{
    struct fixture *f = *state;
    open_ws(f, true, NULL, STR_NULL);
    SEND(f, "\x82\x85" M "ab"); /* inside a frame */
    settle(f->loop);
    (void)close(f->fd);
    (void)ws_send(f->ws, WS_TEXT, STR("x")); /* fails; on_close must not come from inside */
    assert_int_equal(f->n_close, 0);
    wait_for(f->loop, f->n_close > 0);
    assert_int_equal(f->code, 1006);
    settle(f->loop);
    assert_int_equal(io_stream_count(), 0);
}

/* Whom its user has left the loop ends, as it ends one that nobody saw to. */
static void test_loop_ends_first(void **state)
{
    struct fixture *f = *state;
    int fds[3];
    open_ws(f, true, NULL, STR_NULL); /* the peer does not answer our Close */
    ws_leave(f->ws, 1000, STR("bye"));
    fds[0] = f->fd;
    open_ws(f, true, NULL, STR_NULL); /* it has, but its socket stays open */
    SEND(f, "\x88\x80" M);
    wait_for(f->loop, f->n_close > 0);
    fds[1] = f->fd;
    open_ws(f, false, &(struct ws_opts){.ping_ms = 1000}, STR("\x81\x01")); /* amid a message */
    settle(f->loop);
    fds[2] = f->fd;
    assert_int_equal(io_stream_count(), 3);
    io_loop_free(f->loop);
    assert_int_equal(io_stream_count(), 0);
    assert_int_equal(f->n_close, 0); /* of the last one: nobody is told */
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        (void)close(fds[i]);
    }
    f->loop = io_loop_new();
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_client_receives),
        T(test_server_echoes),
        T(test_peer_closes),
        T(test_we_close),
        T(test_we_leave),
        T(test_close_deadline),
        T(test_violations),
        T(test_pause),
        T(test_pause_is_backpressure),
        T(test_send_backpressure),
        T(test_ping_flood),
        T(test_timers),
        T(test_abort),
        T(test_peer_vanishes),
        T(test_loop_ends_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
