/* /session: create, run, delete. */

#include "base/cleanup.h"
#include "execd/env.h"
#include "execd/limits.h"
#include "execd/reply.h"
#include "execd/routes.h"
#include "execd/session.h"
#include "execd/workdir.h"
#include "model/session.h"

static void on_create_body(struct http_req *req, struct str body, void *arg)
{
    struct execd *x = execd_of(req);
    struct arena *a = http_req_arena(req);
    struct session_request sr;
    struct err e = {0};
    bool malformed, ok;
    if (request_decode(a, body, true, &session_request_table, &sr, &malformed, &e) < 0) {
        reply_error(req, 400, CODE_INVALID_BODY, "error parsing request. %s", e.msg);
        return;
    }
    struct env env;
    env_init(&env, a);
    const char *cwd = workdir_make(&env, sr.cwd, &ok, &e);
    struct session *s = ok ? session_new(x, cwd, &e) : NULL;
    if (!s) {
        reply_error(req, 500, CODE_RUNTIME_ERROR, "error creating session. %s", e.msg);
        return;
    }
    const struct session_response answer = {.session_id = s->id};
    cleanup_(buf_done) struct buf out = BUF_INIT(256);
    struct json_out o;
    json_out_init(&o, &out);
    json_encode(&o, &session_response_table, &answer);
    reply_json(req, 200, buf_str(&out));
}

void route_session_create(struct http_req *req)
{
    http_req_collect(req, EXECD_MAX_BODY, on_create_body, NULL);
}

/* What is wrong with the request, in `e`; *ret_cwd is what the run shall use. */
static int check_run(struct http_req *req, const struct session_run_request *rr,
                     const char **ret_cwd, struct err *e)
{
    if (!rr->command || !*rr->command) {
        return err_set(e, ERR_INVALID, "field 'command' failed on the 'required' tag");
    }
    if (rr->timeout.has && rr->timeout.v < 0) {
        return err_set(e, ERR_INVALID, "field 'timeout' failed on the 'gte' tag");
    }
    struct env env;
    bool ok;
    env_init(&env, http_req_arena(req));
    *ret_cwd = workdir_check(&env, rr->cwd, &ok, e);
    return ok ? 0 : -1;
}

static void on_run_body(struct http_req *req, struct str body, void *arg)
{
    struct execd *x = execd_of(req);
    struct session_run_request rr;
    struct err e = {0};
    bool malformed;
    const char *cwd = NULL;
    if (request_decode(http_req_arena(req), body, false, &session_run_request_table, &rr,
                       &malformed, &e) < 0) {
        reply_error(req, 400, CODE_INVALID_BODY, "error parsing request. %s", e.msg);
        return;
    }
    if (check_run(req, &rr, &cwd, &e) < 0) {
        reply_error(req, 400, CODE_INVALID_BODY, "invalid request. %s", e.msg);
        return;
    }
    struct session *s = session_find(x, http_req_param(req, "id"));
    if (!s) {
        reply_error(req, 404, CODE_CONTEXT_NOT_FOUND,
                    "error running in session. context not found");
        return;
    }
    if (x->stopping || s->n_runs >= EXECD_SESSION_QUEUE) {
        reply_error(req, 503, x->stopping ? CODE_SHUTTING_DOWN : CODE_LIMIT_EXCEEDED,
                    "error running in session. %s",
                    x->stopping ? "execd is shutting down"
                                : "too many runs are waiting in this session");
        return;
    }
    session_run(s, req, rr.command, cwd,
                rr.timeout.has && rr.timeout.v ? (uint64_t)rr.timeout.v : EXECD_SESSION_TIMEOUT_MS);
}

void route_session_run(struct http_req *req)
{
    http_req_collect(req, EXECD_MAX_BODY, on_run_body, NULL);
}

void route_session_delete(struct http_req *req)
{
    struct str id = http_req_param(req, "id");
    if (session_delete(execd_of(req), id)) {
        reply_empty(req);
    } else {
        reply_error(req, 404, CODE_CONTEXT_NOT_FOUND, "session %.*s not found", STR_FMT(id));
    }
}
