#pragma once
/* Output bytes into text events, one per line.
 *
 * A line ends with LF or CR (CRLF is one end, also when cut between two reads); its terminator is
 * removed, and an empty line is the text "\n". With lf_only just LF ends a line, and one CR before
 * it is removed. What has no end yet is held back until the process ends. A line longer than
 * EXECD_EVENT_TEXT_MAX goes out in pieces, cut between characters. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

struct lines {
    struct str type; /* "stdout" or "stderr" */
    bool lf_only;
    bool skip_lf;    /* the last line ended with CR: an LF that comes next belongs to it */
    struct buf held; /* the beginning of an unfinished line */
};

void lines_init(struct lines *l, struct str type, bool lf_only);
void lines_done(struct lines *l);
/* Consumes from *in and appends events to `out`, until the input is used up or `out` has grown past
 * EXECD_EVENT_BATCH. */
void lines_feed(struct lines *l, struct str *in, struct buf *out, int64_t now_ms);
/* The unfinished last line, if there is one. */
void lines_end(struct lines *l, struct buf *out, int64_t now_ms);
