/* Kernels that execd starts by itself: a process with a connection file, and ZeroMQ to it.
 *
 * Birth. Five ports on the loopback are bound, but not listened on, and written into the connection
 * file; the kernel binds them too, which SO_REUSEADDR allows, while nobody else is given them. The
 * channels are dialled until they answer. Then kernel_info_request is sent until its reply and its
 * echo on the output channel have both come: only then is it certain that no output will be missed.
 *
 * Death. The end of the process is an event, but its last output may still be on its way; it is
 * read to the end of that connection (or LAST_WORDS_MS) before the owner is told. */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "execd/code/channel.h"
#include "execd/code/context.h"
#include "execd/code/kernel.h"
#include "execd/code/kernelspec.h"
#include "execd/env.h"
#include "execd/limits.h"
#include "execd/oom.h"
#include "execd/outcome.h"
#include "execd/run_as.h"
#include "execd/tmpfile.h"
#include "io/child.h"

#define N_PORTS 5
#define NUDGE_MS 100u      /* between kernel_info_requests until both channels have answered */
#define LAST_WORDS_MS 500u /* for the output of a kernel that has ended */
/* Kernels side by side would share one history in the home directory, and complain to their users
 * when they meet there. */
#define NO_HISTORY "--HistoryManager.enabled=False"
#define LAST_WAITS (EXECD_WRITE_TIMEOUT_MS / LAST_WORDS_MS)

struct kernel_local {
    struct kernel base;
    struct list node; /* in the table's list of those that are ending */
    struct execd *x;
    struct io_child *child; /* NULL: not started */
    struct io_stream *output;
    struct buf tail; /* the end of what it printed outside the protocol */
    struct channel shell, iopub, control;
    struct message_session session;
    int hold_fd[N_PORTS];
    uint16_t port[N_PORTS];
    char *connection_file;
    struct io_timer timer; /* start, last words or stop, whichever it is in */
    struct io_timer nudge;
    char info_id[UUID_LEN + 1];
    bool answered, heard; /* its reply, and its echo */
    bool ready, late, exited, ending, interrupt_by_message, complained;
    unsigned waits; /* for a client that has to take its last words */
    uint64_t oom_at_start;
    struct io_child_status status;
};

static struct kernel_local *of(struct kernel *k)
{
    return container_of(k, struct kernel_local, base);
}

/* ---- end ---- */

static void release_ports(struct kernel_local *k)
{
    for (size_t i = 0; i < N_PORTS; i++) {
        if (k->hold_fd[i] >= 0) {
            (void)close(take_fd(&k->hold_fd[i]));
        }
    }
}

static void destroy(struct kernel_local *k)
{
    list_del(&k->node);
    channel_stop(&k->shell);
    channel_stop(&k->iopub);
    channel_stop(&k->control);
    io_timer_stop(&k->timer);
    io_timer_stop(&k->nudge);
    release_ports(k);
    io_stream_close(k->output);
    buf_done(&k->tail);
    io_child_free(k->child);
    if (k->connection_file) {
        (void)unlink(k->connection_file); /* the kernel may have removed it */
        free(k->connection_file);
    }
    io_defer(k->x->loop, free, k);
}

/* "exit status 1", with what the kernel said last. */
static void describe_end(struct kernel_local *k, struct buf *out)
{
    struct outcome o;
    outcome_of(&k->status, 0, oom_was_cause(&k->x->oom, k->oom_at_start, &k->status), &o);
    (void)buf_printf(out, "%s", o.ok ? "exit status 0" : o.error);
    if (o.extra[0]) {
        (void)buf_printf(out, ", %s", o.extra);
    }
}

static struct str last_line(const struct buf *tail)
{
    struct str s = buf_str(tail);
    while (s.n && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r')) {
        s.n--;
    }
    ptrdiff_t at = str_rfind(s, '\n');
    return str_sub(s, at < 0 ? 0 : (size_t)at + 1, s.n);
}

/* Tells the owner, once, that it will not be, or is no more. */
static void report_end(struct kernel_local *k)
{
    cleanup_(buf_done) struct buf how = BUF_INIT(ERR_MSG_MAX);
    if (k->late) {
        (void)buf_printf(&how, "no answer in %u s", EXECD_KERNEL_START_MS / 1000);
    } else {
        describe_end(k, &how);
    }
    io_timer_stop(&k->timer);
    if (k->ready) {
        cleanup_free char *why = xasprintf("the kernel died (%s); its state is lost, the next run "
                                           "in this context starts a new one",
                                           buf_cstr(&how));
        k->base.events->on_lost(&k->base, why, true);
        return;
    }
    struct err e = {0};
    struct str said = last_line(&k->tail);
    err_set(&e, ERR_IO, "the kernel did not start (%s)%s%.*s", buf_cstr(&how), said.n ? ": " : "",
            STR_FMT(said));
    k->base.events->on_ready(&k->base, &e);
}

