#pragma once
/* Keeping an idle sidecar small: there is one beside every sandbox with a policy.
 *
 * What was needed for the start, for a change of policy or for a look at the rules goes back a
 * little later: the context of libnftables (it keeps hash tables of 0.8 MB), freed heap, and code
 * and constants of the libraries, which stay in the page cache and come back when they are used. */

#include "io/timer.h"

struct egress;

struct slim {
    struct io_timer timer;
    struct egress *g; /* NULL: only memory */
    long faults;      /* of this process, when it was slim last */
};

void slim_start(struct slim *s, struct io_loop *l, struct egress *g);
void slim_stop(struct slim *s);
