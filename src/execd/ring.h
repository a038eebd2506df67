#pragma once
/* The newest bytes of an endless output, addressed by their offset from its beginning. */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct ring {
    char *p;
    size_t cap, max; /* memory grows with the content, up to max */
    uint64_t total;  /* bytes ever added */
};

void ring_init(struct ring *r, size_t max);
void ring_done(struct ring *r);
void ring_add(struct ring *r, struct str data);
/* Everything kept from offset `since` on, in order, as one or two pieces. Returns the offset of the
 * first byte, which is later than `since` when that is no longer there. */
uint64_t ring_since(const struct ring *r, uint64_t since, struct str pieces[2]);
