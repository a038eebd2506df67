#pragma once
/* Shared by the files of this directory only.
 *
 * Locks, outermost first: meta (expiry and metadata of all sandboxes, held across a store write),
 * then one of registry, op, expiry, admission, config: those are leaves and never held across I/O.
 */

#include <pthread.h>

#include "io/loop.h"
#include "io/pool.h"
#include "io/timer.h"
#include "server/lifecycle/expiry.h"
#include "server/lifecycle/lifecycle.h"
#include "server/limits.h"

struct admission {
    pthread_mutex_t lock;
    size_t total;
    struct map per_key; /* actor -> count, as a pointer-sized number */
    uint64_t last_ms;   /* atomic: when a create last came or went, monotonic */
};

struct pools;

struct lifecycle {
    struct registry reg;
    struct store *store;
    struct runtime *rt;
    struct io_loop *loop;
    struct io_pool *creates;  /* creates only: they may take long */
    struct io_pool *captures; /* snapshots */
    struct io_pool *fetches;  /* creates that fetch an image first: they may take very long */
    struct io_pool *maint;    /* removals by expiry, exits, renewals, sweeps */

    pthread_mutex_t cfg_lock;
    struct config *cfg;

    pthread_mutex_t meta_lock;
    pthread_mutex_t op_lock;
    pthread_cond_t op_cond;
    struct admission admission;

    struct pools *pools;

    struct expiry expiry;
    struct io_timer expiry_timer, sweep_timer;
    bool sweeping;           /* atomic: a sweep is queued or at work */
    bool stopping;           /* atomic */
    int64_t clock_offset_us; /* wall - monotonic, loop thread */

    size_t n_listeners;
    struct {
        lifecycle_listener *fn;
        void *arg;
    } listeners[LIFECYCLE_LISTENERS_MAX];
};

extern const struct caller caller_expiry, caller_reconcile, caller_runtime;

/* ---- op.c ---- */
/* 0, or -EBUSY when another operation is still at work after wait_ms. */
int op_begin(struct lifecycle *lc, struct sandbox *sb, enum sandbox_op op, uint64_t wait_ms);
void op_end(struct lifecycle *lc, struct sandbox *sb);

/* ---- admission.c ---- */
void admission_init(struct admission *a);
void admission_done(struct admission *a);
/* `grows`: there will be one more sandbox than now. */
int admission_enter(struct lifecycle *lc, const struct caller *c, bool grows, struct problem *p);
void admission_leave(struct lifecycle *lc, const char *actor);

/* ---- event.c ---- */
/* Store, memory, log and listeners, in this order. */
int change_state(struct lifecycle *lc, struct sandbox *sb, const struct caller *c,
                 enum sandbox_state to, const char *type, const char *reason, const char *message,
                 struct err *e);
struct store_event event_make(const struct sandbox *sb, const struct caller *c, const char *type,
                              const char *reason, const char *message);
void event_publish(struct lifecycle *lc, const struct store_event *ev, const struct sandbox *sb);
enum sandbox_state state_of(struct lifecycle *lc, const struct sandbox *sb);

/* ---- create.c ---- */
/* Puts a recorded sandbox (in the registry, op not yet begun) to work. */
void create_enqueue(struct lifecycle *lc, struct sandbox *sb, struct create_plan *take_plan,
                    const char *actor);

/* Makes one that waits in a pool, to the end; the plan's hash is the pool's revision. A reference
 * to it, or NULL: then nothing is left of it. */
struct sandbox *create_member(struct lifecycle *lc, const struct caller *c,
                              struct create_plan *take_plan, struct problem *p);

/* ---- progress.c ---- */
struct progress {
    pthread_mutex_t lock; /* layers come in on several threads */
    const char *what;     /* NULL: nothing has been fetched */
    uint64_t shown_ms;
};
#define PROGRESS_INIT                                                                              \
    {                                                                                              \
        .lock = PTHREAD_MUTEX_INITIALIZER                                                          \
    }
/* `what` is a literal of the runtime's. */
void progress_report(struct lifecycle *lc, struct sandbox *sb, struct progress *p, const char *what,
                     uint64_t done, uint64_t total);

/* ---- remove.c ---- */
/* Decides that it goes: from now on renew, pause and the like find nothing. False when that was
 * decided before, or when `only_expired` and it has been renewed. */
bool remove_decide(struct lifecycle *lc, struct sandbox *sb, bool only_expired);
/* With the operation slot held and the decision made. On failure a retry is scheduled. */
int remove_run(struct lifecycle *lc, struct sandbox *sb, const struct caller *c, const char *type,
               const char *reason, struct err *e);
/* Only record and memory: the runtime has nothing (any more). */
int remove_record(struct lifecycle *lc, struct sandbox *sb, const struct caller *c,
                  const char *type, const char *reason, const char *message, struct err *e);
void remove_async(struct lifecycle *lc, struct sandbox *sb); /* expired, or a retry */

/* ---- snapshot.c ---- */
/* 0 when a sandbox can be made from it; 404 and 409 otherwise. */
int snapshot_restorable(struct lifecycle *lc, const struct caller *c, const char *id,
                        struct problem *p);
void snapshot_recover(struct lifecycle *lc);
/* For forks: the parts of a snapshot, in order. */
#define SNAPSHOT_FORK "snapshot_fork" /* reason of one that lives as long as its fork takes */
int snapshot_check_source(struct lifecycle *lc, struct sandbox *sb, struct problem *p);
int snapshot_record(struct lifecycle *lc, const struct caller *c, struct sandbox *sb,
                    const char *name, const char *reason, struct arena *a,
                    struct store_snapshot *ret, struct problem *p);
int snapshot_capture(struct lifecycle *lc, struct sandbox *sb, const char *id, struct err *e);
/* What it holds and then its row. On failure the row stays, to be tried again. */
int snapshot_erase(struct lifecycle *lc, const char *id, struct err *e);
/* The same for the snapshot of a fork: from here on its sandboxes stay. */
int snapshot_end_fork(struct lifecycle *lc, const char *id, struct err *e);

/* ---- fork.c ---- */
/* Whatever was made from this snapshot goes, with the first tick of the timers. */
void fork_undo(struct lifecycle *lc, const char *snapshot_id);

/* ---- reconcile.c ---- */
void reconcile_exit_cb(const char *id, const struct runtime_status *st, void *arg);
int reconcile_apply(struct lifecycle *lc, struct sandbox *sb, const struct runtime_status *st,
                    struct err *e);
void reconcile_tick(struct io_timer *t);

/* ---- found.c ---- */
/* Takes charge of sandboxes that another server of the protocol made. */
int found_adopt(struct lifecycle *lc, struct err *e);

/* ---- timers.c ---- */
void expiry_arm(struct lifecycle *lc); /* any thread */
void expiry_schedule(struct lifecycle *lc, struct sandbox *sb);
