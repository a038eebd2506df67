#pragma once
/* Private temporary files: mode 0600, names nobody can guess, or no name at all. */

#include "base/err.h"
#include "base/str.h"

/* An unnamed file in the first of tmp_dir, /tmp, /var/tmp and /dev/shm that takes one. Descriptor,
 * or -1 with `e`. */
int tmpfile_unnamed(const char *tmp_dir, struct err *e);
/* A file with a name (heap) and this content, NULL when no directory takes one. */
char *tmpfile_named(const char *tmp_dir, struct str content);
/* A file for a child's stdin, in memory where possible: `head_fd` (or -1) and `tail`, one after the
 * other, positioned at its start. Descriptor or -errno. */
int tmpfile_input(const char *tmp_dir, int head_fd, struct str tail);
