/* Start and ordered end of the program. */

#include "execd/serve.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "execd/auth.h"
#include "execd/limits.h"
#include "execd/notify.h"
#include "execd/reply.h"
#include "execd/routes.h"
#include "execd/sampler.h"

static bool before(struct http_req *req, const struct http_route *route)
{
    struct execd *x = execd_of(req);
    struct str id = http_req_header(req, STR("X-Request-ID"));
    if (id.n) {
        http_resp_header(req, STR("X-Request-ID"), id);
    }
    return auth_check(req, x->cfg.access_token);
}

/* A known path with another method is a 404 as well: that is what clients were written against. */
static void not_found(struct http_req *req, bool path_known)
{
    http_resp_send(req, 404, "text/plain", STR("404 page not found"));
}

static void error_body(int status, const char *reason, struct buf *out, const char **ret_ctype)
{
    *ret_ctype = JSON_CTYPE;
    reply_error_body(out, status == 413 ? CODE_LIMIT_EXCEEDED : CODE_INVALID_BODY,
                     str_from(reason));
}

static void after(struct http_req *req, int status, uint64_t bytes_out, uint64_t us)
{
    if (log_enabled(LOG_DEBUG)) {
        log_debug("request", LOG_STR("method", http_req_method(req)),
                  LOG_STR("path", http_req_path(req)), LOG_I("status", status), LOG_I("us", us));
    }
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
    struct buf b = BUF_INIT(64);
    int64_t own = 0;
    if (file_read(AT_FDCWD, "/proc/self/oom_score_adj", &b) == 0) {
        struct str text = buf_str(&b);
        (void)parse_i64(str_sub(text, 0, text.n ? text.n - 1 : 0), &own);
    }
    buf_done(&b);
    x->oom_score_adj = (int)MIN(MAX(own, 0) + 200, 1000);
    (void)file_write(AT_FDCWD, "/proc/self/oom_score_adj",
                     STR("-999")); /* needs CAP_SYS_RESOURCE */
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

struct execd *execd_new(struct execd_config *take_cfg, struct err *e)
{
    struct execd *x = NEW(struct execd);
    x->cfg = *take_cfg;
    *take_cfg = (struct execd_config){0};
    buf_init(&x->scratch, 8u << 20);
    list_init(&x->stop_hooks);
    tune_memory();
    protect_from_oom(x);
    x->loop = io_loop_new();
    x->pool = io_pool_new("execd", EXECD_POOL_THREADS, EXECD_POOL_QUEUE);
    x->sampler = sampler_new(x->loop);
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
    if (open_listener(x, e) < 0) {
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
    http_server_free(x->http);
    sampler_free(x->sampler);
    io_pool_free(x->pool);
    io_loop_free(x->loop);
    buf_done(&x->scratch);
    config_done(&x->cfg);
    free(x);
}

static void on_drained(void *arg)
{
    struct execd *x = arg;
    io_loop_stop(x->loop);
}

void execd_stop(struct execd *x)
{
    if (x->stopping) {
        return;
    }
    x->stopping = true;
    log_info("stopping");
    notify_stopping(x->cfg.notify_fd);
    list_each (it, &x->stop_hooks) {
        struct stop_hook *hook = list_entry(it, struct stop_hook, node);
        list_del(&hook->node);
        hook->fn(hook);
    }
    http_server_drain(x->http, on_drained, x);
}
