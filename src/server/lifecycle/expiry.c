/* See expiry.h. Each sandbox knows its slot, so that moving and removing are O(log n). */

#include "server/lifecycle/expiry.h"

#include "base/must.h"

void expiry_init(struct expiry *x)
{
    *x = (struct expiry){0};
    (void)pthread_mutex_init(&x->lock, NULL);
}

void expiry_done(struct expiry *x)
{
    for (size_t i = 0; i < x->n; i++) {
        x->heap[i]->heap_slot = 0;
        sandbox_unref(x->heap[i]);
    }
    free(x->heap);
    (void)pthread_mutex_destroy(&x->lock);
}

static void put(struct expiry *x, size_t i, struct sandbox *sb)
{
    x->heap[i] = sb;
    sb->heap_slot = i + 1;
}

static void sift_up(struct expiry *x, size_t i)
{
    struct sandbox *sb = x->heap[i];
    while (i > 0 && x->heap[(i - 1) / 2]->due_ms > sb->due_ms) {
        put(x, i, x->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    put(x, i, sb);
}

static void sift_down(struct expiry *x, size_t i)
{
    struct sandbox *sb = x->heap[i];
    for (;;) {
        size_t k = 2 * i + 1;
        if (k + 1 < x->n && x->heap[k + 1]->due_ms < x->heap[k]->due_ms) {
            k++;
        }
        if (k >= x->n || x->heap[k]->due_ms >= sb->due_ms) {
            break;
        }
        put(x, i, x->heap[k]);
        i = k;
    }
    put(x, i, sb);
}

static void take_out(struct expiry *x, size_t i)
{
    x->heap[i]->heap_slot = 0;
    struct sandbox *last = x->heap[--x->n];
    if (i < x->n) {
        put(x, i, last);
        sift_up(x, i);
        sift_down(x, last->heap_slot - 1);
    }
}

bool expiry_set(struct expiry *x, struct sandbox *sb, uint64_t due_ms)
{
    (void)pthread_mutex_lock(&x->lock);
    sb->due_ms = due_ms;
    if (!sb->heap_slot) {
        if (x->n == x->cap) {
            x->cap = x->cap ? x->cap * 2 : 64;
            x->heap = xreallocarray(x->heap, x->cap, sizeof(*x->heap));
        }
        put(x, x->n++, sandbox_ref(sb));
    }
    size_t i = sb->heap_slot - 1;
    sift_up(x, i);
    sift_down(x, sb->heap_slot - 1);
    bool first = x->heap[0] == sb;
    (void)pthread_mutex_unlock(&x->lock);
    return first;
}

void expiry_remove(struct expiry *x, struct sandbox *sb)
{
    (void)pthread_mutex_lock(&x->lock);
    bool there = sb->heap_slot != 0;
    if (there) {
        take_out(x, sb->heap_slot - 1);
    }
    (void)pthread_mutex_unlock(&x->lock);
    if (there) {
        sandbox_unref(sb);
    }
}

struct sandbox *expiry_pop(struct expiry *x, uint64_t now_ms)
{
    struct sandbox *sb = NULL;
    (void)pthread_mutex_lock(&x->lock);
    if (x->n && x->heap[0]->due_ms <= now_ms) {
        sb = x->heap[0];
        take_out(x, 0);
    }
    (void)pthread_mutex_unlock(&x->lock);
    return sb;
}

bool expiry_is_due(struct expiry *x, const struct sandbox *sb, uint64_t now_ms)
{
    (void)pthread_mutex_lock(&x->lock);
    bool due = sb->due_ms <= now_ms;
    (void)pthread_mutex_unlock(&x->lock);
    return due;
}

uint64_t expiry_next(struct expiry *x)
{
    (void)pthread_mutex_lock(&x->lock);
    uint64_t due = x->n ? x->heap[0]->due_ms : EXPIRY_NEVER;
    (void)pthread_mutex_unlock(&x->lock);
    return due;
}

size_t expiry_len(struct expiry *x)
{
    (void)pthread_mutex_lock(&x->lock);
    size_t n = x->n;
    (void)pthread_mutex_unlock(&x->lock);
    return n;
}
