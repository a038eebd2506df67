/* Replay buffer. While it has not reached its maximum the content is linear from offset 0, so
 * growing is a plain reallocation. */

#include "execd/ring.h"

#include <stdlib.h>

#include "base/must.h"

#define FIRST_CAP 4096u

void ring_init(struct ring *r, size_t max)
{
    *r = (struct ring){.max = max};
}

void ring_done(struct ring *r)
{
    free(r->p);
    *r = (struct ring){.max = r->max};
}

static void grow(struct ring *r, size_t n)
{
    size_t cap = r->cap ? r->cap : MIN(FIRST_CAP, r->max);
    while (cap < r->max && r->total + n > cap) {
        cap = MIN(2 * cap, r->max);
    }
    if (cap != r->cap) {
        r->p = xrealloc(r->p, cap);
        r->cap = cap;
    }
}

void ring_add(struct ring *r, struct str data)
{
    if (data.n == 0) {
        return;
    }
    if (r->cap < r->max) {
        grow(r, data.n);
    }
    if (data.n > r->cap) { /* only its end will be kept */
        r->total += data.n - r->cap;
        data = str_sub(data, data.n - r->cap, data.n);
    }
    size_t at = (size_t)(r->total % r->cap);
    size_t first = MIN(data.n, r->cap - at);
    memcpy(r->p + at, data.p, first);
    memcpy(r->p, data.p + first, data.n - first);
    r->total += data.n;
}

uint64_t ring_since(const struct ring *r, uint64_t since, struct str pieces[2])
{
    uint64_t oldest = r->total > r->cap ? r->total - r->cap : 0;
    uint64_t from = MIN(MAX(since, oldest), r->total);
    size_t n = (size_t)(r->total - from);
    size_t at = r->cap ? (size_t)(from % r->cap) : 0;
    size_t first = MIN(n, r->cap - at);
    pieces[0] = str_n(r->p + at, first);
    pieces[1] = str_n(r->p, n - first);
    return from;
}
