/* What the sidecar counts, as OTLP wants it. */

#include "egress/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "egress/dns_server.h"
#include "egress/egress.h"
#include "egress/enforcer.h"
#include "egress/events.h"
#include "egress/limits.h"
#include "egress/resolver.h"
#include "io/timer.h"
#include "io/tls.h"
#include "net/dns.h"
#include "net/url.h"
#include "otlp/post.h"

struct metrics {
    struct egress *g;
    struct io_timer timer;
    char *endpoint, *host, *authority;
    struct url url;
    struct asker asker;
    struct otlp_post post;
    struct otlp_pair attrs[1 + OTLP_MAX_PAIRS];
    size_t n_attrs;
    uint64_t period_ms;
    uint64_t start_us, last_us, last_cpu_us;
    struct otlp_buckets lookups;
};

void metrics_lookup(struct metrics *m, uint64_t ms)
{
    if (m) {
        otlp_buckets_add(&m->lookups, &otlp_view_s, (double)ms);
    }
}

/* ---- the document ---- */

static void put_int(struct json_out *o, const struct otlp_common *c, const char *name,
                    const char *unit, enum otlp_kind kind, uint64_t v)
{
    otlp_metric_begin(o, name, unit, kind);
    otlp_put_int(o, c, NULL, 0, v);
    otlp_metric_end(o);
}

