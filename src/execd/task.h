#pragma once
/* One piece of blocking work for a stream handler: done in a worker, answered on the loop. The
 * owner embeds it and keeps it alive until `done` has been called. */

#include "io/loop.h"
#include "io/pool.h"

struct task {
    struct io_loop *loop;
    void (*work)(struct task *t); /* in a worker */
    void (*done)(struct task *t); /* on the loop */
};

/* 0, or -EAGAIN / -ESHUTDOWN when the pool takes nothing more (or is NULL: gone already); then
 * neither function is called. */
int task_start(struct io_pool *p, struct task *t);
/* The same, but never refused: when the pool is full the work is done here and now, on the loop.
 * `done` is called later in any case. For work that must happen, such as cleaning up. */
void task_start_always(struct io_pool *p, struct task *t);
