#pragma once
/* An unpacked layer back into a tar archive, overlay whiteouts as OCI ones. */

#include "base/err.h"
#include "server/layer/result.h"

/* Writes the tree below root_fd to `fd` from its current position, names sorted, so that the same
 * tree gives the same bytes. */
int layer_pack(int root_fd, int fd, struct layer_result *ret, struct err *e);
