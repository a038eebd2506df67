/* The reverse proxy between a raw client and a raw upstream: bytes in, bytes out, and every way in
 * which one of the two can fail. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http/proxy.h"
#include "io/stream.h"
#include "upstream.h"

struct fixture {
    struct io_loop *loop;
    struct upstream up;
    struct http_client *client;
    struct http_server *server;
    struct io_addr addr;
    struct http_proxy_opts opts;
    int n_done, n_traffic, error;
    int cfd; /* the client's connection */
    struct buf in;
};

static void on_done(void *arg)
{
    ((struct fixture *)arg)->n_done++;
}

static void on_traffic(void *arg)
{
    ((struct fixture *)arg)->n_traffic++;
}

static void on_error(struct http_req *req, int error, void *arg)
{
    ((struct fixture *)arg)->error = error;
    http_resp_send(req, 599, "text/plain", STR("mine"));
}

static void handle(struct http_req *req)
{
    struct fixture *f = http_req_app(req);
    struct http_target t = {.key = STR("up"), .addr = f->up.addr, .netns_fd = -1};
    struct http_proxy_opts o = f->opts;
    o.target = http_req_target(req);
    o.on_done = on_done;
    o.on_traffic = on_traffic;
    o.arg = f;
    http_proxy_start(req, f->client, &t, &o);
}

static const struct http_route routes[] = {{"*", "/{rest...}", HTTP_STREAM, .stream = handle}, {0}};

static void dial(struct fixture *f)
{
    f->cfd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(f->cfd, &f->addr.sa, f->addr.len), 0);
    int flags = fcntl(f->cfd, F_GETFL);
    assert_int_equal(fcntl(f->cfd, F_SETFL, flags | O_NONBLOCK), 0);
    buf_clear(&f->in);
}

