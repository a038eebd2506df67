#pragma once
/* A directory tree into another directory with everything that belongs to it: owners, modes, times,
 * extended attributes and access lists, hard links, holes, links, pipes, sockets, and what
 * overlayfs keeps in an upper directory (whiteouts, opaque directories). File contents are shared
 * with the original where the file system can (FICLONE), else copied. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct copy_stats {
    uint64_t files, bytes; /* of regular files: how many, and how much they hold */
    uint64_t shared;       /* bytes of them that needed no copy */
};

struct copy_opts {
    /* Paths below the root that are left out, NULL-terminated, or NULL. */
    const char *const *skip;
};

/* The root itself included: its owner, mode, times and attributes. Nothing may change the source
 * meanwhile. */
int copy_tree(int from_fd, int to_fd, const struct copy_opts *o, struct copy_stats *ret,
              struct err *e);
