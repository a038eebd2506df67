#pragma once
/* A server made of raw sockets in the same thread as the loop under test: it sends exactly the
 * bytes it is told to and breaks off where it is told to. Every wait turns the loop, and gives up
 * loudly after WAIT_MAX_MS. Include after cmocka.h. */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "io/addr.h"
#include "io/loop.h"

#define WAIT_MAX_MS 20000

/* Turns the loop until cond holds. */
#define wait_for(loop, cond)                                                                       \
    do {                                                                                           \
        uint64_t until_ = clock_mono_ms() + WAIT_MAX_MS;                                           \
        io_loop_turn((loop), false);                                                               \
        while (!(cond)) {                                                                          \
            assert_true(clock_mono_ms() < until_);                                                 \
            (void)poll(NULL, 0, 1);                                                                \
            io_loop_turn((loop), false);                                                           \
        }                                                                                          \
    } while (0)

/* Some turns in which nothing is expected to happen. */
static inline void settle(struct io_loop *l)
{
    for (int i = 0; i < 5; i++) {
        io_loop_turn(l, false);
        (void)poll(NULL, 0, 1);
    }
}

struct upstream {
    struct io_loop *loop;
    int fd;
    struct io_addr addr;
};

static inline void upstream_open(struct upstream *u, struct io_loop *l)
{
    u->loop = l;
    u->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    assert_true(u->fd >= 0);
    struct sockaddr_in sin = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(u->fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
    assert_int_equal(listen(u->fd, 16), 0);
    u->addr.len = sizeof(u->addr.ss);
    assert_int_equal(getsockname(u->fd, &u->addr.sa, &u->addr.len), 0);
}

static inline void upstream_close(struct upstream *u)
{
    (void)close(u->fd);
}

static inline int try_accept(struct upstream *u)
{
    return accept4(u->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static inline int upstream_accept(struct upstream *u)
{
    int fd = -1;
    wait_for(u->loop, (fd = try_accept(u)) >= 0);
    return fd;
}

/* Reads into `in` until it holds n bytes more than before, or (n 0) the end of a head. */
static inline void peer_read(struct io_loop *l, int fd, struct buf *in, size_t n)
{
    size_t want = in->len + n;
    uint64_t until = clock_mono_ms() + WAIT_MAX_MS;
    for (;;) {
        if (n > 0 ? in->len >= want : (in->len >= 4 && memmem(in->p, in->len, "\r\n\r\n", 4))) {
            return;
        }
        assert_true(clock_mono_ms() < until);
        io_loop_turn(l, false);
        char b[4096];
        ssize_t r = recv(fd, b, n > 0 ? MIN(sizeof(b), want - in->len) : 1, 0);
        if (r > 0) {
            assert_int_equal(buf_add(in, b, (size_t)r), 0);
        } else {
            assert_true(r < 0 && errno == EAGAIN); /* else the other side closed too early */
            (void)poll(NULL, 0, 1);
        }
    }
}

static inline void peer_send(struct io_loop *l, int fd, struct str data)
{
    uint64_t until = clock_mono_ms() + WAIT_MAX_MS;
    while (data.n > 0) {
        ssize_t r = send(fd, data.p, data.n, MSG_NOSIGNAL);
        if (r > 0) {
            data = str_n(data.p + r, data.n - (size_t)r);
            continue;
        }
        assert_true(r < 0 && errno == EAGAIN && clock_mono_ms() < until);
        io_loop_turn(l, false);
        (void)poll(NULL, 0, 1);
    }
}

/* Has the other side closed? Turns the loop until it has. */
static inline void peer_wait_closed(struct io_loop *l, int fd)
{
    char b[4096];
    ssize_t r = -1;
    wait_for(l, (r = recv(fd, b, sizeof(b), 0)) == 0 || (r < 0 && errno != EAGAIN));
}

static inline void peer_reset(int fd)
{
    const struct linger hard = {1, 0};
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    (void)close(fd);
}
