/* Keeping pools filled: a few threads that make one member after the other, never two of one pool
 * at once, and that give way to creates: as long as a pool has bufferMin members nothing is made
 * until no create has come for a while, and below that only between two creates, if there is a gap.
 */

#include <sys/prctl.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/pool.h"

#define IDLE_MS 60000u

static const char actor[] = "pool";

/* How many more it should have, and whether it is in a hurry. */
static int64_t shortage(const struct pool *p, bool *ret_urgent)
{
    int64_t taken = (int64_t)p->n_taken, idle = (int64_t)(p->n_ready + p->n_making);
    int64_t floor = p->cap.pool_min.v - taken;
    int64_t least = MAX(p->cap.buffer_min.v, floor), most = MAX(p->cap.buffer_max.v, least);
    *ret_urgent = idle < least;
    return MIN(most - idle, p->cap.pool_max.v - taken - idle);
}

/* When the next member may be made: 0 now, else milliseconds from now. */
static uint64_t wait_of(struct lifecycle *lc, struct pool *p, uint64_t now)
{
    bool urgent;
    if (p->n_making || shortage(p, &urgent) <= 0) {
        p->short_since_ms = 0;
        return IDLE_MS;
    }
    if (p->retry_ms > now) {
        return p->retry_ms - now;
    }
    uint64_t last = __atomic_load_n(&lc->admission.last_ms, __ATOMIC_RELAXED);
    uint64_t at = last + (urgent ? POOL_YIELD_MS : POOL_QUIET_MS);
    if (urgent) {
        p->short_since_ms = p->short_since_ms ? p->short_since_ms : now;
        at = MIN(at, p->short_since_ms + POOL_YIELD_MAX_MS);
    }
    return last && at > now ? at - now : 0;
}

static struct pool *pick(struct pools *ps, uint64_t *ret_wait)
{
    uint64_t now = clock_mono_ms();
    *ret_wait = IDLE_MS;
    list_each (it, &ps->all) {
        struct pool *p = list_entry(it, struct pool, node);
        uint64_t wait = wait_of(ps->lc, p, now);
        if (wait == 0) {
            list_del(&p->node); /* the others first next time */
            list_push_back(&ps->all, &p->node);
            return p;
        }
        *ret_wait = MIN(*ret_wait, wait);
    }
    return NULL;
}

static bool has_room(struct lifecycle *lc)
{
    struct config *cfg = lifecycle_config(lc);
    int64_t max = cfg->limits.sandboxes;
    config_unref(cfg);
    return !max || registry_count(&lc->reg, NULL) < (size_t)max;
}

static struct sandbox *make(struct lifecycle *lc, const struct pool *p, const char *request,
                            struct problem *pr)
{
    struct create_plan *plan = NULL;
    struct config *cfg = lifecycle_config(lc);
    const struct caller c = {.owner = p->member_owner, .actor = actor};
    int r = has_room(lc) ? plan_build(str_from(request), cfg, &plan, pr)
                         : problem_set(pr, 503, "SANDBOX::LIMIT_REACHED",
                                       "this server has as many sandboxes as it may");
    config_unref(cfg);
    if (r < 0 || !plan) {
        return NULL;
    }
    plan->pool = arena_strdup(&plan->arena, p->name);
    FAULT_POINT("server.pool.fill");
    struct sandbox *sb = create_member(lc, &c, plan, pr);
    FAULT_POINT("server.pool.filled");
    return sb;
}

static void failed(struct pool *p, const struct problem *pr)
{
    uint64_t wait = MIN((uint64_t)POOL_RETRY_MS << MIN(p->n_failed, 8u), POOL_RETRY_MAX_MS);
    p->n_failed++;
    p->retry_ms = clock_mono_ms() + wait;
    log_warn("a pool's sandbox cannot be made", LOG_S("pool", p->name), LOG_S("code", pr->code),
             LOG_S("error", pr->message), LOG_I("again_in_ms", wait));
}

/* With the lock held, and again at the end. */
static void fill_one(struct pools *ps, struct pool *p)
{
    struct lifecycle *lc = ps->lc;
    cleanup_(problem_done) struct problem pr = {0};
    char *request = xstrdup(p->request);
    p->refs++;
    p->n_making++;
    (void)pthread_mutex_unlock(&ps->lock);
    struct sandbox *sb = make(lc, p, request, &pr);
    free(request);
    (void)pthread_mutex_lock(&ps->lock);
    p->n_making--;
    if (sb) {
        p->n_failed = 0;
        pool_push(p, sb);
    } else if (!ps->stopping && !p->is_deleted) {
        failed(p, &pr);
    }
    (void)pthread_mutex_unlock(&ps->lock);
    pool_trim(lc, p); /* it may have been deleted meanwhile, or have another template */
    (void)pthread_mutex_lock(&ps->lock);
    pool_unref(p);
}

static void *fill_main(void *arg)
{
    struct pools *ps = arg;
    (void)prctl(PR_SET_NAME, "pool");
    (void)pthread_mutex_lock(&ps->lock);
    while (!ps->stopping) {
        uint64_t wait;
        struct pool *p = pick(ps, &wait);
        if (p) {
            fill_one(ps, p);
            continue;
        }
        uint64_t until = clock_mono_ms() + wait;
        struct timespec ts = {.tv_sec = (time_t)(until / 1000),
                              .tv_nsec = (long)(until % 1000) * 1000000};
        (void)pthread_cond_timedwait(&ps->cond, &ps->lock, &ts);
    }
    (void)pthread_mutex_unlock(&ps->lock);
    return NULL;
}

void pools_start(struct pools *ps)
{
    if (!ps->lc->rt->ops->activate) {
        return;
    }
    while (ps->n_threads < POOL_THREADS &&
           pthread_create(&ps->threads[ps->n_threads], NULL, fill_main, ps) == 0) {
        ps->n_threads++;
    }
}

void pools_stop(struct pools *ps)
{
    (void)pthread_mutex_lock(&ps->lock);
    ps->stopping = true;
    (void)pthread_cond_broadcast(&ps->cond);
    (void)pthread_mutex_unlock(&ps->lock);
    while (ps->n_threads > 0) {
        (void)pthread_join(ps->threads[--ps->n_threads], NULL);
    }
}
