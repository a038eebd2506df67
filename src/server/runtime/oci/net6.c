/* IPv6: whether this host has it, addresses, and the settings that keep it quiet. */

#include "server/runtime/oci/net6.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "server/runtime/oci/limits.h"

int net6_setting_write(const char *link, const char *name, const char *value)
{
    char path[512];
    (void)snprintf(path, sizeof(path), NET6_CONF "/%s/%s", link, name);
    return file_write(AT_FDCWD, path, str_from(value));
}

int64_t net6_setting_read(const char *link, const char *name)
{
    char path[512];
    cleanup_(buf_done) struct buf text = BUF_INIT(64);
    int64_t v = -1;
    (void)snprintf(path, sizeof(path), NET6_CONF "/%s/%s", link, name);
    if (file_read(AT_FDCWD, path, &text) == 0) {
        struct str rest = buf_str(&text);
        (void)parse_i64(str_cut(&rest, '\n'), &v);
    }
    return v;
}

int net6_init(struct net6 *s, const struct config_oci *cfg, const struct cidr *subnet4,
              struct err *e)
{
    bool is_wanted = strcmp(cfg->ipv6, "on") == 0;
    bool there = net6_setting_read("all", "disable_ipv6") == 0;
    *s = (struct net6){.on = there && strcmp(cfg->ipv6, "off") != 0};
    forward6_init(&s->forward, cfg->run_dir, cfg->bridge, is_wanted);
    s->on = s->on && (is_wanted || forward6_has_uplink(&s->forward));
    if (is_wanted && !there) {
        return err_set(e, ERR_UNSUPPORTED, "[oci].ipv6 is \"on\", but this host has no IPv6");
    }
    s->prefix = (struct cidr){.net = {.family = 6, .b = {0xfd, 0x6f, 0x73, 0x62}}, .bits = 64};
    memcpy(s->prefix.net.b + 4, subnet4->net.b, 4);
    return 0;
}

struct ip net6_addr(const struct net6 *s, uint32_t ip4)
{
    struct ip ip = s->prefix.net;
    for (int i = 0; i < 4; i++) {
        ip.b[12 + i] = (uint8_t)(ip4 >> (24 - 8 * i));
    }
    return ip;
}

int net6_bridge(struct net6 *s, struct netlink *host, int index, uint32_t gateway4, struct err *e)
{
    const char *bridge = s->forward.bridge;
    if (s->on) {
        struct ip gateway = net6_addr(s, gateway4);
        /* The address first: it tells a server that stops meanwhile to leave forwarding on. */
        int r = net6_link(host, bridge, index, NULL, &gateway, NULL);
        r = r < 0 ? r : forward6_start(&s->forward);
        if (r == 0) {
            return 0;
        }
        if (s->forward.all_routes) {
            return err_sys(e, r, "IPv6 on the bridge %s", bridge);
        }
        log_info("sandboxes have no IPv6: this host does not forward it "
                 "([oci].ipv6 = \"on\" makes it)");
        s->on = false;
    }
    net6_end(s); /* of an earlier server, with another configuration */
    return 0;
}

void net6_tend(struct net6 *s)
{
    uint64_t now = clock_mono_ms();
    if (s->on && now >= s->look_ms) {
        s->look_ms = now + OCI_UPLINKS_LOOK_MS;
        int r = forward6_start(&s->forward);
        if (r < 0) {
            log_debug("IPv6 forwarding", LOG_I("errno", -r));
        }
    }
}

void net6_end(struct net6 *s)
{
    if (s->forward.bridge[0]) {
        /* Also what tells others that we need forwarding; missing where there is no IPv6 at all. */
        (void)net6_setting_write(s->forward.bridge, "disable_ipv6", "1");
        forward6_stop(&s->forward);
    }
}

int net6_link(struct netlink *nl, const char *link, int index, const struct ip *old,
              const struct ip *addr, const struct ip *via)
{
    static const struct {
        const char *name, *value;
    } quiet[] = {
        {"accept_ra", "0"},     {"autoconf", "0"},     {"accept_redirects", "0"},
        {"addr_gen_mode", "1"}, {"disable_ipv6", "0"},
    };
    int r = 0;
    for (size_t i = 0; i < ARRAY_LEN(quiet) && r == 0; i++) {
        r = net6_setting_write(link, quiet[i].name, quiet[i].value);
    }
    if (r == 0 && old) {
        r = addr6_del(nl, index, old->b, 64);
    }
    r = r < 0 ? r : addr6_add(nl, index, addr->b, 64);
    r = r == -EEXIST ? 0 : r;
    r = r < 0 || !via ? r : route6_add_default(nl, index, via->b);
    return r == -EEXIST ? 0 : r; /* the route outlives an address */
}

int net6_gateway_link(struct netlink *nl, const char *link, int index, bool sandbox_end)
{
    struct ip gateway, sandbox;
    must(ip_parse(STR(NET6_GATEWAY), &gateway) == 0 && ip_parse(STR(NET6_SANDBOX), &sandbox) == 0);
    if (sandbox_end) {
        return net6_link(nl, link, index, NULL, &sandbox, &gateway);
    }
    int r = net6_link(nl, link, index, NULL, &gateway, NULL);
    return r < 0 ? r
                 : net6_setting_write("all", "forwarding", "1"); /* of the gateway's namespace */
}
