#pragma once
/* The end of what a run wrote to stderr, for kernels that report an error without words: tslab
 * prints the message and the stack, and its reply says no more than that there was one. */

#include "base/buf.h"
#include "base/str.h"

struct complaint {
    struct buf tail;
};

void complaint_init(struct complaint *c);
void complaint_done(struct complaint *c);
void complaint_add(struct complaint *c, struct str text);
/* The line that says what is wrong, split at "Name: text"; ename is "Error" where it has no name.
 * Borrowed until the next call. */
void complaint_read(const struct complaint *c, struct str *ret_ename, struct str *ret_evalue);
