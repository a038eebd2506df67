/* Process groups and their pipes. */

#include "execd/job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/must.h"
#include "execd/drain.h"
#include "execd/limits.h"
#include "execd/oom.h"

/* Reads of one pipe before other work gets its turn. */
#define READS_PER_TURN 8

struct job_pipe {
    struct job *job;
    struct io_stream *s; /* NULL: ended, or handed over to a survivor */
    struct buf rest;     /* read, but not yet taken */
    bool bounded;        /* the leader is gone: only `left` bytes are still ours */
    bool passed;         /* and those have been taken; the rest is from survivors */
    size_t left;
};

struct job {
    struct execd *x;
    struct io_child *child;
    const struct job_ops *ops;
    void *arg;
    struct job_pipe pipes[2];
    unsigned n_pipes;
    bool exited, discard, follow, ended;
    bool busy; /* inside on_output: the end waits until it has returned */
    struct io_child_status status;
    uint64_t started_ms, oom_at_start;
};

static void job_free(struct job *j)
{
    for (unsigned i = 0; i < j->n_pipes; i++) {
        io_stream_close(j->pipes[i].s);
        buf_done(&j->pipes[i].rest);
    }
    io_child_free(j->child);
    free(j);
}

static void end_if_over(struct job *j)
{
    if (!j->exited || j->busy) {
        return;
    }
    bool all_passed = true, all_closed = true;
    for (unsigned i = 0; i < j->n_pipes; i++) {
        const struct job_pipe *p = &j->pipes[i];
        bool closed = !p->s && p->rest.len == 0;
        all_closed = all_closed && closed;
        all_passed = all_passed && (closed || p->passed);
    }
    if (all_passed && !j->ended) {
        j->ended = true;
        bool oom = oom_was_cause(&j->x->oom, j->oom_at_start, &j->status);
        j->ops->on_end(j, &j->status, oom, j->arg);
    }
    if (all_closed) {
        if (j->ops->on_close) {
            j->ops->on_close(j, j->arg);
        }
        job_free(j);
    }
}

/* Offers bytes to the taker. Returns false when it did not take all of them; the rest is kept. */
static bool offer(struct job_pipe *p, struct str data)
{
    struct job *j = p->job;
    if (j->discard || data.n == 0) {
        return true;
    }
    j->busy = true;
    size_t taken = j->ops->on_output(j, (unsigned)(p - j->pipes), data, j->arg);
    j->busy = false;
    if (j->discard || taken >= data.n) {
        return true;
    }
    (void)buf_add_str(&p->rest, str_sub(data, taken, data.n)); /* empty before, and large enough */
    return false;
}

/* What is still waiting. Returns false when the taker is still full. */
static bool offer_rest(struct job_pipe *p)
{
    if (p->rest.len == 0) {
        return true;
    }
    struct buf waiting = p->rest;
    buf_init(&p->rest, EXECD_READ_CHUNK);
    bool all = offer(p, buf_str(&waiting));
    buf_done(&waiting);
    return all;
}

/* The last byte that was the leader's has been taken. */
static void leave_pipe(struct job_pipe *p)
{
    struct io_stream *s = p->s;
    p->bounded = false;
    p->passed = true;
    if (p->job->follow) {
        io_stream_want(s, IO_READABLE);
        return;
    }
    p->s = NULL;
    char byte;
    ssize_t n = io_stream_read(s, &byte, 1); /* if there is one, it is a survivor's: not ours */
    if (n > 0 || n == -EAGAIN) {
        drains_add(&p->job->x->drains, s);
    } else {
        io_stream_close(s);
    }
}

/* Reads until the pipe is empty, the taker is full, or it is someone else's turn. */
static void pump(struct job_pipe *p)
{
    struct job *j = p->job;
    if (!offer_rest(p)) {
        io_stream_want(p->s, 0);
        return;
    }
    for (int i = 0; p->s && i < READS_PER_TURN; i++) {
        size_t want = p->bounded ? MIN(p->left, (size_t)EXECD_READ_CHUNK) : EXECD_READ_CHUNK;
        if (want == 0) {
            leave_pipe(p);
            return;
        }
        ssize_t n = io_stream_read(p->s, j->x->read_buf, want);
        if (n == -EAGAIN) {
            break;
        }
        if (n <= 0) {
            io_stream_close(p->s);
            p->s = NULL;
            return;
        }
        p->left -= p->bounded ? (size_t)n : 0;
        if (!offer(p, str_n(j->x->read_buf, (size_t)n))) {
            io_stream_want(p->s, 0);
            return;
        }
    }
    if (p->s) {
        io_stream_want(p->s, IO_READABLE);
    }
}

static void on_pipe(struct io_stream *s, unsigned events, void *arg)
{
    struct job_pipe *p = arg;
    pump(p);
    end_if_over(p->job);
}

