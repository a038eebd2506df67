/* The process of a terminal session: start, output, input, end. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "execd/env.h"
#include "execd/limits.h"
#include "execd/pty.h"
#include "execd/shell.h"
#include "model/pty.h"

#define ROWS 24
#define COLS 80
/* After the exit, silence of this length on a terminal that survivors hold open is its end. The
 * kernel hands over what was written last from a work queue, so "nothing to read" is not enough. */
#define SETTLE_MS 50u
#define READS_PER_TURN 8

static void finish(struct pty *p);

/* ---- output ---- */

static void close_out(struct pty_out *o)
{
    io_stream_close(take_ptr(&o->s));
}

/* Reads what there is. Returns false at the end of the stream. */
static bool read_out(struct pty_out *o)
{
    struct pty *p = o->pty;
    char *frame = p->x->read_buf; /* the channel byte goes in front of what is read */
    for (int i = 0; i < READS_PER_TURN && !p->blocked; i++) {
        size_t want = EXECD_PTY_FRAME;
        if (p->exited && !p->is_tty) {
            want = MIN(want, o->left);
        }
        ssize_t n = want ? io_stream_read(o->s, frame + 1, want) : 0;
        if (n == -EAGAIN) {
            return true;
        }
        if (n <= 0) {
            return false; /* a terminal says EIO when its last user has closed it */
        }
        o->left -= p->exited && !p->is_tty ? (size_t)n : 0;
        ring_add(&p->ring, str_n(frame + 1, (size_t)n));
        pty_client_output(p, o->channel, frame, (size_t)n);
    }
    return true;
}

static void end_if_over(struct pty *p)
{
    if (p->exited && !p->out[0].s && !p->out[1].s) {
        finish(p);
    }
}

static void pump(struct pty_out *o)
{
    struct pty *p = o->pty;
    if (!read_out(o)) {
        if (p->exited && !p->is_tty && o->s) {
            drains_add(&p->x->drains, take_ptr(&o->s)); /* a survivor may still write to it */
        } else {
            close_out(o);
        }
    } else if (p->exited && p->is_tty && !p->blocked) {
        io_timer_start(&p->settle, SETTLE_MS);
    }
}

static void flush_input(struct pty *p);

static void on_out(struct io_stream *s, unsigned events, void *arg)
{
    struct pty_out *o = arg;
    struct pty *p = o->pty;
    if (events & IO_WRITABLE) {
        flush_input(p);
    }
    if (o->s && events & (IO_READABLE | IO_HUP)) {
        pump(o);
    }
    pty_resume_output(p);
    end_if_over(p);
}

static void on_settled(struct io_timer *t)
{
    struct pty *p = container_of(t, struct pty, settle);
    if (p->blocked) {
        return; /* the client takes its time; looked at again when it has caught up */
    }
    if (p->out[0].s) {
        close_out(&p->out[0]);
    }
    end_if_over(p);
}

void pty_resume_output(struct pty *p)
{
    for (int i = 0; i < 2; i++) {
        struct pty_out *o = &p->out[i];
        if (o->s) {
            unsigned want = p->blocked ? 0 : IO_READABLE;
            want |= p->is_tty && p->in_queue.len ? IO_WRITABLE : 0;
            io_stream_want(o->s, want);
        }
    }
    if (p->exited && p->is_tty && p->out[0].s && !p->blocked && !io_timer_armed(&p->settle)) {
        io_timer_start(&p->settle, SETTLE_MS);
    }
}

/* ---- input ---- */

static struct io_stream *input_stream(struct pty *p)
{
    return p->is_tty ? p->out[0].s : p->in;
}

static void drop_input(struct pty *p, int error)
{
    buf_done(&p->in_queue);
    if (!p->is_tty) {
        io_stream_close(take_ptr(&p->in));
    }
    if (error) {
        pty_client_input_failed(p, error);
    }
}

static void flush_input(struct pty *p)
{
    struct io_stream *s = input_stream(p);
    while (s && p->in_queue.len) {
        ssize_t n = io_stream_write(s, p->in_queue.p, p->in_queue.len);
        if (n == -EAGAIN) {
            break;
        }
        if (n < 0) {
            drop_input(p, (int)n);
            return;
        }
        buf_consume(&p->in_queue, (size_t)n);
    }
    if (p->in_queue.len == 0) {
        buf_done(&p->in_queue);
        if (p->in_eof && !p->is_tty) {
            drop_input(p, 0);
        }
    }
    if (p->in_queue.len < EXECD_PTY_STDIN_MAX / 2) {
        pty_client_input_room(p);
    }
    if (p->in) {
        io_stream_want(p->in, p->in_queue.len ? IO_WRITABLE : 0);
    }
}

static void on_in(struct io_stream *s, unsigned events, void *arg)
{
    flush_input(arg);
}

