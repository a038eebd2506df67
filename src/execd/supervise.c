/* The supervisor's loop.
 *
 *   PRE_START -> RUNNING -> POST_EXIT -> PAUSE -> PRE_START …
 *
 * Each state waits for one event: the end of a hook or of the program, or a timer. A request to
 * stop leads from every state to the end: a program that runs is asked, and killed after the grace
 * time; hooks are killed; pauses are cut short. */

#include "execd/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/rand.h"
#include "execd/env.h"
#include "execd/shell.h"
#include "io/child.h"
#include "io/timer.h"
#include "json/json.h"

enum state { PRE_START, RUNNING, POST_EXIT, PAUSE };

struct supervise {
    const struct supervise_config *c;
    struct io_loop *loop;
    enum state state;
    struct io_child *child; /* the program, or a hook */
    struct io_timer timer;  /* pause; stable; grace */
    int event_fd;
    unsigned attempt;  /* launches so far */
    unsigned in_a_row; /* of short ones */
    uint64_t
        launches[SUPERVISE_BURST_LIMIT]; /* when the newest burst_max of them were, as a ring */
    uint64_t started_ms;
    pid_t pid;
    struct io_child_status last;
    bool launch_failed, stopping, killed, stable;
    int status;
};

static void pre_start(struct supervise *s);
static void launch(struct supervise *s);
static void after_exit(struct supervise *s);

/* ---- events ---- */

static void begin_event(struct supervise *s, struct json_out *o, struct buf *b, const char *event)
{
    char now[RFC3339_MAX];
    rfc3339_format(clock_wall_us(), 3, now);
    json_out_init(o, b);
    json_obj_begin(o);
    json_key(o, "ts");
    json_put_cstr(o, now);
    json_key(o, "event");
    json_put_cstr(o, event);
    json_key(o, "name");
    json_put_cstr(o, s->c->name);
    json_key(o, "attempt");
    json_put_int(o, s->attempt);
}

static void put_int(struct json_out *o, const char *key, int64_t v)
{
    json_key(o, key);
    json_put_int(o, v);
}

static void send_event(struct supervise *s, struct json_out *o)
{
    json_obj_end(o);
    (void)buf_add_char(o->buf, '\n');
    (void)!write(s->event_fd, o->buf->p, o->buf->len); /* nobody to tell */
}

static void event_with_int(struct supervise *s, const char *event, const char *key, int64_t v)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    struct json_out o;
    begin_event(s, &o, &b, event);
    if (key) {
        put_int(&o, key, v);
    }
    send_event(s, &o);
}

static const char *reason(const struct supervise *s)
{
    if (s->launch_failed) {
        return "launch_failed";
    }
    if (s->stopping) {
        return "shutdown";
    }
    if (s->last.end == IO_CHILD_EXITED) {
        return s->last.code == 0 ? "exited" : "crashed";
    }
    return "signaled";
}

static void event_exit(struct supervise *s, uint64_t up_ms)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    struct json_out o;
    begin_event(s, &o, &b, "exit");
    put_int(&o, "pid", s->pid);
    put_int(&o, "exit_code", s->last.end == IO_CHILD_EXITED ? s->last.code : -1);
    put_int(&o, "signal", s->last.end == IO_CHILD_EXITED ? 0 : s->last.signal);
    put_int(&o, "duration_ms", (int64_t)up_ms);
    json_key(&o, "reason");
    json_put_cstr(&o, reason(s));
    send_event(s, &o);
}

static void event_hook(struct supervise *s, const char *event, const struct io_child_status *st)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    struct json_out o;
    begin_event(s, &o, &b, event);
    put_int(&o, "exit_code", st->end == IO_CHILD_EXITED ? st->code : -1);
    json_key(&o, "timed_out");
    json_put_bool(&o, st->end == IO_CHILD_TIMEOUT);
    send_event(s, &o);
}

/* ---- ending ---- */

static void finish(struct supervise *s, int status)
{
    s->status = status;
    io_timer_stop(&s->timer);
    io_loop_stop(s->loop);
}

/* ---- pauses ---- */

