/* /sandboxes/{id}/proxy/{port}/...: the bytes between a client and a port of a sandbox.
 *
 * Runs on the loop of the connection: look-up in memory, a connection of that loop's client pool,
 * and then http/proxy.h moves bytes. Path and query go on exactly as they came. The environment's
 * proxy settings mean nothing here. */

#include <errno.h>

#include "base/must.h"
#include "http/proxy.h"
#include "http/ws.h"
#include "server/api/api.h"

#define WS_REASON_MAX 123 /* bytes of a close reason */
#define COMMON_MAX 6

/* What lives as long as the proxied exchange. */
struct exchange {
    struct app *app;
    struct sandbox *sb;
    int netns_fd; /* -1: none */
};

static const struct str dropped[] = {
    {"Authorization", 13},
    {"Cookie", 6},
    {"OPEN-SANDBOX-API-KEY", 20},
};

/* ---- refusing ---- */
static void ws_closed(struct ws_conn *ws, unsigned code, struct str reason, void *arg)
{
    (void)ws, (void)code, (void)reason, (void)arg; /* nothing is kept for it */
}

static void ws_ignored(struct ws_conn *ws, enum ws_opcode opcode, struct str data, void *arg)
{
    (void)ws, (void)opcode, (void)data, (void)arg; /* it is being closed */
}

/* WebSocket clients are told by a close frame: browsers show nothing of a refused handshake. */
static void refuse_ws(struct http_req *req, const struct problem *p)
{
    static const struct ws_ops ops = {.on_message = ws_ignored, .on_close = ws_closed};
    struct ws_conn *ws = ws_accept(req, &(struct ws_opts){0}, &ops, NULL);
    if (ws) {
        struct str reason = str_from(p->message);
        reason.n = utf8_floor(reason, MIN(reason.n, WS_REASON_MAX));
        ws_close(ws, 1011, reason);
    }
}

static void refuse(struct http_req *req, const struct problem *p)
{
    if (http_req_is_upgrade(req, STR("websocket"))) {
        refuse_ws(req, p);
        return;
    }
    struct h1_header common[COMMON_MAX];
    size_t n = api_common_headers(req, common, COMMON_MAX);
    for (size_t i = 0; i < n; i++) {
        http_resp_header(req, common[i].name, common[i].value);
    }
    resp_problem(req, p);
}

static void on_error(struct http_req *req, int error, void *arg)
{
    struct exchange *x = arg;
    struct problem p = {0};
    if (error == -ETIMEDOUT) {
        (void)problem_set(&p, 504, CODE_GENERAL, "the backend sandbox %s did not answer in time",
                          x->sb->id);
    } else {
        (void)problem_set(&p, 502, CODE_GENERAL, "Could not connect to the backend sandbox %s: %s",
                          x->sb->id, strerror(-error));
    }
    refuse(req, &p);
}

/* ---- looking up ---- */
static int check_state(struct app *app, const struct sandbox *sb, struct problem *p)
{
    struct registry *reg = lifecycle_registry(app->lc);
    registry_read(reg);
    enum sandbox_state state = sb->state;
    char why[160];
    (void)snprintf(why, sizeof(why), "%s", sb->message);
    registry_unlock(reg);
    switch (state) {
    case SB_RUNNING:
        return 0;
    case SB_PENDING:
        (void)problem_set(p, 503, CODE_GENERAL, "sandbox %s is not ready yet", sb->id);
        p->retry_after_s = 1;
        return -1;
    case SB_PAUSING:
    case SB_PAUSED:
    case SB_RESUMING:
        return problem_set(p, 409, "DOCKER::SANDBOX_NOT_RUNNING",
                           "sandbox %s is %s: resume it first", sb->id, sandbox_state_name(state));
    case SB_STOPPING:
        return problem_set(p, 404, CODE_NOT_FOUND, "sandbox %s is being removed", sb->id);
    case SB_TERMINATED:
    case SB_FAILED:
    case SB__COUNT:
        break;
    }
    return problem_set(p, 502, CODE_GENERAL,
                       "Could not connect to the backend sandbox %s: it has ended (%s)", sb->id,
                       why);
}

