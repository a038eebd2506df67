#pragma once
/* Lines [offset, offset + limit) of a byte stream, joined by LF, each without its CR and LF; no
 * final newline. Incremental and pure: memory does not grow with the length of a line. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct line_filter {
    uint64_t skip;    /* lines still to be left out */
    uint64_t left;    /* lines still to be passed on */
    bool in_line;     /* something of the current line has been seen */
    bool any;         /* a line has been passed on before */
    uint64_t held_cr; /* carriage returns that are content only if more of the line follows */
};

/* offset counts from 1. */
void line_filter_init(struct line_filter *f, uint64_t offset, uint64_t limit);
/* Appends what `in` contributes to `out` (at most 2 bytes more than `in` and held_cr together).
 * True once all lines have been seen. */
bool line_filter_feed(struct line_filter *f, struct str in, struct buf *out);
