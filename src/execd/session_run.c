/* One run in a session: waiting for its turn, the shell, and keeping its state. */

#include "execd/session_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "execd/event_run.h"
#include "execd/limits.h"
#include "execd/outcome.h"
#include "execd/reply.h"
#include "execd/session_script.h"
#include "execd/shell.h"
#include "execd/telemetry.h"
#include "execd/tmpfile.h"

#define SCRIPT_MAX (64u << 10)

struct session_run {
    struct list node;
    struct session *session; /* NULL: deleted meanwhile */
    struct event_run run;
    char *command, *cwd; /* cwd NULL: where the last run ended */
    uint64_t timeout_ms;
    char *state_path; /* where the shell dumps its state, while it runs */
    bool is_bash;
};

static void start_next(struct session *s);

static void run_free(struct session_run *r)
{
    if (r->session) {
        r->session->n_runs--;
    }
    list_del(&r->node);
    event_run_fini(&r->run);
    if (r->state_path) {
        (void)unlink(r->state_path);
    }
    free(r->state_path);
    free(r->command);
    free(r->cwd);
    free(r);
}

/* ---- state ---- */

/* What the shell left behind. -ENODATA: it did not get that far. */
static int open_state(const char *path)
{
    const struct str end = STR(SESSION_STATE_END);
    struct stat st;
    char tail[sizeof(SESSION_STATE_END) - 1];
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? -ENODATA : -errno;
    }
    int r = 0;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        r = -EINVAL;
    } else if (st.st_size == 0) {
        r = -ENODATA;
    } else if (st.st_size > (off_t)EXECD_SESSION_STATE_MAX) {
        r = -EFBIG;
    } else if (st.st_size < (off_t)end.n ||
               pread(fd, tail, end.n, st.st_size - (off_t)end.n) != (ssize_t)end.n ||
               memcmp(tail, end.p, end.n) != 0) {
        r = -ENOSPC; /* begun and not finished */
    }
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    return fd;
}

/* After a run that reached its end. Says so in the output when the state could not be kept. */
static void keep_state(struct session_run *r, struct buf *out)
{
    struct session *s = r->session;
    int fd = r->state_path ? open_state(r->state_path) : -EROFS;
    if (fd >= 0) {
        if (s->state_fd >= 0) {
            (void)close(s->state_fd);
        }
        s->state_fd = fd;
        s->state_is_bash = r->is_bash;
    } else if (fd != -ENODATA) {
        cleanup_free char *text =
            xasprintf("execd: the state of this session was not kept: %s", strerror(-fd));
        event_add_text(out, STR("stderr"), str_from(text), clock_wall_ms());
    }
}

/* The shell's stdin: the state, then the command. Descriptor or -errno. */
static int make_input(const struct session_run *r)
{
    cleanup_(buf_done) struct buf tail = BUF_INIT(4 * (size_t)EXECD_MAX_BODY + 64);
    session_script_command(&tail, str_from(r->command));
    return tmpfile_input(r->session->x->cfg.tmp_dir, r->session->state_fd, buf_str(&tail));
}

/* ---- the run ---- */

static void on_run_end(struct event_run *er, const struct io_child_status *st, bool oom,
                       struct buf *out)
{
    struct session_run *r = container_of(er, struct session_run, run);
    struct outcome o;
    int64_t now_ms = clock_wall_ms();
    outcome_of(st, r->timeout_ms, oom, &o);
    telemetry_execution(er->x->telemetry, TELEMETRY_RUN_IN_SESSION, o.ok, job_elapsed_ms(er->job));
    if (r->session && st->end == IO_CHILD_EXITED) {
        keep_state(r, out);
    }
    if (st->end == IO_CHILD_TIMEOUT) {
        cleanup_free char *text = xasprintf("error running in session. %s", o.extra);
        const char *trace[] = {o.error, o.extra};
        event_add_error(out, STR(CODE_RUNTIME_ERROR), str_from(text), trace, 2, now_ms);
    } else if (o.ok) {
        event_add_complete(out, (int64_t)job_elapsed_ms(er->job), now_ms);
    } else {
        outcome_add_error(out, &o, now_ms);
    }
}

