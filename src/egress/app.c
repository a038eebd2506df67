/* The application object: start in the order that is safe, and the questions that parts ask. */

#include "egress/egress.h"

#include "base/log.h"
#include "base/must.h"
#include "egress/api.h"
#include "egress/dns_server.h"
#include "egress/enforcer.h"
#include "egress/events.h"
#include "egress/limits.h"
#include "egress/metrics.h"
#include "egress/store.h"
#include "egress/webhook.h"

static void routes_collect(struct egress *g)
{
    size_t n = 0;
    g->routes = xcalloc(EGRESS_MAX_ROUTES + 1, sizeof(*g->routes));
    for (const struct http_route *r = api_routes; r->method; r++) {
        g->routes[n++] = *r;
    }
    for (struct egress_part *const *p = g->parts; *p; p++) {
        for (const struct http_route *r = (*p)->routes; r && r->method; r++) {
            must(n < EGRESS_MAX_ROUTES);
            g->routes[n++] = *r;
        }
    }
}

static int api_start(struct egress *g, struct err *e)
{
    struct http_server_opts o = {
        .routes = g->routes,
        .app = g,
        .before = api_before,
        .not_found = api_not_found,
        .error_body = api_error_body,
        .max_connections = EGRESS_MAX_API_CONNECTIONS,
    };
    struct io_addr bound;
    g->api = http_server_new(g->loop, &o);
    if (http_server_listen(g->api, &g->cfg.api, NULL, &bound, e) < 0) {
        return err_wrap(e, "API");
    }
    g->api_port = io_addr_port(&bound);
    return 0;
}

static int parts_start(struct egress *g, struct err *e)
{
    for (struct egress_part *const *p = g->parts; *p; p++) {
        if ((*p)->start && (*p)->start(g, e) < 0) {
            return err_wrap(e, "%s", (*p)->name);
        }
    }
    return 0;
}

static void on_name_refused(struct str name, void *arg)
{
    webhook_send(arg, name);
}

static int webhook_start(struct egress *g, struct err *e)
{
    if (!g->cfg.webhook) {
        return 0;
    }
    g->webhook =
        webhook_new(g->loop, dns_server_resolver(g->dns), g->cfg.webhook, g->cfg.sandbox_id, e);
    if (g->webhook) {
        events_on_name(g->events, on_name_refused, g->webhook);
    }
    return g->webhook ? 0 : -1;
}

static int start(struct egress *g, struct err *e)
{
    g->events = events_new(g->loop, g->cfg.sandbox_id);
    g->enforcer = enforcer_new(g, e);
    g->policy = g->enforcer ? policy_store_new(g, e) : NULL;
    /* The proxy listens before packets are sent to it, rules are there before anybody is told. */
    g->dns = g->policy ? dns_server_new(g, e) : NULL;
    if (!g->dns || webhook_start(g, e) < 0 || policy_store_start(g->policy, e) < 0 ||
        parts_start(g, e) < 0) {
        return -1;
    }
    struct err why = {0};
    g->metrics = metrics_new(g, &why);
    if (why.code) {
        log_warn("metrics export is off", LOG_ERR(&why));
    }
    routes_collect(g);
    if (enforcer_verify(g->enforcer, e) < 0 || dns_server_check(g->dns, e) < 0) {
        return err_wrap(e, "self-test");
    }
    return api_start(g, e);
}

struct egress *egress_new(const struct egress_config *cfg, struct egress_part *const *parts,
                          struct err *e)
{
    struct egress *g = NEW(struct egress);
    g->cfg = *cfg;
    g->parts = parts;
    g->loop = io_loop_new();
    if (start(g, e) < 0) {
        egress_free(g);
        return NULL;
    }
    g->is_ready = true;
    return g;
}

void egress_free(struct egress *g)
{
    if (!g) {
        return;
    }
    if (g->api) {
        http_server_free(g->api);
    }
    for (struct egress_part *const *p = g->parts; *p; p++) {
        if ((*p)->stop) {
            (*p)->stop(g);
        }
    }
    webhook_free(g->webhook);
    metrics_free(g->metrics);
    dns_server_free(g->dns);
    policy_store_free(g->policy);
    enforcer_free(g->enforcer);
    events_free(g->events);
    free(g->routes);
    io_loop_free(g->loop);
    free(g);
}

bool egress_healthy(struct egress *g, const char **ret_why)
{
    struct err e = {0};
    if (!g->is_ready) {
        *ret_why = "not ready";
        return false;
    }
    if (enforcer_verify(g->enforcer, &e) < 0) {
        log_error("enforcement is broken", LOG_ERR(&e));
        *ret_why = "the packet rules are not in place";
        return false;
    }
    for (struct egress_part *const *p = g->parts; *p; p++) {
        if ((*p)->is_ready && !(*p)->is_ready(g, ret_why)) {
            return false;
        }
    }
    return true;
}

const struct policy *egress_policy(const struct egress *g)
{
    return policy_store_effective(g->policy);
}

bool egress_allows_name(const struct egress *g, struct str name)
{
    return policy_allows_name(egress_policy(g), name);
}

bool egress_allows_ip(const struct egress *g, const struct ip *ip)
{
    return enforcer_allows(g->enforcer, egress_policy(g), ip);
}

bool egress_keeps_ip(const struct egress *g, const struct ip *ip)
{
    return enforcer_keeps(g->enforcer, egress_policy(g), ip);
}

bool egress_ip_is_of(const struct egress *g, const struct ip *ip, struct str name)
{
    return enforcer_knows(g->enforcer, ip, name);
}

bool egress_other_ip(const struct egress *g, const struct ip *ip, struct str name, struct ip *ret)
{
    return enforcer_other(g->enforcer, egress_policy(g), ip, name, ret);
}

int egress_redirect(struct egress *g, const uint16_t *ports, size_t n, uint16_t listen_port,
                    struct err *e)
{
    return enforcer_redirect(g->enforcer, ports, n, listen_port, e);
}

uint32_t egress_socket_mark(const struct egress *g)
{
    return enforcer_mark(g->enforcer);
}

void egress_refused(struct egress *g, const char *kind, struct str target, struct str detail)
{
    events_refused(g->events, kind, target, detail);
}
