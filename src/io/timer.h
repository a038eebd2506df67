#pragma once
/* One-shot timers, embedded in their owner. Restarting an armed timer with a later time is O(1), so
 * idle timeouts may be pushed forward on every read. */

#include <stdbool.h>
#include <stdint.h>

struct io_loop;

struct io_timer {
    struct io_loop *loop;
    void (*fn)(struct io_timer *t);
    uint64_t due_ms;   /* when it shall fire; 0: not armed */
    uint64_t heap_ms;  /* position key in the loop's heap, may be earlier than due_ms */
    uint32_t heap_idx; /* 1-based; 0: not in the heap */
};

void io_timer_init(struct io_timer *t, struct io_loop *l, void (*fn)(struct io_timer *t));
void io_timer_start(struct io_timer *t, uint64_t after_ms);
void io_timer_stop(
    struct io_timer *t); /* harmless when not armed; must precede freeing the owner */
static inline bool io_timer_armed(const struct io_timer *t)
{
    return t->due_ms != 0;
}