static void on_run_done(struct event_run *er)
{
    struct session_run *r = container_of(er, struct session_run, run);
    struct session *s = r->session;
    run_free(r);
    if (s) {
        start_next(s);
    }
}

/* Left while waiting: it never happened. */
static void on_run_gone(struct event_run *er)
{
    run_free(container_of(er, struct session_run, run));
}

static int spawn_run(struct session_run *r)
{
    static const char *const no_env[] = {NULL};
    struct session *s = r->session;
    bool has_state = s->state_fd >= 0;
    cleanup_(arena_done) struct arena a = {0};
    struct shell shell;
    shell_find(&a, &shell);
    if (has_state && shell.is_bash != s->state_is_bash) {
        const char *same = shell_lookup(&a, s->state_is_bash ? "bash" : "sh");
        shell = (struct shell){same ? same : shell.path, s->state_is_bash};
    }
    r->is_bash = shell.is_bash;
    /* A file with a name, because the shell opens it only after the user's code: a descriptor
     * would be inherited by everything that code starts. */
    r->state_path = tmpfile_named(s->x->cfg.tmp_dir, STR_NULL);
    cleanup_close int in_fd = make_input(r);
    if (in_fd < 0) {
        return in_fd;
    }
    cleanup_(buf_done) struct buf script = BUF_INIT(SCRIPT_MAX);
    session_script(&script, shell.is_bash, has_state, r->cwd,
                   r->state_path ? r->state_path : "/dev/null");
    const char *bash_argv[] = {"bash", "--noprofile", "--norc", "-c", buf_cstr(&script), NULL};
    const char *sh_argv[] = {"sh", "-c", buf_cstr(&script), NULL};
    const struct job_spec spec = {
        .path = shell.path,
        .argv = shell.is_bash ? bash_argv : sh_argv,
        .envp = has_state ? no_env : (const char *const *)s->env,
        .cwd = has_state ? NULL : s->cwd,
        .stdin_fd = in_fd,
        .merge = true,
        .timeout_ms = r->timeout_ms,
    };
    return event_run_start(&r->run, &spec);
}

/* The first run in the list gets its turn, unless it is already at it. */
static void start_next(struct session *s)
{
    while (!list_empty(&s->runs)) {
        struct session_run *r = list_entry(list_first(&s->runs), struct session_run, node);
        if (r->run.job) {
            return;
        }
        int error = s->x->stopping ? -ESHUTDOWN : spawn_run(r);
        if (error == 0) {
            return;
        }
        cleanup_free char *text =
            xasprintf("error running in session. cannot start the shell: %s", strerror(-error));
        event_run_fail(&r->run, STR(CODE_RUNTIME_ERROR), str_from(text));
        run_free(r);
    }
}

void session_run(struct session *s, struct http_req *req, const char *command, const char *cwd,
                 uint64_t timeout_ms)
{
    struct session_run *r = NEW(struct session_run);
    r->session = s;
    r->command = xstrdup(command);
    r->cwd = cwd ? xstrdup(cwd) : NULL;
    r->timeout_ms = timeout_ms;
    r->run.kill_on_gone = true;
    r->run.on_gone = on_run_gone;
    r->run.on_end = on_run_end;
    r->run.on_done = on_run_done;
    event_run_init(&r->run, s->x, true);
    list_push_back(&s->runs, &r->node);
    s->n_runs++;
    event_run_announce(&r->run, req, str_from(s->id));
    start_next(s);
}

void session_runs_orphan(struct session *s)
{
    while (!list_empty(&s->runs)) {
        struct session_run *r = list_entry(list_first(&s->runs), struct session_run, node);
        list_del(&r->node);
        r->session = NULL;
        if (r->run.job) {
            (void)job_signal(r->run.job, SIGKILL);
            continue;
        }
        event_run_fail(&r->run, STR(CODE_RUNTIME_ERROR),
                       STR("error running in session. the session was deleted"));
        run_free(r);
    }
}

size_t session_runs_signal(struct session *s, int signo)
{
    if (list_empty(&s->runs)) {
        return 0;
    }
    struct session_run *r = list_entry(list_first(&s->runs), struct session_run, node);
    if (!r->run.job) {
        return 0;
    }
    if (signo) {
        (void)job_signal(r->run.job, signo);
    }
    return 1;
}
