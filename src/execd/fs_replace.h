#pragma once
/* Replacing text in a file. Blocking: for workers. */

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

/* Replaces every occurrence of `old_text` (bytes, not overlapping, left to right). The file is
 * always written anew, atomically, with its owner and mode; memory does not grow with its size.
 * ERR_INVALID without an errno when `old_text` is empty, which is only looked at after the file. */
int fs_replace(struct arena *a, const char *abs, struct str old_text, struct str new_text,
               uint64_t *ret_count, struct err *e);
