#pragma once
/* opensandbox-layer reads what strangers wrote with a library of many formats. Before the first
 * byte it gives away what it does not need. */

#include <sys/types.h>

#include "base/err.h"

/* Dies with the thread of `parent` that started it, and at once if that is gone already. */
int confine_to_parent(pid_t parent, struct err *e);
/* From here on: root_fd is the root directory and nothing above it can be named, no new
 * privileges, only capabilities over files, only system calls on descriptors and names (no
 * sockets, no processes, no new code), bounded memory and descriptors. */
int confine_to_root(int root_fd, struct err *e);
