/* Snapshots and forks. */

#include "base/cleanup.h"
#include "server/api/api.h"

static void to_view(const struct store_snapshot *s, struct arena *a, struct snapshot_view *v)
{
    struct sandbox_status *st = ARENA_NEW(a, struct sandbox_status);
    *st = (struct sandbox_status){.state = s->state,
                                  .reason = s->reason,
                                  .message = s->message,
                                  .last_transition_at = {true, s->transition_us}};
    *v = (struct snapshot_view){.id = s->id,
                                .sandbox_id = s->sandbox_id,
                                .name = s->name,
                                .status = st,
                                .created_at = {true, s->created_us}};
}

/* The body may be missing altogether. */
static int read_request(struct http_req *req, struct json **ret, struct snapshot_request *q,
                        struct problem *p)
{
    struct json_issues is = {0};
    struct err e = {0};
    if (str_trim(http_req_body(req)).n == 0) {
        return 0;
    }
    if (body_json(req, http_req_body(req), ret, p) < 0) {
        return -1;
    }
    return json_decode(http_req_arena(req), &snapshot_request_table, *ret, q, &is, &e) < 0
               ? problem_issues(p, "body", &is, *ret)
               : 0;
}

void route_snapshot_create(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    cleanup_(json_free) struct json *body = NULL;
    struct caller c = api_caller(req);
    struct snapshot_request q = {0};
    struct store_snapshot s;
    if (read_request(req, &body, &q, &p) < 0 ||
        lifecycle_snapshot(app_of(req)->lc, &c, http_req_param(req, "id"), q.name,
                           http_req_arena(req), &s, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    struct snapshot_view v;
    to_view(&s, http_req_arena(req), &v);
    http_reply_header(r, STR("Location"),
                      str_from(arena_printf(http_req_arena(req), "/v1/snapshots/%s", s.id)));
    reply_view(r, 202, &snapshot_view_table, &v);
}

void route_sandbox_fork(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    cleanup_(json_free) struct json *body = NULL;
    struct arena *a = http_req_arena(req);
    struct caller c = api_caller(req);
    struct lifecycle *lc = app_of(req)->lc;
    struct sandbox **made = NULL;
    size_t n = 0;
    bool has_body = str_trim(http_req_body(req)).n > 0;
    if ((has_body && body_json(req, http_req_body(req), &body, &p) < 0) ||
        lifecycle_fork(lc, &c, http_req_param(req, "id"), body, a, &made, &n, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    struct sandbox_created *v = arena_array(a, n, sizeof(*v));
    for (size_t i = 0; i < n; i++) {
        registry_read(lifecycle_registry(lc));
        sandbox_to_created(made[i], a, &v[i]);
        registry_unlock(lifecycle_registry(lc));
        sandbox_unref(made[i]);
    }
    struct fork_view view = {.items = {v, n, true}};
    reply_view(r, 202, &fork_view_table, &view);
}

/* ---- list ---- */

static const char *query_text(struct http_req *req, const char *key)
{
    struct str v = http_req_query_get(req, key, 0);
    return v.p && v.n ? arena_str(http_req_arena(req), v) : NULL;
}

static int read_filter(struct http_req *req, struct store_snapshot_filter *f, struct problem *p)
{
    if (query_page(req, &f->page, &f->page_size, p) < 0) {
        return -1;
    }
    f->sandbox_id = query_text(req, "sandboxId");
    f->name = query_text(req, "name");
    f->states = query_states(req, &f->n_states);
    return 0;
}

void route_snapshot_list(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct arena *a = http_req_arena(req);
    struct store_snapshot_filter f = {.owner = api_caller(req).owner};
    struct store_snapshot *rows = NULL;
    struct err e = {0};
    size_t n = 0, total = 0;
    if (read_filter(req, &f, &p) < 0 ||
        (store_snapshot_list(lifecycle_store(app_of(req)->lc), a, &f, &rows, &n, &total, &e) < 0 &&
         problem_err(&p, 0, CODE_GENERAL, &e) < 0)) {
        reply_problem(r, &p);
        return;
    }
    struct snapshot_view *v = arena_array(a, n + 1, sizeof(*v));
    for (size_t i = 0; i < n; i++) {
        to_view(&rows[i], a, &v[i]);
    }
    struct pagination pg = query_pages(f.page, f.page_size, total);
    struct snapshot_list l = {.items = {v, n, true}, .pagination = &pg};
    reply_view(r, 200, &snapshot_list_table, &l);
}

void route_snapshot_get(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct caller c = api_caller(req);
    struct store_snapshot s;
    if (lifecycle_snapshot_get(app_of(req)->lc, &c, http_req_param(req, "id"), http_req_arena(req),
                               &s, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    struct snapshot_view v;
    to_view(&s, http_req_arena(req), &v);
    reply_view(r, 200, &snapshot_view_table, &v);
}

void route_snapshot_delete(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct caller c = api_caller(req);
    if (lifecycle_snapshot_delete(app_of(req)->lc, &c, http_req_param(req, "id"), &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    r->status = 204;
}
