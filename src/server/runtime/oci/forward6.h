#pragma once
/* IPv6 forwarding of the host's links: switched on where sandboxes need it, and off again.
 *
 * Since Linux 6.17 a link can forward (force_forwarding) without making a router of the host: then
 * it is the bridge and the links that routes lead out by, and no other. Before, there is one switch
 * for all of them (all/forwarding), which makes hosts deaf to their own routers unless accept_ra is
 * 2: so that is raised first. Each change is written into a record before it is made, so that it
 * can be taken back by whichever server with the same record stops in good order, also after a
 * crash. The record is worth nothing after a boot, and says by which boot it is meant. */

#include <stdbool.h>

#include "server/runtime/oci/netlink.h"

#define FORWARD6_LINKS_MAX 64u           /* limit: links that sandboxes may leave by over IPv6 */
#define FORWARD6_RECORD_MAX (256u << 10) /* limit: bytes of the record of changed settings */

struct forward6 {
    char record[256]; /* path; "": nothing is remembered */
    char bridge[LINK_NAME_MAX];
    bool all_routes;      /* every link with a route, not only those of default routes; and whatever
                             it takes on older kernels */
    bool has_no_per_link; /* as on Linux before 6.17 */
};

void forward6_init(struct forward6 *f, const char *run_dir, const char *bridge, bool all_routes);
bool forward6_has_uplink(const struct forward6 *f);
/* Idempotent; called again for links that came later. -EOPNOTSUPP: it would take more than was
 * allowed, or there is no link to leave by. */
int forward6_start(const struct forward6 *f);
/* Takes back what nobody else has changed meanwhile. Settings that another server's bridge in this
 * network namespace still needs stay, and so does the record. */
void forward6_stop(const struct forward6 *f);
