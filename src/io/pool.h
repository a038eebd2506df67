#pragma once
/* A bounded pool of worker threads for blocking work: SQLite, engines, registries. The queue has a
 * limit; being full is an answer (-EAGAIN), never a wait. Work hands its result back with
 * io_post(). */

#include <stddef.h>

#include "io/loop.h"

struct io_pool;

struct io_pool *io_pool_new(const char *name, unsigned n_threads, size_t max_queued);
/* For work that seldom comes: a thread is started when no idle one can take it, and then stays. */
struct io_pool *io_pool_new_rare(const char *name, unsigned n_threads, size_t max_queued);
/* Runs everything that is queued, then joins. */
void io_pool_free(struct io_pool *p);
/* Any thread. 0, or -EAGAIN when the queue is full, -ESHUTDOWN when the pool is being freed. */
int io_pool_submit(struct io_pool *p, io_fn *fn, void *arg);
size_t io_pool_queued(struct io_pool *p);
unsigned io_pool_busy(struct io_pool *p);
