#pragma once
/* Warm pools: sandboxes of one template, started ahead of their use, that wait for a create with
 * extensions.poolRef.
 *
 * A member is a sandbox like any other, with a row in the store and an entry in the registry, whose
 * owner is the pool (MEMBER_OWNER): so everything that looks after sandboxes looks after members
 * too, and no API key sees one. Its execd waits to be told what to run (runtime->activate).
 *
 * A create that names a pool is completed from the template, so that what is made is the same
 * whether a member is taken or not: pool_complete(). pool_claim() takes the member of that template
 * that waits longest, or none; then its row is replaced by that of the client's sandbox, in one
 * transaction, and it is activated. If that fails because it is dead or was used, the create starts
 * over with the same id, as every create can.
 *
 * Counting: ready + being made + taken and still there <= poolMax. Threads of their own refill
 * (pool_fill.c), one member of a pool at a time, and give way to creates.
 *
 * Locks: pools.lock is a leaf. */

#include <pthread.h>

#include "base/list.h"
#include "model/pool.h"
#include "server/lifecycle/internal.h"

#define POOL_CODE_NOT_FOUND "KUBERNETES::POOL_NOT_FOUND"
#define POOL_CODE_EXISTS "KUBERNETES::POOL_ALREADY_EXISTS"
#define POOL_CODE_ERROR "KUBERNETES::POOL_API_ERROR"
#define POOL_CODE_UNSUPPORTED "KUBERNETES::POOL_NOT_SUPPORTED"
#define POOL_REVISION_LEN 16

struct pool {
    struct list node;
    /* facts */
    char *owner, *name, *member_owner;
    int64_t created_us;
    bool from_config;
    /* pools.lock */
    int refs;
    bool is_deleted;
    struct pool_capacity cap;
    char *request; /* the template as a create request: JSON */
    char *tmpl;    /* as it was given: JSON */
    char hash[PLAN_HASH_LEN + 1];
    struct runtime_limits limits; /* of the template */
    struct sandbox **ready;       /* references, the longest waiting first */
    size_t n_ready, cap_ready, n_making, n_taken;
    uint64_t retry_ms, short_since_ms; /* monotonic; 0: now; 0: not short of members */
    unsigned n_failed;
};

struct pools {
    struct lifecycle *lc;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    struct list all; /* struct pool */
    size_t n;
    pthread_t threads[POOL_THREADS];
    unsigned n_threads;
    bool stopping;
};

/* ---- pool.c ---- */
struct pools *pools_new(struct lifecycle *lc);
void pools_free(struct pools *ps);
void pools_wake(struct pools *ps);

/* With the lock held. */
struct pool *pool_find(struct pools *ps, const char *owner, const char *name);
struct pool *pool_find_member(struct pools *ps, const struct sandbox *sb); /* the one it waits in */
void pool_add(struct pools *ps, struct pool *take_p);
void pool_push(struct pool *p, struct sandbox *take_sb);
struct sandbox *pool_shift(struct pool *p, const char *revision);    /* its first, or NULL */
struct sandbox *pool_pull(struct pool *p, const struct sandbox *sb); /* this one, or NULL */
struct sandbox *pool_pull_surplus(struct pool *p);                   /* one too many, or NULL */
void pool_unref(struct pool *p);

/* Without it. A new one, not added yet; NULL with a 400. */
struct pool *pool_make(struct lifecycle *lc, const char *owner, const char *name,
                       const struct json *tmpl, const struct pool_capacity *cap, struct problem *p);
/* Another template for it: 0, or -1 with a 400 and nothing changed. The lock is taken. */
int pool_set_template(struct lifecycle *lc, struct pool *p, const struct json *tmpl,
                      struct problem *pr);
int pool_store(struct lifecycle *lc, const struct pool *p, struct err *e);
/* Takes members that are too many, or of an older template, out and down. */
void pool_trim(struct lifecycle *lc, struct pool *p);
void pool_discard(struct lifecycle *lc, struct sandbox *take_sb);
size_t pool_count_taken(struct lifecycle *lc, const char *owner, const char *name);

/* Called by create.c */
struct pool_claim {
    struct pool *pool;
    struct sandbox *member; /* with its operation begun; or NULL: none waits */
};
/* Puts a plan for the whole sandbox in place of the one that only names a pool. */
int pool_complete(struct lifecycle *lc, const struct caller *c, struct create_plan **plan,
                  struct problem *p);
/* One of the pool's poolMax, and a member if there is one. 404, 503. */
int pool_claim(struct lifecycle *lc, const struct caller *c, const struct create_plan *plan,
               struct pool_claim *ret, struct problem *p);
void pool_claimed(struct lifecycle *lc, struct pool_claim *claim); /* it is the client's now */
void pool_unclaim(struct lifecycle *lc, struct pool_claim *claim); /* back to the pool */
/* Called by remove.c and event.c */
void pool_on_gone(struct lifecycle *lc, const struct sandbox *sb);
void pool_on_event(struct lifecycle *lc, const char *type, const struct sandbox *sb);

/* ---- pool_fill.c ---- */
void pools_start(struct pools *ps);
void pools_stop(struct pools *ps); /* waits for what is being made */

/* ---- pool_recover.c ---- */
/* Pools of the store and of the configuration, and which sandboxes wait in them. */
int pools_recover(struct lifecycle *lc, struct err *e);

/* ---- pool_template.c ---- */
/* A template, or a PodTemplateSpec with one container, as a create request. NULL with a 400. */
struct json *template_to_request(const struct json *tmpl, struct problem *p);
/* What a request that names the pool makes of it. NULL with a 400. */
struct json *template_merge(const struct json *request, const struct create_plan *plan,
                            struct problem *p);
