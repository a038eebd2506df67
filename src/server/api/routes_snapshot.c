/* Snapshots and pools. The runtimes of this build have neither yet: what can be answered truthfully
 * is (nothing is listed, nothing is found), the rest says that it is not implemented. */

#include "base/cleanup.h"
#include "server/api/api.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

void route_snapshot_create(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct caller c = api_caller(req);
    cleanup_(sandbox_unref) struct sandbox *sb =
        lifecycle_get(app_of(req)->lc, &c, http_req_param(req, "id"), &p);
    if (sb) {
        (void)problem_set(&p, 501, "SNAPSHOT::NOT_IMPLEMENTED",
                          "this runtime cannot take snapshots");
    }
    reply_problem(r, &p);
}

void route_snapshot_list(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    int64_t page, size;
    if (query_int(req, "page", 1, INT64_MAX, 1, &page, &p) < 0 ||
        query_int(req, "pageSize", 1, PAGE_SIZE_MAX, PAGE_SIZE_DEFAULT, &size, &p) < 0) {
        reply_problem(r, &p);
        return;
    }
    struct pagination pg = {
        .page = {true, page},
        .page_size = {true, size},
        .total_items = {true, 0},
        .total_pages = {true, 0},
        .has_next_page = {true, false},
    };
    struct sandbox_list l = {.items = {NULL, 0, true}, .pagination = &pg};
    reply_view(r, 200, &sandbox_list_table, &l);
}

void route_snapshot_get(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct str id = http_req_param(req, "id");
    (void)problem_set(&p, 404, "SNAPSHOT::NOT_FOUND", "there is no snapshot %.*s",
                      (int)(id.n < 64 ? id.n : 64), id.p ? id.p : "");
    reply_problem(r, &p);
}

void route_pool(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    (void)problem_set(&p, 501, "KUBERNETES::POOL_NOT_SUPPORTED",
                      "pools need the Kubernetes runtime");
    reply_problem(r, &p);
}
