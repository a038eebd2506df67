/* The environment, with the leniency and the strictness that each variable is known for. */

#include "egress/config.h"

#include <errno.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "egress/limits.h"
#include "net/domain.h"
#include "net/url.h"

#define ENV "OPENSANDBOX_EGRESS_"

static struct str env(const char *name)
{
    return str_trim(str_from(getenv(name)));
}

/* NULL unless set and not blank. */
static const char *env_text(const char *name)
{
    return env(name).n ? getenv(name) : NULL;
}

bool egress_truthy(const char *text)
{
    static const struct str yes[] = {STR("1"), STR("true"), STR("yes"), STR("y"), STR("on")};
    struct str s = str_trim(str_from(text));
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        if (str_eq_nocase(s, yes[i])) {
            return true;
        }
    }
    return false;
}

/* Words joined by '+'; anything unknown falls back to the stricter reading, with a warning. */
static bool mode_is_nft(struct str mode)
{
    bool has_dns = false, has_nft = false, is_odd = false;
    struct str rest = mode;
    while (mode.n && rest.p) {
        struct str word = str_trim(str_cut(&rest, '+'));
        if (str_eq_nocase(word, STR("dns"))) {
            has_dns = true;
        } else if (str_eq_nocase(word, STR("nft"))) {
            has_nft = true;
        } else {
            is_odd = is_odd || word.n;
        }
    }
    if (mode.n && (is_odd || !has_dns)) {
        log_warn("unknown mode, using dns", LOG_STR("OPENSANDBOX_EGRESS_MODE", mode));
        return false;
    }
    return has_nft;
}

static uint64_t env_number(const char *name, uint64_t fallback, uint64_t min, uint64_t max)
{
    int64_t v;
    if (parse_i64(env(name), &v) < 0 || v < (int64_t)min) {
        return fallback;
    }
    return MIN((uint64_t)v, max);
}

/* "1.2.3.4", "1.2.3.4:5353", "2001:db8::1", "[2001:db8::1]:5353". */
static int upstream_parse(struct str s, struct io_addr *ret)
{
    struct str host;
    uint16_t port = 0;
    if (io_addr_ip(s, 53, ret) == 0) {
        return 0;
    }
    if (authority_parse(s, &host, &port) < 0) {
        return -EINVAL;
    }
    return io_addr_ip(host, port ? port : 53, ret);
}

static void upstream_add(struct egress_config *c, const struct io_addr *a)
{
    for (size_t i = 0; i < c->n_upstreams; i++) {
        if (io_addr_eq(&c->upstreams[i], a)) {
            return;
        }
    }
    if (c->n_upstreams < EGRESS_MAX_UPSTREAMS) {
        c->upstreams[c->n_upstreams++] = *a;
    }
}

static int upstreams_from_env(struct egress_config *c, struct str list, struct err *e)
{
    struct str rest = list;
    while (rest.p) {
        struct str item = str_trim(str_cut(&rest, ','));
        struct io_addr a;
        if (!item.n) {
            continue;
        }
        if (upstream_parse(item, &a) < 0) {
            return err_set(e, ERR_INVALID, ENV "DNS_UPSTREAM: '%.*s' is not an address",
                           STR_FMT(item));
        }
        upstream_add(c, &a);
    }
    return c->n_upstreams ? 0 : err_set(e, ERR_INVALID, ENV "DNS_UPSTREAM names no server");
}

/* Those of the system; a resolver on our own loopback comes last. */
static void upstreams_from_system(struct egress_config *c)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(64u << 10);
    const char *path = getenv(ENV "RESOLV_CONF");
    if (file_read(AT_FDCWD, path ? path : "/etc/resolv.conf", &text) < 0) {
        return;
    }
    for (int loopback = 0; loopback < 2; loopback++) {
        struct str rest = buf_str(&text);
        while (rest.p) {
            struct str line = str_trim(str_cut(&rest, '\n'));
            struct io_addr a;
            if (!str_starts(line, STR("nameserver"))) {
                continue;
            }
            line = str_trim(str_sub(line, 10, line.n));
            line = str_sub(line, 0, strcspn(line.n ? line.p : "", " \t#;\n"));
            if (io_addr_ip(line, 53, &a) == 0 && io_addr_is_loopback(&a) == (loopback == 1)) {
                upstream_add(c, &a);
            }
        }
    }
}

static void exempt_load(struct egress_config *c)
{
    struct str rest = env(ENV "NAMESERVER_EXEMPT");
    while (rest.p && c->n_exempt < EGRESS_MAX_EXEMPT) {
        struct ip ip;
        if (ip_parse(str_trim(str_cut(&rest, ',')), &ip) == 0) {
            c->exempt[c->n_exempt++] = ip;
        }
    }
}

static void doh_load(struct egress_config *c)
{
    struct str rest = env(ENV "DOH_BLOCKLIST");
    c->block_doh = egress_truthy(getenv(ENV "BLOCK_DOH_443"));
    c->doh = xcalloc(EGRESS_MAX_DOH, sizeof(*c->doh));
    while (rest.n && rest.p && c->n_doh < EGRESS_MAX_DOH) {
        struct str item = str_trim(str_cut(&rest, ','));
        if (cidr_parse(item, &c->doh[c->n_doh]) == 0) {
            c->n_doh++;
        } else if (item.n) {
            log_warn("skipped in the blocklist", LOG_STR(ENV "DOH_BLOCKLIST", item));
        }
    }
}

