#pragma once
/* One server per set of names on a machine. A server removes what belongs to none of its sandboxes
 * from its control group and from its bridge: with the names of another it would end the other's
 * sandboxes. */

#include "base/err.h"
#include "server/config/config.h"
#include "server/runtime/oci/cgroup.h"

struct claim {
    int run_fd, group_fd, bridge_fd; /* locked until closed; -1: not taken */
};
#define CLAIM_INIT                                                                                 \
    {                                                                                              \
        -1, -1, -1                                                                                 \
    }

/* oci.run_dir: refused while another server has it, and while sandboxes of a server with another
 * `root` are left in it. */
int claim_run_dir(struct claim *c, const struct config_oci *oci, const char *root, struct err *e);
int claim_cgroup(struct claim *c, const struct cgroup_host *h, struct err *e);
/* Before the bridge is touched, and again when it was made. */
int claim_bridge(struct claim *c, const struct config_oci *oci, struct err *e);
void claim_done(struct claim *c);
