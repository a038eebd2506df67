/* /pty: create, look, delete, connect. */

#include "base/cleanup.h"
#include "base/must.h"
#include "base/num.h"
#include "execd/env.h"
#include "execd/limits.h"
#include "execd/pty.h"
#include "execd/reply.h"
#include "execd/routes.h"
#include "execd/workdir.h"
#include "model/pty.h"
#include "model/session.h"

static void reply_table(struct http_req *req, int status, const struct json_table *t, const void *v)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(512);
    struct json_out o;
    json_out_init(&o, &out);
    json_encode(&o, t, v);
    reply_json(req, status, buf_str(&out));
}

static void on_create_body(struct http_req *req, struct str body, void *arg)
{
    struct execd *x = execd_of(req);
    struct arena *a = http_req_arena(req);
    struct pty_request pr;
    struct err e = {0};
    bool malformed, ok;
    if (request_decode(a, body, true, &pty_request_table, &pr, &malformed, &e) < 0) {
        reply_error(req, 400, CODE_INVALID_BODY, "error parsing request: %s", e.msg);
        return;
    }
    struct env env;
    env_init(&env, a);
    env_add_file(&env, x->cfg.envs_path);
    const char *cwd = workdir_make(&env, pr.cwd, &ok, &e);
    const struct pty *p = ok ? pty_new(x, cwd, pr.command, &e) : NULL;
    if (!p) {
        reply_error(req, 500, CODE_RUNTIME_ERROR, "error creating pty session: %s", e.msg);
        return;
    }
    const struct session_response answer = {.session_id = p->id};
    reply_table(req, 201, &session_response_table, &answer);
}

void route_pty_create(struct http_req *req)
{
    http_req_collect(req, EXECD_MAX_BODY, on_create_body, NULL);
}

/* The session of the path, or NULL and a 404. */
static struct pty *find(struct http_req *req)
{
    struct str id = http_req_param(req, "id");
    struct pty *p = pty_find(execd_of(req), id);
    if (!p) {
        reply_error(req, 404, CODE_CONTEXT_NOT_FOUND, "pty session %.*s not found", STR_FMT(id));
    }
    return p;
}

void route_pty_status(struct http_req *req)
{
    const struct pty *p = find(req);
    if (p) {
        const struct pty_status st = {
            .session_id = p->id,
            .running = {true, p->child && !p->exited},
            .output_offset = {true, (int64_t)p->ring.total},
        };
        reply_table(req, 200, &pty_status_table, &st);
    }
}

void route_pty_delete(struct http_req *req)
{
    struct pty *p = find(req);
    if (p) {
        pty_delete(p);
        reply_empty(req);
    }
}

void route_pty_connect(struct http_req *req)
{
    struct pty *p = find(req);
    if (!p) {
        return;
    }
    bool takeover = str_eq(http_req_query_get(req, "takeover", 0), STR("1")) &&
                    http_req_is_upgrade(req, STR("websocket"));
    if (p->client && !takeover) {
        reply_error(req, 409, CODE_ALREADY_CONNECTED,
                    "another client is already connected to pty session %s", p->id);
        return;
    }
    if (execd_of(req)->stopping) {
        reply_error(req, 503, CODE_SHUTTING_DOWN, "execd is shutting down");
        return;
    }
    if (!http_req_is_upgrade(req, STR("websocket"))) {
        http_resp_send(req, 400, TEXT_CTYPE, STR("Bad Request: not a WebSocket handshake\n"));
        return;
    }
    int64_t since = 0;
    if (parse_i64(http_req_query_get(req, "since", 0), &since) < 0 || since < 0) {
        since = 0;
    }
    bool tty = !str_eq(http_req_query_get(req, "pty", 0), STR("0"));
    pty_attach(p, req, tty, (uint64_t)since);
}
