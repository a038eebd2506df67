#pragma once
/* Host user and group ids of sandboxes: range i is [base + i * count, base + (i + 1) * count), and
 * no two sandboxes have the same range at the same time. The range of a sandbox is recorded in its
 * state file; at start the ranges found there are reserved again. Thread-safe. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct idrange {
    pthread_mutex_t lock;
    uint32_t base, count, n;
    uint32_t next; /* where the search goes on: a range rests as long as possible before it is used
                      again */
    uint32_t n_taken;
    uint64_t *taken; /* bit per range */
};

int idrange_init(struct idrange *r, int64_t base, int64_t count, int64_t ranges, struct err *e);
void idrange_done(struct idrange *r);
/* The index of a free range, or -1 when all are taken. */
int idrange_take(struct idrange *r);
/* Marks range i as taken; false when it was already, or does not exist. */
bool idrange_reserve(struct idrange *r, uint32_t i);
void idrange_release(struct idrange *r, uint32_t i);
uint32_t idrange_first(const struct idrange *r, uint32_t i); /* host id of the sandbox's id 0 */

/* A user namespace that maps ids 0..count-1 to `first`..: a descriptor, or -1. Nothing runs in it;
 * it exists for idmapped mounts and for the engine to join. */
int userns_make(uint32_t first, uint32_t count, struct err *e);