static void on_child_exit(struct io_child *c, const struct io_child_status *st, void *arg)
{
    struct kernel_local *k = arg;
    k->exited = true;
    k->status = *st;
    (void)io_child_signal_group(c, SIGKILL); /* what it started goes with it */
    if (k->ending) {
        destroy(k);
    } else {
        io_timer_start(&k->timer, k->iopub.open ? LAST_WORDS_MS : 1);
    }
}

static void on_channel_lost(struct channel *c)
{
    struct kernel_local *k = c->owner;
    if (k->ending) {
        return;
    }
    if (!k->exited) {
        (void)io_child_signal_group(k->child, SIGKILL); /* on_child_exit follows */
    } else if (c == &k->iopub) {
        io_timer_start(&k->timer, 0);
    }
}

static void on_timer(struct io_timer *t)
{
    struct kernel_local *k = container_of(t, struct kernel_local, timer);
    if (!k->exited) { /* it did not answer in time, or did not end when asked */
        k->late = true;
        (void)io_child_signal_group(k->child, SIGKILL);
    } else if (k->iopub.paused && k->iopub.open && k->waits++ < LAST_WAITS) {
        io_timer_start(&k->timer, LAST_WORDS_MS); /* the client has to take the rest first */
    } else {
        report_end(k);
    }
}

static void local_free(struct kernel *base)
{
    struct kernel_local *k = of(base);
    k->ending = true;
    if (!k->child || k->exited) {
        destroy(k);
        return;
    }
    list_push_back(&k->x->code->ending, &k->node);
    if (!k->ready || !k->control.open) {
        (void)io_child_signal_group(k->child, SIGKILL);
        return;
    }
    char id[UUID_LEN + 1];
    rand_uuid(id);
    channel_stop(&k->shell);
    channel_stop(&k->iopub);
    message_add_zmtp(&k->control.out, &k->session, "shutdown_request", id,
                     STR("{\"restart\":false}"));
    channel_flush(&k->control);
    io_timer_start(&k->timer, EXECD_KERNEL_STOP_MS);
}

void kernel_local_ending_free(struct list *ending)
{
    while (!list_empty(ending)) {
        struct kernel_local *k = list_entry(list_first(ending), struct kernel_local, node);
        (void)io_child_signal_group(k->child, SIGKILL);
        destroy(k);
    }
}

/* ---- birth ---- */

static void become_ready(struct kernel_local *k)
{
    k->ready = true;
    io_timer_stop(&k->timer);
    io_timer_stop(&k->nudge);
    release_ports(k);
    k->base.events->on_ready(&k->base, NULL);
}

static void ask_info(struct kernel_local *k)
{
    if (k->shell.open && k->iopub.open && k->control.open) {
        message_add_zmtp(&k->shell.out, &k->session, "kernel_info_request", k->info_id, STR("{}"));
        channel_flush(&k->shell);
        io_timer_start(&k->nudge, NUDGE_MS);
    }
}

static void on_nudge(struct io_timer *t)
{
    ask_info(container_of(t, struct kernel_local, nudge));
}

static void on_open(struct channel *c)
{
    struct kernel_local *k = c->owner;
    io_timer_start(&k->nudge, 0); /* not from inside the reading of this channel */
}

static void on_zmtp(struct channel *c, const struct zmtp_message *z)
{
    struct kernel_local *k = c->owner;
    cleanup_(message_trees_done) struct message_trees trees = {0};
    struct kernel_message m;
    if (message_from_zmtp(z, &k->session, &trees, &m) < 0) {
        if (!k->complained) { /* once: it can send as many as it likes */
            log_warn("a kernel's message was not understood", LOG_I("parts", z->n));
        }
        k->complained = true;
        return;
    }
    if (k->ready) {
        if (c != &k->control) {
            k->base.events->on_message(&k->base, &m);
        }
        return;
    }
    if (strcmp(m.parent_id, k->info_id) == 0) {
        k->answered |= c == &k->shell;
        k->heard |= c == &k->iopub;
        if (k->answered && k->heard) {
            become_ready(k);
        }
    }
}

/* Bound, so that they are given to nobody else, and not listened on, so that the kernel can. */
static int hold_ports(struct kernel_local *k)
{
    for (size_t i = 0; i < N_PORTS; i++) {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        socklen_t len = sizeof(a);
        int on = 1;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
            return -errno;
        }
        k->hold_fd[i] = fd;
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
            bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
            getsockname(fd, (struct sockaddr *)&a, &len) < 0) {
            return -errno;
        }
        k->port[i] = ntohs(a.sin_port);
    }
    return 0;
}

