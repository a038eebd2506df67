/* Sandboxes: list, get, delete, pause, resume, renew, metadata. (Create: routes_create.c.) */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "server/api/api.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

static void view_sandbox(struct app *app, struct sandbox *sb, struct arena *a,
                         struct sandbox_view *v)
{
    struct registry *reg = lifecycle_registry(app->lc);
    registry_read(reg);
    sandbox_to_view(sb, a, v);
    registry_unlock(reg);
}

void route_sandbox_get(struct http_req *req)
{
    cleanup_(problem_done) struct problem p = {0};
    struct caller c = api_caller(req);
    cleanup_(sandbox_unref) struct sandbox *sb =
        lifecycle_get(app_of(req)->lc, &c, http_req_param(req, "id"), &p);
    if (!sb) {
        resp_problem(req, &p);
        return;
    }
    struct sandbox_view v;
    view_sandbox(app_of(req), sb, http_req_arena(req), &v);
    resp_view(req, 200, &sandbox_view_table, &v);
}

/* ---- list ---- */

static int read_filter(struct http_req *req, struct sandbox_filter *f, struct problem *p)
{
    if (query_page(req, &f->page, &f->page_size, p) < 0) {
        return -1;
    }
    f->states = query_states(req, &f->n_states);
    struct str v = http_req_query_get(req, "metadata", 0);
    if (v.p && v.n && query_metadata(http_req_arena(req), v, &f->metadata, p) < 0) {
        return -1;
    }
    return 0;
}

void route_sandbox_list(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct sandbox_filter f = {.owner = api_caller(req).owner};
    if (read_filter(req, &f, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    struct sandbox_view *v = NULL;
    size_t n = 0, total = 0;
    registry_list(lifecycle_registry(app_of(req)->lc), http_req_arena(req), &f, &v, &n, &total);
    struct pagination pg = query_pages(f.page, f.page_size, total);
    struct sandbox_list l = {.items = {v, n, true}, .pagination = &pg};
    reply_view(r, 200, &sandbox_list_table, &l);
}

/* ---- actions ---- */
typedef int action_fn(struct lifecycle *lc, const struct caller *c, struct str id,
                      struct problem *p);

static void action(struct http_req *req, struct http_reply *r, action_fn *fn, int status)
{
    cleanup_(problem_done) struct problem p = {0};
    struct caller c = api_caller(req);
    if (fn(app_of(req)->lc, &c, http_req_param(req, "id"), &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    r->status = status;
}

void route_sandbox_delete(struct http_req *req, struct http_reply *r)
{
    action(req, r, lifecycle_delete, 204);
}

void route_sandbox_pause(struct http_req *req, struct http_reply *r)
{
    action(req, r, lifecycle_pause, 202);
}

void route_sandbox_resume(struct http_req *req, struct http_reply *r)
{
    action(req, r, lifecycle_resume, 202);
}

void route_sandbox_renew(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    cleanup_(json_free) struct json *body = NULL;
    struct caller c = api_caller(req);
    struct renew_request q = {0};
    struct json_issues is = {0};
    struct err e = {0};
    if (body_json(req, http_req_body(req), &body, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    if (json_decode(http_req_arena(req), &renew_request_table, body, &q, &is, &e) < 0) {
        (void)problem_issues(&p, "body", &is, body);
        reply_problem(r, &p);
        return;
    }
    if (lifecycle_renew(app_of(req)->lc, &c, http_req_param(req, "id"), q.expires_at.v, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    reply_view(r, 200, &renew_request_table, &q);
}

/* ---- metadata ---- */
static int read_patch(struct http_req *req, const struct json *body, struct str_pair **ret,
                      size_t *ret_n, struct problem *p)
{
    struct arena *a = http_req_arena(req);
    struct str_pair *v = arena_array(a, json_len(body) + 1, sizeof(*v));
    struct json_issues is = {0};
    size_t n = 0;
    void *it = NULL;
    const char *key;
    struct json *value;
    while (json_next(body, &it, &key, &value)) {
        if (!json_is_string(value) && !json_is_null(value)) {
            json_issue_add(a, &is, JSON_BAD_TYPE, key, "expected string");
        }
        v[n++] = (struct str_pair){key, json_cstr(value)};
    }
    if (is.n) {
        return problem_issues(p, "body", &is, body);
    }
    *ret = v;
    *ret_n = n;
    return 0;
}

void route_sandbox_metadata(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    cleanup_(json_free) struct json *body = NULL;
    struct caller c = api_caller(req);
    struct str id = http_req_param(req, "id");
    struct str_pair *v = NULL;
    size_t n = 0;
    struct sandbox *sb = NULL;
    if (body_json(req, http_req_body(req), &body, &p) < 0 ||
        read_patch(req, body, &v, &n, &p) < 0 ||
        lifecycle_patch_metadata(app_of(req)->lc, &c, id, v, n, &p) < 0 ||
        !(sb = lifecycle_get(app_of(req)->lc, &c, id, &p))) {
        reply_problem(r, &p);
        return;
    }
    struct sandbox_view view;
    view_sandbox(app_of(req), sb, http_req_arena(req), &view);
    sandbox_unref(sb);
    reply_view(r, 200, &sandbox_view_table, &view);
}
