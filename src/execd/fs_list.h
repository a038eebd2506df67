#pragma once
/* Listings: what is in a directory, and which files match a pattern. Blocking: for workers. */

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* What both return besides 0 and -1 (the root itself cannot be used): it broke further down. */
#define FS_LIST_BROKE (-2)

/* Appends a JSON array of everything below `abs`, `depth` levels deep, to `out`. ERR_INVALID
 * without an errno when it is a link or no directory. */
int fs_list(const char *abs, unsigned depth, struct buf *out, struct err *e);
/* Appends a JSON array of all entries below `abs` (or `abs` itself when it is no directory) that
 * are not directories and match. A pattern with a slash is matched against the path below `abs`,
 * any other against the name alone. Does not go on into /proc, /sys and the like from outside. */
int fs_search(const char *abs, struct str pattern, struct buf *out, struct err *e);
