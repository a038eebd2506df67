/* Streams over descriptors watched with uv_poll.
 *
 * Theory of operation: uv_poll_start() costs two epoll_ctl() calls, so the kernel's interest is
 * changed lazily. Wanting more arms at once. Wanting less leaves the kernel armed; only when an
 * event comes that nobody wants is the interest cut down to what is needed. A server that stops
 * reading while it answers and then goes on reading therefore makes no system call for it, unless
 * the client really sends more meanwhile.
 *
 * libuv stops a handle by itself when it sees EPOLLERR and reports -EBADF; it is armed again if
 * something is still wanted, and the read or write that follows gives the real error. EPOLLHUP
 * without EPOLLIN is turned by libuv into whatever is watched, so it needs no case of its own. */

#include "io/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "base/must.h"
#include "io/internal.h"

static atomic_size_t n_streams;

/* ---- plain transport ---- */

static ssize_t plain_read(struct io_stream *s, void *p, size_t n)
{
    ssize_t r;

    if (s->ended) {
        return 0;
    }
    do {
        r = s->kind == STREAM_SOCKET ? recv(s->fd, p, n, 0) : read(s->fd, p, n);
    } while (r < 0 && errno == EINTR);
    if (r >= 0) {
        return r;
    }
    /* The last program on the other side of a terminal is gone: Linux says EIO, we say end. */
    return s->kind == STREAM_TTY && errno == EIO ? 0 : -errno;
}

static ssize_t plain_writev(struct io_stream *s, const struct iovec *iov, int n_iov)
{
    struct msghdr m = {.msg_iov = (struct iovec *)(uintptr_t)iov, .msg_iovlen = (size_t)n_iov};
    ssize_t r;

    if (s->ended) {
        return -EPIPE;
    }
    do {
        r = s->kind == STREAM_SOCKET ? sendmsg(s->fd, &m, MSG_NOSIGNAL) : writev(s->fd, iov, n_iov);
    } while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

static ssize_t plain_sendfile(struct io_stream *s, int fd, off_t *offset, size_t n)
{
    ssize_t r;

    if (s->ended) {
        return -EPIPE;
    }
    do {
        r = sendfile(s->fd, fd, offset, n);
    } while (r < 0 && errno == EINTR);
    if (r < 0 && (errno == EINVAL || errno == ENOSYS)) {
        return stream_copy_file(s, fd, offset, n); /* some file systems cannot be spliced */
    }
    return r < 0 ? -errno : r;
}

/* A pipe has no half-close. Its number must stay taken as long as libuv knows it, so it is replaced
 * by something harmless instead of being closed. */
static int pipe_end(struct io_stream *s)
{
    int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null_fd < 0) {
        return -errno;
    }
    (void)uv_poll_stop(&s->poll); /* always 0 */
    s->armed = 0;
    int r = dup3(null_fd, s->fd, O_CLOEXEC) < 0 ? -errno : 0;
    (void)close(null_fd);
    s->ended = r == 0;
    return r;
}

static int plain_shutdown(struct io_stream *s)
{
    if (s->ended) {
        return 0;
    }
    switch ((enum io_stream_kind)s->kind) {
    case STREAM_SOCKET:
        return shutdown(s->fd, SHUT_WR) < 0 ? -errno : 0;
    case STREAM_PIPE:
        return pipe_end(s);
    case STREAM_TTY:
    default:
        return -EOPNOTSUPP;
    }
}

static const struct io_stream_ops plain_ops = {
    .read = plain_read,
    .writev = plain_writev,
    .sendfile = plain_sendfile,
    .shutdown = plain_shutdown,
};

/* ---- events ---- */

static void on_poll(uv_poll_t *h, int status, int uv_events);

static uint8_t needed(const struct io_stream *s)
{
    uint8_t m = 0;

    if (s->wanted & IO_READABLE) {
        m |= s->read_needs;
    }
    if (s->wanted & IO_WRITABLE) {
        m |= s->write_needs;
    }
    if (s->watch_hup && !s->hup_told) {
        m |= UV_DISCONNECT;
    }
    return m;
}

