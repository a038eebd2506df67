#pragma once
/* When sandboxes end: a binary heap by monotonic time, one for all. The record of an expiry is wall
 * time in the store; waiting is monotonic, so that a jump of the wall clock neither ends a sandbox
 * early nor keeps it. The heap holds a reference on each of its sandboxes. */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "server/lifecycle/sandbox.h"

struct expiry {
    pthread_mutex_t lock;
    struct sandbox **heap; /* heap[0] is the next */
    size_t n, cap;
};

#define EXPIRY_NEVER UINT64_MAX

void expiry_init(struct expiry *x);
void expiry_done(struct expiry *x); /* gives the references back */
/* Adds or moves. True when it is now the first: the timer has to be set anew. */
bool expiry_set(struct expiry *x, struct sandbox *sb, uint64_t due_ms);
void expiry_remove(struct expiry *x, struct sandbox *sb);
/* The first that is due, with the heap's reference, or NULL. */
struct sandbox *expiry_pop(struct expiry *x, uint64_t now_ms);
bool expiry_is_due(struct expiry *x, const struct sandbox *sb, uint64_t now_ms);
uint64_t expiry_next(struct expiry *x); /* EXPIRY_NEVER when empty */
size_t expiry_len(struct expiry *x);
