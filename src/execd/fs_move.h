#pragma once
/* Moving files and trees, also between file systems. Blocking: for workers. */

#include "base/arena.h"
#include "base/err.h"

/* Makes missing parents of `dest`, never replaces what is there: "destination path already exists".
 * Between file systems the source is copied beside the destination, renamed into place and removed
 * last, so a failure leaves the source whole. */
int fs_move(struct arena *a, const char *src, const char *dest, struct err *e);
