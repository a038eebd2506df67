#include "execd/telemetry_config.h"

#include <string.h>

#include "base/num.h"
#include "execd/limits.h"
#include "io/addr.h"

#define SIGNAL_PATH "/v1/metrics"
#define DEFAULT_PORT 4318

/* host, host:port, [v6] or [v6]:port */
static int parse_authority(struct arena *a, struct str s, struct telemetry_config *ret)
{
    struct str host, rest = STR_NULL;
    if (s.n > 0 && s.p[0] == '[') {
        rest = str_sub(s, 1, s.n);
        host = str_cut(&rest, ']');
        if (!rest.p || (rest.n > 0 && rest.p[0] != ':')) {
            return -1;
        }
        rest = rest.n ? str_sub(rest, 1, rest.n) : STR_NULL;
    } else {
        rest = s;
        host = str_cut(&rest, ':');
    }
    ret->port = 80;
    if (host.n == 0 || (rest.p && parse_port(rest, &ret->port) < 0)) {
        return -1;
    }
    for (size_t i = 0; i < host.n; i++) {
        unsigned char c = (unsigned char)host.p[i];
        if (c <= ' ' || c >= 0x7f || strchr("@/?#\\\"<>", c)) {
            return -1;
        }
    }
    ret->host = arena_str(a, host);
    ret->authority = arena_str(a, s);
    return 0;
}

int telemetry_endpoint(struct arena *a, struct str url, struct telemetry_config *ret, struct err *e)
{
    url = str_trim(url);
    if (str_starts_nocase(url, STR("https://"))) {
        return err_set(e, ERR_UNSUPPORTED,
                       "https is not supported here: use a plain http endpoint, "
                       "such as a collector on this host");
    }
    if (!str_starts_nocase(url, STR("http://"))) {
        return err_set(e, ERR_INVALID, "expected http://host:port, got \"%.*s\"", STR_FMT(url));
    }
    struct str rest = str_sub(url, 7, url.n);
    size_t n = 0;
    while (n < rest.n && rest.p[n] != '/' && rest.p[n] != '?' && rest.p[n] != '#') {
        n++;
    }
    struct str path = str_sub(rest, n, rest.n);
    bool is_clean = path.n == 0 || path.p[0] == '/';
    for (size_t i = 0; i < path.n; i++) {
        is_clean = is_clean && path.p[i] > ' ' && path.p[i] < 0x7f && !strchr("?#", path.p[i]);
    }
    if (!is_clean || parse_authority(a, str_sub(rest, 0, n), ret) < 0) {
        return err_set(e, ERR_INVALID, "expected http://host:port, got \"%.*s\"", STR_FMT(url));
    }
    while (path.n > 0 && path.p[path.n - 1] == '/') {
        path.n--;
    }
    bool has_path = str_ends(path, STR(SIGNAL_PATH));
    ret->target = arena_printf(a, "%.*s%s", STR_FMT(path), has_path ? "" : SIGNAL_PATH);
    return 0;
}

/* The first word that is an address, in HOST_IP or else in /etc/hostinfo. */
static const char *host_ip(struct arena *a, struct str text)
{
    for (size_t i = 0; i < text.n;) {
        size_t from = i;
        while (i < text.n && !strchr(" \t\r\n,;=", text.p[i])) {
            i++;
        }
        struct io_addr addr;
        struct str word = str_sub(text, from, i);
        if (word.n > 0 && io_addr_ip(word, DEFAULT_PORT, &addr) == 0) {
            return arena_str(a, word);
        }
        i++;
    }
    return NULL;
}

static const char *from_host(struct arena *a, const char *env, struct str hostinfo)
{
    const char *ip = env ? host_ip(a, str_from(env)) : NULL;
    if (!ip) {
        ip = host_ip(a, hostinfo);
    }
    if (!ip) {
        return NULL;
    }
    bool six = strchr(ip, ':') && ip[0] != '[';
    return arena_printf(a, "http://%s%s%s:%d", six ? "[" : "", ip, six ? "]" : "", DEFAULT_PORT);
}

int telemetry_config_read(struct arena *a, telemetry_env_fn *env, void *arg, struct str hostinfo,
                          struct telemetry_config *ret, struct err *e)
{
    *ret = (struct telemetry_config){.period_ms = TELEMETRY_PERIOD_MS};
    const char *url = env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", arg);
    if (!url || !*url) {
        url = env("OTEL_EXPORTER_OTLP_ENDPOINT", arg);
    }
    if (!url || !*url) {
        url = from_host(a, env("HOST_IP", arg), hostinfo);
    }
    if (!url) {
        return 0;
    }
    if (telemetry_endpoint(a, str_from(url), ret, e) < 0) {
        return -1;
    }
    const char *id = env("OPENSANDBOX_ID", arg);
    ret->sandbox_id = id && *id ? id : NULL;
    ret->n_attrs =
        otlp_pairs(str_from(env("OPENSANDBOX_EXECD_METRICS_EXTRA_ATTRS", arg)), ret->attrs);
    const char *headers = env("OTEL_EXPORTER_OTLP_METRICS_HEADERS", arg);
    headers = headers ? headers : env("OTEL_EXPORTER_OTLP_HEADERS", arg);
    ret->n_headers = otlp_pairs(str_from(headers), ret->headers);
    const char *period = env("OTEL_METRIC_EXPORT_INTERVAL", arg);
    uint64_t ms;
    if (period && parse_u64(str_from(period), &ms) == 0 && ms > 0) {
        ret->period_ms = ms;
    }
    return 1;
}