static int64_t jittered(const struct supervise *s, int64_t ms)
{
    int64_t spread = (int64_t)((double)ms * s->c->backoff_jitter);
    return spread > 0 ? ms - spread + (int64_t)rand_below((uint64_t)(2 * spread + 1)) : ms;
}

static void pause_and_restart(struct supervise *s)
{
    s->state = PAUSE;
    if (s->stopping) {
        finish(s, 0);
        return;
    }
    s->in_a_row++;
    int64_t ms = jittered(s, supervise_backoff_ms(s->c, s->in_a_row));
    event_with_int(s, "backoff", "delay_ms", ms);
    io_timer_start(&s->timer, (uint64_t)MAX(ms, 1));
}

/* ---- hooks ---- */

static void on_hook_end(struct io_child *c, const struct io_child_status *st, void *arg)
{
    struct supervise *s = arg;
    io_child_free(take_ptr(&s->child));
    bool pre = s->state == PRE_START;
    event_hook(s, pre ? "prestart" : "postexit", st);
    bool ok = st->end == IO_CHILD_EXITED && st->code == 0;
    if (s->stopping) {
        finish(s, 0);
    } else if (pre && ok) {
        launch(s);
    } else {
        pause_and_restart(s); /* a launch that was not allowed, or after the end of one that was */
    }
}

static int start_hook(struct supervise *s, const char *text, int64_t timeout_ms,
                      const struct env *env)
{
    struct shell shell;
    shell_find(env->arena, &shell);
    const char *const argv[] = {shell.is_bash ? "bash" : "sh", "-c", text, NULL};
    const struct io_child_opts o = {
        .path = shell.path,
        .argv = argv,
        .envp = env->v,
        .out = {IO_STDIO_FD, STDOUT_FILENO},
        .err = {IO_STDIO_FD, STDERR_FILENO},
        .timeout_ms = (uint64_t)timeout_ms,
    };
    int r = 0;
    s->child = io_child_spawn(s->loop, &o, on_hook_end, s, &r);
    return r;
}

static void pre_start(struct supervise *s)
{
    s->state = PRE_START;
    if (!s->c->pre_start) {
        launch(s);
        return;
    }
    cleanup_(arena_done) struct arena a = {0};
    struct env env;
    env_init(&env, &a);
    if (start_hook(s, s->c->pre_start, s->c->pre_start_timeout_ms, &env) < 0) {
        pause_and_restart(s);
    }
}

static void add_int(struct env *env, const char *name, int64_t v)
{
    env_put(env, arena_printf(env->arena, "%s=%lld", name, (long long)v));
}

static void post_exit(struct supervise *s, uint64_t up_ms)
{
    s->state = POST_EXIT;
    if (!s->c->post_exit) {
        pause_and_restart(s);
        return;
    }
    cleanup_(arena_done) struct arena a = {0};
    struct env env;
    env_init(&env, &a);
    bool exited = s->last.end == IO_CHILD_EXITED;
    add_int(&env, "WORKER_EXIT_CODE", exited ? s->last.code : -1);
    add_int(&env, "WORKER_SIGNAL", exited ? 0 : s->last.signal);
    add_int(&env, "WORKER_DURATION_MS", (int64_t)up_ms);
    add_int(&env, "WORKER_PID", s->pid);
    add_int(&env, "WORKER_ATTEMPT", s->attempt);
    if (start_hook(s, s->c->post_exit, s->c->post_exit_timeout_ms, &env) < 0) {
        pause_and_restart(s);
    }
}

/* ---- the program ---- */

static void on_worker_end(struct io_child *c, const struct io_child_status *st, void *arg)
{
    struct supervise *s = arg;
    s->last = *st;
    io_child_free(take_ptr(&s->child));
    after_exit(s);
}

static void after_exit(struct supervise *s)
{
    uint64_t up_ms = io_now_ms(s->loop) - s->started_ms;
    io_timer_stop(&s->timer);
    event_exit(s, up_ms);
    if (s->stable) {
        s->in_a_row = 0;
    }
    post_exit(s, up_ms);
}

/* Too many launches in the window. */
static bool is_burst(struct supervise *s)
{
    size_t max = (size_t)s->c->burst_max;
    uint64_t now = io_now_ms(s->loop), oldest = s->launches[s->attempt % max];
    if (s->attempt >= max && now - oldest < (uint64_t)s->c->burst_window_ms) {
        event_with_int(s, "burst_exit", "launches", (int64_t)max);
        return true;
    }
    s->launches[s->attempt % max] = now;
    return false;
}

