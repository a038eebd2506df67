/* The entrypoint. */

#include "execd/init.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "execd/entrylog.h"
#include "execd/notify.h"
#include "execd/oom.h"
#include "execd/stop.h"
#include "io/child.h"

#define DEFAULT_ENVS "/opt/opensandbox/.env"

struct init {
    struct execd *x;
    struct io_child *child; /* NULL: not started, or over */
    struct entry_log *log;  /* of its output, or NULL: not kept by us */
    uint64_t oom_at_start;
    int status;
};

/* As bootstrap does it: a place where an image can leave variables for commands to come. */
void init_prepare_environment(void)
{
    const char *path = getenv("EXECD_ENVS");
    if (!path || !*path) {
        path = DEFAULT_ENVS;
        (void)setenv("EXECD_ENVS", path, 1); /* fails for malformed names only */
    }
    const char *slash = strrchr(path, '/');
    cleanup_free char *dir = slash && slash != path ? xstrndup(path, (size_t)(slash - path)) : NULL;
    if (dir) {
        (void)dir_make(AT_FDCWD, dir, 0755); /* a read-only root has no such file, and needs none */
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0) {
        (void)close(fd);
    }
    (void)setenv("EXECD_INIT", "1", 1); /* bootstrap.sh: execd is already here */
    /* The kernel lets nobody with fewer capabilities than we have trace us, read our memory or take
     * our descriptors, root or not. So we keep one that nothing we start can get. */
    (void)prctl(PR_CAPBSET_DROP, CAP_WAKE_ALARM);
}

static void on_entrypoint_exit(struct io_child *c, const struct io_child_status *st, void *arg)
{
    struct init *in = arg;
    struct execd *x = in->x;
    int signo = st->end == IO_CHILD_EXITED ? 0 : st->signal;
    int status = signo ? 128 + signo : st->code;
    bool oom = oom_was_cause(&x->oom, in->oom_at_start, st);
    entry_log_flush(in->log);
    notify_entrypoint_exited(x->cfg.notify_fd, io_child_pid(c), status, signo, oom);
    log_info("entrypoint ended", LOG_I("status", status), LOG_I("signal", signo),
             LOG_I("oom", oom));
    io_child_free(take_ptr(&in->child));
    if (!x->cfg.keep && !x->stopping) {
        in->status = status;
        execd_stop(x);
    }
}

/* Its output: where it was told to go, or where ours goes. */
static int open_log(const struct execd_config *c)
{
    if (c->entrypoint_log_fd >= 0) {
        return fcntl(c->entrypoint_log_fd, F_DUPFD_CLOEXEC, 3);
    }
    if (!c->log_dir) {
        return -1;
    }
    (void)dir_make(AT_FDCWD, c->log_dir, 0755); /* opening says what is wrong */
    cleanup_free char *path = xasprintf("%s/entrypoint.log", c->log_dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (fd < 0) {
        log_warn("no log for the entrypoint", LOG_S("path", path), LOG_I("errno", errno));
    }
    return fd;
}

static struct io_child_fd inherited(const struct execd *x, int fd)
{
    bool open = fcntl(fd, F_GETFD) >= 0;
    return (struct io_child_fd){IO_STDIO_FD, open ? fd : x->null_fd};
}

/* Kept by us, with times and within a size. */
static void start_log(struct init *in)
{
    const struct execd_config *c = &in->x->cfg;
    int fds[] = {c->entrypoint_log_fd, c->entrypoint_log2_fd};
    if (fds[0] >= 0 && c->entrypoint_log_max > 0) {
        in->log = entry_log_new(fds, fds[1] >= 0 ? 2 : 1, (uint64_t)c->entrypoint_log_max);
    }
}

static int spawn(struct init *in)
{
    struct execd *x = in->x;
    start_log(in);
    cleanup_close int log_fd = in->log ? -1 : open_log(&x->cfg);
    struct io_child_opts o = {
        .path = x->cfg.entrypoint[0],
        .argv = (const char *const *)x->cfg.entrypoint,
        .in = inherited(x, STDIN_FILENO),
        .out =
            log_fd >= 0 ? (struct io_child_fd){IO_STDIO_FD, log_fd} : inherited(x, STDOUT_FILENO),
        .err =
            log_fd >= 0 ? (struct io_child_fd){IO_STDIO_FD, log_fd} : inherited(x, STDERR_FILENO),
        .new_session = true,
        .cgroup_procs = x->cfg.workload_procs,
        .oom_score_adj = x->oom_score_adj,
        .max_fds = x->child_max_fds,
    };
    if (in->log) {
        o.out = o.err = (struct io_child_fd){IO_STDIO_PIPE, -1};
    }
    run_as_apply(&x->run_as, &o);
    int r = 0;
    in->child = io_child_spawn(x->loop, &o, on_entrypoint_exit, in, &r);
    if (in->child && in->log) {
        entry_log_follow(in->log, io_child_take_stdout(in->child));
        entry_log_follow(in->log, io_child_take_stderr(in->child));
    }
    return r;
}

static void start_failed(struct init *in, int error)
{
    struct execd *x = in->x;
    cleanup_free char *text = xasprintf("%s: %s", x->cfg.entrypoint[0], strerror(-error));
    log_error("entrypoint not started", LOG_S("error", text));
    notify_entrypoint_failed(x->cfg.notify_fd, text);
    if (!x->cfg.keep) {
        in->status = error == -ENOENT ? 127 : 126;
        execd_stop(x);
    }
}

/* Everything that is not about our own end is the entrypoint's business. */
static void on_signal(int signo, void *arg)
{
    struct init *in = arg;
    if (in->child) {
        (void)io_child_signal(in->child, signo);
    }
}

static size_t signal_entrypoint(struct execd *x, int signo)
{
    struct init *in = x->init;
    if (!in || !in->child) {
        return 0;
    }
    if (signo) {
        (void)io_child_signal_group(in->child, signo);
    }
    return 1;
}

void init_run(struct init *in)
{
    struct execd *x = in->x;
    in->oom_at_start = oom_count(&x->oom);
    int r = spawn(in);
    if (r < 0) {
        start_failed(in, r);
    } else {
        notify_entrypoint_started(x->cfg.notify_fd, io_child_pid(in->child));
    }
}

struct init *init_start(struct execd *x)
{
    static const int passed_on[] = {SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};
    struct init *in = NEW(struct init);
    in->x = x;
    x->init = in;
    x->signal_others = signal_entrypoint;
    for (size_t i = 0; i < ARRAY_LEN(passed_on); i++) {
        io_signal_watch(x->loop, passed_on[i], on_signal, in);
    }
    if (x->cfg.entrypoint) {
        init_run(in);
    }
    return in;
}

void init_free(struct init *in)
{
    if (in) {
        io_child_free(in->child);
        entry_log_free(in->log);
        in->x->init = NULL;
        free(in);
    }
}

int init_status(const struct init *in)
{
    return in->status;
}
