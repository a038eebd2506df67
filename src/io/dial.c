/* Outgoing connections. */

#include "io/dial.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "io/internal.h"
#include "io/limits.h"

struct io_dial {
    struct io_loop *loop;
    struct io_owned owned;
    struct io_task done; /* the result was known inside io_dial_start() */
    struct io_timer deadline;
    struct io_timer retry;
    struct io_stream *stream;
    struct io_addr addr;
    io_dial_cb *cb;
    void *arg;
    int error;
};

int io_socket_in_netns(int netns_fd, int family, int type)
{
    cleanup_close int home = -1;

    if (netns_fd >= 0) {
        home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
        if (home < 0) {
            return -errno;
        }
        if (setns(netns_fd, CLONE_NEWNET) < 0) {
            return -errno;
        }
    }
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int r = fd < 0 ? -errno : fd;
    if (home >= 0) {
        /* A thread left in a sandbox's network would send everything else there too. */
        must(setns(home, CLONE_NEWNET) == 0);
    }
    return r;
}

static void dial_free(struct io_dial *d)
{
    list_del(&d->owned.node);
    loop_task_del(&d->done);
    io_timer_stop(&d->deadline);
    io_timer_stop(&d->retry);
    io_stream_close(d->stream);
    free(d);
}

static void finish(struct io_dial *d, int error)
{
    struct io_stream *s = error ? NULL : take_ptr(&d->stream);
    io_dial_cb *cb = d->cb;
    void *arg = d->arg;

    dial_free(d);
    if (s) {
        io_stream_want(s, 0);
        io_stream_set_cb(s, NULL, NULL);
    }
    cb(s, error, arg);
}

static void on_done(struct io_task *t)
{
    struct io_dial *d = container_of(t, struct io_dial, done);

    if (!d->loop->freeing) {
        finish(d, d->error);
    }
}

static void on_deadline(struct io_timer *t)
{
    finish(container_of(t, struct io_dial, deadline), -ETIMEDOUT);
}

static void on_writable(struct io_stream *s, unsigned events, void *arg)
{
    struct io_dial *d = arg;
    int error = 0;
    socklen_t len = sizeof(error);

    if (getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0) {
        error = errno;
    }
    finish(d, -error);
}

/* 0: connected or failed at once (d->error), the caller reports it. 1: an event will come. */
static int try_connect(struct io_dial *d)
{
    int r;

    do {
        r = connect(d->stream->fd, &d->addr.sa, d->addr.len);
    } while (r < 0 && errno == EINTR);
    if (r == 0) {
        return 0;
    }
    if (errno == EINPROGRESS) {
        io_stream_want(d->stream, IO_WRITABLE);
        return 1;
    }
    if (errno == EAGAIN && d->addr.sa.sa_family == AF_UNIX) {
        /* The listener's queue is full; Unix sockets have no event for "try again now". */
        io_timer_start(&d->retry, IO_UNIX_RETRY_MS);
        return 1;
    }
    d->error = -errno;
    return 0;
}

static void on_retry(struct io_timer *t)
{
    struct io_dial *d = container_of(t, struct io_dial, retry);

    if (try_connect(d) == 0) {
        finish(d, d->error);
    }
}

static int open_stream(struct io_dial *d, int netns_fd, uint32_t mark)
{
    const int on = 1;
    int fd = io_socket_in_netns(netns_fd, d->addr.sa.sa_family, SOCK_STREAM);

    if (fd < 0) {
        return fd;
    }
    if (d->addr.sa.sa_family != AF_UNIX) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)); /* only latency */
    }
    if (mark && setsockopt(fd, SOL_SOCKET, SO_MARK, &mark, sizeof(mark)) < 0) {
        int r = -errno;
        (void)close(fd);
        return r;
    }
    d->stream = stream_new(d->loop, fd, STREAM_SOCKET);
    if (!d->stream) {
        return -EMFILE;
    }
    io_stream_set_cb(d->stream, on_writable, d);
    return 0;
}

static void forget(struct io_owned *o)
{
    dial_free(container_of(o, struct io_dial, owned));
}

static struct io_dial *dial(struct io_loop *l, const struct io_addr *a, int netns_fd, uint32_t mark,
                            uint64_t timeout_ms, io_dial_cb *cb, void *arg)
{
    struct io_dial *d = NEW(struct io_dial);

    d->loop = l;
    d->addr = *a;
    d->cb = cb;
    d->arg = arg;
    io_loop_own(l, &d->owned, forget);
    loop_task_init(&d->done, on_done);
    io_timer_init(&d->deadline, l, on_deadline);
    io_timer_init(&d->retry, l, on_retry);
    d->error = open_stream(d, netns_fd, mark);
    if (d->error || try_connect(d) == 0) {
        loop_task_add(l, &d->done);
    } else if (timeout_ms) {
        io_timer_start(&d->deadline, timeout_ms);
    }
    return d;
}

struct io_dial *io_dial_start(struct io_loop *l, const struct io_addr *a, int netns_fd,
                              uint64_t timeout_ms, io_dial_cb *cb, void *arg)
{
    return dial(l, a, netns_fd, 0, timeout_ms, cb, arg);
}

struct io_dial *io_dial_start_marked(struct io_loop *l, const struct io_addr *a, uint32_t mark,
                                     uint64_t timeout_ms, io_dial_cb *cb, void *arg)
{
    return dial(l, a, -1, mark, timeout_ms, cb, arg);
}

void io_dial_cancel(struct io_dial *d)
{
    if (d) {
        dial_free(d);
    }
}
