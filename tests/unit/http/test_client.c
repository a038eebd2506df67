/* The HTTP client against servers that behave, and against servers that do not. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "client_fixture.h"

static void test_get_and_reuse(void **state)
{
    struct fixture *f = *state;
    const struct h1_header h[] = {
        {STR("Host"), STR("h")}, {STR("X-A"), STR("1")}, {STR("x-a"), STR("")}};
    struct record r = {0}, r2 = {0};
    start(f, &r, (struct http_call_opts){.headers = h, .n_headers = 3});
    int fd = serve_head(f, "GET /a%2Fb?c=%20&d HTTP/1.1\r\nHost: h\r\nX-A: 1\r\nx-a: \r\n\r\n");
    peer_send(f->loop, fd, str_from(OK5));
    expect_end(f, &r, 0, 200, "hello");
    start(f, &r2, (struct http_call_opts){.method = STR("POST")});
    struct buf in = BUF_INIT(1000);
    peer_read(f->loop, fd, &in, 0); /* on the same connection */
    assert_string_equal(buf_cstr(&in), "POST /a%2Fb?c=%20&d HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    peer_send(f->loop, fd, STR("HTTP/1.1 204 No\r\n\r\n"));
    expect_end(f, &r2, 0, 204, "");
    buf_done(&in);
    (void)close(fd);
}

/* Every framing, whole and byte by byte; `close_after` for those that end with the connection. */
static void test_framing(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *method, *response, *body;
        int status;
        bool eof, reusable;
    } cases[] = {
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, false, true},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "", 200, false, true},
        {"GET",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nT: "
         "x\r\n\r\n",
         "hello", 200, false, true},
        {"GET", "HTTP/1.1 200 OK\r\n\r\nhello", "hello", 200, true, false},
        {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, false, false},
        {"GET", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", "hello",
         200, false, false},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "", 200, false, true},
        {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "", 200, false, true},
        {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "", 304, false, true},
        {"GET", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, false, true},
        {"GET",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 "
         "No\r\nContent-Length: 1\r\n\r\nx",
         "x", 404, false, true},
        {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxHTTP/1.1 200 OK\r\n", "x", 200, false,
         false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (int bytewise = 0; bytewise < 2; bytewise++) {
            struct record r = {0};
            start(f, &r, (struct http_call_opts){.method = str_from(cases[i].method)});
            int fd = serve_head(f, NULL);
            struct str resp = str_from(cases[i].response);
            for (size_t k = 0; k < resp.n && r.n_end == 0; k += bytewise ? 1 : resp.n) {
                peer_send(f->loop, fd, str_n(resp.p + k, bytewise ? 1 : resp.n));
                settle(f->loop);
            }
            if (cases[i].eof) {
                assert_int_equal(r.n_end, 0);
                (void)shutdown(fd, SHUT_WR);
            }
            expect_end(f, &r, 0, cases[i].status, cases[i].body);
            if (!cases[i].reusable && !bytewise) {
                peer_wait_closed(f->loop, fd);
            }
            http_client_forget(f->client, STR("u"));
            (void)close(fd);
        }
    }
}

/* The server breaks off after every byte of a response: never a clean end, never a hang. */
static void test_cut_everywhere(void **state)
{
    struct fixture *f = *state;
    static const char *const responses[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    };
    for (size_t i = 0; i < 2; i++) {
        for (size_t n = 0; n < strlen(responses[i]); n++) {
            struct record r = {0};
            start(f, &r, (struct http_call_opts){0});
            int fd = serve_head(f, NULL);
            peer_send(f->loop, fd, str_n(responses[i], n));
            if (n % 2) {
                (void)close(fd);
            } else {
                settle(f->loop); /* a reset must not overtake the bytes */
                peer_reset(fd);
            }
            wait_for(f->loop, r.n_end > 0);
            assert_int_equal(r.error, -ECONNRESET);
            record_done(&r);
        }
    }
}

