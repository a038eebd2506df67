#pragma once
/* Hash map from byte strings to pointers. Keys are copied, values are borrowed. The hash is keyed
 * per process (SipHash-like), so hostile keys cannot be chosen to collide. Not thread-safe. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct map_slot;

struct map {
    struct map_slot *slots;
    size_t n, n_slots, n_dead; /* entries; table size; removed but not yet swept */
};

void map_done(struct map *m); /* frees keys and table, not the values */
static inline void map_done_cleanup(struct map *m)
{
    map_done(m);
}
void *map_get(const struct map *m, struct str key);
/* Returns the value that was there before, or NULL. `value` must not be NULL. */
void *map_put(struct map *m, struct str key, void *value);
/* Removes and returns the value, or NULL. */
void *map_del(struct map *m, struct str key);
static inline size_t map_len(const struct map *m)
{
    return m->n;
}
/* Iteration in no particular order: `size_t it = 0; while (map_next(&m, &it, &key, &value))`.
 * Removing the current key inside the loop is allowed, adding is not. */
/* Either out-parameter may be NULL. */
bool map_next(const struct map *m, size_t *it, struct str *ret_key, void **ret_value);
uint64_t map_hash(struct str key);