static int resolve(struct app *app, const struct sandbox *sb, uint16_t port,
                   struct runtime_target *ret, struct problem *p)
{
    if (check_state(app, sb, p) < 0) {
        return -1;
    }
    int r = app->rt->ops->target(app->rt, sb->id, port, ret);
    if (r == -EAGAIN) {
        (void)problem_set(p, 503, CODE_GENERAL, "sandbox %s is not ready yet", sb->id);
        p->retry_after_s = 1;
        return -1;
    }
    if (r < 0) {
        return problem_set(p, 502, CODE_GENERAL,
                           "Could not connect to the backend sandbox %s: it is not running",
                           sb->id);
    }
    return 0;
}

/* The part of the target after "/proxy/{port}", byte for byte; at least "/". */
static struct str upstream_target(struct http_req *req, const char *prefix)
{
    struct str t = http_req_target(req), path = http_req_path(req);
    size_t skip = str_starts(path, STR("/v1/")) ? 5 : 4; /* slashes before the tail's own */
    size_t i = 0;
    while (i < path.n && (path.p[i] != '/' || skip-- > 0)) {
        i++;
    }
    struct str tail = str_sub(path, i, path.n), query = http_req_query(req);
    if (!*prefix && !query.p && tail.n && tail.p + tail.n == t.p + t.n) {
        return tail;
    }
    struct arena *a = http_req_arena(req);
    const char *all = arena_printf(a, "%s%.*s%s%.*s", prefix, STR_FMT(tail.n ? tail : STR("/")),
                                   query.p ? "?" : "", STR_FMT(query));
    return str_from(all);
}

/* ---- the exchange ---- */
static void on_traffic(void *arg)
{
    struct exchange *x = arg;
    if (x->sb->renew_extend_s) {
        lifecycle_touch(x->app->lc, x->sb, "server_proxy");
    }
}

static void on_done(void *arg)
{
    struct exchange *x = arg;
    if (x->netns_fd >= 0) {
        (void)close(x->netns_fd); /* read-only: nothing to lose */
    }
    sandbox_unref(x->sb);
    free(x);
}

static void start(struct http_req *req, struct sandbox *take_sb, const struct runtime_target *t,
                  uint16_t port)
{
    struct app *app = app_of(req);
    struct arena *a = http_req_arena(req);
    struct exchange *x = NEW(struct exchange);
    *x = (struct exchange){app, take_sb, t->http.netns_fd};
    struct config *cfg = lifecycle_config(app->lc);
    struct h1_header *common = arena_array(a, COMMON_MAX, sizeof(*common));
    struct http_proxy_opts o = {
        .target = upstream_target(req, t->prefix),
        .host = str_from(arena_printf(a, "127.0.0.1:%u", port)),
        .drop = dropped,
        .n_drop = ARRAY_LEN(dropped),
        .add_resp = common,
        .n_add_resp = api_common_headers(req, common, COMMON_MAX),
        .forwarded = true,
        .head_timeout_ms = (uint64_t)cfg->proxy.head_timeout_seconds * 1000,
        .idle_timeout_ms = (uint64_t)cfg->proxy.idle_timeout_seconds * 1000,
        .on_traffic = take_sb->renew_extend_s ? on_traffic : NULL,
        .on_error = on_error,
        .on_done = on_done,
        .arg = x,
    };
    config_unref(cfg);
    lifecycle_touch(app->lc, x->sb, "server_proxy");
    http_proxy_start(req, app_loop_of(req)->client, &t->http, &o);
}

void route_proxy(struct http_req *req)
{
    struct app *app = app_of(req);
    struct problem p = {0};
    uint16_t port = 0;
    struct runtime_target *t = ARENA_NEW(http_req_arena(req), struct runtime_target);
    /* No owner: whoever knows the id may use its ports (see proxy.require_api_key). */
    struct caller anyone = {0};
    struct sandbox *sb = NULL;
    if (param_port(req, &port, &p) < 0 ||
        !(sb = lifecycle_get(app->lc, &anyone, http_req_param(req, "id"), &p)) ||
        resolve(app, sb, port, t, &p) < 0) {
        refuse(req, &p);
        problem_done(&p);
        sandbox_unref(sb);
        return;
    }
    start(req, sb, t, port);
}
