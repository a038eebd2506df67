/* Starting, reloading and stopping the parts of a server, in an order that touches nothing before
 * everything that can fail has been checked: key, lock, database, port, runtime. */

#include "server/app_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "server/api/api.h"
#include "server/app.h"
#include "server/proxy/redis.h"

struct app_loop *app_loop_of(const struct http_req *req)
{
    struct app *app = app_of(req);
    for (unsigned i = 0; i < app->n_loops; i++) {
        if (app->loops[i].loop == http_req_loop(req)) {
            return &app->loops[i];
        }
    }
    must(false); /* every request lives on a loop of the group */
    return NULL;
}

/* ---- files ---- */
/* One server per data directory. A POSIX lock and not flock(2): it belongs to this process alone,
 * so that a child caught between fork and exec when the server dies does not hold it on. */
static int take_lock(struct app *app, struct err *e)
{
    const char *dir = app->cfg->server.data_dir;
    int r = dir_make(AT_FDCWD, dir, 0711); /* sandboxes of other user ids pass through */
    if (r < 0) {
        return err_sys(e, r, "cannot create the data directory %s", dir);
    }
    cleanup_free char *path = xasprintf("%s/lock", dir);
    app->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (app->lock_fd < 0) {
        return err_sys(e, errno, "cannot open %s", path);
    }
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET}, holder = lock;
    if (fcntl(app->lock_fd, F_SETLK, &lock) == 0) {
        return 0;
    }
    if (errno != EAGAIN && errno != EACCES) {
        return err_sys(e, errno, "cannot lock %s", path);
    }
    (void)fcntl(app->lock_fd, F_GETLK, &holder); /* only for the message */
    return err_set(e, ERR_CONFLICT,
                   "another server (pid %d) uses %s; stop it, or set server.data_dir",
                   (int)holder.l_pid, dir);
}

static void raise_descriptor_limit(void)
{
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < rl.rlim_max) {
        rl.rlim_cur = rl.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &rl); /* what we have is enough to start */
    }
}

/* ---- listening ---- */
static int try_port(const struct io_addr *a)
{
    cleanup_close int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
        bind(fd, &a->sa, a->len) < 0 || listen(fd, 1) < 0) {
        return -errno;
    }
    return 0;
}

/* SO_REUSEPORT would let a second server of ours share the port without a word: look first. After a
 * crash a child that has not reached its exec may hold the old socket for a moment. */
static int check_port_free(const struct io_addr *a, struct err *e)
{
    uint64_t deadline = clock_mono_ms() + PORT_WAIT_MS;
    char text[IO_ADDR_TEXT_MAX];
    int r;
    while ((r = try_port(a)) == -EADDRINUSE && clock_mono_ms() < deadline) {
        (void)usleep(20000);
    }
    if (r == -EADDRINUSE) {
        return err_sys(e, r, "cannot listen on %s (server.port chooses another)",
                       io_addr_format(a, text));
    }
    return r < 0 ? err_sys(e, r, "cannot listen on %s", io_addr_format(a, text)) : 0;
}

static int open_loops(struct app *app, struct err *e)
{
    const struct config_server *s = &app->cfg->server;
    struct io_addr addr;
    if (io_addr_ip(str_from(s->host), (uint16_t)s->port, &addr) < 0) {
        return err_set(e, ERR_INVALID, "server.host: %s is not an address", s->host);
    }
    if (check_port_free(&addr, e) < 0) {
        return -1;
    }
    app->group = io_group_new((unsigned)s->loops);
    app->n_loops = io_group_len(app->group);
    app->loops = xcalloc(app->n_loops, sizeof(*app->loops));
    struct http_server_opts o = {
        .routes = api_routes,
        .app = app,
        .pool = app->pool,
        .before = api_before,
        .not_found = api_not_found,
        .error_body = api_error_body,
        .after = api_after,
        .idle_timeout_ms = (uint64_t)s->timeout_keep_alive * 1000,
        .max_connections =
            s->limit_concurrency ? MAX((size_t)s->limit_concurrency / app->n_loops, 1u) : SIZE_MAX,
    };
    struct io_listen_opts lo = {.reuse_port = true, .backlog = (int)s->backlog};
    for (unsigned i = 0; i < app->n_loops; i++) {
        struct app_loop *l = &app->loops[i];
        l->app = app;
        l->loop = io_group_loop(app->group, i);
        l->client = http_client_new(l->loop, NULL);
        l->server = http_server_new(l->loop, &o);
        if (http_server_listen(l->server, &addr, &lo, &app->bound, e) < 0) {
            return -1;
        }
        addr = app->bound; /* the others share the port the kernel chose */
    }
    return 0;
}

