#pragma once
/* Sizes of directories. */

#include <stdint.h>

/* Bytes of the regular files below, each counted once; what cannot be read counts nothing. */
uint64_t tree_bytes(int root_fd);