static uint64_t memory_bytes(void)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(256);
    uint64_t pages = 0;
    if (file_read(AT_FDCWD, "/proc/self/statm", &text) == 0) {
        struct str rest = buf_str(&text);
        (void)str_cut(&rest, ' ');
        (void)parse_u64(str_cut(&rest, ' '), &pages);
    }
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t cpu_us(void)
{
    struct rusage u = {0};
    (void)getrusage(RUSAGE_SELF, &u);
    return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000 +
           (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void put_system(struct metrics *m, const struct otlp_common *c, struct json_out *o)
{
    uint64_t now = (uint64_t)clock_wall_us(), cpu = cpu_us();
    double share =
        now > m->last_us ? (double)(cpu - m->last_cpu_us) / (double)(now - m->last_us) : 0;
    put_int(o, c, "egress.system.memory.usage_bytes", "By", OTLP_GAUGE, memory_bytes());
    otlp_metric_begin(o, "egress.system.cpu.utilization", "1", OTLP_GAUGE);
    otlp_put_double(o, c, share);
    otlp_metric_end(o);
    m->last_us = now;
    m->last_cpu_us = cpu;
}

static void encode(struct metrics *m, struct buf *out)
{
    const struct otlp_common c = {m->attrs, m->n_attrs, m->start_us * 1000,
                                  (uint64_t)clock_wall_us() * 1000};
    const struct otlp_pair service = {STR("service.name"), STR("opensandbox-egress-" OSB_VERSION)};
    const struct policy *p = egress_policy(m->g);
    uint64_t n_rules = p->n_rules;
    for (size_t i = 0; i < p->n_rules; i++) {
        n_rules += p->rules[i].kind == POLICY_NET; /* the rule, and its element */
    }
    struct json_out o;
    json_out_init(&o, out);
    otlp_document_begin(&o, "opensandbox/egress", &service, 1);
    otlp_metric_begin(&o, "egress.dns.query.duration", "s", OTLP_HISTOGRAM);
    otlp_put_buckets(&o, &c, NULL, 0, &m->lookups, &otlp_view_s);
    otlp_metric_end(&o);
    put_int(&o, &c, "egress.policy.denied_total", "1", OTLP_COUNTER, events_names(m->g->events));
    put_int(&o, &c, "egress.nftables.updates.count", "1", OTLP_COUNTER,
            enforcer_updates(m->g->enforcer));
    put_int(&o, &c, "egress.nftables.rules.count", "1", OTLP_GAUGE, n_rules);
    put_system(m, &c, &o);
    otlp_document_end(&o);
}

/* ---- sending ---- */

static uint16_t port_of(const struct metrics *m)
{
    return m->url.port ? m->url.port : m->post.tls ? 443 : 80;
}

static void post(struct metrics *m, const struct io_addr *to)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(EGRESS_METRICS_MAX);
    encode(m, &body);
    otlp_post_start(&m->post, to, &body);
}

static void on_address(struct asker *a, struct str answer)
{
    struct metrics *m = container_of(a, struct metrics, asker);
    struct io_addr to;
    if (resolver_first_addr(answer, port_of(m), &to)) {
        post(m, &to);
    } else {
        otlp_post_failed(&m->post, -EHOSTUNREACH);
    }
}

static void on_timer(struct io_timer *t)
{
    struct metrics *m = container_of(t, struct metrics, timer);
    struct io_addr to;
    io_timer_start(t, m->period_ms);
    if (m->post.is_busy) {
        return;
    }
    m->post.is_busy = true;
    if (io_addr_ip(str_from(m->host), port_of(m), &to) == 0) {
        post(m, &to);
    } else {
        resolver_ask_name(dns_server_resolver(m->g->dns), str_from(m->host), DNS_A, &m->asker);
    }
}

/* ---- life ---- */

static bool address_of_host(char out[IP_TEXT_MAX])
{
    cleanup_(buf_done) struct buf text = BUF_INIT(4096);
    struct ip ip;
    if (ip_parse(str_trim(str_from(getenv("HOST_IP"))), &ip) == 0) {
        (void)ip_format(&ip, out);
        return true;
    }
    struct str rest = file_read(AT_FDCWD, "/etc/hostinfo", &text) == 0 ? buf_str(&text) : STR_NULL;
    while (rest.p) {
        if (ip_parse(str_trim(str_cut(&rest, '\n')), &ip) == 0) {
            (void)ip_format(&ip, out);
            return true;
        }
    }
    return false;
}

/* NULL: nobody wants metrics. */
static char *endpoint_find(void)
{
    const char *whole = getenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT");
    const char *base = getenv("OTEL_EXPORTER_OTLP_ENDPOINT");
    char ip[IP_TEXT_MAX];
    if (whole && *whole) {
        return xasprintf("%s", whole);
    }
    if (base && *base) {
        size_t n = strlen(base);
        return xasprintf("%.*s/v1/metrics", (int)(n - (base[n - 1] == '/')), base);
    }
    if (address_of_host(ip)) {
        return xasprintf(
            strchr(ip, ':') ? "http://[%s]:4318/v1/metrics" : "http://%s:4318/v1/metrics", ip);
    }
    return NULL;
}

static void attrs_read(struct metrics *m)
{
    struct otlp_pair extra[OTLP_MAX_PAIRS];
    size_t n = otlp_pairs(str_from(getenv("OPENSANDBOX_EGRESS_METRICS_EXTRA_ATTRS")), extra);
    if (*m->g->cfg.sandbox_id) {
        m->attrs[m->n_attrs++] =
            (struct otlp_pair){STR("sandbox_id"), str_from(m->g->cfg.sandbox_id)};
    }
    for (size_t i = 0; i < n; i++) {
        if (extra[i].value.n) {
            m->attrs[m->n_attrs++] = extra[i];
        }
    }
}

struct metrics *metrics_new(struct egress *g, struct err *e)
{
    char *endpoint = endpoint_find();
    uint64_t period;
    if (!endpoint) {
        return NULL;
    }
    struct metrics *m = NEW(struct metrics);
    m->g = g;
    m->endpoint = endpoint;
    m->asker.done = on_address;
    io_timer_init(&m->timer, g->loop, on_timer);
    bool parsed = url_parse(str_from(endpoint), &m->url) == 0 && m->url.host.n;
    bool https = parsed && str_eq_nocase(m->url.scheme, STR("https"));
    if (!parsed || (!https && !str_eq_nocase(m->url.scheme, STR("http")))) {
        (void)err_set(e, ERR_INVALID, "the OTLP endpoint is not an http(s) URL");
        metrics_free(m);
        return NULL;
    }
    m->host = str_dup(m->url.host);
    if (https && !(m->post.tls = io_tls_client_new(&(struct io_tls_client_opts){0}, e))) {
        metrics_free(m);
        return NULL;
    }
    m->authority = xasprintf(strchr(m->host, ':') ? "[%s]:%u" : "%s:%u", m->host, port_of(m));
    m->post.client = http_client_new(g->loop, &(struct http_client_opts){0});
    m->post.authority = m->authority;
    m->post.server_name = m->host;
    m->post.target = m->url.path.n ? m->url.path : STR("/");
    m->post.timeout_ms = EGRESS_WEBHOOK_TIMEOUT_MS;
    attrs_read(m);
    m->start_us = m->last_us = (uint64_t)clock_wall_us();
    m->last_cpu_us = cpu_us();
    m->period_ms = parse_u64(str_from(getenv("OTEL_METRIC_EXPORT_INTERVAL")), &period) == 0
                       ? MAX(period, (uint64_t)EGRESS_METRICS_MIN_MS)
                       : EGRESS_METRICS_MS;
    io_timer_start(&m->timer, m->period_ms);
    return m;
}

void metrics_free(struct metrics *m)
{
    if (!m) {
        return;
    }
    io_timer_stop(&m->timer);
    if (m->g->dns) {
        resolver_forget(dns_server_resolver(m->g->dns), &m->asker);
    }
    otlp_post_cancel(&m->post);
    if (m->post.client) {
        http_client_free(m->post.client);
    }
    if (m->post.tls) {
        io_tls_ctx_unref(m->post.tls);
    }
    free(m->endpoint);
    free(m->host);
    free(m->authority);
    free(m);
}
