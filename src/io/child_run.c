/* Children without a loop, for code that may block. */

#include <errno.h>
#include <poll.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/must.h"
#include "io/child.h"
#include "io/limits.h"
#include "io/spawn.h"

#define NO_PIDFD_POLL_MS 10

struct run {
    struct spawn_plan plan;
    struct proc proc;
    struct buf *bufs[3]; /* by descriptor; NULL: thrown away */
    uint64_t deadline_ms, asked_ms;
    bool timed_out, cancelled;
};

static void keep(struct buf *b, const char *p, size_t n)
{
    size_t room = b ? b->max - b->len : 0;

    if (b && !b->failed) {
        (void)buf_add(b, p, MIN(n, room)); /* fits */
        b->failed = n > room;
    }
}

/* Reads what is there. False: the other side is closed. */
static bool drain(struct run *r, int i)
{
    char chunk[IO_CHILD_READ_CHUNK];

    for (;;) {
        ssize_t n = read(r->plan.parent_fd[i], chunk, sizeof(chunk));
        if (n > 0) {
            keep(r->bufs[i], chunk, (size_t)n);
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            return false;
        } else if (errno == EAGAIN) {
            return true;
        }
    }
}

static void close_pipe(struct run *r, int i)
{
    (void)close(r->plan.parent_fd[i]);
    r->plan.parent_fd[i] = -1;
}

static int wait_ms(struct run *r)
{
    int longest = r->proc.pidfd < 0                       ? NO_PIDFD_POLL_MS
                  : r->plan.o->cancelled && !r->cancelled ? IO_CHILD_ASK_MS
                                                          : -1;

    if (!r->deadline_ms || r->timed_out) {
        return longest;
    }
    uint64_t now = clock_mono_ms();
    uint64_t left = r->deadline_ms > now ? r->deadline_ms - now : 0;
    int ms = (int)MIN(left, (uint64_t)INT32_MAX);
    return longest >= 0 ? MIN(ms, longest) : ms;
}

static void check_deadline(struct run *r)
{
    if (r->deadline_ms && !r->timed_out && clock_mono_ms() >= r->deadline_ms) {
        r->timed_out = true;
        proc_kill(&r->proc);
    }
}

static void check_cancel(struct run *r)
{
    const struct io_child_opts *o = r->plan.o;
    uint64_t now = o->cancelled ? clock_mono_ms() : 0;

    if (!o->cancelled || r->cancelled || now - r->asked_ms < IO_CHILD_ASK_MS) {
        return;
    }
    r->asked_ms = now;
    if (o->cancelled(o->cancel_arg)) {
        r->cancelled = true;
        proc_kill(&r->proc);
    }
}

static void attend(struct run *r)
{
    for (;;) {
        /* poll(2) passes over negative descriptors. */
        struct pollfd fds[3] = {
            {.fd = r->plan.parent_fd[1], .events = POLLIN},
            {.fd = r->plan.parent_fd[2], .events = POLLIN},
            {.fd = r->proc.pidfd, .events = POLLIN},
        };
        (void)poll(fds, ARRAY_LEN(fds), wait_ms(r));
        /* The process first, its output after: what it wrote before its end is then in the pipe. */
        bool ended = proc_reap(&r->proc);
        for (int i = 1; i < 3; i++) {
            if (r->plan.parent_fd[i] >= 0 && !drain(r, i)) {
                close_pipe(r, i);
            }
        }
        if (ended) {
            return;
        }
        check_deadline(r);
        check_cancel(r);
    }
}

int io_child_run(const struct io_child_opts *o, struct buf *out, struct buf *errout,
                 struct io_child_status *ret, struct err *e)
{
    struct run r = {.bufs = {NULL, out, errout}};

    if (o->in.kind == IO_STDIO_PTY || o->out.kind == IO_STDIO_PTY || o->err.kind == IO_STDIO_PTY) {
        return err_set(e, ERR_INTERNAL, "a terminal needs a loop");
    }
    int n = spawn_plan_init(&r.plan, o);
    n = n < 0 ? n : spawn_run(&r.plan, &r.proc);
    if (n < 0) {
        spawn_plan_done(&r.plan);
        return err_sys(e, n, "start %s", o->path);
    }
    for (int i = 0; i < 3; i++) { /* our copies of the child's ends would keep the pipes open */
        if (!r.plan.borrowed[i]) {
            (void)close(r.plan.child_fd[i]);
            r.plan.child_fd[i] = -1;
        }
    }
    if (r.plan.parent_fd[0] >= 0) {
        close_pipe(&r, 0);
    }
    r.deadline_ms = o->timeout_ms ? clock_mono_ms() + o->timeout_ms : 0;
    r.asked_ms = clock_mono_ms();
    attend(&r);
    *ret = r.proc.st;
    if (r.timed_out && ret->end == IO_CHILD_SIGNALED) {
        ret->end = IO_CHILD_TIMEOUT;
    }
    proc_done(&r.proc);
    spawn_plan_done(&r.plan);
    return r.cancelled ? err_sys(e, ECANCELED, "%s", o->path) : 0;
}
