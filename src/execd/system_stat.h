#pragma once
/* Counts of processes, connections and network bytes out of /proc. The parsers are pure. */

#include <stdint.h>

#include "base/str.h"

struct system_stat {
    uint64_t processes;
    uint64_t net_in, net_out;        /* bytes, all interfaces but loopback */
    uint64_t tcp_active, udp_active; /* established connections; open sockets */
};

/* Blocking: for workers. What cannot be read stays 0. */
void system_stat_read(struct system_stat *ret);
/* Adds what /proc/net/dev says. */
void net_dev_parse(struct str text, uint64_t *in, uint64_t *out);
/* Lines of /proc/net/tcp or udp whose state is `state` (hex, two digits), or all when it is 0. */
uint64_t net_sockets_count(struct str text, unsigned state);
