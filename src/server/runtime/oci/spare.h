#pragma once
/* Things made ahead of their use: user namespaces with their id range, and homes with a writable
 * layer of the default size. Together with the network's pool they are kept filled by one thread,
 * which also removes in the background what sandboxes leave behind. */

#include <stdint.h>

#include "base/err.h"
#include "server/runtime/oci/home.h"
#include "server/runtime/oci/idrange.h"
#include "server/runtime/oci/network.h"

struct spares;

struct spare_opts {
    struct idrange *ids;
    struct network *net;
    bool userns;
    uint64_t disk_bytes; /* limit of the writable layers kept ready; 0: none */
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
/* A home as `name` below at_fd, with a writable layer of that limit. */
int spares_take_home(struct spares *s, uint64_t disk_bytes, int at_fd, const char *name,
                     struct home *ret, struct err *e);
