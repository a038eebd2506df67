/* Start and ordered end of the program. */

#include "execd/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "execd/auth.h"
#include "execd/code/context.h"
#include "execd/command.h"
#include "execd/control.h"
#include "execd/limits.h"
#include "execd/passwd.h"
#include "execd/pty.h"
#include "execd/reply.h"
#include "execd/routes.h"
#include "execd/sampler.h"
#include "execd/session.h"
#include "execd/stop.h"
#include "execd/telemetry.h"
#include "http/client.h"
#include "io/child.h"

#define SCRATCH_MAX (8u << 20)    /* several times the largest event, escaped */
#define SCRATCH_KEEP (512u << 10) /* what is more than this is given back */

/* A known path with another method is a 404 as well: that is what clients were written against. */
static void not_found(struct http_req *req, bool path_known)
{
    http_resp_send(req, 404, "text/plain", STR("404 page not found"));
}

static bool before(struct http_req *req, const struct http_route *route)
{
    struct execd *x = execd_of(req);
    x->touched |= !route || route->stream != route_ping;
    struct str id = http_req_header(req, STR("X-Request-ID"));
    if (id.n) {
        http_resp_header(req, STR("X-Request-ID"), id);
    }
    if (!auth_check(req, x->cfg.access_token)) {
        return false;
    }
    if (route && str_eq(http_req_method(req), STR("HEAD")) && strcmp(route->method, "GET") == 0) {
        not_found(req, true); /* the router takes a HEAD for a GET; this protocol does not */
        return false;
    }
    return true;
}

static void error_body(int status, const char *reason, struct buf *out, const char **ret_ctype)
{
    *ret_ctype = JSON_CTYPE;
    reply_error_body(out, status == 413 ? CODE_LIMIT_EXCEEDED : CODE_INVALID_BODY,
                     str_from(reason));
}

static void after(struct http_req *req, int status, uint64_t bytes_out, uint64_t us)
{
    telemetry_request(execd_of(req)->telemetry, req, status, us);
    if (log_enabled(LOG_DEBUG)) {
        log_debug("request", LOG_STR("method", http_req_method(req)),
                  LOG_STR("path", http_req_path(req)), LOG_I("status", status), LOG_I("us", us));
    }
}

static int open_log(const char *path)
{
    if (strcmp(path, "stdout") == 0) {
        return STDOUT_FILENO;
    }
    if (strcmp(path, "stderr") == 0) {
        return STDERR_FILENO;
    }
    return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
}

/* Logs are JSON lines on stderr, in the file of EXECD_LOG_FILE, or at the first place of
 * OPENSANDBOX_LOG_OUTPUT that can be opened. */
void execd_log_start(const struct execd_config *c)
{
    int fd = -1;
    const char *list = getenv("OPENSANDBOX_LOG_OUTPUT");
    if (c->log_file && *c->log_file) {
        fd = open_log(c->log_file);
    } else if (list) {
        struct str rest = str_from(list);
        while (fd < 0 && rest.p) {
            cleanup_free char *place = str_dup(str_trim(str_cut(&rest, ',')));
            fd = *place ? open_log(place) : -1;
        }
    }
    log_init(c->log_level, LOG_JSON, fd >= 0 ? fd : STDERR_FILENO);
    log_set_program("execd"); /* the entrypoint may write to the same place */
}

/* Memory that was needed once goes back to the system: by default the allocator raises its
 * thresholds after the first large buffer and then keeps everything. */
static void tune_memory(void)
{
    (void)mallopt(M_ARENA_MAX, 1);
    (void)mallopt(M_MMAP_THRESHOLD, 64 << 10);
    (void)mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

/* The last to be killed when memory runs out, where we may say so; everything started is a better
 * victim in any case. */
static void protect_from_oom(struct execd *x)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(64);
    int64_t own = 0;
    if (file_read(AT_FDCWD, "/proc/self/oom_score_adj", &b) < 0) {
        return; /* no /proc here: nothing can be set, for us or for children */
    }
    struct str text = buf_str(&b);
    (void)parse_i64(str_sub(text, 0, text.n ? text.n - 1 : 0), &own);
    x->oom_score_adj = (int)MIN(MAX(own, 0) + 200, 1000);
    (void)file_write(AT_FDCWD, "/proc/self/oom_score_adj",
                     STR("-999")); /* needs CAP_SYS_RESOURCE */
}

/* A few descriptors per command and connection: the usual soft limit is for programs that use
 * select(2), and children get it back. */
static void raise_descriptor_limit(struct execd *x)
{
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) < 0 || lim.rlim_cur >= EXECD_MAX_FDS) {
        return;
    }
    x->child_max_fds = lim.rlim_cur;
    lim.rlim_cur = MIN(lim.rlim_max, (rlim_t)EXECD_MAX_FDS);
    (void)setrlimit(RLIMIT_NOFILE, &lim); /* up to the hard limit: cannot be refused */
}

/* Children would not start at all if their cgroup could not be joined. */
static void check_workload_cgroup(struct execd_config *c)
{
    for (size_t i = 0; c->workload_procs && c->workload_procs[i]; i++) {
        int fd = io_cgroup_open(c->workload_procs[i]);
        if (fd < 0) {
            log_warn("workload cgroup is not usable", LOG_S("path", c->workload_procs[i]),
                     LOG_I("errno", -fd));
            config_drop_cgroups(c);
            return;
        }
        (void)close(fd);
    }
}

