#pragma once
/* The writable layer of a sandbox when its size is limited: a sparse file with a file system of its
 * own, behind a loop device that exists as long as something has it mounted. Filling it fills
 * nothing else. Works on any host file system, without quotas. */

#include <stdint.h>

#include "base/err.h"

/* Can this machine do it? ERR_UNSUPPORTED says what is missing. */
int disk_check(struct err *e);
/* Makes `name` below dir_fd with a file system of `size` bytes and mounts it detached.
 * `templates_fd` is where empty file systems are kept, to be copied instead of made. Returns the
 * mount's descriptor, or -1 with nothing left behind. */
int disk_make(int dir_fd, const char *name, uint64_t size, int templates_fd, struct err *e);
/* Bytes the file takes on the host; 0: no such file. */
/* The file system of a writable layer that a sandbox has mounted, once more: a descriptor. */
int disk_open(int dir_fd, const char *name, struct err *e);
uint64_t disk_used(int dir_fd, const char *name);
