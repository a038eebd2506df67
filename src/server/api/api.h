#pragma once
/* Shared by the route files: answering, errors, who is asking. */

#include "http/server.h"
#include "server/app.h"
#include "server/lifecycle/lifecycle.h"
#include "server/limits.h"
#include "json/field.h"

/* Flags of routes. */
enum {
    ROUTE_OPEN = 1,  /* no API key */
    ROUTE_PROXY = 2, /* into a sandbox: the id is the secret, unless proxy.require_api_key */
};

extern const struct http_route api_routes[];

/* ---- before.c ---- */
bool api_before(struct http_req *req, const struct http_route *route);
void api_not_found(struct http_req *req, bool path_known);
void api_after(struct http_req *req, int status, uint64_t bytes_out, uint64_t us);
/* The headers every answer has (request id, CORS), in the request's memory. Routes other than the
 * proxy's have them set already. */
size_t api_common_headers(struct http_req *req, struct h1_header *out, size_t max);
/* Valid as long as the request. */
struct caller api_caller(struct http_req *req);

/* ---- error.c ---- */
void api_error_body(int status, const char *reason, struct buf *out, const char **ret_ctype);
/* {"code","message"} and, where there is one, "detail". */
void problem_write(struct buf *out, const struct problem *p);
void reply_problem(struct http_reply *r, const struct problem *p);
void resp_problem(struct http_req *req, const struct problem *p);
/* Encodes by the table. */
void reply_view(struct http_reply *r, int status, const struct json_table *t, const void *view);
void resp_view(struct http_req *req, int status, const struct json_table *t, const void *view);

/* ---- query.c ---- */
/* An integer parameter; 422 when it is none or out of range. */
int query_int(struct http_req *req, const char *key, int64_t min, int64_t max, int64_t fallback,
              int64_t *ret, struct problem *p);
int query_bool(struct http_req *req, const char *key, bool fallback, bool *ret, struct problem *p);
/* "page" and "pageSize". */
int query_page(struct http_req *req, size_t *ret_page, size_t *ret_size, struct problem *p);
/* Every "state", up to a limit; in the request's arena. */
const struct str *query_states(struct http_req *req, size_t *ret_n);
/* The list filter "k=v&k2=v2", form-encoded inside its parameter. */
int query_metadata(struct arena *a, struct str value, struct str_map *ret, struct problem *p);
/* What a list tells about its pages. */
struct pagination query_pages(size_t page, size_t page_size, size_t total);
/* A path parameter that must be an integer (422) and a port (400). */
int param_port(struct http_req *req, uint16_t *ret, struct problem *p);
/* Body and Content-Type of a JSON request; 422. The tree is the caller's. */
int body_json(struct http_req *req, struct str body, struct json **ret, struct problem *p);
bool is_json_request(const struct http_req *req);

/* ---- handlers ---- */
void route_sandbox_create(struct http_req *req);
void route_sandbox_get(struct http_req *req);
void route_sandbox_list(struct http_req *req, struct http_reply *r);
void route_sandbox_delete(struct http_req *req, struct http_reply *r);
void route_sandbox_pause(struct http_req *req, struct http_reply *r);
void route_sandbox_resume(struct http_req *req, struct http_reply *r);
void route_sandbox_renew(struct http_req *req, struct http_reply *r);
void route_sandbox_metadata(struct http_req *req, struct http_reply *r);
void route_endpoint_get(struct http_req *req);
void route_diag_logs(struct http_req *req, struct http_reply *r);
void route_diag_events(struct http_req *req, struct http_reply *r);
void route_diag_inspect(struct http_req *req, struct http_reply *r);
void route_diag_summary(struct http_req *req, struct http_reply *r);
void route_sandbox_fork(struct http_req *req, struct http_reply *r);
void route_snapshot_create(struct http_req *req, struct http_reply *r);
void route_snapshot_list(struct http_req *req, struct http_reply *r);
void route_snapshot_delete(struct http_req *req, struct http_reply *r);
void route_snapshot_get(struct http_req *req, struct http_reply *r);
void route_image_list(struct http_req *req, struct http_reply *r);
void route_image_get(struct http_req *req, struct http_reply *r);
void route_image_delete(struct http_req *req, struct http_reply *r);
void route_image_prune(struct http_req *req, struct http_reply *r);
void route_image_pull(struct http_req *req, struct http_reply *r);
void route_image_push(struct http_req *req, struct http_reply *r);
void route_image_export(struct http_req *req, struct http_reply *r);
void route_image_import(struct http_req *req);
void route_pool_create(struct http_req *req, struct http_reply *r);
void route_pool_list(struct http_req *req, struct http_reply *r);
void route_pool_get(struct http_req *req, struct http_reply *r);
void route_pool_update(struct http_req *req, struct http_reply *r);
void route_pool_delete(struct http_req *req, struct http_reply *r);
void route_health(struct http_req *req);
void route_openapi(struct http_req *req);
void route_docs(struct http_req *req);
void route_proxy(struct http_req *req);
