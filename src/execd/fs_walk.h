#pragma once
/* Walks a directory tree by descriptors, in byte order of the names, children right after their
 * directory. Links are visited, never entered. Holds one descriptor whatever the depth: the way
 * back up is "..", checked against the directory that was left, so a tree that is moved meanwhile
 * ends the walk with -ESTALE instead of leading it elsewhere. Blocking: for workers. */

#include <sys/stat.h>

#include "base/str.h"

struct fs_entry {
    int dir_fd;       /* the directory it is in */
    const char *name; /* below dir_fd */
    const char *path; /* root path and what is below it */
    struct str rel;   /* below the root, without a leading slash */
    unsigned depth;   /* 0: directly in the root */
    struct stat st;   /* of the entry itself, not of what a link points to */
};

struct fs_walk_ops {
    /* 0: go on, 1: enter it if it is a directory, negative errno: stop. */
    int (*visit)(const struct fs_entry *e, void *arg);
    /* A directory that cannot be opened or read. 0: skip it, negative: stop. NULL: stop with the
     * error. What vanished meanwhile is skipped without asking. */
    int (*unreadable)(const char *path, int error, void *arg);
};

/* Takes root_fd (a readable directory). 0, or the negative errno that ended the walk. */
int fs_walk(int take_root_fd, const char *root_path, const struct fs_walk_ops *ops, void *arg);
