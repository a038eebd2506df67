#pragma once
/* The life of sandboxes: create, pause, resume, renew, expiry, delete, and putting store, memory
 * and runtime in agreement after a crash.
 *
 * Order of truth. A sandbox is in the store before its create begins, and leaves it after its
 * remove has ended; the registry (memory) follows the store. So whatever a crash interrupts, the
 * store says what was promised, and lifecycle_recover() finishes or undoes it.
 *
 * Serialisation. At most one operation at a time works on a sandbox (lifecycle/op.c); others wait
 * for it or are refused. Reading never waits. Everything here may block and is called from workers,
 * unless it says "any thread". */

#include "server/config/config.h"
#include "server/lifecycle/plan.h"
#include "server/lifecycle/problem.h"
#include "server/lifecycle/registry.h"
#include "server/lifecycle/sandbox.h"
#include "server/runtime/runtime.h"
#include "server/store/store.h"

struct lifecycle;
struct io_loop;

/* On whose behalf something happens. */
struct caller {
    const char *owner;      /* NULL: the server itself, any owner */
    const char *actor;      /* name of the API key, "expiry", ... */
    const char *request_id; /* or NULL */
};

struct lifecycle_opts {
    struct config *cfg;   /* a reference is taken */
    struct store *store;  /* borrowed, outlives it */
    struct runtime *rt;   /* borrowed, outlives it */
    struct io_loop *loop; /* for timers; runs on the thread that calls lifecycle_start() */
};

struct lifecycle *lifecycle_new(const struct lifecycle_opts *o);
/* Once, before requests come: loads the store, takes charge of what runs, finishes or undoes what
 * was interrupted, removes what belongs to nobody. */
int lifecycle_recover(struct lifecycle *lc, struct err *e);
void lifecycle_start(struct lifecycle *lc); /* timers; loop thread */
void lifecycle_stop(struct lifecycle *lc);  /* timers; loop thread */
void lifecycle_free(struct lifecycle *lc);  /* waits for operations at work; sandboxes go on */

/* Any thread. */
void lifecycle_set_config(struct lifecycle *lc, struct config *cfg);
struct config *lifecycle_config(struct lifecycle *lc); /* a reference */
struct registry *lifecycle_registry(struct lifecycle *lc);
struct runtime *lifecycle_runtime(struct lifecycle *lc);
struct store *lifecycle_store(struct lifecycle *lc);
/* A reference, or NULL with a 404. */
struct sandbox *lifecycle_get(struct lifecycle *lc, const struct caller *c, struct str id,
                              struct problem *p);

/* ---- create ---- */
/* Somebody waiting for a create. done() is called once, in a worker: with the sandbox (borrowed),
 * or with the problem. */
struct create_waiter {
    struct list node;
    struct sandbox *sb;
    bool finished;
    void (*done)(struct create_waiter *w, struct sandbox *sb, const struct problem *p);
};
/* Records the sandbox and queues the work. -1 with the problem: nothing was recorded and done()
 * will not be called. With an idempotency key that is known the waiter joins the earlier create. */
int lifecycle_create(struct lifecycle *lc, const struct caller *c, struct create_plan *take_plan,
                     const char *idem_key, struct create_waiter *w, struct problem *p);
/* The client has left: true when done() will not be called any more. A create that nobody waits for
 * and that has no idempotency key is undone. Any thread. */
bool lifecycle_create_leave(struct lifecycle *lc, struct create_waiter *w);
/* The client is going to be told that it is Pending: true when done() will not be called any more;
 * the create goes on, and the sandbox in *ret_sb is a new reference. */
bool lifecycle_create_detach(struct lifecycle *lc, struct create_waiter *w,
                             struct sandbox **ret_sb);

/* ---- the rest ---- */
int lifecycle_delete(struct lifecycle *lc, const struct caller *c, struct str id,
                     struct problem *p);
int lifecycle_pause(struct lifecycle *lc, const struct caller *c, struct str id, struct problem *p);
int lifecycle_resume(struct lifecycle *lc, const struct caller *c, struct str id,
                     struct problem *p);
int lifecycle_renew(struct lifecycle *lc, const struct caller *c, struct str id, int64_t expires_us,
                    struct problem *p);
/* Merge patch: a NULL value deletes the key. */
int lifecycle_patch_metadata(struct lifecycle *lc, const struct caller *c, struct str id,
                             const struct str_pair *changes, size_t n, struct problem *p);
/* Extends to now + renew_extend_s if the sandbox asked for it and runs; never shortens. Throttled
 * by renew_intent.min_interval_seconds. Any thread: the work is queued. */
void lifecycle_touch(struct lifecycle *lc, struct sandbox *sb, const char *source);

/* ---- snapshots ---- */
/* Records it as Creating and queues the work. The row is in the arena. */
int lifecycle_snapshot(struct lifecycle *lc, const struct caller *c, struct str id,
                       const char *name, struct arena *a, struct store_snapshot *ret,
                       struct problem *p);
int lifecycle_snapshot_get(struct lifecycle *lc, const struct caller *c, struct str id,
                           struct arena *a, struct store_snapshot *ret, struct problem *p);
int lifecycle_snapshot_delete(struct lifecycle *lc, const struct caller *c, struct str id,
                              struct problem *p);

/* `count` sandboxes that begin where the running one is now, all of them or none. The references
 * are in the arena's array; the caller gives each back. */
int lifecycle_fork(struct lifecycle *lc, const struct caller *c, struct str id,
                   const struct json *request, struct arena *a, struct sandbox ***ret,
                   size_t *ret_n, struct problem *p);

/* ---- pools (lifecycle/pool.h) ---- */
struct pool_request;
struct pool_view;
/* Each fills the view, in the arena, with what is there afterwards. */
int lifecycle_pool_create(struct lifecycle *lc, const struct caller *c,
                          const struct pool_request *q, struct arena *a, struct pool_view *ret,
                          struct problem *p);
/* Capacity, and the template where one is given: members of another one are replaced. */
int lifecycle_pool_update(struct lifecycle *lc, const struct caller *c, const char *name,
                          const struct pool_request *q, struct arena *a, struct pool_view *ret,
                          struct problem *p);
int lifecycle_pool_get(struct lifecycle *lc, const struct caller *c, const char *name,
                       struct arena *a, struct pool_view *ret, struct problem *p);
/* Members go with it; sandboxes that were taken from it stay. */
int lifecycle_pool_delete(struct lifecycle *lc, const struct caller *c, const char *name,
                          struct problem *p);
int lifecycle_pool_list(struct lifecycle *lc, const struct caller *c, struct arena *a,
                        struct pool_view **ret, size_t *ret_n, struct problem *p);

/* ---- listening ---- */
/* Every state change and every action on a sandbox passes here, in the thread that made it. */
typedef void lifecycle_listener(const struct store_event *ev, const struct sandbox *sb, void *arg);
#define LIFECYCLE_LISTENERS_MAX 8
void lifecycle_listen(struct lifecycle *lc, lifecycle_listener *fn, void *arg); /* before start */
