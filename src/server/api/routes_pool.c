/* Pools. */

#include "base/cleanup.h"
#include "model/pool.h"
#include "server/api/api.h"

/* Decodes the body by the table; -1 with a 422. */
static int read_request(struct http_req *req, const struct json_table *t, struct json **ret_body,
                        struct pool_request *q, struct problem *p)
{
    struct json_issues is = {0};
    struct err e = {0};
    if (body_json(req, http_req_body(req), ret_body, p) < 0) {
        return -1;
    }
    struct arena *a = http_req_arena(req);
    (void)json_decode(a, t, *ret_body, q, &is, &e);
    if (is.n == 0 && q->tmpl && !json_is_null(q->tmpl) && !json_is_object(q->tmpl)) {
        json_issue_add(a, &is, JSON_BAD_TYPE, "template", "expected object");
    }
    return is.n ? problem_issues(p, "body", &is, *ret_body) : 0;
}

static const char *name_of(struct http_req *req)
{
    return arena_str(http_req_arena(req), http_req_param(req, "name"));
}

void route_pool_create(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    cleanup_(json_free) struct json *body = NULL;
    struct caller c = api_caller(req);
    struct pool_request q = {0};
    struct pool_view v;
    if (read_request(req, &pool_create_table, &body, &q, &p) < 0 ||
        lifecycle_pool_create(app_of(req)->lc, &c, &q, http_req_arena(req), &v, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    reply_view(r, 201, &pool_view_table, &v);
}

void route_pool_update(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    cleanup_(json_free) struct json *body = NULL;
    struct caller c = api_caller(req);
    struct pool_request q = {0};
    struct pool_view v;
    if (read_request(req, &pool_update_table, &body, &q, &p) < 0 ||
        lifecycle_pool_update(app_of(req)->lc, &c, name_of(req), &q, http_req_arena(req), &v, &p) <
            0) {
        reply_problem(r, &p);
        return;
    }
    reply_view(r, 200, &pool_view_table, &v);
}

void route_pool_list(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct caller c = api_caller(req);
    struct pool_view *v = NULL;
    size_t n = 0;
    if (lifecycle_pool_list(app_of(req)->lc, &c, http_req_arena(req), &v, &n, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    struct pool_list l = {.items = {v, n, true}};
    reply_view(r, 200, &pool_list_table, &l);
}

void route_pool_get(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct caller c = api_caller(req);
    struct pool_view v;
    if (lifecycle_pool_get(app_of(req)->lc, &c, name_of(req), http_req_arena(req), &v, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    reply_view(r, 200, &pool_view_table, &v);
}

void route_pool_delete(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct caller c = api_caller(req);
    if (lifecycle_pool_delete(app_of(req)->lc, &c, name_of(req), &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    r->status = 204;
}
