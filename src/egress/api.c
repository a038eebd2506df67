/* /policy, /events, /healthz. */

#include "egress/api.h"

#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "egress/egress.h"
#include "egress/events.h"
#include "egress/limits.h"
#include "egress/reply.h"
#include "egress/store.h"
#include "json/json.h"

static bool is_authorized(const struct http_req *req)
{
    const struct egress *g = http_req_app(req);
    struct str token = str_from(g->cfg.token);
    return !token.n || str_eq_consttime(http_req_header(req, STR(EGRESS_AUTH_HEADER)), token);
}

bool api_before(struct http_req *req, const struct http_route *route)
{
    struct str path = http_req_path(req);
    if (path.n > 1 && path.p[path.n - 1] == '/') { /* the router would forgive it */
        reply_text(req, 404, "404 page not found");
        return false;
    }
    if (!route || (route->flags & EGRESS_ROUTE_OPEN) || is_authorized(req)) {
        return true;
    }
    reply_text(req, 401, "unauthorized");
    return false;
}

void api_not_found(struct http_req *req, bool path_known)
{
    if (path_known && !is_authorized(req)) {
        reply_text(req, 401, "unauthorized");
    } else if (path_known) {
        reply_text(req, 405, "method not allowed");
    } else {
        reply_text(req, 404, "404 page not found");
    }
}

void api_error_body(int status, const char *reason, struct buf *out, const char **ret_ctype)
{
    *ret_ctype = "text/plain; charset=utf-8";
    (void)buf_printf(out, "%s\n", reason);
}

/* ---- /healthz ---- */

static void get_health(struct http_req *req)
{
    struct egress *g = http_req_app(req);
    const char *why = NULL;
    if (egress_healthy(g, &why)) {
        http_resp_send(req, 200, "text/plain; charset=utf-8", STR("ok"));
    } else {
        reply_text(req, 503, why);
    }
}

/* ---- /policy ---- */

struct policy_reply {
    const char *reason;         /* or NULL */
    const struct policy *shown; /* or NULL */
    bool without_enforcement;
};

static void reply_policy(struct http_req *req, const struct policy_reply *r)
{
    const struct egress *g = http_req_app(req);
    const struct policy *user = policy_store_user(g->policy);
    cleanup_(buf_done) struct buf body = BUF_INIT(8u * EGRESS_MAX_BODY);
    cleanup_(buf_done) struct buf policy = BUF_INIT(8u * EGRESS_MAX_BODY);
    struct json_out o;
    json_out_init(&o, &body);
    json_obj_begin(&o);
    json_key(&o, "status");
    json_put_cstr(&o, "ok");
    json_key(&o, "mode");
    json_put_cstr(&o, policy_mode(user));
    if (!r->without_enforcement) {
        json_key(&o, "enforcementMode");
        json_put_cstr(&o, g->cfg.nft ? "dns+nft" : "dns");
    }
    if (r->reason) {
        json_key(&o, "reason");
        json_put_cstr(&o, r->reason);
    }
    if (r->shown) {
        (void)policy_format(r->shown, &policy, 0);
        json_key(&o, "policy");
        json_put_raw(&o, buf_str(&policy));
    }
    json_obj_end(&o);
    reply_json(req, 200, buf_str(&body));
}

static void get_policy(struct http_req *req)
{
    const struct egress *g = http_req_app(req);
    reply_policy(req, &(struct policy_reply){.shown = policy_store_user(g->policy)});
}

static void log_update(const struct http_req *req, struct str delta)
{
    struct str method = http_req_method(req);
    log_info("policy updated", LOG_S("opensandbox.event", "egress.updated"),
             LOG_STR("method", method), LOG_STR("rules", delta));
}

/* Commits `take` and answers; false when it has answered with an error. */
static bool commit(struct http_req *req, struct policy *take, struct str delta)
{
    struct egress *g = http_req_app(req);
    struct err e = {0};
    if (policy_store_commit(g->policy, take, &e) < 0) {
        log_warn("policy not updated", LOG_S("opensandbox.event", "egress.update_failed"),
                 LOG_ERR(&e));
        reply_err(req, &e);
        return false;
    }
    log_update(req, delta);
    return true;
}

