#pragma once
/* Descriptors and paths. Every descriptor is opened O_CLOEXEC; every path that a user names is
 * resolved with openat2 below a directory descriptor. Return values: descriptor or 0, or -errno. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/str.h"

struct buf;

int fd_set_nonblock(int fd, bool on);
int fd_set_cloexec(int fd, bool on);
/* Reads or writes everything unless an error comes first; EINTR is retried. */
ssize_t fd_read_full(int fd, void *p, size_t n);
int fd_write_full(int fd, const void *p, size_t n);
/* openat2 with RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS: symlinks and ".." stay below root_fd. */
int fd_open_in_root(int root_fd, const char *path, int flags, mode_t mode);
/* openat2 with RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS: no escape, no link.
 */
int fd_open_beneath(int dir_fd, const char *path, int flags, mode_t mode);
/* The call itself, with RESOLVE_* flags of <linux/openat2.h>; O_CLOEXEC is added. */
int fd_openat2(int dir_fd, const char *path, int flags, mode_t mode, uint64_t resolve);
/* Whole small files (configuration, cgroup, /proc): at most out->max bytes, else -EFBIG. */
int file_read(int dir_fd, const char *path, struct buf *out);
/* The same where somebody else decides what is there: a FIFO or a device is -EINVAL and is not
 * waited for. */
int file_read_regular(int dir_fd, const char *path, struct buf *out);
/* Temporary file beside the target, fsync, rename: old content or new content, never half. */
int file_write_atomic(int dir_fd, const char *path, struct str content, mode_t mode);
/* For /proc, /sys and cgroup files: open, one write, close. */
int file_write(int dir_fd, const char *path, struct str content);
int dir_make(int dir_fd, const char *path, mode_t mode); /* mkdir -p */
/* rm -rf by descriptors: never follows a symlink, never leaves the file system of `path` when
 * one_fs. Missing is success. */
int dir_remove(int dir_fd, const char *path, bool one_fs);