/* What children read from: nothing. An image without /dev/null gets an empty file. */
static int open_null(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    return fd >= 0 ? fd : memfd_create("execd-null", MFD_CLOEXEC);
}

static int open_listener(struct execd *x, struct err *e)
{
    const struct execd_config *c = &x->cfg;
    struct io_addr addr = {0}, bound = {0};
    struct io_listen_opts o = {.fd = c->listen_fd > 0 ? c->listen_fd : 0};
    int r = 0;
    if (c->listen_unix) {
        r = io_addr_unix(str_from(c->listen_unix), &addr);
    } else {
        r = io_addr_ip(str_from(c->address), c->port, &addr);
    }
    if (r < 0) {
        return err_sys(e, r, "cannot listen on %s", c->listen_unix ? c->listen_unix : c->address);
    }
    if (http_server_listen(x->http, &addr, &o, &bound, e) < 0) {
        return -1;
    }
    sa_family_t family = bound.sa.sa_family;
    x->port = family == AF_INET || family == AF_INET6 ? io_addr_port(&bound) : 0;
    return 0;
}

static void on_child_signal(int signo, void *arg)
{
    (void)io_child_reap_orphans(NULL, NULL);
}

/* What commands leave behind is ours to reap, as PID 1 or as the next best thing. */
static void adopt_orphans(struct execd *x)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1); /* where it is refused, PID 1 has the work */
    io_signal_watch(x->loop, SIGCHLD, on_child_signal, x);
}

static void make_tables(struct execd *x)
{
    drains_init(&x->drains);
    oom_watch_init(&x->oom, x->cfg.workload_procs);
    x->commands = command_table_new(x);
    x->code = code_table_new(x);
    x->sessions = session_table_new(x);
    x->ptys = pty_table_new(x);
}

static int find_user(const struct execd_config *c, struct run_as *ret, struct err *e)
{
    if (!c->user || !*c->user) {
        return 0;
    }
    cleanup_(passwd_done) struct passwd_db db;
    passwd_load(&db);
    return run_as_parse(ret, &db, c->user, e);
}

/* Before there are other threads, which inherit it. */
static void become_user(struct execd *x)
{
    const struct run_as *as = &x->run_as;
    if (as->is_set && x->cfg.envs_path) {
        /* The entrypoint may leave variables there. */
        (void)!lchown(x->cfg.envs_path, as->uid, as->gid);
    }
    run_as_begin(as);
}

struct execd *execd_new(struct execd_config *take_cfg, struct err *e)
{
    struct run_as as = {0};
    if (find_user(take_cfg, &as, e) < 0) {
        config_done(take_cfg);
        return NULL;
    }
    struct execd *x = NEW(struct execd);
    x->run_as = as;
    x->cfg = *take_cfg;
    *take_cfg = (struct execd_config){0};
    buf_init(&x->scratch, SCRATCH_MAX);
    x->read_buf = xmalloc(EXECD_READ_CHUNK);
    x->null_fd = open_null();
    list_init(&x->stop_hooks);
    tune_memory();
    protect_from_oom(x);
    raise_descriptor_limit(x);
    check_workload_cgroup(&x->cfg);
    become_user(x);
    x->loop = io_loop_new();
    execd_stop_init(x);
    x->pool = io_pool_new("execd", EXECD_POOL_THREADS, EXECD_POOL_QUEUE);
    x->sampler = sampler_new(x->loop);
    x->client = http_client_new(x->loop, &(struct http_client_opts){0});
    x->telemetry = telemetry_new(x);
    make_tables(x);
    adopt_orphans(x);
    x->http = http_server_new(x->loop, &(struct http_server_opts){
                                           .routes = execd_routes,
                                           .app = x,
                                           .pool = x->pool,
                                           .before = before,
                                           .not_found = not_found,
                                           .error_body = error_body,
                                           .after = after,
                                           .max_connections = EXECD_MAX_CONNECTIONS,
                                           .write_timeout_ms = EXECD_WRITE_TIMEOUT_MS,
                                       });
    if (open_listener(x, e) < 0 || (x->cfg.control_fd > 0 && !(x->control = control_start(x, e)))) {
        execd_free(x);
        return NULL;
    }
    return x;
}

void execd_free(struct execd *x)
{
    if (!x) {
        return;
    }
    io_timer_stop(&x->stop_timer);
    control_free(x->control);
    http_server_free(x->http);
    pty_table_free(x->ptys);
    session_table_free(x->sessions);
    code_table_free(x->code);
    command_table_free(x->commands);
    drains_done(&x->drains);
    io_pool_free(x->pool);
    x->pool = NULL;
    for (int i = 0; i < 4; i++) { /* what workers finished last frees itself on the loop */
        io_loop_turn(x->loop, false);
    }
    telemetry_free(x->telemetry);
    http_client_free(x->client);
    sampler_free(x->sampler);
    io_loop_free(x->loop);
    oom_watch_done(&x->oom);
    buf_done(&x->scratch);
    free(x->read_buf);
    (void)close(x->null_fd);
    config_done(&x->cfg);
    free(x);
}

struct buf *execd_scratch(struct execd *x)
{
    if (x->scratch.cap > SCRATCH_KEEP) {
        buf_done(&x->scratch);
    }
    buf_clear(&x->scratch);
    return &x->scratch;
}