/* ---- a sandbox went away: its kept-alive connections are worth nothing ---- */
struct forget {
    struct app_loop *l;
    char key[SANDBOX_ID_MAX + 2];
};

static void forget_on_loop(void *arg)
{
    struct forget *f = arg;
    if (f->l->client) {
        http_client_forget(f->l->client, str_from(f->key));
    }
    free(f);
}

static void on_event(const struct store_event *ev, const struct sandbox *sb, void *arg)
{
    struct app *app = arg;
    static const char *const ends[] = {"stopping", "paused",  "exited",
                                       "lost",     "deleted", "expired"};
    bool end = false;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        end |= !strcmp(ev->type, ends[i]);
    }
    for (unsigned i = 0; end && i < app->n_loops; i++) {
        struct forget *f = NEW(struct forget);
        f->l = &app->loops[i];
        (void)snprintf(f->key, sizeof(f->key), "%s:", sb->id);
        io_post(f->l->loop, forget_on_loop, f);
    }
}

/* ---- start ---- */
static struct runtime *runtime_new(const struct config *cfg, struct err *e)
{
    if (!strcmp(cfg->runtime.type, "oci")) {
        return runtime_oci_new(cfg, e);
    }
    if (!strcmp(cfg->runtime.type, "docker")) {
        return runtime_docker_new(cfg, e);
    }
    (void)err_set(e, ERR_UNSUPPORTED, "this build has no runtime \"%s\"", cfg->runtime.type);
    return NULL;
}

static int open_keys(struct app *app, struct err *e)
{
    char *note = NULL;
    app->keys = keyring_new(app->cfg, &note, e);
    if (!app->keys) {
        return -1;
    }
    if (note) {
        log_info(note);
        free(note);
    }
    return keyring_is_open(app->keys) ? auth_confirm_open(e) : 0;
}

struct app *app_new(struct config *cfg, struct err *e)
{
    struct app *app = NEW(struct app);
    app->cfg = config_ref(cfg);
    app->lock_fd = -1;
    app->control = io_loop_new();
    raise_descriptor_limit();
    if (open_keys(app, e) < 0 || take_lock(app, e) < 0 ||
        !(app->store = store_open(cfg->store.path, e))) {
        app_free(app);
        return NULL;
    }
    app->pool = io_pool_new("api", (unsigned)cfg->server.thread_pool_size, API_QUEUE_MAX);
    if (open_loops(app, e) < 0 || !(app->rt = runtime_new(cfg, e))) {
        app_free(app);
        return NULL;
    }
    struct lifecycle_opts lo = {cfg, app->store, app->rt, app->control};
    app->lc = lifecycle_new(&lo);
    lifecycle_listen(app->lc, on_event, app);
    if (lifecycle_recover(app->lc, e) < 0) {
        app_free(app);
        return NULL;
    }
    if (cfg->renew.enabled && cfg->renew.redis_enabled &&
        !(app->renew = renew_source_start(app->lc, cfg, e))) {
        app_free(app);
        return NULL;
    }
    return app;
}

/* ---- reload ---- */
static void on_hup(int signo, void *arg)
{
    struct app *app = arg;
    struct config_notes notes = {0};
    struct err e = {0};
    struct config *cfg = config_load(app->cfg->path, &notes, &e);
    if (!cfg || keyring_reload(app->keys, cfg, &e) < 0) {
        log_error("the configuration was not reloaded", LOG_ERR(&e));
        config_unref(cfg);
        config_notes_done(&notes);
        return;
    }
    for (size_t i = 0; i < notes.n; i++) {
        log_warn(notes.v[i]);
    }
    struct buf restart = BUF_INIT(4096);
    if (config_needs_restart(app->cfg, cfg, &restart) > 0) {
        log_warn("these keys take effect after a restart", LOG_S("keys", buf_cstr(&restart)));
    }
    buf_done(&restart);
    enum log_level level;
    if (log_level_parse(str_from(cfg->log.level), &level) == 0) {
        log_set_level(level);
    }
    lifecycle_set_config(app->lc, cfg);
    log_info("configuration reloaded");
    config_unref(cfg);
    config_notes_done(&notes);
}

