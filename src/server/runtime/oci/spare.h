#pragma once
/* Things made ahead of their use: user namespaces with their id range, and writable layers of the
 * default size. Together with the network's pool they are kept filled by one thread, which also
 * removes in the background what sandboxes leave behind. */

#include <stdint.h>

#include "base/err.h"
#include "server/runtime/oci/idrange.h"
#include "server/runtime/oci/network.h"

struct spares;

struct spare_opts {
    struct idrange *ids;
    struct network *net;
    bool userns;
    uint64_t disk_bytes; /* of the writable layers kept ready; 0: none */
    int spare_fd;        /* directory for them */
    int templates_fd;
    int trash_fd;  /* directory whose entries are to be deleted */
    unsigned pool; /* how many of each; 0: nothing is kept ready */
};

struct spares *spares_new(const struct spare_opts *o, struct err *e); /* starts the thread */
void spares_free(struct spares *s);
void spares_wake(struct spares *s); /* something was taken, or thrown away */

/* Range index in *ret_range and a user namespace that maps it, or -1. */
int spares_take_userns(struct spares *s, uint32_t *ret_range, struct err *e);
/* A detached mount of a writable layer of `bytes`, whose file is moved to name below dir_fd; or -1.
 */
int spares_take_disk(struct spares *s, uint64_t bytes, int dir_fd, const char *name, struct err *e);
