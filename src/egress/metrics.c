/* What the sidecar counts, as OTLP wants it. */

#include "egress/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "egress/dns_server.h"
#include "egress/egress.h"
#include "egress/enforcer.h"
#include "egress/events.h"
#include "egress/limits.h"
#include "egress/resolver.h"
#include "http/client.h"
#include "io/timer.h"
#include "io/tls.h"
#include "net/dns.h"
#include "net/url.h"
#include "json/json.h"

/* Bounds of OpenTelemetry's default view, but in seconds. */
static const unsigned bounds_ms[] = {5,   10,  25,   50,   75,   100,  250,
                                     500, 750, 1000, 2500, 5000, 7500, 10000};

struct metrics {
    struct egress *g;
    struct io_timer timer;
    struct http_client *client;
    struct io_tls_ctx *tls;
    char *endpoint, *host, *authority;
    struct url url;
    struct asker asker;
    struct http_call *call;
    bool busy, failing;
    int status;
    uint64_t period_ms;
    uint64_t start_us, last_us, last_cpu_us;
    uint64_t buckets[ARRAY_LEN(bounds_ms) + 1], n_lookups, sum_ms;
};

void metrics_lookup(struct metrics *m, uint64_t ms)
{
    size_t i = 0;
    if (m) {
        while (i < ARRAY_LEN(bounds_ms) && ms > bounds_ms[i]) {
            i++;
        }
        m->buckets[i]++;
        m->n_lookups++;
        m->sum_ms += ms;
    }
}

/* ---- the document ---- */

/* OTLP writes 64-bit integers as strings. */
static void put_u64(struct json_out *o, const char *key, uint64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, v);
    if (key) {
        json_key(o, key);
    }
    json_put_cstr(o, text);
}

static void put_attr(struct json_out *o, struct str key, struct str value)
{
    json_obj_begin(o);
    json_key(o, "key");
    json_put_str(o, key);
    json_key(o, "value");
    json_obj_begin(o);
    json_key(o, "stringValue");
    json_put_str(o, value);
    json_obj_end(o);
    json_obj_end(o);
}

static void put_attrs(const struct metrics *m, struct json_out *o)
{
    struct str rest = str_from(getenv("OPENSANDBOX_EGRESS_METRICS_EXTRA_ATTRS"));
    json_key(o, "attributes");
    json_arr_begin(o);
    if (*m->g->cfg.sandbox_id) {
        put_attr(o, STR("sandbox_id"), str_from(m->g->cfg.sandbox_id));
    }
    for (int i = 0; rest.p && i < EGRESS_MAX_ATTRS; i++) {
        struct str value = str_cut(&rest, ','), key = str_trim(str_cut(&value, '='));
        if (key.n && value.p && str_trim(value).n) {
            put_attr(o, key, str_trim(value));
        }
    }
    json_arr_end(o);
}

enum kind { GAUGE, COUNTER, HISTOGRAM };

static void point_begin(const struct metrics *m, struct json_out *o, const char *name,
                        const char *unit, enum kind kind)
{
    static const char *const names[] = {"gauge", "sum", "histogram"};
    json_obj_begin(o);
    json_key(o, "name");
    json_put_cstr(o, name);
    json_key(o, "unit");
    json_put_cstr(o, unit);
    json_key(o, names[kind]);
    json_obj_begin(o);
    if (kind != GAUGE) {
        json_key(o, "aggregationTemporality");
        json_put_int(o, 2); /* cumulative */
    }
    if (kind == COUNTER) {
        json_key(o, "isMonotonic");
        json_put_bool(o, true);
    }
    json_key(o, "dataPoints");
    json_arr_begin(o);
    json_obj_begin(o);
    put_u64(o, "startTimeUnixNano", m->start_us * 1000);
    put_u64(o, "timeUnixNano", (uint64_t)clock_wall_us() * 1000);
    put_attrs(m, o);
}

static void point_end(struct json_out *o)
{
    json_obj_end(o);
    json_arr_end(o);
    json_obj_end(o);
    json_obj_end(o);
}

static void put_int(const struct metrics *m, struct json_out *o, const char *name, const char *unit,
                    enum kind kind, uint64_t v)
{
    point_begin(m, o, name, unit, kind);
    put_u64(o, "asInt", v);
    point_end(o);
}

