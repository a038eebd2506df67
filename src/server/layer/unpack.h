#pragma once
/* Layer archives into directories that overlayfs understands. */

#include <stdbool.h>

#include "base/err.h"
#include "server/layer/result.h"

/* Unpacks the tar archive read from `fd` (plain, gzip or zstd) below the empty directory root_fd.
 * With `whiteouts`, those become overlay ones (0:0 character devices, trusted.overlay.opaque); in a
 * plain root file system their names are ordinary. Names that lead out of the root, hard links to
 * what the layer does not contain, and absurd sizes are refused; the caller then removes the
 * directory. Devices are skipped: a sandbox gets its own.
 * libarchive converts names through LC_CTYPE: the program has set it to UTF-8. */
int layer_unpack(int fd, int root_fd, bool whiteouts, struct layer_result *ret, struct err *e);