static int setup(void **state)
{
    struct fixture *f = NEW(struct fixture);
    struct err e = {0};
    f->loop = io_loop_new();
    f->in = BUF_INIT(64u << 20);
    upstream_open(&f->up, f->loop);
    f->client = http_client_new(f->loop, NULL);
    f->server = http_server_new(f->loop, &(struct http_server_opts){.routes = routes, .app = f});
    struct io_addr any;
    assert_int_equal(io_addr_ip(STR("127.0.0.1"), 0, &any), 0);
    assert_int_equal(http_server_listen(f->server, &any, &(struct io_listen_opts){0}, &f->addr, &e),
                     0);
    dial(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    (void)close(f->cfd);
    settle(f->loop);
    http_server_free(f->server);
    http_client_free(f->client);
    upstream_close(&f->up);
    io_loop_free(f->loop);
    buf_done(&f->in);
    assert_int_equal(io_stream_count(), 0);
    assert_int_equal(bug_count(), 0);
    free(f);
    return 0;
}

static void send_client(struct fixture *f, const char *s)
{
    peer_send(f->loop, f->cfd, str_from(s));
}

/* The upstream gets exactly this. Returns its socket. */
static int upstream_gets(struct fixture *f, int fd, const char *want)
{
    struct buf in = BUF_INIT(1 << 20);
    if (fd < 0) {
        fd = upstream_accept(&f->up);
    }
    peer_read(f->loop, fd, &in, strlen(want));
    assert_string_equal(buf_cstr(&in), want);
    buf_done(&in);
    return fd;
}

static int upstream_gets_head(struct fixture *f)
{
    struct buf in = BUF_INIT(1 << 20);
    int fd = upstream_accept(&f->up);
    peer_read(f->loop, fd, &in, 0);
    buf_done(&in);
    return fd;
}

/* What the client received, with the Date line taken out. */
static const char *received(struct fixture *f)
{
    const char *text = buf_cstr(&f->in);
    char *date = strstr(f->in.p ? f->in.p : "", "Date: ");
    if (date) {
        char *end = strstr(date, "\r\n") + 2;
        size_t rest = strlen(end) + 1;
        memmove(date, end, rest);
        f->in.len = (size_t)(date - f->in.p) + rest - 1;
        text = buf_cstr(&f->in);
    }
    return text;
}

static void read_client(struct fixture *f)
{
    char b[65536];
    ssize_t n = recv(f->cfd, b, sizeof(b), 0);
    if (n > 0) {
        assert_int_equal(buf_add(&f->in, b, (size_t)n), 0);
    }
}

static void client_gets(struct fixture *f, const char *want)
{
    uint64_t until = clock_mono_ms() + WAIT_MAX_MS;
    while (f->in.len < strlen(want) || !strstr(received(f), "\r\n\r\n") ||
           f->in.len < strlen(want)) {
        assert_true(clock_mono_ms() < until);
        io_loop_turn(f->loop, false);
        size_t before = f->in.len;
        read_client(f);
        if (f->in.len == before) {
            (void)poll(NULL, 0, 1);
        }
    }
    assert_string_equal(received(f), want);
    buf_clear(&f->in);
}

/* Reads until the server closes; true when it ended with a reset. */
static bool client_reads_to_end(struct fixture *f)
{
    uint64_t until = clock_mono_ms() + WAIT_MAX_MS;
    for (;;) {
        char b[65536];
        assert_true(clock_mono_ms() < until);
        io_loop_turn(f->loop, false);
        ssize_t n = recv(f->cfd, b, sizeof(b), 0);
        if (n > 0) {
            assert_int_equal(buf_add(&f->in, b, (size_t)n), 0);
        } else if (n == 0) {
            return false;
        } else if (errno != EAGAIN) {
            return true;
        } else {
            (void)poll(NULL, 0, 1);
        }
    }
}

static void test_get(void **state)
{
    struct fixture *f = *state;
    send_client(
        f, "GET /a%2Fb//../c?x=%20&y=a+b&&;z HTTP/1.1\r\nHost: front:1\r\nCookie: a\r\nX: "
           "1\r\nCookie: b\r\n"
           "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: trailers\r\nKeep-Alive: 5\r\n\r\n");
    int fd = upstream_gets(f, -1,
                           "GET /a%2Fb//../c?x=%20&y=a+b&&;z HTTP/1.1\r\nHost: front:1\r\nCookie: "
                           "a\r\nX: 1\r\nCookie: b\r\n\r\n");
    peer_send(f->loop, fd,
              STR("HTTP/1.1 200 Fine\r\nSet-Cookie: a=1\r\nContent-Length: 5\r\nSet-Cookie: "
                  "b=2\r\nKeep-Alive: 5\r\n\r\nhello"));
    client_gets(
        f,
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\nhello");
    wait_for(f->loop, f->n_done == 1);
    assert_true(f->n_traffic > 0);
    send_client(f, "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n"); /* both connections are used again */
    (void)upstream_gets(f, fd, "GET /2 HTTP/1.1\r\nHost: h\r\n\r\n");
    peer_send(f->loop, fd, STR("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"));
    client_gets(f, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    wait_for(f->loop, f->n_done == 2);
    (void)close(fd);
}

static void test_headers_set(void **state)
{
    struct fixture *f = *state;
    const struct h1_header add[] = {{STR("X-Token"), STR("t")}},
                           add_resp[] = {{STR("X-Served"), STR("s")}};
    const struct str drop[] = {STR("x-api-key")};
    f->opts = (struct http_proxy_opts){.host = STR("inner"),
                                       .add = add,
                                       .n_add = 1,
                                       .drop = drop,
                                       .n_drop = 1,
                                       .add_resp = add_resp,
                                       .n_add_resp = 1,
                                       .forwarded = true};
    send_client(f, "GET / HTTP/1.1\r\nHost: outer\r\nX-API-Key: k\r\nx-token: "
                   "mine\r\nX-Forwarded-For: 9.9.9.9\r\n"
                   "X-Forwarded-For: 8.8.8.8\r\nX-Forwarded-Proto: gopher\r\n\r\n");
    int fd = upstream_gets(f, -1,
                           "GET / HTTP/1.1\r\nHost: inner\r\nX-Token: t\r\nX-Forwarded-For: "
                           "9.9.9.9, 8.8.8.8, 127.0.0.1\r\n"
                           "X-Forwarded-Proto: http\r\nX-Forwarded-Host: outer\r\n\r\n");
    peer_send(f->loop, fd, STR("HTTP/1.1 204 No\r\nX-Served: other\r\n\r\n"));
    client_gets(f, "HTTP/1.1 204 No Content\r\nX-Served: s\r\n\r\n");
    (void)close(fd);
}

/* Every framing of the upstream as the client sees it. */
static void test_response_framing(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *method, *from, *to;
        bool eof;
    } cases[] = {
        {"GET", "HTTP/1.1 200 OK\r\n\r\nhello",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", true},
        {"GET", "HTTP/1.0 200 OK\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", true},
        {"GET",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nT: x\r\n\r\n",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", false},
        {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n",
         "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", false},
        {"GET", "HTTP/1.1 304 Same\r\nETag: x\r\n\r\n",
         "HTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\n", false},
        {"GET",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hint\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: "
         "1\r\n\r\nx",
         "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        for (int slow = 0; slow < 2; slow++) {
            char req[100];
            (void)snprintf(req, sizeof(req), "%s / HTTP/1.1\r\nHost: h\r\n\r\n", cases[i].method);
            send_client(f, req);
            int fd = upstream_gets_head(f);
            struct str from = str_from(cases[i].from);
            for (size_t k = 0; k < from.n; k += slow ? 1 : from.n) {
                peer_send(f->loop, fd, str_n(from.p + k, slow ? 1 : from.n));
                if (slow && k < from.n - 6) {
                    settle(f->loop);
                }
            }
            if (cases[i].eof) {
                (void)close(fd);
            }
            if (!slow) {
                client_gets(f, cases[i].to);
            } else {
                /* chunk sizes depend on arrival; the length of the answer is what varies */
                wait_for(f->loop, f->n_done == (int)(2 * i + 2));
                settle(f->loop);
                read_client(f);
                buf_clear(&f->in);
            }
            wait_for(f->loop, f->n_done == (int)(2 * i + 1 + (size_t)slow));
            http_client_forget(f->client, STR(""));
            if (!cases[i].eof) {
                (void)close(fd);
            }
        }
    }
}

/* A head without its body is passed on at once: event streams begin with silence. */
static void test_head_is_not_held_back(void **state)
{
    struct fixture *f = *state;
    send_client(f, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    int fd = upstream_gets_head(f);
    peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"));
    client_gets(
        f,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n");
    peer_send(f->loop, fd, STR("one"));
    wait_for(f->loop, (read_client(f), f->in.len > 0));
    assert_string_equal(received(f), "3\r\none\r\n");
    (void)close(fd);
}

static void test_upload(void **state)
{
    struct fixture *f = *state;
    send_client(
        f, "POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    client_gets(f, "HTTP/1.1 100 Continue\r\n\r\n");
    send_client(f, "hel");
    int fd = upstream_gets(
        f, -1, "POST /up HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel"); /* as it comes */
    send_client(f, "lo");
    (void)upstream_gets(f, fd, "lo");
    peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    client_gets(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    send_client(f, "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
                   "chunked\r\n\r\n3;ext=1\r\nabc\r\n0\r\nTrailer: x\r\n\r\n");
    (void)upstream_gets(
        f, fd,
        "PUT /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
    peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    client_gets(f, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    send_client(f, "DELETE /d HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    (void)upstream_gets(f, fd, "DELETE /d HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
    peer_send(f->loop, fd, STR("HTTP/1.1 204 No\r\n\r\n"));
    client_gets(f, "HTTP/1.1 204 No Content\r\n\r\n");
    (void)close(fd);
}

/* The answer before the end of the request is passed on. */
static void test_early_response(void **state)
{
    struct fixture *f = *state;
    send_client(f, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\nabc");
    int fd = upstream_gets_head(f);
    peer_send(f->loop, fd, STR("HTTP/1.1 413 Large\r\nContent-Length: 2\r\n\r\nno"));
    (void)client_reads_to_end(f);
    assert_non_null(strstr(received(f), "HTTP/1.1 413 Content Too Large\r\n"));
    assert_non_null(strstr(received(f), "\r\n\r\nno"));
    wait_for(f->loop, f->n_done == 1);
    peer_wait_closed(f->loop, fd);
    (void)close(fd);
}

static void test_upstream_fails_before_head(void **state)
{
    struct fixture *f = *state;
    static const char *const partial[] = {"", "HTTP/1.1 200 OK\r\nContent-Le", "SSH-2.0-x\r\n"};
    for (size_t i = 0; i < ARRAY_LEN(partial); i++) {
        send_client(f, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        int fd = upstream_gets_head(f);
        peer_send(f->loop, fd, str_from(partial[i]));
        (void)close(fd);
        wait_for(f->loop, (read_client(f), f->in.len > 0 && strstr(received(f), "}")));
        assert_non_null(strstr(received(f), "HTTP/1.1 502 Bad Gateway\r\n"));
        assert_non_null(strstr(received(f), "\"code\":\"bad_gateway\""));
        buf_clear(&f->in);
        wait_for(f->loop, f->n_done == (int)i + 1);
    }
    upstream_close(&f->up); /* refused; answered by the application this time */
    f->opts.on_error = on_error;
    send_client(f, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
    wait_for(f->loop, (read_client(f), f->in.len > 0 && strstr(received(f), "mine")));
    assert_int_equal(f->error, -ECONNREFUSED);
    assert_non_null(strstr(received(f), "HTTP/1.1 599 "));
    upstream_open(&f->up, f->loop);
}

static void test_upstream_timeout(void **state)
{
    struct fixture *f = *state;
    io_clock_fake(f->loop);
    f->opts.head_timeout_ms = 1000;
    send_client(f, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    int fd = upstream_gets_head(f);
    io_clock_advance(f->loop, 1001);
    wait_for(f->loop, (read_client(f), f->in.len > 0 && strstr(received(f), "}")));
    assert_non_null(strstr(received(f), "HTTP/1.1 504 Gateway Timeout\r\n"));
    peer_wait_closed(f->loop, fd);
    (void)close(fd);
}

/* Broken off behind the head: the client must not take what it got for everything. */
static void test_upstream_fails_after_head(void **state)
{
    struct fixture *f = *state;
    static const char *const heads[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz\r\n", /* malformed */
    };
    for (size_t i = 0; i < ARRAY_LEN(heads); i++) {
        for (int old = 0; old < 2; old++) {
            send_client(f, old ? "GET / HTTP/1.0\r\nHost: h\r\n\r\n"
                               : "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            int fd = upstream_gets_head(f);
            peer_send(f->loop, fd, str_from(heads[i]));
            settle(f->loop);
            (void)close(fd);
            bool reset = client_reads_to_end(f);
            const char *got = received(f);
            if (old && i > 0) {
                assert_true(reset); /* HTTP/1.0 without a length: a clean end would look complete */
            } else {
                assert_non_null(strstr(got, "hello"));
                assert_null(strstr(got, "\r\n0\r\n\r\n"));
            }
            (void)close(f->cfd);
            dial(f);
        }
    }
}

/* The client leaves at every stage; the upstream connection must not stay behind. */
static void test_client_leaves(void **state)
{
    struct fixture *f = *state;
    for (int stage = 0; stage < 5; stage++) {
        int done = f->n_done;
        send_client(f, stage == 0 ? "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\nabc"
                                  : "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        int fd = upstream_gets_head(f);
        if (stage == 2) {
            peer_send(f->loop, fd, STR("HTTP/1.1 200"));
        } else if (stage == 3) {
            peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"));
        } else if (stage == 4) {
            peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"));
        }
        settle(f->loop);
        if (stage % 2) {
            peer_reset(f->cfd);
        } else {
            (void)close(f->cfd);
        }
        peer_wait_closed(f->loop, fd);
        wait_for(f->loop, f->n_done == done + 1);
        (void)close(fd);
        dial(f);
    }
}

/* Neither side may be buffered without end when the other does not read. */
static void test_backpressure(void **state)
{
    struct fixture *f = *state;
    enum { LIMIT = 24 << 20 };
    char *fill = xcalloc(1, 1 << 20);
    send_client(f, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
    int fd = upstream_gets_head(f);
    peer_send(f->loop, fd, STR("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"));
    for (int side = 0; side < 2; side++) {
        int from = side == 0 ? fd : f->cfd;
        size_t sent = 0;
        for (int quiet = 0; quiet < 50;) {
            ssize_t n = send(from, fill, 1 << 20, MSG_NOSIGNAL);
            sent += n > 0 ? (size_t)n : 0;
            quiet = n > 0 ? 0 : quiet + 1;
            assert_true(sent < LIMIT);
            io_loop_turn(f->loop, false);
        }
        if (side == 0) {
            (void)close(f->cfd);
            peer_wait_closed(f->loop, fd);
            (void)close(fd);
            dial(f);
            send_client(f, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\n");
            fd = upstream_gets_head(f);
        }
    }
    free(fill);
    (void)close(fd);
}

static void test_large_bodies(void **state)
{
    struct fixture *f = *state;
    enum { SIZE = 5000000 };
    char *data = xmalloc(SIZE);
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (char)(i * 2654435761u >> 13);
    }
    char head[100];
    (void)snprintf(head, sizeof(head), "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n",
                   (int)SIZE);
    send_client(f, head);
    int fd = upstream_gets_head(f);
    struct buf got = BUF_INIT(SIZE + 1000);
    for (size_t sent = 0; got.len < SIZE;) {
        char b[65536];
        ssize_t n = sent < SIZE ? send(f->cfd, data + sent, SIZE - sent, MSG_NOSIGNAL) : 0;
        sent += n > 0 ? (size_t)n : 0;
        io_loop_turn(f->loop, false);
        n = recv(fd, b, sizeof(b), 0);
        if (n > 0) {
            (void)buf_add(&got, b, (size_t)n);
        }
    }
    assert_memory_equal(got.p, data, SIZE);
    buf_clear(&got);
    (void)snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", (int)SIZE);
    peer_send(f->loop, fd, str_from(head));
    for (size_t sent = 0; f->n_done == 0 || f->in.len < SIZE;) {
        ssize_t n = sent < SIZE ? send(fd, data + sent, SIZE - sent, MSG_NOSIGNAL) : 0;
        sent += n > 0 ? (size_t)n : 0;
        io_loop_turn(f->loop, false);
        read_client(f);
    }
    assert_memory_equal(f->in.p + f->in.len - SIZE, data, SIZE);
    buf_done(&got);
    free(data);
    (void)close(fd);
}

static void test_upgrade_tunnel(void **state)
{
    struct fixture *f = *state;
    send_client(f, "GET /t HTTP/1.1\r\nHost: h\r\nUpgrade: echo\r\nConnection: keep-alive, "
                   "Upgrade\r\n\r\nearly1");
    int fd = upstream_gets(
        f, -1, "GET /t HTTP/1.1\r\nHost: h\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n");
    peer_send(f->loop, fd,
              STR("HTTP/1.1 101 Go\r\nUpgrade: echo\r\nConnection: Upgrade\r\nX: y\r\n\r\nearly2"));
    (void)upstream_gets(f, fd, "early1");
    client_gets(f, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX: "
                   "y\r\n\r\nearly2");
    send_client(f, "ping");
    (void)upstream_gets(f, fd, "ping");
    peer_send(f->loop, fd, STR("pong"));
    wait_for(f->loop, (read_client(f), f->in.len == 4));
    assert_string_equal(received(f), "pong");
    assert_int_equal(f->n_done, 0);
    (void)close(fd);
    buf_clear(&f->in);
    (void)client_reads_to_end(f);
    (void)close(f->cfd);
    wait_for(f->loop, f->n_done == 1);
    dial(f);
    /* refused by the upstream: an ordinary answer */
    send_client(f, "GET /t HTTP/1.1\r\nHost: h\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n");
    fd = upstream_gets_head(f);
    peer_send(f->loop, fd, STR("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n"));
    client_gets(f, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n");
    wait_for(f->loop, f->n_done == 2);
    (void)close(fd);
    settle(f->loop);
    /* h2c is not passed on */
    send_client(f, "GET /t HTTP/1.1\r\nHost: h\r\nUpgrade: h2c\r\nHTTP2-Settings: "
                   "AA\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n");
    fd = upstream_gets(f, -1, "GET /t HTTP/1.1\r\nHost: h\r\n\r\n");
    peer_send(f->loop, fd, STR("HTTP/1.1 204 No\r\n\r\n"));
    client_gets(f, "HTTP/1.1 204 No Content\r\n\r\n");
    (void)close(fd);
}

/* What a tunnel tells the application must not come after the server has gone. */
static void test_server_ends_tunnels(void **state)
{
    struct fixture *f = *state;
    send_client(f, "GET /t HTTP/1.1\r\nHost: h\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n");
    int fd = upstream_gets_head(f);
    peer_send(f->loop, fd, STR("HTTP/1.1 101 Go\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n"));
    client_gets(f, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
                   "echo\r\n\r\n");
    assert_int_equal(f->n_done, 0);
    http_server_free(f->server);
    f->server = NULL;
    assert_int_equal(f->n_done, 1);
    assert_int_equal(io_stream_count(), 0);
    (void)close(fd);
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_get),
        T(test_headers_set),
        T(test_response_framing),
        T(test_head_is_not_held_back),
        T(test_upload),
        T(test_early_response),
        T(test_upstream_fails_before_head),
        T(test_upstream_timeout),
        T(test_upstream_fails_after_head),
        T(test_client_leaves),
        T(test_backpressure),
        T(test_large_bodies),
        T(test_upgrade_tunnel),
        T(test_server_ends_tunnels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
