#pragma once
/* Pipes of commands that have ended while something they started still holds them. What is written
 * there is read and thrown away, so that the survivor neither blocks nor dies of SIGPIPE. */

#include "base/list.h"
#include "io/stream.h"

struct drains {
    struct list all;
    size_t n;
};

void drains_init(struct drains *d);
void drains_done(struct drains *d);
/* Takes the stream. Beyond EXECD_MAX_DRAINS the oldest one is closed. */
void drains_add(struct drains *d, struct io_stream *take_s);
