#pragma once
/* Messages on standard input: one JSON value a line. A line that is too long is skipped as a whole,
 * so that one bad message does not end the session. */

#include <stdbool.h>

#include "base/buf.h"

struct frame_reader {
    struct buf b;
    size_t max;
    bool skipping;
};

/* `too_long`: the message was dropped, `line` is empty. */
typedef void frame_cb(struct str line, bool too_long, void *arg);

void frame_init(struct frame_reader *r, size_t max);
void frame_done(struct frame_reader *r);
void frame_feed(struct frame_reader *r, struct str data, frame_cb *cb, void *arg);
/* A last line without its end. */
void frame_end(struct frame_reader *r, frame_cb *cb, void *arg);
