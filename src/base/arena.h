#pragma once
/* Memory that dies together: everything a request decodes or builds. No single free, one
 * arena_done(). Long-lived objects never point into an arena. */

#include <stddef.h>

#include "base/str.h"

struct arena_chunk;

struct arena {
    struct arena_chunk *head;
    size_t used, max; /* bytes handed out; max 0 means ARENA_DEFAULT_MAX */
};

#define ARENA_DEFAULT_MAX (64u << 20) /* limit: bytes of one arena, unless it says otherwise */

void arena_done(struct arena *a);
static inline void arena_done_cleanup(struct arena *a)
{
    arena_done(a);
}
/* Zeroed, aligned for any type. Going over the maximum is a programming error (limits on what is
 * decoded come first) and aborts. */
void *arena_alloc(struct arena *a, size_t n) __attribute__((returns_nonnull));
/* Bytes left below the maximum: for decoders that refuse instead of aborting. */
static inline size_t arena_room(const struct arena *a)
{
    size_t max = a->max ? a->max : ARENA_DEFAULT_MAX;
    return a->used < max ? max - a->used : 0;
}
void *arena_array(struct arena *a, size_t n, size_t size) __attribute__((returns_nonnull));
char *arena_strdup(struct arena *a, const char *s) __attribute__((returns_nonnull));
/* NUL-terminated copy. */
char *arena_str(struct arena *a, struct str s) __attribute__((returns_nonnull));
char *arena_printf(struct arena *a, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), returns_nonnull));
#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