static void test_garbage(void **state)
{
    struct fixture *f = *state;
    static const char *const bad[] = {
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 101 Switching Protocols\r\n\r\n", /* nobody asked for it */
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct record r = {0};
        start(f, &r, (struct http_call_opts){0});
        int fd = serve_head(f, NULL);
        peer_send(f->loop, fd, str_from(bad[i]));
        wait_for(f->loop, r.n_end > 0);
        assert_int_equal(r.error, -EPROTO);
        peer_wait_closed(f->loop, fd);
        (void)close(fd);
        record_done(&r);
    }
}

static void test_huge_head(void **state)
{
    struct fixture *f = *state;
    struct record r = {0};
    start(f, &r, (struct http_call_opts){0});
    int fd = serve_head(f, NULL);
    peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nX: "));
    char fill[4096];
    memset(fill, 'x', sizeof(fill));
    for (int i = 0; i < 20 && r.n_end == 0; i++) {
        peer_send(f->loop, fd, str_n(fill, sizeof(fill)));
        settle(f->loop);
    }
    expect_end(f, &r, -EPROTO, 0, "");
    (void)close(fd);
}

static void test_large_head_fits(void **state)
{
    struct fixture *f = *state;
    struct record r = {0};
    start(f, &r, (struct http_call_opts){0});
    int fd = serve_head(f, NULL);
    char fill[30000];
    memset(fill, 'x', sizeof(fill));
    peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nX: "));
    settle(f->loop);
    peer_send(f->loop, fd, str_n(fill, sizeof(fill)));
    settle(f->loop);
    peer_send(f->loop, fd, STR("\r\nContent-Length: 2\r\n\r"));
    settle(f->loop);
    peer_send(f->loop, fd, STR("\nok"));
    expect_end(f, &r, 0, 200, "ok");
    (void)close(fd);
}

static void test_refused(void **state)
{
    struct fixture *f = *state;
    upstream_close(&f->up);
    struct record r = {0};
    start(f, &r, (struct http_call_opts){0});
    assert_int_equal(r.n_end, 0); /* never from inside the start */
    expect_end(f, &r, -ECONNREFUSED, 0, "");
    upstream_open(&f->up, f->loop);
}

static void test_unsendable(void **state)
{
    struct fixture *f = *state;
    const struct h1_header bad = {STR("X"), STR("a\r\nEvil: 1")};
    struct record r = {0}, r2 = {0}, r3 = {0};
    start(f, &r, (struct http_call_opts){.headers = &bad, .n_headers = 1});
    start(f, &r2, (struct http_call_opts){.target = STR("/a b")});
    start(f, &r3, (struct http_call_opts){.method = STR("G T")});
    expect_end(f, &r, -EINVAL, 0, "");
    expect_end(f, &r2, -EINVAL, 0, "");
    expect_end(f, &r3, -EINVAL, 0, "");
    assert_true(try_accept(&f->up) < 0);
}

static void test_upload(void **state)
{
    struct fixture *f = *state;
    for (int before_connect = 0; before_connect < 2; before_connect++) {
        for (int chunked = 0; chunked < 2; chunked++) {
            struct record r = {0};
            start(f, &r,
                  (struct http_call_opts){.method = STR("PUT"), .body_len = chunked ? -1 : 11});
            if (!before_connect) {
                wait_for(f->loop, r.n_writable > 0);
            }
            assert_true(http_call_write(r.call, STR("hello ")));
            assert_true(http_call_write(r.call, STR("")));
            assert_true(http_call_write(r.call, STR("world")));
            http_call_end_body(r.call);
            int fd = upstream_accept(&f->up);
            const char *want =
                chunked ? "PUT /a%2Fb?c=%20&d HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                          "6\r\nhello \r\n5\r\nworld\r\n0\r\n\r\n"
                        : "PUT /a%2Fb?c=%20&d HTTP/1.1\r\nContent-Length: 11\r\n\r\nhello world";
            struct buf in = BUF_INIT(1000);
            peer_read(f->loop, fd, &in, strlen(want));
            assert_string_equal(buf_cstr(&in), want);
            buf_done(&in);
            peer_send(f->loop, fd, str_from(OK5));
            expect_end(f, &r, 0, 200, "hello");
            http_client_forget(f->client, STR(""));
            (void)close(fd);
        }
    }
}

