#pragma once
/* What a path is in an image: its layers seen as the overlay will show them, before there is an
 * overlay. Links are followed as a process inside would follow them. */

#include <limits.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "server/runtime/oci/rootfs.h"

#define MERGED_LINKS_MAX 16 /* limit: symbolic links on one path in an image */

struct merged {
    char path[PATH_MAX]; /* without links, relative to the root */
    size_t layer;        /* that shows it: an index into r->layers */
    struct stat st;
};

/* 0, -ENOENT (also where a layer has removed it), -ELOOP or another negative errno. Directories of
 * this machine that are bound over the image are not part of it: -EXDEV. */
int merged_find(const struct rootfs *r, const char *path, struct merged *ret);
/* The content of a regular file; -EFBIG beyond out->max. */
int merged_read(const struct rootfs *r, const struct merged *m, struct buf *out);