/* Everything the leader wrote is in the pipe now; what comes later is from survivors. */
static void bound_pipe(struct job_pipe *p)
{
    int n = 0;
    if (!p->s) {
        return;
    }
    p->bounded = true;
    p->left = ioctl(io_stream_fd(p->s), FIONREAD, &n) == 0 && n > 0 ? (size_t)n : 0;
    if (p->rest.len == 0 || p->job->discard) {
        pump(p);
    }
}

static void on_leader_exit(struct io_child *c, const struct io_child_status *st, void *arg)
{
    struct job *j = arg;
    j->exited = true;
    j->status = *st;
    for (unsigned i = 0; i < j->n_pipes; i++) {
        bound_pipe(&j->pipes[i]);
    }
    end_if_over(j);
}

/* A pipe whose end the child can open again by name (/dev/stderr), also as another user. */
static int open_pipe(struct job *j, const struct job_spec *spec, int *ret_write_fd)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0) {
        return -errno;
    }
    const struct run_as *as = &j->x->run_as;
    if (spec->set_ids || as->is_set) {
        (void)!fchown(fds[1], spec->set_ids ? spec->uid : as->uid,
                      spec->set_ids ? spec->gid
                                    : as->gid); /* without it only the reopening fails */
    }
    struct job_pipe *p = &j->pipes[j->n_pipes];
    (void)fd_set_nonblock(fds[0], true);
    p->s = io_stream_from_fd(j->x->loop, fds[0], on_pipe, p);
    if (!p->s) {
        (void)close(fds[1]);
        return -EIO;
    }
    p->job = j;
    buf_init(&p->rest, EXECD_READ_CHUNK);
    j->n_pipes++;
    *ret_write_fd = fds[1];
    return 0;
}

static int spawn(struct job *j, const struct job_spec *spec, int out_fd, int err_fd)
{
    struct execd *x = j->x;
    struct io_child_opts o = {
        .path = spec->path,
        .argv = spec->argv,
        .envp = spec->envp,
        .cwd = spec->cwd,
        .in = {IO_STDIO_FD, spec->stdin_fd >= 0 ? spec->stdin_fd : x->null_fd},
        .out = {IO_STDIO_FD, out_fd},
        .err = {IO_STDIO_FD, spec->merge ? out_fd : err_fd},
        .set_ids = spec->set_ids,
        .uid = spec->uid,
        .gid = spec->gid,
        .groups = spec->groups,
        .n_groups = spec->n_groups,
        .cgroup_procs = x->cfg.workload_procs,
        .oom_score_adj = x->oom_score_adj,
        .max_fds = x->child_max_fds,
        .timeout_ms = spec->timeout_ms,
    };
    run_as_apply(&x->run_as, &o);
    int r = 0;
    j->child = io_child_spawn(x->loop, &o, on_leader_exit, j, &r);
    return r;
}

struct job *job_start(struct execd *x, const struct job_spec *spec, const struct job_ops *ops,
                      void *arg, int *ret_error)
{
    struct job *j = NEW(struct job);
    j->x = x;
    j->ops = ops;
    j->arg = arg;
    j->follow = spec->follow;
    j->oom_at_start = oom_count(&x->oom);
    j->started_ms = clock_mono_ms();
    cleanup_close int out_fd = -1;
    cleanup_close int err_fd = -1;
    int r = open_pipe(j, spec, &out_fd);
    if (r == 0 && !spec->merge) {
        r = open_pipe(j, spec, &err_fd);
    }
    r = r < 0 ? r : spawn(j, spec, out_fd, err_fd);
    if (r < 0) {
        job_free(j);
        *ret_error = r;
        return NULL;
    }
    for (unsigned i = 0; i < j->n_pipes; i++) {
        io_stream_want(j->pipes[i].s, IO_READABLE);
    }
    return j;
}

void job_resume(struct job *j)
{
    if (j->busy) {
        return;
    }
    for (unsigned i = 0; i < j->n_pipes; i++) {
        struct job_pipe *p = &j->pipes[i];
        if (p->s) {
            pump(p);
        } else {
            (void)offer_rest(p);
        }
    }
    end_if_over(j);
}

void job_discard(struct job *j)
{
    j->discard = true;
    for (unsigned i = 0; i < j->n_pipes; i++) {
        struct job_pipe *p = &j->pipes[i];
        buf_done(&p->rest);
        if (p->s) {
            io_stream_want(p->s, IO_READABLE);
        }
    }
    end_if_over(j);
}

int job_signal(struct job *j, int signo)
{
    return io_child_signal_group(j->child, signo);
}

pid_t job_pgid(const struct job *j)
{
    return io_child_pid(j->child);
}

uint64_t job_elapsed_ms(const struct job *j)
{
    return clock_mono_ms() - j->started_ms;
}

void job_detach(struct job *j)
{
    if (!j) {
        return;
    }
    for (unsigned i = 0; i < j->n_pipes; i++) {
        if (j->pipes[i].s) {
            drains_add(&j->x->drains, take_ptr(&j->pipes[i].s));
        }
    }
    job_free(j);
}