static void arm(struct io_stream *s, uint8_t mask)
{
    if (mask == s->armed || s->ended || s->closed) {
        return;
    }
    if (mask) {
        must(uv_poll_start(&s->poll, mask, on_poll) == 0);
    } else {
        (void)uv_poll_stop(&s->poll); /* always 0 */
    }
    s->armed = mask;
}

void stream_rearm(struct io_stream *s)
{
    uint8_t need = needed(s);

    if (need & ~s->armed) {
        arm(s, need);
    }
    if ((s->wanted & IO_READABLE) && s->ops->pending && s->ops->pending(s)) {
        loop_task_add(loop_of((uv_handle_t *)&s->poll), &s->again);
    }
}

static void deliver(struct io_stream *s, unsigned events)
{
    if (events & IO_HUP) {
        s->hup_told = true;
    }
    if (events && s->cb) {
        s->cb(s, events, s->arg);
    }
}

static void on_poll(uv_poll_t *h, int status, int uv_events)
{
    struct io_stream *s = h->data;
    unsigned events = 0, ev = (unsigned)uv_events;

    if (status < 0) {
        s->armed = 0;
        ev = UV_READABLE | UV_WRITABLE | UV_DISCONNECT;
    }
    if ((s->wanted & IO_READABLE) && (ev & s->read_needs)) {
        events |= IO_READABLE;
    }
    if ((s->wanted & IO_WRITABLE) && (ev & s->write_needs)) {
        events |= IO_WRITABLE;
    }
    if ((ev & UV_DISCONNECT) && s->watch_hup && !s->hup_told) {
        events |= IO_HUP;
    }
    deliver(s, events);
    if (s->closed) {
        return;
    }
    /* An event nobody is interested in would come again and again: now the kernel must know. */
    uint8_t need = needed(s);
    if (ev & s->armed & ~need) {
        arm(s, need);
    }
    stream_rearm(s);
}

/* Plaintext that the transport holds: the kernel will not tell about it. */
static void on_again(struct io_task *t)
{
    struct io_stream *s = container_of(t, struct io_stream, again);

    if (loop_of((uv_handle_t *)&s->poll)->freeing || !(s->wanted & IO_READABLE) ||
        !s->ops->pending || !s->ops->pending(s)) {
        return;
    }
    deliver(s, IO_READABLE);
    if (!s->closed) {
        stream_rearm(s);
    }
}

/* ---- life ---- */

struct io_stream *stream_new(struct io_loop *l, int take_fd, enum io_stream_kind kind)
{
    struct io_stream *s = NEW(struct io_stream);

    if (uv_poll_init(&l->uv, &s->poll, take_fd) != 0) {
        free(s);
        (void)close(take_fd);
        return NULL;
    }
    s->poll.data = s;
    s->fd = take_fd;
    s->kind = (uint8_t)kind;
    s->ops = &plain_ops;
    s->read_needs = UV_READABLE;
    s->write_needs = UV_WRITABLE;
    loop_task_init(&s->again, on_again);
    atomic_fetch_add_explicit(&n_streams, 1, memory_order_relaxed);
    return s;
}

struct io_stream *io_stream_from_fd(struct io_loop *l, int take_fd, io_stream_cb *cb, void *arg)
{
    struct stat st;
    enum io_stream_kind kind = STREAM_PIPE;

    if (fstat(take_fd, &st) == 0) {
        kind = S_ISSOCK(st.st_mode)  ? STREAM_SOCKET
               : S_ISCHR(st.st_mode) ? STREAM_TTY
                                     : STREAM_PIPE;
    }
    struct io_stream *s = stream_new(l, take_fd, kind);
    if (s) {
        io_stream_set_cb(s, cb, arg);
    }
    return s;
}

void io_stream_set_cb(struct io_stream *s, io_stream_cb *cb, void *arg)
{
    s->cb = cb;
    s->arg = arg;
}

