/* /code: contexts and runs. */

#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "execd/code/context.h"
#include "execd/env.h"
#include "execd/limits.h"
#include "execd/reply.h"
#include "execd/routes.h"
#include "execd/workdir.h"
#include "model/code.h"
#include "json/json.h"

/* Languages that are no kernels, and what the reference says about their contexts. */
static bool is_contextless(struct str language)
{
    return str_eq(language, STR("command")) || str_eq(language, STR("background-command"));
}

static void unknown_language(struct execd *x, const char *language, struct err *e)
{
    struct err found = {0};
    (void)code_languages(x, &found);
    err_set(e, ERR_INVALID, "unknown language: %s; %s", language, found.msg);
}

/* ---- contexts ---- */

static const char **env_list(struct arena *a, const struct str_map *m)
{
    if (m->n == 0) {
        return NULL;
    }
    const char **list = arena_array(a, m->n + 1, sizeof(*list));
    for (size_t i = 0; i < m->n; i++) {
        list[i] = arena_printf(a, "%s=%s", m->v[i].key, m->v[i].value);
    }
    return list;
}

static void on_create_body(struct http_req *req, struct str body, void *arg)
{
    struct execd *x = execd_of(req);
    struct arena *a = http_req_arena(req);
    struct code_context_request cr;
    struct err e = {0};
    bool malformed, ok = true;
    if (request_decode(a, body, false, &code_context_request_table, &cr, &malformed, &e) < 0) {
        reply_error(req, 400, CODE_INVALID_BODY,
                    "error parsing request, MAYBE invalid body format. %s", e.msg);
        return;
    }
    if (!cr.language || !*cr.language) {
        reply_error(req, 400, CODE_INVALID_BODY,
                    "invalid request, validation error field 'language' failed on the 'required' "
                    "tag");
        return;
    }
    struct kernel_opts o = {.language = cr.language, .envs = env_list(a, &cr.envs)};
    struct context *c = NULL;
    if (code_language_known(cr.language)) {
        struct env env;
        env_init(&env, a);
        env_add_file(&env, x->cfg.envs_path);
        env_add_map(&env, &cr.envs);
        o.cwd = workdir_make(&env, cr.cwd, &ok, &e);
        c = ok ? context_new(x, &o, &e) : NULL;
    } else {
        unknown_language(x, cr.language, &e);
    }
    if (c) {
        context_await(c, req);
    } else {
        reply_error(req, e.code == ERR_LIMIT ? 503 : 500,
                    e.code == ERR_LIMIT ? CODE_LIMIT_EXCEEDED : CODE_RUNTIME_ERROR,
                    "error creating code context. %s", e.msg);
    }
}

void route_context_create(struct http_req *req)
{
    http_req_collect(req, EXECD_MAX_BODY, on_create_body, NULL);
}

static void put_context(struct json_out *o, const struct context *c)
{
    const struct code_context answer = {.id = c->id, .language = c->language, .cwd = c->cwd};
    json_encode(o, &code_context_table, &answer);
}

void route_context_list(struct http_req *req)
{
    struct execd *x = execd_of(req);
    struct str language = http_req_query_get(req, "language", 0);
    if (is_contextless(language)) {
        reply_error(req, 500, CODE_RUNTIME_ERROR, "unsupported language context operation: %.*s",
                    STR_FMT(language));
        return;
    }
    cleanup_(buf_done) struct buf out = BUF_INIT(EXECD_MAX_CONTEXTS * 6 * 8192);
    struct json_out o;
    json_out_init(&o, &out);
    json_arr_begin(&o);
    list_each (it, &x->code->all) {
        const struct context *c = list_entry(it, struct context, node);
        if (c->id && c->was_ready && (language.n == 0 || str_eq(str_from(c->language), language))) {
            put_context(&o, c);
        }
    }
    json_arr_end(&o);
    reply_json(req, 200, buf_str(&out));
}

static struct context *find(struct http_req *req)
{
    struct str id = http_req_param(req, "id");
    struct context *c = context_find(execd_of(req), id);
    if (!c) {
        reply_error(req, 404, CODE_CONTEXT_NOT_FOUND, "context %.*s not found", STR_FMT(id));
    }
    return c;
}

