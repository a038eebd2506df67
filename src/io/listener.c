/* Accepting connections. */

#include "io/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "io/internal.h"
#include "io/limits.h"

struct io_listener {
    uv_poll_t poll;
    struct io_owned owned;
    struct io_timer pause;
    io_accept_cb *cb;
    void *arg;
    int fd;
    bool closed, warned;
    dev_t dev; /* the socket file that close removes, if it is still this one; ino 0: none */
    ino_t ino;
    struct sockaddr_un un;
};

static void on_ready(uv_poll_t *h, int status, int events);

static void pause_accepting(struct io_listener *l, int error)
{
    if (!l->warned) {
        l->warned = true;
        log_warn("cannot accept connections for now", LOG_I("errno", error),
                 LOG_S("reason", strerror(error)), LOG_I("pause_ms", IO_ACCEPT_PAUSE_MS));
    }
    (void)uv_poll_stop(&l->poll); /* always 0 */
    io_timer_start(&l->pause, IO_ACCEPT_PAUSE_MS);
}

static void on_pause_over(struct io_timer *t)
{
    struct io_listener *l = container_of(t, struct io_listener, pause);

    must(uv_poll_start(&l->poll, UV_READABLE, on_ready) == 0);
}

static void on_ready(uv_poll_t *h, int status, int events)
{
    struct io_listener *l = h->data;

    if (status < 0) {
        pause_accepting(l, -status); /* libuv has stopped the handle; the pause starts it again */
        return;
    }
    for (int i = 0; i < IO_ACCEPT_PER_TURN && !l->closed; i++) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            struct io_stream *s = stream_new(loop_of((uv_handle_t *)h), fd, STREAM_SOCKET);
            if (s) {
                l->warned = false;
                l->cb(s, l->arg);
            }
            continue;
        }
        switch (errno) {
        case EAGAIN:
            return;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            pause_accepting(l, errno);
            return;
        default:
            break; /* accept(2): errors of that one connection; the next may be fine */
        }
    }
}

/* A socket file that a dead process left behind is removed; one that is listened on is not. */
static int bind_unix(int fd, const struct io_addr *a)
{
    if (bind(fd, &a->sa, a->len) == 0) {
        return 0;
    }
    if (errno != EADDRINUSE || a->un.sun_path[0] == 0) {
        return -errno;
    }
    cleanup_close int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0) {
        return -errno;
    }
    if (connect(probe, &a->sa, a->len) == 0 || errno != ECONNREFUSED) {
        return -EADDRINUSE;
    }
    if (unlink(a->un.sun_path) < 0 || bind(fd, &a->sa, a->len) < 0) {
        return -errno;
    }
    return 0;
}

static int set_mode(const struct io_addr *a, mode_t mode)
{
    struct stat st;

    if (a->un.sun_path[0] == 0) {
        return 0;
    }
    /* The file was made with 0600 (see open_unix), so there is no moment in which it is too open.
     */
    if (lstat(a->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode) ||
        chmod(a->un.sun_path, mode) < 0) {
        return -errno;
    }
    return 0;
}

static int open_unix(int fd, const struct io_addr *a, const struct io_listen_opts *o)
{
    /* Linux gives the socket file the mode of the unbound socket. */
    if (fchmod(fd, 0600) < 0) {
        return -errno;
    }
    int r = bind_unix(fd, a);
    return r < 0 ? r : set_mode(a, o->unix_mode ? o->unix_mode : 0600);
}

static int open_inet(int fd, const struct io_addr *a, const struct io_listen_opts *o)
{
    const int on = 1;

    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        (o->reuse_port && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)) < 0) ||
        /* inherited by accepted connections: saves a call for each */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 ||
        bind(fd, &a->sa, a->len) < 0) {
        return -errno;
    }
    return 0;
}

static int open_fd(const struct io_addr *a, const struct io_listen_opts *o)
{
    cleanup_close int fd = -1;
    int r;

    if (o->fd > 0) {
        r = fd_set_nonblock(o->fd, true);
        if (r == 0) {
            r = fd_set_cloexec(o->fd, true);
        }
        return r < 0 ? r : o->fd;
    }
    fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    r = a->sa.sa_family == AF_UNIX ? open_unix(fd, a, o) : open_inet(fd, a, o);
    if (r < 0) {
        return r;
    }
    if (listen(fd, o->backlog ? o->backlog : IO_BACKLOG) < 0) {
        return -errno;
    }
    return take_fd(&fd);
}

static void remember_file(struct io_listener *l, const struct io_addr *a)
{
    struct stat st;

    if (a && a->sa.sa_family == AF_UNIX && a->un.sun_path[0] && lstat(a->un.sun_path, &st) == 0) {
        l->dev = st.st_dev;
        l->ino = st.st_ino;
        l->un = a->un;
    }
}

static void forget(struct io_owned *o)
{
    io_listener_close(container_of(o, struct io_listener, owned));
}

struct io_listener *io_listen(struct io_loop *loop, const struct io_addr *a,
                              const struct io_listen_opts *o, io_accept_cb *cb, void *arg,
                              struct err *e)
{
    static const struct io_listen_opts none;
    char text[IO_ADDR_TEXT_MAX];

    o = o ? o : &none;
    int fd = open_fd(a, o);
    if (fd < 0) {
        err_sys(e, fd, "listen on %s", o->fd > 0 ? "inherited socket" : io_addr_format(a, text));
        return NULL;
    }
    struct io_listener *l = NEW(struct io_listener);
    int r = uv_poll_init(&loop->uv, &l->poll, fd);
    if (r != 0) {
        (void)close(fd);
        free(l);
        err_sys(e, r, "watch listening socket");
        return NULL;
    }
    l->poll.data = l;
    l->fd = fd;
    l->cb = cb;
    l->arg = arg;
    if (o->fd <= 0) {
        remember_file(l, a);
    }
    io_timer_init(&l->pause, loop, on_pause_over);
    io_loop_own(loop, &l->owned, forget);
    must(uv_poll_start(&l->poll, UV_READABLE, on_ready) == 0);
    return l;
}

int io_listener_addr(struct io_listener *l, struct io_addr *ret)
{
    struct io_addr a = {.len = sizeof(a.ss)};

    if (getsockname(l->fd, &a.sa, &a.len) < 0) {
        return -errno;
    }
    *ret = a;
    return 0;
}

static void on_closed(uv_handle_t *h)
{
    free(container_of(h, struct io_listener, poll));
}

void io_listener_close(struct io_listener *l)
{
    struct stat st;

    if (!l) {
        return;
    }
    must(!l->closed);
    l->closed = true;
    list_del(&l->owned.node);
    io_timer_stop(&l->pause);
    uv_close((uv_handle_t *)&l->poll, on_closed);
    if (l->ino && lstat(l->un.sun_path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino) {
        (void)unlink(l->un.sun_path); /* a leftover is removed by the next start */
    }
    (void)close(l->fd);
}
