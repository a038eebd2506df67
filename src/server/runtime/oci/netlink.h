#pragma once
/* The few rtnetlink requests that sandbox networks need, one system call pair each and no `ip`.
 *
 * A socket speaks for the network namespace it was opened in, from whichever thread. All functions
 * return 0 (or a value) or a negative errno of the kernel. Not thread-safe per socket. */

#include <stdbool.h>
#include <stdint.h>

struct netlink {
    int fd;
    uint32_t seq;
};

#define NETLINK_INIT                                                                               \
    {                                                                                              \
        .fd = -1                                                                                   \
    }
#define LINK_NAME_MAX 16

struct link_counters {
    uint64_t rx_bytes, tx_bytes;
};

int netlink_open(struct netlink *n); /* in the calling thread's network namespace */
void netlink_close(struct netlink *n);

int link_index(struct netlink *n, const char *name); /* > 0, or -ENODEV */
int link_add_bridge(struct netlink *n, const char *name);
/* `name` here, `peer` in the network namespace behind peer_ns_fd; mtu 0: the kernel's default. */
int link_add_veth(struct netlink *n, const char *name, const char *peer, int peer_ns_fd,
                  uint32_t mtu);
int link_del(struct netlink *n, const char *name);
int link_up(struct netlink *n, int index);
/* Port of a bridge that exchanges frames with the bridge only, never with another such port. */
int link_enslave_isolated(struct netlink *n, int index, int bridge_index);
int link_counters(struct netlink *n, const char *name, struct link_counters *ret);
int addr_add(struct netlink *n, int index, uint32_t ip_be, uint8_t prefix_len);
int addr_del(struct netlink *n, int index, uint32_t ip_be, uint8_t prefix_len);
/* IPv6; an address is usable at once, without asking whether somebody has it. */
int addr6_add(struct netlink *n, int index, const uint8_t ip[16], uint8_t prefix_len);
int addr6_del(struct netlink *n, int index, const uint8_t ip[16], uint8_t prefix_len);
int route6_add_default(struct netlink *n, int index, const uint8_t gateway[16]);
int route_add_default(struct netlink *n, int index, uint32_t gateway_be);
/* Calls fn with the name of every link whose master is `bridge_index`. */
int link_each_port(struct netlink *n, int bridge_index, void (*fn)(const char *name, void *arg),
                   void *arg);

/* Ends every TCP socket that outlived its process (closing, waiting) in the calling thread's
 * network namespace. Returns how many sockets are left afterwards, or -errno. */
int sockets_destroy(void);
