/* Putting the parts together, and looking up. */

#include "server/lifecycle/lifecycle.h"

#include <sched.h>

#include "base/must.h"
#include "server/lifecycle/internal.h"
#include "server/lifecycle/pool.h"

static unsigned cpu_count(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

struct lifecycle *lifecycle_new(const struct lifecycle_opts *o)
{
    struct lifecycle *lc = NEW(struct lifecycle);
    lc->cfg = config_ref(o->cfg);
    lc->store = o->store;
    lc->rt = o->rt;
    lc->loop = o->loop;
    registry_init(&lc->reg);
    expiry_init(&lc->expiry);
    admission_init(&lc->admission);
    (void)pthread_mutex_init(&lc->cfg_lock, NULL);
    (void)pthread_mutex_init(&lc->meta_lock, NULL);
    (void)pthread_mutex_init(&lc->op_lock, NULL);
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&lc->op_cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    int64_t n = o->cfg->limits.create_concurrency;
    lc->creates = io_pool_new("create", n ? (unsigned)n : 4 * cpu_count(),
                              (size_t)o->cfg->limits.create_queue + 65536);
    lc->captures = io_pool_new("capture", SNAPSHOT_THREADS, SNAPSHOT_QUEUE_MAX);
    lc->fetches =
        io_pool_new_rare("fetch", FETCH_THREADS, (size_t)o->cfg->limits.create_queue + 65536);
    lc->maint = io_pool_new("maint", MAINT_THREADS, MAINT_QUEUE_MAX);
    lc->pools = pools_new(lc);
    o->rt->on_exit_arg = lc;
    o->rt->on_exit = reconcile_exit_cb;
    return lc;
}

void lifecycle_free(struct lifecycle *lc)
{
    if (!lc) {
        return;
    }
    __atomic_store_n(&lc->stopping, true, __ATOMIC_RELAXED);
    pools_stop(lc->pools);
    io_pool_free(lc->fetches);
    io_pool_free(lc->creates);
    io_pool_free(lc->captures);
    io_pool_free(lc->maint);
    pools_free(lc->pools);
    expiry_done(&lc->expiry);
    registry_done(&lc->reg);
    admission_done(&lc->admission);
    (void)pthread_cond_destroy(&lc->op_cond);
    (void)pthread_mutex_destroy(&lc->op_lock);
    (void)pthread_mutex_destroy(&lc->meta_lock);
    (void)pthread_mutex_destroy(&lc->cfg_lock);
    config_unref(lc->cfg);
    free(lc);
}

void lifecycle_set_config(struct lifecycle *lc, struct config *cfg)
{
    (void)pthread_mutex_lock(&lc->cfg_lock);
    struct config *old = lc->cfg;
    lc->cfg = config_ref(cfg);
    (void)pthread_mutex_unlock(&lc->cfg_lock);
    config_unref(old);
}

struct config *lifecycle_config(struct lifecycle *lc)
{
    (void)pthread_mutex_lock(&lc->cfg_lock);
    struct config *cfg = config_ref(lc->cfg);
    (void)pthread_mutex_unlock(&lc->cfg_lock);
    return cfg;
}

struct registry *lifecycle_registry(struct lifecycle *lc)
{
    return &lc->reg;
}

struct runtime *lifecycle_runtime(struct lifecycle *lc)
{
    return lc->rt;
}

struct store *lifecycle_store(struct lifecycle *lc)
{
    return lc->store;
}

struct sandbox *lifecycle_get(struct lifecycle *lc, const struct caller *c, struct str id,
                              struct problem *p)
{
    struct sandbox *sb = registry_get(&lc->reg, c->owner, id);
    if (sb && sb->is_member) { /* nobody's yet, not even for the proxy, which asks for no owner */
        sandbox_unref(sb);
        sb = NULL;
    }
    if (!sb) {
        (void)problem_set(p, 404, CODE_NOT_FOUND, "there is no sandbox %.*s", (int)MIN(id.n, 64u),
                          id.p ? id.p : "");
    }
    return sb;
}