static void launch(struct supervise *s)
{
    const struct io_child_opts o = {
        .path = s->c->command[0],
        .argv = (const char *const *)s->c->command,
        .in = {IO_STDIO_FD, STDIN_FILENO},
        .out = {IO_STDIO_FD, STDOUT_FILENO},
        .err = {IO_STDIO_FD, STDERR_FILENO},
    };
    if (is_burst(s) && s->c->on_burst_exit) {
        finish(s, 1);
        return;
    }
    int r = 0;
    s->attempt++;
    s->state = RUNNING;
    s->stable = s->launch_failed = false;
    s->started_ms = io_now_ms(s->loop);
    s->child = io_child_spawn(s->loop, &o, on_worker_end, s, &r);
    if (!s->child) {
        s->pid = 0;
        s->launch_failed = true;
        s->last = (struct io_child_status){IO_CHILD_EXITED, .code = r == -ENOENT ? 127 : 126};
        after_exit(s);
        return;
    }
    s->pid = io_child_pid(s->child);
    event_with_int(s, "start", "pid", s->pid);
    io_timer_start(&s->timer, (uint64_t)MAX(s->c->stable_after_ms, 1));
}

/* ---- timer and signals ---- */

static void on_timer(struct io_timer *t)
{
    struct supervise *s = container_of(t, struct supervise, timer);
    if (s->state == PAUSE) {
        pre_start(s);
    } else if (s->stopping && s->child) {
        (void)io_child_signal_group(s->child, SIGKILL);
    } else if (s->state == RUNNING) {
        s->stable = true;
        event_with_int(s, "stable", NULL, 0);
    }
}

static void on_stop(int signo, void *arg)
{
    struct supervise *s = arg;
    if (s->stopping) {
        return;
    }
    s->stopping = true;
    event_with_int(s, "shutdown", "signal", signo);
    if (!s->child) {
        finish(s, 0);
    } else if (s->state == RUNNING) {
        (void)io_child_signal_group(s->child, SIGTERM);
        io_timer_start(&s->timer, (uint64_t)MAX(s->c->grace_ms, 1));
    } else {
        (void)io_child_signal_group(s->child, SIGKILL);
    }
}

static void on_forward(int signo, void *arg)
{
    struct supervise *s = arg;
    if (s->child && s->state == RUNNING) {
        (void)io_child_signal(s->child, signo);
    }
}

static void on_child(int signo, void *arg)
{
    (void)io_child_reap_orphans(NULL, NULL);
}

static void watch_signals(struct supervise *s)
{
    static const int stop[] = {SIGTERM, SIGINT, SIGQUIT};
    static const int forward[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH};
    (void)signal(SIGPIPE, SIG_IGN);
    for (size_t i = 0; i < ARRAY_LEN(stop); i++) {
        io_signal_watch(s->loop, stop[i], on_stop, s);
    }
    for (size_t i = 0; i < ARRAY_LEN(forward); i++) {
        io_signal_watch(s->loop, forward[i], on_forward, s);
    }
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* where it is refused, PID 1 has the work */
    io_signal_watch(s->loop, SIGCHLD, on_child, s);
}

static void on_begin(void *arg)
{
    pre_start(arg);
}

int supervise_run(const struct supervise_config *c)
{
    struct supervise *s = NEW(struct supervise);
    s->c = c;
    s->event_fd = STDERR_FILENO;
    cleanup_close int log_fd =
        c->event_log ? open(c->event_log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640) : -1;
    if (c->event_log && log_fd < 0) {
        log_warn("no event log", LOG_S("path", c->event_log), LOG_I("errno", errno));
    }
    s->event_fd = log_fd >= 0 ? log_fd : STDERR_FILENO;
    s->loop = io_loop_new();
    io_timer_init(&s->timer, s->loop, on_timer);
    watch_signals(s);
    io_post(s->loop, on_begin, s);
    io_loop_run(s->loop);
    io_child_free(s->child);
    io_loop_free(s->loop);
    int status = s->status;
    free(s);
    return status;
}
