/* IPv6: whether this host has it, addresses, and the settings that keep it quiet. */

#include "server/runtime/oci/net6.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"

#define CONF "/proc/sys/net/ipv6/conf"

static int setting_write(const char *link, const char *name, const char *value)
{
    char path[512];
    (void)snprintf(path, sizeof(path), CONF "/%s/%s", link, name);
    return file_write(AT_FDCWD, path, str_from(value));
}

/* -1: not there. */
static int64_t setting_read(const char *link, const char *name)
{
    char path[512];
    cleanup_(buf_done) struct buf text = BUF_INIT(64);
    int64_t v = -1;
    (void)snprintf(path, sizeof(path), CONF "/%s/%s", link, name);
    if (file_read(AT_FDCWD, path, &text) == 0) {
        struct str rest = buf_str(&text);
        (void)parse_i64(str_cut(&rest, '\n'), &v);
    }
    return v;
}

/* The device of the default route; false: this host has no IPv6 to share. */
static bool uplink(char out[LINK_NAME_MAX])
{
    cleanup_(buf_done) struct buf text = BUF_INIT(1u << 20);
    if (file_read(AT_FDCWD, "/proc/net/ipv6_route", &text) < 0) {
        return false;
    }
    struct str rest = buf_str(&text);
    while (rest.p) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        ptrdiff_t space = str_rfind(line, ' ');
        struct str dev = str_sub(line, space < 0 ? line.n : (size_t)space + 1, line.n);
        if (str_starts(line, STR("00000000000000000000000000000000 00 ")) &&
            !str_eq(dev, STR("lo")) && str_to_cstr(dev, out, LINK_NAME_MAX) == 0) {
            return true;
        }
    }
    return false;
}

/* Every link, and "all" and "default" for those to come. */
static void each_link(void (*fn)(const char *link))
{
    DIR *d = opendir(CONF);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        if (e->d_name[0] != '.') {
            fn(e->d_name);
        }
    }
    if (d) {
        (void)closedir(d);
    }
}

static void keep_hearing_routers(const char *link)
{
    if (setting_read(link, "accept_ra") == 1) {
        (void)setting_write(link, "accept_ra", "2"); /* the link may be gone again */
    }
}

static void forward_from(const char *link)
{
    (void)setting_write(link, "force_forwarding", "1"); /* likewise */
}

/* Since Linux 6.17 links can forward without making a router of the host, which would stop hearing
 * its own routers. auto does that to the uplink and the bridge only, and nothing else. */
static int forwarding(bool is_wanted, const char *bridge)
{
    char dev[LINK_NAME_MAX];
    bool is_new = setting_read("all", "force_forwarding") >= 0;
    if (setting_read("all", "forwarding") == 1) {
        return 0;
    }
    if (is_wanted && is_new) {
        each_link(forward_from); /* "all" itself only reaches links when it changes */
        return 0;
    }
    if (is_wanted) {
        each_link(keep_hearing_routers);
        return setting_write("all", "forwarding", "1");
    }
    if (!is_new || !uplink(dev)) {
        return -EOPNOTSUPP;
    }
    int r = setting_write(dev, "force_forwarding", "1");
    return r < 0 ? r : setting_write(bridge, "force_forwarding", "1");
}

int net6_init(struct net6 *s, const char *mode, const struct cidr *subnet4, struct err *e)
{
    char dev[LINK_NAME_MAX];
    bool is_wanted = strcmp(mode, "on") == 0;
    bool there = setting_read("all", "disable_ipv6") == 0;
    *s = (struct net6){.on = there && (is_wanted || (strcmp(mode, "auto") == 0 && uplink(dev)))};
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

int net6_bridge(struct net6 *s, const char *mode, struct netlink *host, const char *bridge,
                int index, uint32_t gateway4, struct err *e)
{
    if (s->on) {
        struct ip gateway = net6_addr(s, gateway4);
        int r = forwarding(strcmp(mode, "on") == 0, bridge);
        r = r < 0 ? r : net6_link(host, bridge, index, NULL, &gateway, NULL);
        if (r == 0) {
            return 0;
        }
        if (strcmp(mode, "on") == 0) {
            return err_sys(e, r, "IPv6 on the bridge %s", bridge);
        }
        log_info("sandboxes have no IPv6: this host does not forward it "
                 "([oci].ipv6 = \"on\" makes it)");
        s->on = false;
    }
    (void)setting_write(bridge, "disable_ipv6", "1"); /* missing where there is no IPv6 at all */
    return 0;
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
        r = setting_write(link, quiet[i].name, quiet[i].value);
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
    return r < 0 ? r : setting_write("all", "forwarding", "1"); /* of the gateway's namespace */
}