static int write_connection_file(struct kernel_local *k, const char *spec_name)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(1024);
    (void)buf_printf(&text,
                     "{\"shell_port\":%u,\"iopub_port\":%u,\"control_port\":%u,\"stdin_port\":%u,"
                     "\"hb_port\":%u,\"ip\":\"127.0.0.1\",\"key\":\"%s\",\"transport\":\"tcp\","
                     "\"signature_scheme\":\"hmac-sha256\",\"kernel_name\":\"%s\"}",
                     k->port[0], k->port[1], k->port[2], k->port[3], k->port[4], k->session.key,
                     spec_name);
    k->connection_file = tmpfile_named(k->x->cfg.tmp_dir, buf_str(&text));
    return k->connection_file ? 0 : -EROFS;
}

static const char *fill_in(struct arena *a, const char *arg, const char *mark, const char *value)
{
    const char *at = strstr(arg, mark);
    return at ? arena_printf(a, "%.*s%s%s", (int)(at - arg), arg, value, at + strlen(mark)) : arg;
}

static void on_output(struct io_stream *s, unsigned events, void *arg)
{
    struct kernel_local *k = arg;
    char piece[EXECD_KERNEL_TAIL];
    ssize_t n = io_stream_read(s, piece, sizeof(piece));
    if (n == -EAGAIN) {
        return;
    }
    if (n <= 0) {
        io_stream_close(take_ptr(&k->output));
        return;
    }
    if (k->tail.len + (size_t)n > EXECD_KERNEL_TAIL) {
        buf_consume(&k->tail, k->tail.len + (size_t)n - EXECD_KERNEL_TAIL);
    }
    (void)buf_add(&k->tail, piece, (size_t)n);
}

static int spawn(struct kernel_local *k, struct arena *a, const struct kernelspec *spec,
                 const struct kernel_opts *o)
{
    struct execd *x = k->x;
    struct env env;
    env_init(&env, a);
    env_add_file(&env, x->cfg.envs_path);
    env_add_map(&env, &spec->env);
    for (size_t i = 0; o->envs && o->envs[i]; i++) {
        env_put(&env, o->envs[i]);
    }
    const char **argv = arena_array(a, spec->argv.n + 2, sizeof(*argv));
    for (size_t i = 0; i < spec->argv.n; i++) {
        argv[i] = fill_in(a, spec->argv.v[i], "{connection_file}", k->connection_file);
        argv[i] = fill_in(a, argv[i], "{resource_dir}", spec->dir);
        if (strcmp(argv[i], "ipykernel_launcher") == 0) {
            argv[spec->argv.n] = NO_HISTORY;
        }
    }
    struct io_child_opts child = {
        .path = argv[0],
        .argv = argv,
        .envp = env.v,
        .cwd = o->cwd,
        .in = {IO_STDIO_FD, x->null_fd},
        .out = {IO_STDIO_PIPE, -1},
        .merge_err = true,
        .new_session = true, /* whose leader cannot leave its group, and so its signals */
        .cgroup_procs = x->cfg.workload_procs,
        .oom_score_adj = x->oom_score_adj,
        .max_fds = x->child_max_fds,
    };
    run_as_apply(&x->run_as, &child);
    int error = 0;
    k->oom_at_start = oom_count(&x->oom);
    k->child = io_child_spawn(x->loop, &child, on_child_exit, k, &error);
    if (!k->child) {
        return error;
    }
    k->output = io_child_take_stdout(k->child);
    io_stream_set_cb(k->output, on_output, k);
    io_stream_want(k->output, IO_READABLE);
    return 0;
}

static void connect_channel(struct kernel_local *k, struct channel *c, enum zmtp_role role,
                            uint16_t port)
{
    *c = (struct channel){
        .loop = k->x->loop,
        .role = role,
        .owner = k,
        .on_open = on_open,
        .on_message = on_zmtp,
        .on_lost = on_channel_lost,
    };
    must(io_addr_ip(STR("127.0.0.1"), port, &c->addr) == 0);
    channel_start(c, EXECD_KERNEL_MESSAGE_MAX);
}

/* ---- use ---- */

static void request(struct kernel_local *k, const char *msg_id, struct str code, bool silent)
{
    cleanup_(buf_done) struct buf content = BUF_INIT(EXECD_KERNEL_SEND_MAX);
    message_execute_content(&content, code, silent);
    message_add_zmtp(&k->shell.out, &k->session, "execute_request", msg_id, buf_str(&content));
    channel_flush(&k->shell);
}

static void local_execute(struct kernel *base, const char *msg_id, struct str code)
{
    request(of(base), msg_id, code, false);
}