static bool too_many(struct http_req *req, const struct policy *p)
{
    const struct egress *g = http_req_app(req);
    if (!g->cfg.max_rules || p->n_rules <= g->cfg.max_rules) {
        return false;
    }
    struct err e = {0};
    (void)err_set(&e, ERR_LIMIT,
                  "%zu rules are more than %llu (OPENSANDBOX_EGRESS_MAX_RULES); use wildcards or "
                  "networks",
                  p->n_rules, (unsigned long long)g->cfg.max_rules);
    reply_err(req, &e);
    return true;
}

static bool is_blank(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!strchr(" \t\r\n\v\f", s.p[i])) {
            return false;
        }
    }
    return true;
}

static void on_replace(struct http_req *req, struct str body, void *arg)
{
    struct err e = {0};
    bool reset = is_blank(body);
    struct policy *next = policy_parse(body, &e);
    if (!next) {
        (void)err_wrap(&e, "invalid policy");
        reply_err(req, &e);
    } else if (too_many(req, next)) {
        policy_free(next);
    } else if (commit(req, next, body)) {
        reply_policy(
            req, &(struct policy_reply){.reason = reset ? "policy reset to default deny_all" : NULL,
                                        .without_enforcement = reset});
    }
}

static void on_patch(struct http_req *req, struct str body, void *arg)
{
    const struct egress *g = http_req_app(req);
    struct err e = {0};
    struct policy *next =
        is_blank(body) ? NULL : policy_patch(policy_store_user(g->policy), body, &e);
    if (!next) {
        (void)(e.code ? err_wrap(&e, "invalid patch rules")
                      : err_set(&e, ERR_INVALID, "the body is empty; expected a list of rules"));
        reply_err(req, &e);
    } else if (too_many(req, next)) {
        policy_free(next);
    } else if (commit(req, next, body)) {
        reply_policy(req, &(struct policy_reply){0});
    }
}

static void on_delete(struct http_req *req, struct str body, void *arg)
{
    const struct egress *g = http_req_app(req);
    struct err e = {0};
    size_t removed = 0;
    struct policy *next =
        is_blank(body) ? NULL : policy_without(policy_store_user(g->policy), body, &removed, &e);
    if (!next) {
        (void)(e.code ? err_wrap(&e, "invalid targets")
                      : err_set(&e, ERR_INVALID, "the body is empty; expected a list of targets"));
        reply_err(req, &e);
    } else if (!removed) {
        policy_free(next);
        reply_policy(req, &(struct policy_reply){.reason = "no matching targets found"});
    } else if (commit(req, next, body)) {
        reply_policy(req, &(struct policy_reply){0});
    }
}

static void put_policy(struct http_req *req)
{
    http_req_collect(req, EGRESS_MAX_BODY, on_replace, NULL);
}

static void patch_policy(struct http_req *req)
{
    http_req_collect(req, EGRESS_MAX_BODY, on_patch, NULL);
}

static void delete_policy(struct http_req *req)
{
    http_req_collect(req, EGRESS_MAX_BODY, on_delete, NULL);
}

/* ---- /events ---- */

static void get_events(struct http_req *req)
{
    const struct egress *g = http_req_app(req);
    cleanup_(buf_done) struct buf body = BUF_INIT(1u << 20);
    events_format(g->events, &body);
    reply_json(req, 200, buf_str(&body));
}

const struct http_route api_routes[] = {
    {"*", "/healthz", HTTP_STREAM, .stream = get_health, .flags = EGRESS_ROUTE_OPEN},
    {"GET", "/policy", HTTP_STREAM, .stream = get_policy},
    {"POST", "/policy", HTTP_STREAM, .stream = put_policy},
    {"PUT", "/policy", HTTP_STREAM, .stream = put_policy},
    {"PATCH", "/policy", HTTP_STREAM, .stream = patch_policy},
    {"DELETE", "/policy", HTTP_STREAM, .stream = delete_policy},
    {"GET", "/events", HTTP_STREAM, .stream = get_events},
    {0},
};
