/* The arena: a list of zeroed chunks, filled from the front. */

#include "base/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"

struct arena_chunk {
    struct arena_chunk *next;
    size_t used, cap;
    alignas(max_align_t) char data[];
};

#define CHUNK_MIN 2048u
#define CHUNK_MAX (64u << 10)

void arena_done(struct arena *a)
{
    struct arena_chunk *c = a->head;
    while (c) {
        struct arena_chunk *next = c->next;
        free(c);
        c = next;
    }
    a->head = NULL;
    a->used = 0;
}

static struct arena_chunk *chunk_new(size_t cap)
{
    struct arena_chunk *c = xcalloc(1, sizeof(*c) + cap);
    c->cap = cap;
    return c;
}

void *arena_alloc(struct arena *a, size_t n)
{
    size_t max = a->max ? a->max : ARENA_DEFAULT_MAX;
    must(n <= max);
    n = (MAX(n, 1u) + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    must(n <= max - MIN(a->used, max));
    struct arena_chunk *c = a->head;
    if (!c || n > c->cap - c->used) {
        size_t cap = c ? MIN(c->cap * 2, CHUNK_MAX) : CHUNK_MIN;
        struct arena_chunk *fresh = chunk_new(MAX(cap, n));
        if (c && n > cap) {
            /* A large piece of its own: go on filling the current chunk. */
            fresh->next = c->next;
            c->next = fresh;
        } else {
            fresh->next = c;
            a->head = fresh;
        }
        c = fresh;
    }
    void *p = c->data + c->used;
    c->used += n;
    a->used += n;
    return p;
}

void *arena_array(struct arena *a, size_t n, size_t size)
{
    size_t total;
    must(!__builtin_mul_overflow(n, size, &total));
    return arena_alloc(a, total);
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_str(a, str_from(s));
}

char *arena_str(struct arena *a, struct str s)
{
    char *p = arena_alloc(a, s.n + 1);
    if (s.n) {
        memcpy(p, s.p, s.n);
    }
    return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    must(n >= 0);
    char *p = arena_alloc(a, (size_t)n + 1);
    (void)vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    va_end(ap);
    return p;
}
