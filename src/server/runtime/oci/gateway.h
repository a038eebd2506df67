#pragma once
/* The gateway of a sandbox with an egress policy: a network namespace between the sandbox and the
 * bridge, in which the sidecar and all its rules live.
 *
 *     sandbox  eth0 192.0.0.2 -- veth -- sb0 192.0.0.1  gateway  eth0 -- veth -- bridge
 *
 * The namespace and the address of the lease become the gateway's; the sandbox gets another
 * namespace that knows only the gateway. The sidecar has a control group of its own beside the
 * sandbox's, "<id>-egress": what the workload uses up is not its, and whoever starts next finds it
 * there. It watches over itself: a worker that dies is started again with its policy, and until
 * then nothing passes that did not pass before. */

#include <stdbool.h>

#include "server/runtime/oci/oci.h"

#define GATEWAY_SUFFIX "-egress"
#define GATEWAY_ADDR "192.0.0.1"
#define GATEWAY_SANDBOX_ADDR "192.0.0.2"

/* Can there be one here? ERR_UNSUPPORTED says why not. */
int gateway_check(const struct oci *o, const struct runtime_spec *spec, struct err *e);
/* Between the lease and the sandbox; returns when the sidecar answers and its rules are in force.
 * Sets sb->inner_fd. `dir` is the directory of the sandbox. */
int gateway_make(struct oci *o, struct sandbox *sb, const struct runtime_spec *spec, int dir_fd,
                 const char *dir, struct err *e);
/* After a restart of the server. */
int gateway_adopt(struct oci *o, struct sandbox *sb, uint32_t ip, const char *link, struct err *e);
/* Ends the sidecar of the id, if there is one; the sandbox must have ended before. */
int gateway_remove(struct oci *o, const char *id, struct err *e);
/* The sandbox's own network namespace. */
static inline int sandbox_ns(const struct sandbox *sb)
{
    return sb->inner_fd >= 0 ? sb->inner_fd : sb->net.ns_fd;
}
/* Whether a control group belongs to a sidecar; *ret_id is then its sandbox. */
bool gateway_is_group(const char *group, char ret_id[SANDBOX_ID_MAX + 1]);
