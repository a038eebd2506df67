#pragma once
/* Layer archives into directories that overlayfs understands. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "server/image/ref.h"

struct unpack_stats {
    uint64_t bytes, entries, devices_skipped;
    char diff_id[IMAGE_DIGEST_MAX]; /* of the uncompressed archive */
};

/* Unpacks the tar archive read from `fd` (plain, gzip or zstd) below the empty directory root_fd.
 * Whiteouts become overlay ones (0:0 character devices, trusted.overlay.opaque). Names that lead
 * out of the root, hard links to what the layer does not contain, and absurd sizes are refused; the
 * caller then removes the directory. Devices are skipped: a sandbox gets its own. */
int layer_unpack(int fd, int root_fd, struct unpack_stats *ret, struct err *e);
/* The same; `cancelled` is asked now and then, and ends it with ECANCELED. */
int layer_unpack_watched(int fd, int root_fd, bool (*cancelled)(void *arg), void *arg,
                         struct unpack_stats *ret, struct err *e);
/* The same for a plain root file system: whiteout names are ordinary files. */
int rootfs_unpack(int fd, int root_fd, struct unpack_stats *ret, struct err *e);
