/* Where to reach a port of a sandbox: at the address a runtime has published it on, or through this
 * server's proxy when the client asks for that or nothing is published (the embedded runtime). */

#include <errno.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/api/api.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

#define EGRESS_PORT 18080

/* server.eip without scheme and trailing slashes, or the Host the client used. */
static const char *public_base(struct http_req *req)
{
    struct arena *a = http_req_arena(req);
    struct config *cfg = lifecycle_config(app_of(req)->lc);
    struct str eip = str_trim(str_from(cfg->server.eip));
    ptrdiff_t scheme = str_find_str(eip, STR("://"));
    if (scheme >= 0) {
        eip = str_sub(eip, (size_t)scheme + 3, eip.n);
    }
    while (eip.n && eip.p[eip.n - 1] == '/') {
        eip.n--;
    }
    const char *base = eip.n ? arena_str(a, eip) : NULL;
    config_unref(cfg);
    if (base) {
        return base;
    }
    struct str host = http_req_host(req);
    char text[IO_ADDR_TEXT_MAX];
    return host.n ? arena_str(a, host) : arena_strdup(a, io_addr_format(&app_of(req)->bound, text));
}

/* The host alone of server.eip, or the one the runtime knows. */
static struct str direct_host(struct http_req *req, const struct runtime_endpoint *ep)
{
    struct config *cfg = lifecycle_config(app_of(req)->lc);
    struct str eip = str_trim(str_from(cfg->server.eip));
    ptrdiff_t scheme = str_find_str(eip, STR("://"));
    if (scheme >= 0) {
        eip = str_sub(eip, (size_t)scheme + 3, eip.n);
    }
    struct str rest = eip, host = str_cut(&rest, '/');
    ptrdiff_t colon = str_rfind(host, ':'), bracket = str_rfind(host, ']');
    if (colon > bracket && (bracket >= 0 || str_find(host, ':') == colon)) {
        host = str_sub(host, 0, (size_t)colon);
    }
    struct str out = str_from(arena_str(http_req_arena(req), host.n ? host : str_from(ep->host)));
    config_unref(cfg);
    return out;
}

/* 0; -1 with a problem. *ret is NULL when it has to go through this server. */
static int direct_endpoint(struct http_req *req, const struct sandbox *sb, uint16_t port,
                           const char **ret, struct problem *p)
{
    struct runtime *rt = app_of(req)->rt;
    struct runtime_endpoint ep;
    *ret = NULL;
    int r = rt->ops->endpoint ? rt->ops->endpoint(rt, sb->id, port, &ep) : -EOPNOTSUPP;
    if (r == -ENOENT) {
        return problem_set(p, 500, "DOCKER::NETWORK_MODE_ENDPOINT_UNAVAILABLE",
                           "port %u of sandbox %s is not published", port, sb->id);
    }
    if (r == 0) {
        struct str host = direct_host(req, &ep);
        bool v6 = str_find(host, ':') >= 0 && host.p[0] != '[';
        *ret = arena_printf(http_req_arena(req), "%s%.*s%s:%u%s", v6 ? "[" : "", STR_FMT(host),
                            v6 ? "]" : "", ep.port, ep.path);
    }
    return 0;
}

static int check_query(struct http_req *req, uint16_t *ret_port, bool *ret_proxied,
                       struct problem *p)
{
    bool proxied;
    int64_t expires;
    struct str has_expires = http_req_query_get(req, "expires", 0);
    if (query_bool(req, "use_server_proxy", false, &proxied, p) < 0 ||
        query_int(req, "expires", INT64_MIN, INT64_MAX, 0, &expires, p) < 0) {
        return -1;
    }
    *ret_proxied = proxied;
    struct problem port = {0};
    int r = param_port(req, ret_port, &port);
    if (r < 0 && port.status == 422) { /* the shape of the path comes before its meaning */
        *p = port;
        return -1;
    }
    if (has_expires.p) {
        problem_done(&port);
        return proxied ? problem_set(p, 400, CODE_INVALID,
                                     "use_server_proxy and expires exclude each other")
                       : problem_set(p, 400, "SANDBOX::API_NOT_SUPPORTED",
                                     "signed endpoints need the Kubernetes runtime with an ingress "
                                     "gateway");
    }
    if (r < 0) {
        *p = port;
    }
    return r;
}

void route_endpoint_get(struct http_req *req)
{
    cleanup_(problem_done) struct problem p = {0};
    struct caller c = api_caller(req);
    uint16_t port = 0;
    bool proxied = false;
    const char *direct = NULL;
    struct sandbox *found = NULL;
    if (check_query(req, &port, &proxied, &p) < 0 ||
        !(found = lifecycle_get(app_of(req)->lc, &c, http_req_param(req, "id"), &p))) {
        resp_problem(req, &p);
        return;
    }
    cleanup_(sandbox_unref) struct sandbox *sb = found;
    if (direct_endpoint(req, sb, port, &direct, &p) < 0) {
        resp_problem(req, &p);
        return;
    }
    struct endpoint_view v = {
        .endpoint = direct && !proxied
                        ? direct
                        : arena_printf(http_req_arena(req), "%s/sandboxes/%s/proxy/%u",
                                       public_base(req), sb->id, port),
    };
    struct str_pair header = {"OPENSANDBOX-EGRESS-AUTH", sb->egress_token};
    if (port == EGRESS_PORT && sb->egress_token) {
        v.headers = (struct str_map){&header, 1, true};
    }
    resp_view(req, 200, &endpoint_view_table, &v);
}
