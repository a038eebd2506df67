#pragma once
/* IPv6 of the sandboxes: unique-local addresses of a /64 that follows from the IPv4 subnet, and of
 * which each sandbox has the one that ends in its IPv4 address. So nothing has to be handed out or
 * remembered. What leaves is masqueraded, like IPv4. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "net/cidr.h"
#include "server/config/config.h"
#include "server/runtime/oci/forward6.h"
#include "server/runtime/oci/netlink.h"

/* The link between a gateway and its sandbox. */
#define NET6_GATEWAY "fd6f:7362:6567::1"
#define NET6_SANDBOX "fd6f:7362:6567::2"

#define NET6_CONF "/proc/sys/net/ipv6/conf"

struct net6 {
    bool on;
    struct cidr prefix; /* /64 */
    struct forward6 forward;
    uint64_t look_ms; /* monotonic: not before */
};

/* Decides by [oci].ipv6 (auto, on, off) and by what this host has. -1 only for "on". */
int net6_init(struct net6 *s, const struct config_oci *cfg, const struct cidr *subnet4,
              struct err *e);
/* The bridge exists: its address, or no IPv6 on it; and forwarding. Switches off when the host will
 * not forward, or fails when the mode is "on". */
int net6_bridge(struct net6 *s, struct netlink *host, int index, uint32_t gateway4, struct err *e);
/* Links that came since may have to forward too. */
void net6_tend(struct net6 *s);
/* No sandbox needs IPv6 any more: none on the bridge, and the host's settings as they were. */
void net6_end(struct net6 *s);
struct ip net6_addr(const struct net6 *s, uint32_t ip4);

/* In a namespace of ours: the link speaks IPv6, with `addr` and nothing that it made up or heard of
 * itself; via (NULL: none) becomes the way out. old (NULL: none) was its address before. */
int net6_link(struct netlink *nl, const char *link, int index, const struct ip *old,
              const struct ip *addr, const struct ip *via);
/* The link of a gateway (its end, or the sandbox's); also in the namespace in question. */
int net6_gateway_link(struct netlink *nl, const char *link, int index, bool sandbox_end);

/* A setting of a link, or of "all" or "default", in this thread's network namespace. */
int net6_setting_write(const char *link, const char *name, const char *value);
int64_t net6_setting_read(const char *link, const char *name); /* -1: not there */