/* A server that does not read: the queue fills to its limit, then drains, and every byte arrives.
 */
static void test_upload_backpressure(void **state)
{
    struct fixture *f = *state;
    enum { PIECE = 60000, TOTAL = 200 * PIECE };
    struct record r = {0};
    start(f, &r, (struct http_call_opts){.method = STR("PUT"), .body_len = TOTAL});
    int fd = serve_head(f, NULL);
    size_t sent = 0, got = 0, n_full = 0;
    char *piece = xmalloc(PIECE), *in = xmalloc(1 << 20);
    bool may = true;
    while (got < TOTAL) {
        for (int writes = 0; may && sent < TOTAL; writes++) {
            for (size_t i = 0; i < PIECE; i++) {
                piece[i] = (char)((sent + i) * 31 >> 4);
            }
            may = http_call_write(r.call, str_n(piece, PIECE));
            sent += PIECE;
            n_full += !may;
            assert_true(writes < 500); /* "full" must come long before this */
        }
        int told = r.n_writable;
        io_loop_turn(f->loop, false);
        ssize_t n = recv(fd, in, 1 << 20, 0);
        for (ssize_t i = 0; i < n; i++, got++) {
            assert_int_equal(in[i], (char)(got * 31 >> 4));
        }
        may = may || r.n_writable > told;
    }
    assert_true(n_full > 0);
    http_call_end_body(r.call);
    peer_send(f->loop, fd, str_from(OK5));
    expect_end(f, &r, 0, 200, "hello");
    free(piece);
    free(in);
    (void)close(fd);
}

/* The answer comes while the request is still being written. */
static void test_early_response(void **state)
{
    struct fixture *f = *state;
    for (int how = 0; how < 2; how++) {
        struct record r = {0};
        start(f, &r, (struct http_call_opts){.method = STR("PUT"), .body_len = 100});
        int fd = serve_head(f, NULL);
        assert_true(http_call_write(r.call, STR("abc")));
        peer_send(f->loop, fd, STR("HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno"));
        if (how == 1) {
            (void)close(fd); /* unread bytes make this a reset behind the answer */
            (void)poll(NULL, 0, 5);
            (void)http_call_write(r.call, STR("def"));
            (void)http_call_write(r.call, STR("ghi"));
        }
        expect_end(f, &r, 0, 413, "no");
        if (how == 0) {
            peer_wait_closed(f->loop, fd); /* the rest of that request can never follow */
            (void)close(fd);
        }
    }
}

static void test_pause(void **state)
{
    struct fixture *f = *state;
    for (int in_head = 0; in_head < 2; in_head++) {
        struct record r = {.act = in_head ? PAUSE_IN_HEAD : PAUSE_IN_BODY};
        start(f, &r, (struct http_call_opts){0});
        int fd = serve_head(f, NULL);
        peer_send(f->loop, fd,
                  STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                      "chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n1\r\nc\r\n0\r\n\r\n"));
        size_t pieces = 0;
        wait_for(f->loop, r.status == 200);
        while (r.n_end == 0) {
            settle(f->loop);
            assert_true(r.n_pieces <= pieces + !in_head);
            pieces = r.n_pieces;
            if (in_head) {
                assert_int_equal(pieces, 0);
                r.act = DO_NOTHING;
            }
            http_call_resume(r.call);
            assert_int_equal(r.n_pieces, pieces); /* not from inside the resume */
            wait_for(f->loop, r.n_pieces > pieces || r.n_end > 0);
        }
        assert_int_equal(r.n_pieces, 3);
        expect_end(f, &r, 0, 200, "abc");
        http_client_forget(f->client, STR(""));
        (void)close(fd);
    }
}

