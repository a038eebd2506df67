/* Pools as the API has them: create, list, get, update, delete. */

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/pool.h"

/* With the lock held. */
static void view(const struct pool *p, struct arena *a, struct pool_view *v)
{
    *v = (struct pool_view){.name = arena_strdup(a, p->name), .created_at = {true, p->created_us}};
    v->capacity = ARENA_NEW(a, struct pool_capacity);
    *v->capacity = p->cap;
    v->status = ARENA_NEW(a, struct pool_status);
    *v->status = (struct pool_status){
        .total = {true, (int64_t)(p->n_ready + p->n_making + p->n_taken)},
        .allocated = {true, (int64_t)p->n_taken},
        .available = {true, (int64_t)p->n_ready},
        .revision = arena_str(a, str_n(p->hash, POOL_REVISION_LEN)),
    };
}

static int check_supported(struct lifecycle *lc, struct problem *p)
{
    return lc->rt->ops->activate ? 0
                                 : problem_set(p, 501, POOL_CODE_UNSUPPORTED,
                                               "this runtime has no pools; the embedded one (oci) "
                                               "and Kubernetes do");
}

static int store_failed(const struct err *e, struct problem *p)
{
    log_error("cannot record a pool", LOG_ERR(e));
    return problem_err(p, 500, POOL_CODE_ERROR, e);
}

/* A reference to the caller's pool of this name, or NULL with a 404. */
static struct pool *get(struct lifecycle *lc, const struct caller *c, const char *name,
                        struct problem *p)
{
    if (check_supported(lc, p) < 0) {
        return NULL;
    }
    (void)pthread_mutex_lock(&lc->pools->lock);
    struct pool *pool = pool_find(lc->pools, c->owner, name);
    if (pool) {
        pool->refs++;
    }
    (void)pthread_mutex_unlock(&lc->pools->lock);
    if (!pool) {
        (void)problem_set(p, 404, POOL_CODE_NOT_FOUND, "there is no pool '%.64s'", name);
    }
    return pool;
}

static void put(struct lifecycle *lc, struct pool *p)
{
    (void)pthread_mutex_lock(&lc->pools->lock);
    pool_unref(p);
    (void)pthread_mutex_unlock(&lc->pools->lock);
}

static int refuse_new(struct problem *p, const struct pool *same, const char *name)
{
    return same ? problem_set(p, 409, POOL_CODE_EXISTS, "there is a pool '%.64s' already", name)
                : problem_set(p, 503, "SANDBOX::LIMIT_REACHED", "there are %u pools already",
                              POOLS_MAX);
}

int lifecycle_pool_create(struct lifecycle *lc, const struct caller *c,
                          const struct pool_request *q, struct arena *a, struct pool_view *ret,
                          struct problem *p)
{
    struct pools *ps = lc->pools;
    struct err e = {0};
    if (check_supported(lc, p) < 0) {
        return -1;
    }
    struct pool *fresh = pool_make(lc, c->owner, q->name, q->tmpl, q->capacity, p);
    if (!fresh) {
        return -1;
    }
    fresh->n_taken = pool_count_taken(lc, c->owner, q->name); /* of an earlier one of this name */
    /* The order of changes to one pool is that of meta_lock, which may be held across a write. */
    (void)pthread_mutex_lock(&lc->meta_lock);
    (void)pthread_mutex_lock(&ps->lock);
    const struct pool *same = pool_find(ps, c->owner, q->name);
    bool full = ps->n >= POOLS_MAX;
    (void)pthread_mutex_unlock(&ps->lock);
    int r = same || full                    ? refuse_new(p, same, q->name)
            : pool_store(lc, fresh, &e) < 0 ? store_failed(&e, p)
                                            : 0;
    (void)pthread_mutex_lock(&ps->lock);
    if (r == 0) {
        pool_add(ps, fresh);
        view(fresh, a, ret);
        (void)pthread_cond_broadcast(&ps->cond);
    } else {
        pool_unref(fresh);
    }
    (void)pthread_mutex_unlock(&ps->lock);
    (void)pthread_mutex_unlock(&lc->meta_lock);
    return r;
}