void route_context_get(struct http_req *req)
{
    const struct context *c = find(req);
    if (c) {
        cleanup_(buf_done) struct buf out = BUF_INIT(6 * 8192);
        struct json_out o;
        json_out_init(&o, &out);
        put_context(&o, c);
        reply_json(req, 200, buf_str(&out));
    }
}

void route_context_delete(struct http_req *req)
{
    struct context *c = find(req);
    if (c) {
        context_delete(c);
        reply_empty(req);
    }
}

void route_contexts_delete(struct http_req *req)
{
    struct execd *x = execd_of(req);
    struct str language = http_req_query_get(req, "language", 0);
    if (language.n == 0) {
        reply_missing_query(req, "language");
        return;
    }
    if (is_contextless(language)) {
        reply_error(req, 500, CODE_RUNTIME_ERROR, "unsupported language context operation: %.*s",
                    STR_FMT(language));
        return;
    }
    list_each (it, &x->code->all) {
        struct context *c = list_entry(it, struct context, node);
        if (str_eq(str_from(c->language), language)) {
            context_delete(c);
        }
    }
    reply_empty(req);
}

/* ---- runs ---- */

/* A shell command under the name of code: the same stream, without a directory or a time. */
static void run_command(struct http_req *req, const char *code, bool background)
{
    struct arena *a = http_req_arena(req);
    cleanup_(buf_done) struct buf body = BUF_INIT(6 * EXECD_MAX_BODY + 64);
    struct json_out o;
    json_out_init(&o, &body);
    json_obj_begin(&o);
    json_key(&o, "command");
    json_put_cstr(&o, code);
    json_key(&o, "background");
    json_put_bool(&o, background);
    json_obj_end(&o);
    command_run_body(req, str_from(arena_str(a, buf_str(&body))));
}

/* The context that a request means; NULL with `e`. */
static struct context *choose(struct execd *x, const char *id, const char *language, struct err *e)
{
    struct context *c;
    if (id) {
        c = context_find(x, str_from(id));
        if (!c) {
            err_set(e, ERR_NOT_FOUND, "context not found");
        }
        return c;
    }
    if (!code_language_known(language)) {
        unknown_language(x, language, e);
        return NULL;
    }
    c = context_default(x, language);
    if (!c) {
        c = context_new(x, &(struct kernel_opts){.language = language}, e);
        if (c) {
            c->is_default = true;
        }
    }
    return c;
}

static void on_run_body(struct http_req *req, struct str body, void *arg)
{
    struct execd *x = execd_of(req);
    struct run_code_request rr;
    struct err e = {0};
    bool malformed;
    if (request_decode(http_req_arena(req), body, false, &run_code_request_table, &rr, &malformed,
                       &e) < 0) {
        reply_error(req, 400, CODE_INVALID_BODY,
                    "error parsing request, MAYBE invalid body format. %s", e.msg);
        return;
    }
    if (!rr.code || !*rr.code) {
        reply_error(req, 400, CODE_INVALID_BODY,
                    "invalid request, validation error field 'code' failed on the 'required' tag");
        return;
    }
    const char *id = rr.context && rr.context->id && *rr.context->id ? rr.context->id : NULL;
    const char *language = rr.context && rr.context->language ? rr.context->language : "";
    bool background = strcmp(language, "background-command") == 0;
    if (background || strcmp(language, "command") == 0 || (!id && !*language)) {
        run_command(req, rr.code, background);
        return;
    }
    struct context *c = x->stopping ? NULL : choose(x, id, language, &e);
    if (x->stopping) {
        reply_error(req, 503, CODE_SHUTTING_DOWN, "error running codes execd is shutting down");
    } else if (!c) {
        reply_error(req, 500, CODE_RUNTIME_ERROR, "error running codes %s", e.msg);
    } else if (code_run_is_busy(c)) {
        code_run_busy(c, req);
    } else {
        code_run_start(c, req, str_from(rr.code));
    }
}

void route_code_run(struct http_req *req)
{
    http_req_collect(req, EXECD_MAX_BODY, on_run_body, NULL);
}
