#pragma once
/* Event loops. A loop belongs to one thread; everything created on it is used on it and dies on it.
 * The only call that may come from another thread is io_post() (and io_loop_stop()).
 *
 * libuv is inside; no other room includes its headers. Nothing on a loop blocks. */

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

struct io_loop;
struct io_group;

typedef void io_fn(void *arg);

struct io_loop *io_loop_new(void);
/* The loop must have been stopped. What was posted or deferred still runs; handles that are still
 * open are closed, without a callback. */
void io_loop_free(struct io_loop *l);
void io_loop_run(struct io_loop *l);  /* until io_loop_stop() */
void io_loop_stop(struct io_loop *l); /* any thread */
/* One turn: handles what is ready (waits for the next event when wait), for tests. */
void io_loop_turn(struct io_loop *l, bool wait);
/* The loop this thread is running, or NULL. */
struct io_loop *io_loop_current(void);

/* Runs fn(arg) on the loop's thread, in order of posting. Any thread; never blocks. */
void io_post(struct io_loop *l, io_fn *fn, void *arg);
/* Runs fn(arg) on this loop after the callbacks of this turn: deferred free. Loop thread only. */
void io_defer(struct io_loop *l, io_fn *fn, void *arg);

/* A part of an object that owns handles (listener, relay, WebSocket, ...). What has not taken its
 * node out of the loop's list when the loop is freed is destroyed through fn, which has to let go
 * of everything at once and must not call a user. */
struct io_owned {
    struct list node;
    void (*fn)(struct io_owned *o);
};
void io_loop_own(struct io_loop *l, struct io_owned *o, void (*fn)(struct io_owned *o));

/* Monotonic milliseconds as the loop's timers see them (cached per turn). */
uint64_t io_now_ms(struct io_loop *l);
/* Tests: from now on time moves only through io_clock_advance(), which fires what is due. */
void io_clock_fake(struct io_loop *l);
void io_clock_advance(struct io_loop *l, uint64_t ms);

/* One loop per core, each on a thread of its own. */
struct io_group *io_group_new(unsigned n_loops); /* 0: number of CPUs this process may use */
unsigned io_group_len(const struct io_group *g);
struct io_loop *io_group_loop(struct io_group *g, unsigned i);
void io_group_start(struct io_group *g);
void io_group_stop(struct io_group *g); /* stops and joins */
void io_group_free(struct io_group *g);

/* Calls fn on the loop for each delivery of signo (SIGTERM, SIGHUP, SIGCHLD, ...). */
void io_signal_watch(struct io_loop *l, int signo, void (*fn)(int signo, void *arg), void *arg);