int lifecycle_pool_update(struct lifecycle *lc, const struct caller *c, const char *name,
                          const struct pool_request *q, struct arena *a, struct pool_view *ret,
                          struct problem *p)
{
    struct err e = {0};
    struct pool *pool = get(lc, c, name, p);
    if (!pool) {
        return -1;
    }
    (void)pthread_mutex_lock(&lc->meta_lock);
    int r = q->tmpl && !json_is_null(q->tmpl) ? pool_set_template(lc, pool, q->tmpl, p) : 0;
    if (r == 0) {
        (void)pthread_mutex_lock(&lc->pools->lock);
        pool->cap = *q->capacity;
        pool->retry_ms = 0;
        bool deleted = pool->is_deleted;
        (void)pthread_mutex_unlock(&lc->pools->lock);
        r = deleted ? problem_set(p, 404, POOL_CODE_NOT_FOUND, "there is no pool '%.64s'", name)
            : pool_store(lc, pool, &e) < 0 ? store_failed(&e, p)
                                           : 0;
    }
    (void)pthread_mutex_unlock(&lc->meta_lock);
    pool_trim(lc, pool);
    if (r == 0) {
        (void)pthread_mutex_lock(&lc->pools->lock);
        view(pool, a, ret);
        (void)pthread_mutex_unlock(&lc->pools->lock);
    }
    put(lc, pool);
    return r;
}

int lifecycle_pool_get(struct lifecycle *lc, const struct caller *c, const char *name,
                       struct arena *a, struct pool_view *ret, struct problem *p)
{
    struct pool *pool = get(lc, c, name, p);
    if (!pool) {
        return -1;
    }
    (void)pthread_mutex_lock(&lc->pools->lock);
    view(pool, a, ret);
    pool_unref(pool);
    (void)pthread_mutex_unlock(&lc->pools->lock);
    return 0;
}

int lifecycle_pool_delete(struct lifecycle *lc, const struct caller *c, const char *name,
                          struct problem *p)
{
    struct err e = {0};
    struct pool *pool = get(lc, c, name, p);
    if (!pool) {
        return -1;
    }
    (void)pthread_mutex_lock(&lc->meta_lock);
    (void)pthread_mutex_lock(&lc->pools->lock);
    bool deleted = pool->is_deleted; /* by somebody else, a moment ago */
    (void)pthread_mutex_unlock(&lc->pools->lock);
    int r = deleted ? problem_set(p, 404, POOL_CODE_NOT_FOUND, "there is no pool '%.64s'", name)
            : store_pool_delete(lc->store, pool->owner, pool->name, &e) < 0 ? store_failed(&e, p)
                                                                            : 0;
    if (r == 0) {
        FAULT_POINT("server.pool.deleted");
        (void)pthread_mutex_lock(&lc->pools->lock);
        pool->is_deleted = true;
        list_del(&pool->node);
        lc->pools->n--;
        pool_unref(pool);
        (void)pthread_mutex_unlock(&lc->pools->lock);
    }
    (void)pthread_mutex_unlock(&lc->meta_lock);
    pool_trim(lc, pool);
    put(lc, pool);
    return r;
}

int lifecycle_pool_list(struct lifecycle *lc, const struct caller *c, struct arena *a,
                        struct pool_view **ret, size_t *ret_n, struct problem *p)
{
    size_t n = 0;
    if (check_supported(lc, p) < 0) {
        return -1;
    }
    (void)pthread_mutex_lock(&lc->pools->lock);
    struct pool_view *v = arena_array(a, lc->pools->n + 1, sizeof(*v));
    list_each (it, &lc->pools->all) {
        const struct pool *pool = list_entry(it, struct pool, node);
        if (!strcmp(pool->owner, c->owner)) {
            view(pool, a, &v[n++]);
        }
    }
    (void)pthread_mutex_unlock(&lc->pools->lock);
    /* By name: the order of the list is that in which they are looked after. */
    for (size_t i = 1; i < n; i++) {
        struct pool_view x = v[i];
        size_t k = i;
        for (; k > 0 && strcmp(v[k - 1].name, x.name) > 0; k--) {
            v[k] = v[k - 1];
        }
        v[k] = x;
    }
    *ret = v;
    *ret_n = n;
    return 0;
}
