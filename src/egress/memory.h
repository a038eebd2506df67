#pragma once
/* How much memory this program may use: what its control group says, and those above it. */

#include <stdint.h>

#define MEMORY_GROUPS_MAX (64u << 10) /* limit: bytes of /proc/self/cgroup */

/* Bytes, or UINT64_MAX without a limit. */
uint64_t memory_limit(void);
/* The same for `groups` (the text of /proc/self/cgroup) and what is mounted below `mount`. */
uint64_t memory_limit_at(const char *groups, const char *mount);
