#pragma once
/* Making programs in a sandbox trust the authority of its interceptor: in the stores that its image
 * has, and through variables for programs that look nowhere else. Nothing of the machine's own
 * stores is changed; all of it goes into the sandbox's writable layer. */

#include "base/err.h"
#include "server/runtime/oci/rootfs.h"

#define TRUST_CA_MAX (64u << 10) /* limit: bytes of the interceptor's certificate */
#define TRUST_ROOTS_MAX                                                                            \
    (4u << 20) /* limit: bytes of an image's or the machine's trusted certificates */

/* `home_fd` is the sandbox's directory, where the sidecar has left its certificate; `rw_fd` holds
 * its writable layer. Before anything runs inside. */
int trust_write(const struct rootfs *image, int home_fd, int rw_fd, struct err *e);

struct trust_var {
    const char *name, *value;
};
/* Ends with a name of NULL. What the user sets wins. */
extern const struct trust_var trust_vars[];
