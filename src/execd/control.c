/* Being told late what to run. */

#include "execd/control.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/log.h"
#include "base/must.h"
#include "execd/clone3.h"
#include "execd/code/context.h"
#include "execd/init.h"
#include "execd/limits.h"
#include "execd/reply.h"
#include "execd/serve.h"
#include "execd/telemetry.h"
#include "json/field.h"

struct control {
    struct execd *x;
    struct http_server *http;
    struct arena arena; /* the entrypoint's words */
    bool used;
};

struct activate_request {
    struct str_map env;
    struct str_list entrypoint;
};

static const struct json_field activate_fields[] = {
    JSON_FIELD(struct activate_request, env, "env", JSON_F_STR_MAP),
    JSON_FIELD(struct activate_request, entrypoint, "entrypoint", JSON_F_STR_LIST, .required = true,
               .min_len = 1),
    {0},
};
static const struct json_table activate_table = {"Activate", sizeof(struct activate_request),
                                                 activate_fields, JSON_UNKNOWN_ERROR, false};

/* A pool's sandbox is told the variables of its template again: what is so already changes nothing,
 * and kernels that are up need not hear of it. */
static void drop_known(struct str_map *env)
{
    size_t n = 0;
    for (size_t i = 0; i < env->n; i++) {
        const char *now = getenv(env->v[i].key);
        if (!now || strcmp(now, env->v[i].value) != 0) {
            env->v[n++] = env->v[i];
        }
    }
    env->n = n;
}

/* As if execd had been started with these variables. */
static int put_environment(struct control *c, struct str_map *env, struct err *e)
{
    drop_known(env);
    struct execd *x = c->x;
    for (size_t i = 0; i < env->n; i++) {
        if (setenv(env->v[i].key, env->v[i].value, 1) < 0) {
            return err_set(e, ERR_INVALID, "env: '%.60s' is no name of a variable", env->v[i].key);
        }
    }
    if (env->n == 0) {
        return 0;
    }
    init_prepare_environment();
    const char *clone3 = getenv("EXECD_CLONE3_COMPAT");
    if (clone3 && strcmp(clone3, "reexec") == 0) {
        (void)setenv("EXECD_CLONE3_COMPAT", "1", 1); /* what we start comes later in any case */
    }
    if (config_reread(&x->cfg, e) < 0 || (x->cfg.clone3_compat && clone3_refuse(e) < 0)) {
        return -1;
    }
    execd_log_start(&x->cfg);
    code_add_environment(x, env);
    if (!x->telemetry) {
        x->telemetry = telemetry_new(x);
    }
    return 0;
}

static char *const *copy_words(struct arena *a, const struct str_list *l)
{
    char **v = arena_array(a, l->n + 1, sizeof(*v));
    for (size_t i = 0; i < l->n; i++) {
        v[i] = arena_strdup(a, l->v[i]);
    }
    return v;
}

static void on_idle(void *arg)
{
}

static void on_activate_body(struct http_req *req, struct str body, void *arg)
{
    struct control *c = http_req_app(req);
    struct execd *x = c->x;
    struct activate_request q;
    struct err e = {0};
    bool malformed = false;
    if (c->used || x->touched || x->stopping) {
        reply_error(req, 409, "NOT_FRESH", "this sandbox has been used");
        return;
    }
    if (request_decode(http_req_arena(req), body, false, &activate_table, &q, &malformed, &e) < 0) {
        reply_error(req, 400, CODE_INVALID_BODY, "%s", e.msg);
        return;
    }
    c->used = true;
    if (put_environment(c, &q.env, &e) < 0) {
        reply_error(req, 400, CODE_INVALID_BODY, "%s", e.msg);
        return;
    }
    x->cfg.entrypoint = copy_words(&c->arena, &q.entrypoint);
    log_info("activated", LOG_S("entrypoint", x->cfg.entrypoint[0]));
    http_resp_close_after(req);
    reply_json(req, 200, STR("{}"));
    http_server_drain(c->http, on_idle, c);
    init_run(x->init);
}

static void route_activate(struct http_req *req)
{
    http_req_collect(req, EXECD_ACTIVATE_MAX, on_activate_body, NULL);
}

static const struct http_route routes[] = {
    {"POST", "/activate", HTTP_STREAM, .stream = route_activate},
    {0},
};

struct control *control_start(struct execd *x, struct err *e)
{
    struct control *c = NEW(struct control);
    struct io_addr addr = {0}, bound;
    struct io_listen_opts o = {.fd = x->cfg.control_fd};
    c->x = x;
    c->http = http_server_new(x->loop, &(struct http_server_opts){
                                           .routes = routes,
                                           .app = c,
                                           .pool = x->pool,
                                           .max_connections = 4,
                                       });
    if (http_server_listen(c->http, &addr, &o, &bound, e) < 0) {
        control_free(c);
        return NULL;
    }
    return c;
}

void control_free(struct control *c)
{
    if (c) {
        http_server_free(c->http);
        arena_done(&c->arena);
        free(c);
    }
}