/* While paused nothing is read: the server's socket fills up, and memory here does not grow. */
static void test_pause_stops_reading(void **state)
{
    struct fixture *f = *state;
    struct record r = {.act = PAUSE_IN_HEAD};
    start(f, &r, (struct http_call_opts){0});
    int fd = serve_head(f, NULL);
    enum { TOTAL = 32 << 20 };
    char head[100];
    (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", (int)TOTAL);
    peer_send(f->loop, fd, str_from(head));
    wait_for(f->loop, r.status == 200);
    char *fill = xcalloc(1, 1 << 20);
    size_t sent = 0;
    for (int quiet = 0; quiet < 20;) {
        ssize_t n = send(fd, fill, MIN(1u << 20, TOTAL - sent), MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        quiet = n > 0 ? 0 : quiet + 1;
        io_loop_turn(f->loop, false);
        assert_true(sent < TOTAL);
    }
    assert_int_equal(r.body.len, 0);
    r.act = DO_NOTHING;
    http_call_resume(r.call);
    while (sent < TOTAL) {
        ssize_t n = send(fd, fill, MIN(1u << 20, TOTAL - sent), MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        io_loop_turn(f->loop, false);
    }
    wait_for(f->loop, r.n_end > 0);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.body.len, TOTAL);
    free(fill);
    record_done(&r);
    (void)close(fd);
}

static void test_cancel(void **state)
{
    struct fixture *f = *state;
    struct record r = {0};
    start(f, &r, (struct http_call_opts){0}); /* while connecting */
    http_call_cancel(r.call);
    settle(f->loop);
    assert_int_equal(r.n_end + r.status, 0);
    int fd = try_accept(&f->up);
    if (fd >= 0) {
        (void)close(fd);
    }
    start(f, &r, (struct http_call_opts){0}); /* while waiting for the head */
    fd = serve_head(f, NULL);
    http_call_cancel(r.call);
    peer_wait_closed(f->loop, fd);
    (void)close(fd);
    const int acts[] = {CANCEL_IN_HEAD, CANCEL_IN_BODY};
    for (int i = 0; i < 2; i++) {
        r = (struct record){0};
        r.act = acts[i];
        start(f, &r, (struct http_call_opts){0});
        fd = serve_head(f, NULL);
        peer_send(f->loop, fd,
                  STR("HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                      "chunked\r\n\r\n1\r\na\r\n1\r\nb\r\n0\r\n\r\n"));
        peer_wait_closed(f->loop, fd);
        settle(f->loop);
        assert_int_equal(r.status, 200);
        assert_int_equal(r.n_pieces, i);
        assert_int_equal(r.n_end, 0);
        record_done(&r);
        (void)close(fd);
    }
    start(
        f, &r,
        (struct http_call_opts){.headers = &(struct h1_header){STR(""), STR("")}, .n_headers = 1});
    http_call_cancel(r.call); /* before its deferred failure */
    settle(f->loop);
}

static void test_free_with_calls(void **state)
{
    struct fixture *f = *state;
    struct record a = {0}, b = {0}, c = {.act = FREE_CLIENT_IN_BODY};
    start(f, &a, (struct http_call_opts){.method = STR("PUT"), .body_len = -1});
    start(f, &b, (struct http_call_opts){0});
    int fd_a = upstream_accept(&f->up), fd_b = upstream_accept(&f->up);
    start(f, &c, (struct http_call_opts){0});
    int fd = serve_head(f, NULL);
    peer_send(f->loop, fd, str_from(OK5));
    wait_for(f->loop, c.n_pieces > 0);
    settle(f->loop);
    assert_int_equal(a.n_end + b.n_end + c.n_end, 0);
    assert_int_equal(io_stream_count(), 0);
    (void)close(fd_a);
    (void)close(fd_b);
    (void)close(fd);
    record_done(&c);
}

static void test_upgrade(void **state)
{
    struct fixture *f = *state;
    const struct h1_header h = {STR("Upgrade"), STR("echo")};
    struct record r = {.act = TAKE_IN_HEAD};
    start(f, &r, (struct http_call_opts){.upgrade = true, .headers = &h, .n_headers = 1});
    int fd = serve_head(
        f, "GET /a%2Fb?c=%20&d HTTP/1.1\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n");
    peer_send(f->loop, fd,
              STR("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: "
                  "Upgrade\r\n\r\nearly"));
    wait_for(f->loop, r.taken);
    assert_string_equal(buf_cstr(&r.body), "early");
    assert_int_equal(r.n_end, 0);
    assert_int_equal(io_stream_write(r.taken, "x", 1), 1);
    struct buf in = BUF_INIT(10);
    peer_read(f->loop, fd, &in, 1);
    buf_done(&in);
    io_stream_close(r.taken);
    record_done(&r);
    (void)close(fd);
    /* refused: an ordinary response */
    struct record r2 = {0}, r3 = {0};
    start(f, &r2, (struct http_call_opts){.upgrade = true, .headers = &h, .n_headers = 1});
    fd = serve_head(f, NULL);
    peer_send(f->loop, fd, str_from(OK5));
    expect_end(f, &r2, 0, 200, "hello");
    (void)close(fd);
    /* not taken: nobody can speak on */
    start(f, &r3, (struct http_call_opts){.upgrade = true, .headers = &h, .n_headers = 1});
    fd = serve_head(f, NULL);
    peer_send(
        f->loop, fd,
        STR("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"));
    expect_end(f, &r3, -EPROTO, 101, "");
    (void)close(fd);
}

static void test_timeouts(void **state)
{
    struct fixture *f = *state;
    io_clock_fake(f->loop);
    const struct http_call_opts o = {.head_timeout_ms = 1000, .idle_timeout_ms = 500};
    struct record r = {0}, r2 = {0}, r3 = {0}, r4 = {0};
    start(f, &r, o); /* no head, though bytes trickle in */
    int fd = serve_head(f, NULL);
    io_clock_advance(f->loop, 900);
    peer_send(f->loop, fd, STR("HTTP/1.1 200"));
    settle(f->loop);
    assert_int_equal(r.n_end, 0);
    io_clock_advance(f->loop, 101);
    expect_end(f, &r, -ETIMEDOUT, 0, "");
    peer_wait_closed(f->loop, fd);
    (void)close(fd);

    start(f, &r2, o); /* a body that stops */
    fd = serve_head(f, NULL);
    peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"));
    wait_for(f->loop, r2.n_pieces > 0);
    io_clock_advance(f->loop, 499);
    assert_int_equal(r2.n_end, 0);
    peer_send(f->loop, fd, STR("l"));
    wait_for(f->loop, r2.body.len == 3);
    io_clock_advance(f->loop, 499);
    assert_int_equal(r2.n_end, 0);
    io_clock_advance(f->loop, 2);
    expect_end(f, &r2, -ETIMEDOUT, 200, "hel");
    (void)close(fd);

    r3.act = PAUSE_IN_BODY; /* our own pause is not the server's fault */
    start(f, &r3, o);
    fd = serve_head(f, NULL);
    peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhe"));
    wait_for(f->loop, r3.n_pieces > 0);
    io_clock_advance(f->loop, 100000);
    assert_int_equal(r3.n_end, 0);
    http_call_resume(r3.call);
    io_clock_advance(f->loop, 501);
    expect_end(f, &r3, -ETIMEDOUT, 200, "he");
    (void)close(fd);

    struct http_call_opts up = o; /* neither is a body we have not written yet */
    up.method = STR("PUT");
    up.body_len = 3;
    start(f, &r4, up);
    fd = serve_head(f, NULL);
    io_clock_advance(f->loop, 100000);
    assert_int_equal(r4.n_end, 0);
    (void)http_call_write(r4.call, STR("abc"));
    http_call_end_body(r4.call);
    settle(f->loop);
    io_clock_advance(f->loop, 999);
    assert_int_equal(r4.n_end, 0);
    io_clock_advance(f->loop, 2);
    expect_end(f, &r4, -ETIMEDOUT, 0, "");
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_get_and_reuse),
        T(test_framing),
        T(test_cut_everywhere),
        T(test_garbage),
        T(test_huge_head),
        T(test_large_head_fits),
        T(test_refused),
        T(test_unsendable),
        T(test_upload),
        T(test_upload_backpressure),
        T(test_early_response),
        T(test_pause),
        T(test_pause_stops_reading),
        T(test_cancel),
        T(test_free_with_calls),
        T(test_upgrade),
        T(test_timeouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
