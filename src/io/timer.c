/* Timers in a 4-ary heap per loop, driven by one uv timer.
 *
 * Theory of operation: a timer has two times. due_ms is when it shall fire; heap_ms is the key by
 * which it sits in the heap and is never later than due_ms. Pushing a timer into the future only
 * writes due_ms. When a timer comes to the top with heap_ms in the past and due_ms in the future it
 * is sifted down under its real time; so a timeout that is restarted on every read costs one heap
 * operation per timeout period, not per read. */

#include "io/timer.h"

#include "base/must.h"
#include "io/internal.h"

#define ARITY 4u

static uint32_t heap_parent(uint32_t i)
{
    return (i - 2) / ARITY + 1;
}

static void heap_set(struct io_loop *l, uint32_t i, struct io_timer *t)
{
    l->heap[i] = t;
    t->heap_idx = i;
}

static void heap_up(struct io_loop *l, uint32_t i)
{
    struct io_timer *t = l->heap[i];

    while (i > 1) {
        uint32_t up = heap_parent(i);
        if (l->heap[up]->heap_ms <= t->heap_ms) {
            break;
        }
        heap_set(l, i, l->heap[up]);
        i = up;
    }
    heap_set(l, i, t);
}

static void heap_down(struct io_loop *l, uint32_t i)
{
    struct io_timer *t = l->heap[i];

    for (;;) {
        uint32_t first = ARITY * (i - 1) + 2, best = 0;
        for (uint32_t c = first; c < first + ARITY && c <= l->n_heap; c++) {
            if (!best || l->heap[c]->heap_ms < l->heap[best]->heap_ms) {
                best = c;
            }
        }
        if (!best || l->heap[best]->heap_ms >= t->heap_ms) {
            break;
        }
        heap_set(l, i, l->heap[best]);
        i = best;
    }
    heap_set(l, i, t);
}

static void heap_add(struct io_loop *l, struct io_timer *t)
{
    if (l->n_heap + 1 >= l->heap_cap) {
        must(l->heap_cap <= UINT32_MAX / 8);
        l->heap_cap = l->heap_cap ? l->heap_cap * 2 : 16;
        l->heap = xreallocarray(l->heap, l->heap_cap, sizeof(struct io_timer *));
    }
    heap_set(l, ++l->n_heap, t);
    heap_up(l, l->n_heap);
}

static void heap_del(struct io_loop *l, struct io_timer *t)
{
    uint32_t i = t->heap_idx;
    struct io_timer *last = l->heap[l->n_heap--];

    t->heap_idx = 0;
    if (last != t) {
        heap_set(l, i, last);
        heap_up(l, i);
        heap_down(l, last->heap_idx);
    }
}

static void on_clock(uv_timer_t *h);

static void clock_set(struct io_loop *l)
{
    if (l->fake_ms || l->firing || !l->n_heap || l->heap[1]->heap_ms >= l->clock_due_ms) {
        return; /* waking up too early is harmless, so the uv timer is never moved back */
    }
    uint64_t now = io_now_ms(l), due = l->heap[1]->heap_ms;
    must(uv_timer_start(&l->clock, on_clock, due > now ? due - now : 0, 0) == 0);
    l->clock_due_ms = due;
}

/* Fires everything due at `now`. What a callback starts anew is at least 1 ms away (see
 * io_timer_start), so this ends. */
static void fire(struct io_loop *l, uint64_t now)
{
    l->firing = true;
    while (l->n_heap && l->heap[1]->heap_ms <= now) {
        struct io_timer *t = l->heap[1];
        if (t->due_ms > now) {
            t->heap_ms = t->due_ms;
            heap_down(l, 1);
            continue;
        }
        heap_del(l, t);
        t->due_ms = 0;
        t->fn(t);
    }
    l->firing = false;
}

static void on_clock(uv_timer_t *h)
{
    struct io_loop *l = h->data;

    l->clock_due_ms = UINT64_MAX;
    fire(l, io_now_ms(l));
    clock_set(l);
}

void timers_init(struct io_loop *l)
{
    must(uv_timer_init(&l->uv, &l->clock) == 0);
    l->clock.data = l;
    l->clock_due_ms = UINT64_MAX;
}

void timers_done(struct io_loop *l)
{
    for (uint32_t i = 1; i <= l->n_heap; i++) {
        l->heap[i]->heap_idx = 0;
        l->heap[i]->due_ms = 0;
    }
    l->n_heap = 0;
    free(l->heap);
    l->heap = NULL;
}

void timers_stop_clock(struct io_loop *l)
{
    (void)uv_timer_stop(&l->clock); /* always 0 */
    l->clock_due_ms = UINT64_MAX;
}

void timers_advance(struct io_loop *l, uint64_t ms)
{
    uint64_t end = l->fake_ms + ms;

    while (l->n_heap && l->heap[1]->heap_ms <= end) {
        l->fake_ms = MAX(l->fake_ms, l->heap[1]->heap_ms);
        fire(l, l->fake_ms);
    }
    l->fake_ms = end;
}

void io_timer_init(struct io_timer *t, struct io_loop *l, void (*fn)(struct io_timer *t))
{
    *t = (struct io_timer){.loop = l, .fn = fn};
}

void io_timer_start(struct io_timer *t, uint64_t after_ms)
{
    struct io_loop *l = t->loop;

    if (l->firing && after_ms == 0) {
        after_ms = 1; /* else a timer that restarts itself would never let the loop go on */
    }
    uint64_t now = io_now_ms(l);
    t->due_ms = after_ms > UINT64_MAX - 1 - now ? UINT64_MAX - 1 : now + after_ms;
    if (t->heap_idx && t->heap_ms <= t->due_ms) {
        return;
    }
    t->heap_ms = t->due_ms;
    if (t->heap_idx) {
        heap_up(l, t->heap_idx);
    } else {
        heap_add(l, t);
    }
    clock_set(l);
}

void io_timer_stop(struct io_timer *t)
{
    t->due_ms = 0;
    if (t->heap_idx) {
        heap_del(t->loop, t);
    }
}