struct io_loop *io_stream_loop(struct io_stream *s)
{
    return loop_of((uv_handle_t *)&s->poll);
}

void io_stream_want(struct io_stream *s, unsigned events)
{
    s->wanted = events & (IO_READABLE | IO_WRITABLE);
    stream_rearm(s);
}

unsigned io_stream_wanted(const struct io_stream *s)
{
    return s->wanted;
}

void io_stream_watch_hup(struct io_stream *s, bool on)
{
    if (on && !s->watch_hup) {
        s->hup_told = false; /* who asks anew is told anew: it may be another owner */
    }
    s->watch_hup = on;
    stream_rearm(s);
}

static void on_closed(uv_handle_t *h)
{
    free(container_of(h, struct io_stream, poll));
}

static void detach(struct io_stream *s, bool reset)
{
    must(!s->closed);
    s->closed = true;
    s->cb = NULL;
    s->wanted = 0;
    loop_task_del(&s->again);
    if (s->weak) {
        *s->weak = NULL;
    }
    if (s->ops->close) {
        s->ops->close(s, reset);
    }
    /* libuv forgets the descriptor here, also in the batch of events it is working on. */
    uv_close((uv_handle_t *)&s->poll, on_closed);
    atomic_fetch_sub_explicit(&n_streams, 1, memory_order_relaxed);
}

void io_stream_close(struct io_stream *s)
{
    if (s) {
        detach(s, false);
        (void)close(s->fd);
    }
}

void io_stream_abort(struct io_stream *s)
{
    const struct linger reset = {.l_onoff = 1, .l_linger = 0};

    if (s) {
        if (s->kind == STREAM_SOCKET) {
            /* Unix sockets do not know it; they drop what is unread anyway. */
            (void)setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
        }
        detach(s, true);
        (void)close(s->fd);
    }
}

int io_stream_take_fd(struct io_stream *s)
{
    must(!s->transport && !s->ended);
    int fd = s->fd;
    detach(s, false);
    return fd;
}

/* ---- bytes ---- */

ssize_t io_stream_read(struct io_stream *s, void *p, size_t n)
{
    return s->ops->read(s, p, n);
}

ssize_t io_stream_writev(struct io_stream *s, const struct iovec *iov, int n_iov)
{
    return s->ops->writev(s, iov, n_iov);
}

ssize_t io_stream_write(struct io_stream *s, const void *p, size_t n)
{
    struct iovec v = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};

    return s->ops->writev(s, &v, 1);
}

ssize_t io_stream_sendfile(struct io_stream *s, int fd, off_t *offset, size_t n)
{
    return s->ops->sendfile(s, fd, offset, n);
}

ssize_t stream_copy_file(struct io_stream *s, int fd, off_t *offset, size_t n)
{
    char chunk[IO_COPY_FILE_CHUNK];
    ssize_t got;

    do {
        got = pread(fd, chunk, MIN(n, sizeof(chunk)), *offset);
    } while (got < 0 && errno == EINTR);
    if (got <= 0) {
        return got < 0 ? -errno : 0;
    }
    ssize_t put = io_stream_write(s, chunk, (size_t)got);
    if (put > 0) {
        *offset += put;
    }
    return put;
}

int io_stream_shutdown(struct io_stream *s)
{
    return s->ops->shutdown(s);
}

/* ---- facts ---- */

int io_stream_fd(const struct io_stream *s)
{
    return s->transport ? -1 : s->fd;
}

int io_stream_peer(const struct io_stream *s, struct io_addr *ret)
{
    struct io_addr a = {.len = sizeof(a.ss)};

    if (getpeername(s->fd, &a.sa, &a.len) < 0) {
        return -errno;
    }
    *ret = a;
    return 0;
}

bool io_stream_is_tls(const struct io_stream *s)
{
    return s->transport != NULL;
}

size_t io_stream_count(void)
{
    return atomic_load_explicit(&n_streams, memory_order_relaxed);
}
