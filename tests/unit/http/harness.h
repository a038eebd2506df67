#pragma once
/* A server on one loop with clients on the other end of socket pairs. Time stands still unless a
 * test moves it; nothing here waits for real time, except for worker threads. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/must.h"
#include "http/server.h"
#include "io/stream.h"

struct fixture {
    struct io_loop *loop;
    struct io_pool *pool;
    struct http_server *server;
    /* what handlers and hooks saw */
    int n_begun, n_ended, n_completed, n_after, last_status;
    uint64_t last_bytes;
    struct buf log;
};

static struct fixture *fx;

static inline void fx_turns(int n)
{
    for (int i = 0; i < n; i++) {
        io_loop_turn(fx->loop, false);
    }
}

static inline void fx_on_end(struct http_req *req, bool completed, void *arg)
{
    fx->n_ended++;
    fx->n_completed += completed;
}

/* Handlers call this to take part in the accounting of on_end. */
static inline void fx_track(struct http_req *req)
{
    fx->n_begun++;
    http_req_on_end(req, fx_on_end, NULL);
}

/* The request that fx_hold took, and that a test answers when it likes; NULL once it has ended. */
static struct http_req *fx_held;

static inline void fx_on_held_end(struct http_req *req, bool completed, void *arg)
{
    fx_held = NULL;
    fx_on_end(req, completed, arg);
}

static inline void fx_hold(struct http_req *req)
{
    fx_track(req);
    http_req_on_end(req, fx_on_held_end, NULL);
    fx_held = req;
}

static inline void fx_after(struct http_req *req, int status, uint64_t bytes_out, uint64_t us)
{
    fx->n_after++;
    fx->last_status = status;
    fx->last_bytes = bytes_out;
}

static inline void fx_start(const struct http_server_opts *o)
{
    must(!fx);
    fx = NEW(struct fixture);
    buf_init(&fx->log, 64u << 20);
    fx->loop = io_loop_new();
    io_clock_fake(fx->loop);
    fx->pool = io_pool_new("test", 2, 4);
    struct http_server_opts opts = *o;
    opts.pool = fx->pool;
    if (!opts.after) {
        opts.after = fx_after;
    }
    fx->server = http_server_new(fx->loop, &opts);
}

static inline void fx_stop(void)
{
    http_server_free(fx->server);
    io_pool_free(fx->pool);
    fx_turns(3);
    assert_int_equal(fx->n_ended, fx->n_begun);
    io_loop_free(fx->loop);
    assert_int_equal(io_stream_count(), 0);
    buf_done(&fx->log);
    free(fx);
    fx = NULL;
}

/* Around a test of a server that its file's `opts` describe. */
static inline int fx_setup(void **state)
{
    fx_start(*state);
    return 0;
}

static inline int fx_teardown(void **state)
{
    fx_stop();
    return 0;
}

#define ON_SERVER(f) cmocka_unit_test_prestate_setup_teardown(f, fx_setup, fx_teardown, &opts)

/* A new connection; returns the client's end, non-blocking. */
static inline int fx_connect(void)
{
    int sv[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) == 0);
    http_server_serve(fx->server, io_stream_from_fd(fx->loop, sv[0], NULL, NULL));
    return sv[1];
}

static inline void fx_send(int fd, struct str data)
{
    for (int i = 0; data.n > 0; i++) {
        ssize_t n = send(fd, data.p, data.n, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN) {
            return; /* the server is allowed to be gone */
        }
        if (n > 0) {
            data = str_sub(data, (size_t)n, data.n);
            i = 0;
        }
        fx_turns(1);
        must(i < 1000);
    }
    fx_turns(2);
}

/* Everything the server sends until it closes (returns true) or has nothing more to say. */
static inline bool fx_recv(int fd, struct buf *out)
{
    for (int quiet = 0; quiet < 4;) {
        char chunk[16384];
        ssize_t n = recv(fd, chunk, sizeof(chunk), 0);
        if (n == 0 || (n < 0 && errno != EAGAIN)) {
            return true;
        }
        if (n > 0) {
            must(buf_add(out, chunk, (size_t)n) == 0);
            quiet = 0;
        } else {
            quiet++;
        }
        fx_turns(1);
    }
    return false;
}

/* Sends on a fresh connection, returns what comes back; *ret_closed tells how it ended. */
static inline char *fx_talk(struct str in, bool *ret_closed)
{
    struct buf out = BUF_INIT(64u << 20);
    int fd = fx_connect();
    fx_send(fd, in);
    bool closed = fx_recv(fd, &out);
    if (ret_closed) {
        *ret_closed = closed;
    }
    (void)close(fd);
    fx_turns(3);
    return buf_take(&out);
}

static inline int fx_status(const char *response)
{
    return strncmp(response, "HTTP/1.1 ", 9) == 0 ? (int)strtol(response + 9, NULL, 10) : -1;
}

/* The n-th response's body is not parsed: tests look for substrings. */
static inline size_t fx_count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) {
        n++;
    }
    return n;
}

static inline void fx_expect(struct str in, int status, bool closed, const char *contains)
{
    bool was_closed;
    char *out = fx_talk(in, &was_closed);
    if (fx_status(out) != status || was_closed != closed || (contains && !strstr(out, contains))) {
        fail_msg("sent \"%.*s\", got \"%s\" (%s), expected %d (%s) with \"%s\"", STR_FMT(in), out,
                 was_closed ? "closed" : "open", status, closed ? "closed" : "open",
                 contains ? contains : "");
    }
    free(out);
}

#define LIT(text) str_n(text, sizeof(text) - 1)
#define REQ(method, path, headers) method " " path " HTTP/1.1\r\nHost: t\r\n" headers "\r\n"
