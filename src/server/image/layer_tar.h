#pragma once
/* An unpacked layer back into a tar archive, overlay whiteouts as OCI ones. */

#include <stdint.h>

#include "base/err.h"
#include "server/image/ref.h"

struct layer_tar {
    uint64_t size;
    char digest[IMAGE_DIGEST_MAX]; /* of the uncompressed archive: diff id and digest in one */
};

/* Writes the tree below root_fd to `fd` from its current position, names sorted, so that the same
 * tree gives the same bytes. */
int layer_tar_write(int root_fd, int fd, struct layer_tar *ret, struct err *e);