static void put_lookups(const struct metrics *m, struct json_out *o)
{
    point_begin(m, o, "egress.dns.query.duration", "s", HISTOGRAM);
    put_u64(o, "count", m->n_lookups);
    json_key(o, "sum");
    json_put_num(o, (double)m->sum_ms / 1000);
    json_key(o, "bucketCounts");
    json_arr_begin(o);
    for (size_t i = 0; i < ARRAY_LEN(m->buckets); i++) {
        put_u64(o, NULL, m->buckets[i]);
    }
    json_arr_end(o);
    json_key(o, "explicitBounds");
    json_arr_begin(o);
    for (size_t i = 0; i < ARRAY_LEN(bounds_ms); i++) {
        json_put_num(o, bounds_ms[i] / 1000.0);
    }
    json_arr_end(o);
    point_end(o);
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

static void put_system(struct metrics *m, struct json_out *o)
{
    uint64_t now = (uint64_t)clock_wall_us(), cpu = cpu_us();
    double share =
        now > m->last_us ? (double)(cpu - m->last_cpu_us) / (double)(now - m->last_us) : 0;
    put_int(m, o, "egress.system.memory.usage_bytes", "By", GAUGE, memory_bytes());
    point_begin(m, o, "egress.system.cpu.utilization", "1", GAUGE);
    json_key(o, "asDouble");
    json_put_num(o, share);
    point_end(o);
    m->last_us = now;
    m->last_cpu_us = cpu;
}

static void put_all(struct metrics *m, struct json_out *o)
{
    const struct policy *p = egress_policy(m->g);
    uint64_t n_rules = p->n_rules;
    for (size_t i = 0; i < p->n_rules; i++) {
        n_rules += p->rules[i].kind == POLICY_NET; /* the rule, and its element */
    }
    put_lookups(m, o);
    put_int(m, o, "egress.policy.denied_total", "1", COUNTER, events_names(m->g->events));
    put_int(m, o, "egress.nftables.updates.count", "1", COUNTER, enforcer_updates(m->g->enforcer));
    put_int(m, o, "egress.nftables.rules.count", "1", GAUGE, n_rules);
    put_system(m, o);
}

static void encode(struct metrics *m, struct buf *out)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "resourceMetrics");
    json_arr_begin(&o);
    json_obj_begin(&o);
    json_key(&o, "resource");
    json_obj_begin(&o);
    json_key(&o, "attributes");
    json_arr_begin(&o);
    put_attr(&o, STR("service.name"), STR("opensandbox-egress-" OSB_VERSION));
    json_arr_end(&o);
    json_obj_end(&o);
    json_key(&o, "scopeMetrics");
    json_arr_begin(&o);
    json_obj_begin(&o);
    json_key(&o, "scope");
    json_obj_begin(&o);
    json_key(&o, "name");
    json_put_cstr(&o, "opensandbox/egress");
    json_obj_end(&o);
    json_key(&o, "metrics");
    json_arr_begin(&o);
    put_all(m, &o);
    json_arr_end(&o);
    json_obj_end(&o);
    json_arr_end(&o);
    json_obj_end(&o);
    json_arr_end(&o);
    json_obj_end(&o);
}

/* ---- sending ---- */

static void ended(struct metrics *m, int error)
{
    bool failed = error < 0 || m->status / 100 != 2;
    m->busy = false;
    if (failed && !m->failing) {
        log_warn("metrics cannot be exported", LOG_S("endpoint", m->authority),
                 LOG_I("errno", -error), LOG_I("status", m->status));
    } else if (!failed && m->failing) {
        log_info("metrics are exported again", LOG_S("endpoint", m->authority));
    }
    m->failing = failed;
}

static void on_head(struct http_call *c, const struct h1_head *head, void *arg)
{
    ((struct metrics *)arg)->status = head->status;
}

static void on_body(struct http_call *c, struct str data, void *arg)
{
}

static void on_writable(struct http_call *c, void *arg)
{
}

static void on_end(struct http_call *c, int error, void *arg)
{
    struct metrics *m = arg;
    m->call = NULL;
    ended(m, error);
}

static uint16_t port_of(const struct metrics *m)
{
    return m->url.port ? m->url.port : m->tls ? 443 : 80;
}

static void post(struct metrics *m, const struct io_addr *to)
{
    static const struct http_call_ops ops = {on_writable, on_head, on_body, on_end};
    cleanup_(buf_done) struct buf body = BUF_INIT(EGRESS_METRICS_MAX);
    const struct h1_header headers[] = {{STR("Host"), str_from(m->authority)},
                                        {STR("Content-Type"), STR("application/json")}};
    const struct http_target t = {.key = str_from(m->authority),
                                  .addr = *to,
                                  .netns_fd = -1,
                                  .tls = m->tls,
                                  .server_name = m->host};
    encode(m, &body);
    if (buf_failed(&body)) {
        ended(m, -EMSGSIZE);
        return;
    }
    const struct http_call_opts o = {.method = STR("POST"),
                                     .target = m->url.path.n ? m->url.path : STR("/"),
                                     .headers = headers,
                                     .n_headers = ARRAY_LEN(headers),
                                     .body_len = (int64_t)body.len,
                                     .head_timeout_ms = EGRESS_WEBHOOK_TIMEOUT_MS,
                                     .idle_timeout_ms = EGRESS_WEBHOOK_TIMEOUT_MS};
    m->call = http_call_start(m->client, &t, &o, &ops, m);
    (void)http_call_write(m->call, buf_str(&body)); /* one piece: there is nothing to wait for */
    http_call_end_body(m->call);
}

static void on_address(struct asker *a, struct str answer)
{
    struct metrics *m = container_of(a, struct metrics, asker);
    struct io_addr to;
    if (resolver_first_addr(answer, port_of(m), &to)) {
        post(m, &to);
    } else {
        ended(m, -EHOSTUNREACH);
    }
}

static void on_timer(struct io_timer *t)
{
    struct metrics *m = container_of(t, struct metrics, timer);
    struct io_addr to;
    io_timer_start(t, m->period_ms);
    if (m->busy) {
        return;
    }
    m->busy = true;
    m->status = 0;
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
    m->authority = xasprintf(strchr(m->host, ':') ? "[%s]:%u" : "%s:%u", m->host, port_of(m));
    if (https && !(m->tls = io_tls_client_new(&(struct io_tls_client_opts){0}, e))) {
        metrics_free(m);
        return NULL;
    }
    m->client = http_client_new(g->loop, &(struct http_client_opts){0});
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
    if (m->call) {
        http_call_cancel(m->call);
    }
    if (m->client) {
        http_client_free(m->client);
    }
    if (m->tls) {
        io_tls_ctx_unref(m->tls);
    }
    free(m->endpoint);
    free(m->host);
    free(m->authority);
    free(m);
}
