/* What happens to every request before its route: request id, CORS, authentication, in this order,
 * so that a refused request has its id and a browser may read the refusal. */

#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "server/api/api.h"

#define CORS_METHODS "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"

static void set_request_id(struct http_req *req)
{
    struct str id = str_trim(http_req_header(req, STR("X-Request-ID")));
    if (id.n && id.n <= REQUEST_ID_MAX) {
        http_req_set_id(req, id);
    }
}

size_t api_common_headers(struct http_req *req, struct h1_header *out, size_t max)
{
    must(max >= 4);
    size_t n = 0;
    out[n++] = (struct h1_header){STR("X-Request-ID"), http_req_id(req)};
    struct str origin = http_req_header(req, STR("Origin"));
    if (origin.n && app_of(req)->cfg->server.cors) {
        bool cookie = http_req_header(req, STR("Cookie")).n > 0;
        out[n++] =
            (struct h1_header){STR("Access-Control-Allow-Origin"), cookie ? origin : STR("*")};
        out[n++] = (struct h1_header){STR("Access-Control-Allow-Credentials"), STR("true")};
        if (cookie) {
            out[n++] = (struct h1_header){STR("Vary"), STR("Origin")};
        }
    }
    return n;
}

static void set_common_headers(struct http_req *req)
{
    struct h1_header h[4];
    size_t n = api_common_headers(req, h, ARRAY_LEN(h));
    for (size_t i = 0; i < n; i++) {
        http_resp_header(req, h[i].name, h[i].value);
    }
}

/* ---- CORS ---- */
static bool cors_method_known(struct str m)
{
    struct str rest = STR(CORS_METHODS);
    while (rest.p) {
        if (str_eq(str_trim(str_cut(&rest, ',')), m)) {
            return true;
        }
    }
    return false;
}

static void preflight(struct http_req *req, struct str origin, struct str method)
{
    struct str headers = http_req_header(req, STR("Access-Control-Request-Headers"));
    http_resp_header(req, STR("X-Request-ID"), http_req_id(req));
    http_resp_header(req, STR("Access-Control-Allow-Origin"), origin);
    http_resp_header(req, STR("Vary"), STR("Origin"));
    http_resp_header(req, STR("Access-Control-Allow-Methods"), STR(CORS_METHODS));
    http_resp_header(req, STR("Access-Control-Max-Age"), STR("600"));
    http_resp_header(req, STR("Access-Control-Allow-Credentials"), STR("true"));
    if (headers.n) {
        http_resp_header(req, STR("Access-Control-Allow-Headers"), headers);
    }
    if (cors_method_known(method)) {
        http_resp_send(req, 200, "text/plain; charset=utf-8", STR("OK"));
    } else {
        http_resp_send(req, 400, "text/plain; charset=utf-8", STR("Disallowed CORS method"));
    }
}

/* True when it was a preflight and has been answered. */
static bool cors_preflight(struct http_req *req)
{
    struct str origin = http_req_header(req, STR("Origin"));
    struct str wanted = http_req_header(req, STR("Access-Control-Request-Method"));
    if (!app_of(req)->cfg->server.cors || !origin.n || !wanted.n ||
        !str_eq(http_req_method(req), STR("OPTIONS"))) {
        return false;
    }
    preflight(req, origin, wanted);
    return true;
}

/* ---- authentication ---- */
/* Decided by the path as it was sent, never by anything derived from Host. */
static bool is_exempt(struct http_req *req, const struct http_route *route)
{
    static const char *const open[] = {"/health", "/docs", "/redoc", "/openapi.json"};
    struct str path = http_req_path(req);
    for (size_t i = 0; i < ARRAY_LEN(open); i++) {
        if (str_starts(path, str_from(open[i]))) {
            return true;
        }
    }
    if (!route || !(route->flags & ROUTE_PROXY)) {
        return false;
    }
    uint64_t port;
    if (parse_u64(http_req_param_raw(req, "port"), &port) < 0) {
        return false;
    }
    struct config *cfg = lifecycle_config(app_of(req)->lc);
    bool exempt = !cfg->proxy.require_api_key;
    config_unref(cfg);
    return exempt;
}

static int refuse(struct http_req *req, const char *code, const char *message)
{
    struct problem p = {0};
    const struct http_route *route = http_req_route(req);
    if (route && (route->flags & ROUTE_PROXY)) {
        set_common_headers(req); /* left to the proxy otherwise */
    }
    (void)problem_set(&p, 401, code, "%s", message);
    resp_problem(req, &p);
    return -1;
}

static int authenticate(struct http_req *req, const struct http_route *route)
{
    struct principal *who = ARENA_NEW(http_req_arena(req), struct principal);
    who->owner = OWNER_DEFAULT;
    memcpy(who->actor, "anonymous", sizeof("anonymous"));
    http_req_set_data(req, who);
    struct keyring *keys = app_of(req)->keys;
    struct str key = http_req_header(req, STR("OPEN-SANDBOX-API-KEY"));
    if (keyring_is_open(keys) || is_exempt(req, route)) {
        return 0;
    }
    if (!key.n) {
        return refuse(req, "MISSING_API_KEY",
                      "the header OPEN-SANDBOX-API-KEY with an API key is required");
    }
    if (!keyring_find(keys, key, who)) {
        return refuse(req, "INVALID_API_KEY", "the API key in OPEN-SANDBOX-API-KEY is not valid");
    }
    return 0;
}

struct caller api_caller(struct http_req *req)
{
    const struct principal *who = http_req_data(req);
    struct str id = http_req_id(req);
    return (struct caller){
        .owner = who->owner,
        .actor = who->actor,
        .request_id = arena_str(http_req_arena(req), id),
    };
}

bool api_before(struct http_req *req, const struct http_route *route)
{
    set_request_id(req);
    if (cors_preflight(req)) {
        return false;
    }
    if (!route || !(route->flags & ROUTE_PROXY)) {
        set_common_headers(req);
    }
    return authenticate(req, route) == 0;
}

void api_not_found(struct http_req *req, bool path_known)
{
    http_resp_send(req, path_known ? 405 : 404, "application/json",
                   path_known ? STR("{\"detail\":\"Method Not Allowed\","
                                    "\"code\":\"GENERAL::METHOD_NOT_ALLOWED\","
                                    "\"message\":\"this path does not know this method\"}")
                              : STR("{\"detail\":\"Not Found\",\"code\":\"GENERAL::NOT_FOUND\","
                                    "\"message\":\"there is no such path\"}"));
}

void api_after(struct http_req *req, int status, uint64_t bytes_out, uint64_t us)
{
    struct config *cfg = lifecycle_config(app_of(req)->lc);
    bool wanted = cfg->log.access;
    config_unref(cfg);
    if (wanted) {
        log_info("request", LOG_STR("method", http_req_method(req)),
                 LOG_STR("path", http_req_path(req)), LOG_I("status", status),
                 LOG_I("bytes", bytes_out), LOG_I("us", us),
                 LOG_STR("request_id", http_req_id(req)));
    }
}