/* ---- stop ---- */
static void stop_control(void *arg)
{
    struct app *app = arg;
    if (app->n_draining > 0 && --app->n_draining == 0) {
        io_loop_stop(app->control);
    }
}

static void on_drained(void *arg) /* a loop of the group */
{
    struct app_loop *l = arg;
    io_post(l->app->control, stop_control, l->app);
}

static void drain_on_loop(void *arg)
{
    struct app_loop *l = arg;
    http_server_drain(l->server, on_drained, l);
}

static void on_drain_timeout(struct io_timer *t)
{
    log_info("connections that are still open are cut");
    io_loop_stop(t->loop);
}

static void on_term(int signo, void *arg)
{
    struct app *app = arg;
    if (app->stopping) {
        io_loop_stop(app->control); /* the second one does not wait */
        return;
    }
    app->stopping = true;
    log_info("stopping; sandboxes go on", LOG_I("signal", signo));
    lifecycle_stop(app->lc);
    app->n_draining = app->n_loops;
    io_timer_init(&app->drain_timer, app->control, on_drain_timeout);
    io_timer_start(&app->drain_timer, SHUTDOWN_DRAIN_MS);
    for (unsigned i = 0; i < app->n_loops; i++) {
        io_post(app->loops[i].loop, drain_on_loop, &app->loops[i]);
    }
}

void app_run(struct app *app)
{
    io_signal_watch(app->control, SIGTERM, on_term, app);
    io_signal_watch(app->control, SIGINT, on_term, app);
    io_signal_watch(app->control, SIGHUP, on_hup, app);
    lifecycle_start(app->lc);
    app_prune_start(app);
    io_group_start(app->group);
    app->running = true;
    io_loop_run(app->control);
    io_timer_stop(&app->drain_timer);
    app_prune_stop(app);
}

static void close_loop(void *arg)
{
    struct app_loop *l = arg;
    http_server_free(l->server);
    http_client_free(l->client);
    l->server = NULL;
    l->client = NULL;
    (void)pthread_mutex_lock(&l->app->close_lock);
    l->app->n_closed++;
    (void)pthread_cond_signal(&l->app->close_cond);
    (void)pthread_mutex_unlock(&l->app->close_lock);
}

/* What lives on a loop dies on it, while it still runs. */
static void close_loops(struct app *app)
{
    (void)pthread_mutex_init(&app->close_lock, NULL);
    (void)pthread_cond_init(&app->close_cond, NULL);
    for (unsigned i = 0; i < app->n_loops; i++) {
        if (app->running) {
            io_post(app->loops[i].loop, close_loop, &app->loops[i]);
        } else {
            close_loop(&app->loops[i]);
        }
    }
    (void)pthread_mutex_lock(&app->close_lock);
    while (app->n_closed < app->n_loops) {
        (void)pthread_cond_wait(&app->close_cond, &app->close_lock);
    }
    (void)pthread_mutex_unlock(&app->close_lock);
}

void app_free(struct app *app)
{
    if (!app) {
        return;
    }
    renew_source_stop(app->renew);
    if (app->loops) {
        close_loops(app);
    }
    if (app->pool) {
        io_pool_free(app->pool); /* calls at work end; their answers go nowhere */
    }
    lifecycle_free(app->lc);
    if (app->group) {
        if (app->running) {
            io_group_stop(app->group);
        }
        io_group_free(app->group);
    }
    if (app->rt) {
        app->rt->ops->free(app->rt);
    }
    store_close(app->store);
    keyring_free(app->keys);
    io_loop_free(app->control);
    config_unref(app->cfg);
    if (app->lock_fd >= 0) {
        (void)close(app->lock_fd);
    }
    free(app->loops);
    free(app);
}
