/* The route table: the order and the paths of specs/sandbox-lifecycle.yml, each bare and under /v1.
 */

#include "server/api/api.h"

#define WORK(m, path, fn)                                                                          \
    {.method = (m), .pattern = (path), .kind = HTTP_WORK, .work = (fn), .max_body = API_BODY_MAX}, \
    {                                                                                              \
        .method = (m), .pattern = "/v1" path, .kind = HTTP_WORK, .work = (fn),                     \
        .max_body = API_BODY_MAX                                                                   \
    }
#define STREAM(m, path, fn)                                                                        \
    {.method = (m), .pattern = (path), .kind = HTTP_STREAM, .stream = (fn)},                       \
    {                                                                                              \
        .method = (m), .pattern = "/v1" path, .kind = HTTP_STREAM, .stream = (fn)                  \
    }
#define PROXY(path)                                                                                \
    {.method = "*",                                                                                \
     .pattern = (path),                                                                            \
     .kind = HTTP_STREAM,                                                                          \
     .stream = route_proxy,                                                                        \
     .flags = ROUTE_PROXY},                                                                        \
    {                                                                                              \
        .method = "*", .pattern = "/v1" path, .kind = HTTP_STREAM, .stream = route_proxy,          \
        .flags = ROUTE_PROXY                                                                       \
    }
#define OPEN(path, fn)                                                                             \
    {                                                                                              \
        .method = "GET", .pattern = (path), .kind = HTTP_STREAM, .stream = (fn),                   \
        .flags = ROUTE_OPEN                                                                        \
    }

const struct http_route api_routes[] = {
    /* clang-format off */
    STREAM("POST", "/sandboxes", route_sandbox_create),
    WORK("GET", "/sandboxes", route_sandbox_list),
    STREAM("GET", "/sandboxes/{id}", route_sandbox_get),
    WORK("DELETE", "/sandboxes/{id}", route_sandbox_delete),
    WORK("PATCH", "/sandboxes/{id}/metadata", route_sandbox_metadata),
    WORK("POST", "/sandboxes/{id}/pause", route_sandbox_pause),
    WORK("POST", "/sandboxes/{id}/resume", route_sandbox_resume),
    WORK("POST", "/sandboxes/{id}/renew-expiration", route_sandbox_renew),
    STREAM("GET", "/sandboxes/{id}/endpoints/{port}", route_endpoint_get),
    WORK("POST", "/sandboxes/{id}/snapshots", route_snapshot_create),
    WORK("POST", "/sandboxes/{id}/fork", route_sandbox_fork),
    WORK("GET", "/snapshots", route_snapshot_list),
    WORK("GET", "/snapshots/{id}", route_snapshot_get),
    WORK("GET", "/snapshots/{id}/export", route_image_export),
    WORK("POST", "/snapshots/{id}/push", route_image_push),
    WORK("DELETE", "/snapshots/{id}", route_snapshot_delete),
    WORK("GET", "/sandboxes/{id}/diagnostics/logs", route_diag_logs),
    WORK("GET", "/sandboxes/{id}/diagnostics/events", route_diag_events),
    WORK("GET", "/sandboxes/{id}/diagnostics/inspect", route_diag_inspect),
    WORK("GET", "/sandboxes/{id}/diagnostics/summary", route_diag_summary),
    WORK("GET", "/images", route_image_list),
    WORK("POST", "/images", route_image_pull),
    STREAM("POST", "/images/import", route_image_import),
    WORK("POST", "/images/prune", route_image_prune),
    WORK("GET", "/images/{image}", route_image_get),
    WORK("DELETE", "/images/{image}", route_image_delete),
    WORK("GET", "/images/{image}/export", route_image_export),
    WORK("POST", "/images/{image}/push", route_image_push),
    WORK("POST", "/pools", route_pool_create),
    WORK("GET", "/pools", route_pool_list),
    WORK("GET", "/pools/{name}", route_pool_get),
    WORK("PUT", "/pools/{name}", route_pool_update),
    WORK("DELETE", "/pools/{name}", route_pool_delete),
    PROXY("/sandboxes/{id}/proxy/{port}"),
    PROXY("/sandboxes/{id}/proxy/{port}/{rest...}"),
    OPEN("/health", route_health),
    OPEN("/openapi.json", route_openapi),
    OPEN("/docs", route_docs),
    OPEN("/redoc", route_docs),
    {0},
    /* clang-format on */
};