bool pty_write_input(struct pty *p, struct str data)
{
    if (!input_stream(p) || p->in_eof) {
        pty_client_input_failed(p, -EPIPE);
        return true;
    }
    (void)buf_add_str(&p->in_queue, data); /* limits: the client is paused before it is full */
    flush_input(p);
    pty_resume_output(p);
    return p->in_queue.len < EXECD_PTY_STDIN_MAX;
}

void pty_close_input(struct pty *p)
{
    if (p->is_tty) {
        (void)pty_write_input(p, STR("\004")); /* the terminal's end of file */
        return;
    }
    p->in_eof = true;
    flush_input(p);
}

void pty_signal(struct pty *p, int signo)
{
    if (!p->child) {
        return;
    }
    pid_t front = 0;
    if (p->is_tty && p->out[0].s && ioctl(io_stream_fd(p->out[0].s), TIOCGPGRP, &front) == 0 &&
        front > 1 && front != io_child_pid(p->child)) {
        (void)kill(-front, signo); /* what is in front on the terminal, as its keys would do */
        if (signo == SIGINT || signo == SIGQUIT) {
            return;
        }
    }
    (void)io_child_signal_group(p->child, signo);
}

/* ---- end ---- */

void pty_process_done(struct pty *p)
{
    io_timer_stop(&p->settle);
    for (int i = 0; i < 2; i++) {
        if (p->out[i].s) {
            close_out(&p->out[i]);
        }
    }
    io_stream_close(take_ptr(&p->in));
    buf_done(&p->in_queue);
    io_child_free(take_ptr(&p->child));
    p->exited = p->in_eof = false;
}

static void finish(struct pty *p)
{
    pty_process_done(p);
    pty_client_exit(p);
    pty_maybe_free(p);
}

static void on_child_exit(struct io_child *c, const struct io_child_status *st, void *arg)
{
    struct pty *p = arg;
    p->exited = true;
    p->exit_code = st->end == IO_CHILD_EXITED ? st->code : -1;
    for (int i = 0; i < 2; i++) {
        struct pty_out *o = &p->out[i];
        int n = 0;
        if (!o->s) {
            continue;
        }
        o->left = !p->is_tty && ioctl(io_stream_fd(o->s), FIONREAD, &n) == 0 ? (size_t)n : 0;
        if (!p->blocked) {
            pump(o);
        }
    }
    end_if_over(p);
}

/* ---- start ---- */

void pty_process_init(struct pty *p)
{
    buf_init(&p->in_queue, EXECD_PTY_STDIN_MAX + EXECD_PTY_MESSAGE_MAX);
    io_timer_init(&p->settle, p->x->loop, on_settled);
}

static void take_streams(struct pty *p)
{
    p->out[0] = (struct pty_out){p, io_child_take_stdout(p->child), PTY_STDOUT, 0};
    p->out[1] =
        (struct pty_out){p, p->is_tty ? NULL : io_child_take_stderr(p->child), PTY_STDERR, 0};
    p->in = p->is_tty ? NULL : io_child_take_stdin(p->child);
    for (int i = 0; i < 2; i++) {
        if (p->out[i].s) {
            io_stream_set_cb(p->out[i].s, on_out, &p->out[i]);
        }
    }
    if (p->in) {
        io_stream_set_cb(p->in, on_in, p);
    }
}

int pty_start(struct pty *p, bool tty)
{
    struct execd *x = p->x;
    cleanup_(arena_done) struct arena a = {0};
    struct env env;
    struct shell shell;
    env_init(&env, &a);
    env_add_file(&env, x->cfg.envs_path);
    if (tty && !env_get(&env, STR("TERM"))) {
        env_set(&env, STR("TERM"), STR("xterm-256color"));
    }
    shell_find(&a, &shell);
    const char *argv[6] = {shell.is_bash ? "bash" : "sh"};
    size_t n = 1;
    if (shell.is_bash) {
        argv[n++] = "--norc";
        argv[n++] = "--noprofile";
    }
    if (p->command) {
        argv[n++] = "-c";
        argv[n++] = p->command;
    }
    enum io_stdio kind = tty ? IO_STDIO_PTY : IO_STDIO_PIPE;
    struct io_child_opts o = {
        .path = shell.path,
        .argv = argv,
        .envp = env.v,
        .cwd = p->cwd,
        .in = {.kind = kind},
        .out = {.kind = kind},
        .err = {.kind = kind},
        .cgroup_procs = x->cfg.workload_procs,
        .pty_rows = ROWS,
        .pty_cols = COLS,
        .oom_score_adj = x->oom_score_adj,
        .max_fds = x->child_max_fds,
    };
    run_as_apply(&x->run_as, &o);
    int r = 0;
    p->is_tty = tty;
    p->child = io_child_spawn(x->loop, &o, on_child_exit, p, &r);
    if (!p->child) {
        return r;
    }
    take_streams(p);
    return 0;
}
