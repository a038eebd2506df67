#pragma once
/* The network of all sandboxes: one bridge, one nftables table, and a pool of network namespaces
 * with an address each, made ahead of time and used again after a rest. Thread-safe. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "server/config/config.h"
#include "server/runtime/oci/netlink.h"

struct network;

/* What a sandbox has of it. */
struct net_lease {
    int ns_fd;
    uint32_t ip;               /* host byte order; 0: loopback only */
    char link[LINK_NAME_MAX];  /* the host's end of the veth pair; "": none */
    struct link_counters base; /* what the link had counted when the lease began */
    bool once;                 /* not for another sandbox: something was changed in it */
};

#define NET_LEASE_NONE ((struct net_lease){.ns_fd = -1})

/* Makes the bridge and the rules, unless [oci].network is "none". */
struct network *network_new(const struct config_oci *cfg, struct err *e);
/* Closes what is pooled; bridge, rules and the namespaces of sandboxes stay. */
void network_free(struct network *n);
/* No sandbox is left, and the server stops: takes back what was changed of the host's IPv6. */
void network_end(struct network *n);
bool network_has_ipv6(const struct network *n);
bool network_is_off(const struct network *n); /* [oci].network = "none" */

/* A namespace of one's own, with or without a way out. */
int network_take(struct network *n, bool outbound, struct net_lease *ret, struct err *e);
/* Everything that was in it is dead. The lease is empty afterwards. */
void network_give_back(struct network *n, struct net_lease *l);
/* After a restart: the namespace of a living sandbox and the address it has. */
int network_adopt(struct network *n, int pid, uint32_t ip, const char *link, struct net_lease *ret,
                  struct err *e);
int network_counters(struct network *n, const struct net_lease *l, struct link_counters *ret);
/* Fills the pool and returns rested namespaces to it. Called now and then from a thread of its own.
 * Returns true when there is more to do at once. */
bool network_tend(struct network *n);
/* Removes links of our bridge that belong to no lease. Returns how many. */
int network_sweep(struct network *n);
/* The text of a sandbox's resolv.conf. */
void network_resolv_conf(const struct network *n, struct buf *out);
/* Its name servers, as "1.2.3.4,5.6.7.8". */
void network_resolvers(const struct network *n, struct buf *out);
void network_ip_format(uint32_t ip, char out[16]);