static int api_address(struct egress_config *c, struct err *e)
{
    struct str s = env(ENV "HTTP_ADDR"), host;
    uint16_t port = EGRESS_API_PORT;
    if (!s.n) {
        s = STR(":18080");
    }
    ptrdiff_t colon = str_rfind(s, ':');
    host = str_sub(s, 0, colon < 0 ? s.n : (size_t)colon);
    struct str digits = colon < 0 ? STR_NULL : str_sub(s, (size_t)colon + 1, s.n);
    uint32_t number = port;
    if (digits.n && (parse_u32(digits, &number) < 0 || number > 65535)) {
        return err_set(e, ERR_INVALID, ENV "HTTP_ADDR: '%.*s' has no port", STR_FMT(s));
    }
    if (io_addr_ip(host.n ? host : STR("::"), (uint16_t)number, &c->api) < 0) {
        return err_set(e, ERR_INVALID, ENV "HTTP_ADDR: '%.*s' is not an address", STR_FMT(host));
    }
    return 0;
}

static int intercept_load(struct egress_config *c, struct err *e)
{
    int64_t port;
    c->intercept = egress_truthy(getenv(ENV "MITMPROXY_TRANSPARENT"));
    c->upstream_insecure = egress_truthy(getenv(ENV "MITMPROXY_SSL_INSECURE"));
    c->upstream_ca_dir = env_text(ENV "MITMPROXY_UPSTREAM_TRUST_DIR");
    c->upstream_ca_dir = c->upstream_ca_dir ? c->upstream_ca_dir : "/etc/ssl/certs";
    c->ca_dir = env_text(ENV "CA_DIR");
    c->ca_dir = c->ca_dir ? c->ca_dir : "/opt/opensandbox";
    if (parse_i64(env(ENV "MITMPROXY_PORT"), &port) < 0) {
        port = EGRESS_INTERCEPT_PORT;
    }
    if (port <= 0 || port > 65535) {
        return err_set(e, ERR_INVALID, ENV "MITMPROXY_PORT must be from 1 to 65535");
    }
    c->intercept_port = (uint16_t)port;
    return 0;
}

static int dns_load(struct egress_config *c, struct err *e)
{
    const char *list = getenv(ENV "DNS_UPSTREAM");
    if (list && *list) {
        if (upstreams_from_env(c, str_from(list), e) < 0) {
            return -1;
        }
    } else {
        upstreams_from_system(c);
    }
    c->upstream_timeout_ms = 1000 * env_number(ENV "DNS_UPSTREAM_TIMEOUT", 5, 1, 120);
    c->probe_ms = 1000 * env_number(ENV "DNS_UPSTREAM_PROBE_INTERVAL_SEC", 30, 1, 3600);
    struct str probe = env(ENV "DNS_UPSTREAM_PROBE");
    c->probe_name = probe.n && !str_eq(probe, STR(".")) ? getenv(ENV "DNS_UPSTREAM_PROBE") : NULL;
    return 0;
}

int egress_config_load(struct egress_config *ret, struct err *e)
{
    struct egress_config c = {.log_level = LOG_INFO};
    (void)log_level_parse(env(ENV "LOG_LEVEL"), &c.log_level);
    c.nft = mode_is_nft(env(ENV "MODE"));
    c.token = getenv(ENV "TOKEN");
    c.token = c.token ? c.token : "";
    c.rules = getenv(ENV "RULES");
    c.policy_file = env_text(ENV "POLICY_FILE");
    c.rules_dir = env_text(ENV "RULES_DIR");
    c.rules_dir = c.rules_dir ? c.rules_dir : "/var/egress/rules";
    c.sandbox_id = getenv(ENV "SANDBOX_ID");
    c.sandbox_id = c.sandbox_id ? c.sandbox_id : "";
    c.webhook = env_text(ENV "DENY_WEBHOOK");
    c.inside = env_text(ENV "INSIDE");
    c.state_dir = env_text(ENV "STATE_DIR");
    c.max_rules = env_number(ENV "MAX_RULES", EGRESS_MAX_RULES, 0, UINT32_MAX);
    c.memory = env_number(ENV "MEMORY", 0, 0, UINT32_MAX);
    c.uid = (uint32_t)env_number(ENV "UID", 0, 0, UINT32_MAX - 1);
    c.gid = (uint32_t)env_number(ENV "GID", c.uid, 0, UINT32_MAX - 1);
    exempt_load(&c);
    doh_load(&c);
    if (api_address(&c, e) < 0 || intercept_load(&c, e) < 0 || dns_load(&c, e) < 0) {
        egress_config_done(&c);
        return -1;
    }
    *ret = c;
    return 0;
}

void egress_config_done(struct egress_config *c)
{
    free(c->doh);
    *c = (struct egress_config){0};
}
