/* Children on a loop: told about their end by a pidfd, killed at their deadline. */

#include "io/child.h"

#include <errno.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "io/internal.h"
#include "io/spawn.h"

struct io_child {
    struct io_loop *loop;
    struct io_owned owned;
    struct proc proc;
    union {
        uv_handle_t handle;
        uv_poll_t poll;     /* on the pidfd */
        uv_signal_t signal; /* SIGCHLD, where there is no pidfd */
    };
    struct io_task look; /* without a pidfd: it may have ended before the signal was watched */
    struct io_timer deadline;
    io_child_cb *cb;
    void *arg;
    int fd[3];  /* our ends of pipes that nobody has taken yet */
    int pty_fd; /* the master, until it is taken; then: */
    struct io_stream *pty;
    bool uses_pty[3];
    bool timed_out, ended, freed, closed;
};

static void drop_fds(struct io_child *c)
{
    for (int i = 0; i < 3; i++) {
        if (c->fd[i] >= 0) {
            (void)close(take_fd(&c->fd[i]));
        }
    }
    if (c->pty_fd >= 0) {
        (void)close(take_fd(&c->pty_fd));
    }
    if (c->pty) {
        c->pty->weak = NULL;
        c->pty = NULL;
    }
}

static void release(struct io_child *c)
{
    if (c->freed && c->closed) {
        free(c);
    }
}

static void on_closed(uv_handle_t *h)
{
    struct io_child *c = h->data;

    c->closed = true;
    release(c);
}

/* The process is reaped, or the loop goes away. */
static void stop_watching(struct io_child *c)
{
    c->ended = true;
    list_del(&c->owned.node);
    loop_task_del(&c->look);
    io_timer_stop(&c->deadline);
    uv_close(&c->handle, on_closed);
    proc_done(&c->proc); /* libuv has let go of the pidfd */
}

static void check(struct io_child *c)
{
    if (c->ended || !proc_reap(&c->proc)) {
        return;
    }
    struct io_child_status st = c->proc.st;
    if (c->timed_out && st.end == IO_CHILD_SIGNALED) {
        st.end = IO_CHILD_TIMEOUT;
    }
    stop_watching(c);
    if (!c->freed) {
        c->cb(c, &st, c->arg); /* may free c, which lives on until libuv has closed the handle */
    }
}

static void on_pidfd(uv_poll_t *h, int status, int events)
{
    check(h->data);
}

static void on_sigchld(uv_signal_t *h, int signo)
{
    check(h->data);
}

static void on_look(struct io_task *t)
{
    struct io_child *c = container_of(t, struct io_child, look);

    if (!c->loop->freeing) {
        check(c);
    }
}

static void on_deadline(struct io_timer *t)
{
    struct io_child *c = container_of(t, struct io_child, deadline);

    check(c); /* it may have ended in time and we not know yet */
    if (!c->ended) {
        c->timed_out = true;
        proc_kill(&c->proc);
    }
}

static void forget(struct io_owned *o)
{
    struct io_child *c = container_of(o, struct io_child, owned);

    c->freed = true; /* nobody may use it after its loop */
    drop_fds(c);
    stop_watching(c);
}

static void watch(struct io_child *c)
{
    if (c->proc.pidfd >= 0) {
        must(uv_poll_init(&c->loop->uv, &c->poll, c->proc.pidfd) == 0);
        c->handle.data = c;
        must(uv_poll_start(&c->poll, UV_READABLE, on_pidfd) == 0);
    } else {
        must(uv_signal_init(&c->loop->uv, &c->signal) == 0);
        c->handle.data = c;
        must(uv_signal_start(&c->signal, on_sigchld, SIGCHLD) == 0);
        loop_task_add(c->loop, &c->look);
    }
}

struct io_child *io_child_spawn(struct io_loop *l, const struct io_child_opts *o, io_child_cb *cb,
                                void *arg, int *ret_error)
{
    struct spawn_plan plan;
    struct io_child *c = NEW(struct io_child);
    int r = spawn_plan_init(&plan, o);

    r = r < 0 ? r : spawn_run(&plan, &c->proc);
    if (r < 0) {
        spawn_plan_done(&plan);
        free(c);
        if (ret_error) {
            *ret_error = r;
        }
        return NULL;
    }
    const struct io_child_fd *kinds[3] = {&o->in, &o->out, &o->err};
    for (int i = 0; i < 3; i++) {
        c->fd[i] = take_fd(&plan.parent_fd[i]);
        c->uses_pty[i] = kinds[i]->kind == IO_STDIO_PTY;
    }
    c->pty_fd = take_fd(&plan.pty_fd);
    spawn_plan_done(&plan);
    c->loop = l;
    c->cb = cb;
    c->arg = arg;
    io_loop_own(l, &c->owned, forget);
    loop_task_init(&c->look, on_look);
    io_timer_init(&c->deadline, l, on_deadline);
    watch(c);
    if (o->timeout_ms) {
        io_timer_start(&c->deadline, o->timeout_ms);
    }
    return c;
}

pid_t io_child_pid(const struct io_child *c)
{
    return c->proc.pid;
}

static struct io_stream *take(struct io_child *c, int i)
{
    if (c->fd[i] >= 0) {
        return stream_new(c->loop, take_fd(&c->fd[i]), STREAM_PIPE);
    }
    if (!c->uses_pty[i] || c->pty_fd < 0) {
        return NULL;
    }
    c->pty = stream_new(c->loop, take_fd(&c->pty_fd), STREAM_TTY);
    if (c->pty) {
        c->pty->weak = &c->pty; /* for resizing, as long as its owner keeps it open */
    }
    return c->pty;
}

struct io_stream *io_child_take_stdin(struct io_child *c)
{
    return take(c, 0);
}

struct io_stream *io_child_take_stdout(struct io_child *c)
{
    return take(c, 1);
}

struct io_stream *io_child_take_stderr(struct io_child *c)
{
    return take(c, 2);
}

int io_child_signal(struct io_child *c, int signo)
{
    return proc_signal(&c->proc, signo);
}

int io_child_signal_group(struct io_child *c, int signo)
{
    return proc_signal_group(&c->proc, signo);
}

int io_child_resize(struct io_child *c, uint16_t rows, uint16_t cols)
{
    const struct winsize ws = {.ws_row = rows, .ws_col = cols};
    int fd = c->pty ? c->pty->fd : c->pty_fd;

    if (fd < 0) {
        return -ENOTTY;
    }
    return ioctl(fd, TIOCSWINSZ, &ws) < 0 ? -errno : 0;
}

void io_child_free(struct io_child *c)
{
    if (c) {
        must(!c->freed);
        c->freed = true;
        drop_fds(c);
        release(c); /* else when the process has ended and libuv has closed the handle */
    }
}
