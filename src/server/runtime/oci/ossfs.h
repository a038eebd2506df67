#pragma once
/* Mounting buckets, for every runtime of this machine. */

#include "base/arena.h"
#include "base/err.h"
#include "model/sandbox.h"

/* <root>/<bucket>[/<subPath>]; NULL when that leads out of the bucket's directory. */
const char *ossfs_mount_point(const char *root, const struct volume *v, struct arena *a);
/* Mounts unless something is mounted there already. */
int ossfs_mount(const struct volume *v, const char *path, struct arena *a, struct err *e);
/* Nothing mounted there is success. */
int ossfs_unmount(const char *path, struct err *e);