static bool local_prepare(struct kernel *base, struct str code)
{
    struct kernel_local *k = of(base);
    char id[UUID_LEN + 1];
    rand_uuid(id);
    if (k->ready) {
        request(k, id, code, true);
    }
    return k->ready;
}

static void local_interrupt(struct kernel *base)
{
    struct kernel_local *k = of(base);
    if (!k->interrupt_by_message) {
        (void)io_child_signal_group(k->child, SIGINT);
        return;
    }
    char id[UUID_LEN + 1];
    rand_uuid(id);
    message_add_zmtp(&k->control.out, &k->session, "interrupt_request", id, STR("{}"));
    channel_flush(&k->control);
}

static void local_kill(struct kernel *base)
{
    struct kernel_local *k = of(base);
    (void)io_child_signal_group(k->child, SIGKILL);
    if (k->exited) { /* something else has its sockets, and goes on */
        k->waits = LAST_WAITS;
        io_timer_start(&k->timer, 0);
    }
}

/* Busy for however long is fine, and some kernels then do not answer their heartbeat either. But a
 * process that has been stopped (SIGSTOP) does nothing until somebody else wakes it up. */
static bool local_responds(struct kernel *base)
{
    struct kernel_local *k = of(base);
    char path[64];
    cleanup_(buf_done) struct buf text = BUF_INIT(4096);
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)io_child_pid(k->child));
    if (k->exited || file_read(AT_FDCWD, path, &text) < 0) {
        return true; /* its end is told otherwise */
    }
    struct str s = buf_str(&text);
    ptrdiff_t at = str_rfind(s, ')'); /* behind its name, which may be anything */
    return at < 0 || !str_starts(str_sub(s, (size_t)at, s.n), STR(") T"));
}

static void local_pause(struct kernel *base, bool on)
{
    struct kernel_local *k = of(base);
    channel_pause(&k->iopub, on);
    channel_pause(&k->shell, on);
}

static size_t local_signal(struct kernel *base, int signo)
{
    struct kernel_local *k = of(base);
    if (!k->child || k->exited) {
        return 0;
    }
    if (signo) {
        (void)io_child_signal_group(k->child, signo);
    }
    return 1;
}

static const struct kernel_class local_class = {
    .execute = local_execute,
    .prepare = local_prepare,
    .interrupt = local_interrupt,
    .kill = local_kill,
    .pause = local_pause,
    .free = local_free,
    .signal = local_signal,
    .responds = local_responds,
};

static const struct kernelspec *choose(const struct kernelspecs *specs, const char *language,
                                       struct err *e)
{
    const struct kernelspec *spec = kernelspec_choose(specs, language);
    if (!spec) {
        cleanup_(buf_done) struct buf list = BUF_INIT(ERR_MSG_MAX);
        code_languages_list(specs, &list);
        err_set(e, ERR_NOT_FOUND, "no kernel for \"%s\" is installed here; this sandbox has: %s",
                language, buf_cstr(&list));
    }
    return spec;
}

struct kernel *kernel_local_new(struct execd *x, const struct kernel_opts *o,
                                const struct kernel_events *ev, void *owner, struct err *e)
{
    cleanup_(arena_done) struct arena a = {0};
    struct kernelspecs *specs = ARENA_NEW(&a, struct kernelspecs);
    kernelspecs_find(&a, specs);
    const struct kernelspec *spec = choose(specs, o->language, e);
    if (!spec) {
        return NULL;
    }
    struct kernel_local *k = NEW(struct kernel_local);
    k->base = (struct kernel){.cls = &local_class, .events = ev, .owner = owner};
    k->x = x;
    k->interrupt_by_message = spec->interrupt_by_message;
    list_init(&k->node);
    buf_init(&k->tail, EXECD_KERNEL_TAIL);
    memset(k->hold_fd, 0xff, sizeof(k->hold_fd));
    rand_uuid(k->session.id);
    rand_uuid(k->session.key);
    rand_uuid(k->info_id);
    io_timer_init(&k->timer, x->loop, on_timer);
    io_timer_init(&k->nudge, x->loop, on_nudge);
    int r = hold_ports(k);
    r = r < 0 ? r : write_connection_file(k, spec->name);
    r = r < 0 ? r : spawn(k, &a, spec, o);
    if (r < 0) {
        err_sys(e, r, "cannot start the kernel %s (%s)", spec->name, spec->argv.v[0]);
        destroy(k);
        return NULL;
    }
    connect_channel(k, &k->shell, ZMTP_DEALER, k->port[0]);
    connect_channel(k, &k->iopub, ZMTP_SUB, k->port[1]);
    connect_channel(k, &k->control, ZMTP_DEALER, k->port[2]);
    io_timer_start(&k->timer, EXECD_KERNEL_START_MS);
    return &k->base;
}
