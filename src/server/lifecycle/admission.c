/* Backpressure of creates: how many may wait, how many of one key, how many sandboxes there may be.
 * Being full is an answer with a reason and a time to come back, never a silent wait. */

#include "base/clock.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"

void admission_init(struct admission *a)
{
    *a = (struct admission){0};
    (void)pthread_mutex_init(&a->lock, NULL);
}

void admission_done(struct admission *a)
{
    map_done(&a->per_key);
    (void)pthread_mutex_destroy(&a->lock);
}

static int refuse(struct problem *p, int status, int retry_after_s, const char *what,
                  const char *key, int64_t limit)
{
    (void)problem_set(p, status, "SANDBOX::LIMIT_REACHED", "%s (%s = %lld); try again later", what,
                      key, (long long)limit);
    p->retry_after_s = retry_after_s;
    return -1;
}

static int check_counts(struct lifecycle *lc, const struct config_limits *l, const struct caller *c,
                        bool grows, struct problem *p)
{
    if (grows && l->sandboxes && registry_count(&lc->reg, NULL) >= (size_t)l->sandboxes) {
        return refuse(p, 503, 30, "this server has as many sandboxes as it may", "limits.sandboxes",
                      l->sandboxes);
    }
    if (l->sandboxes_per_key &&
        registry_count(&lc->reg, c->owner) >= (size_t)l->sandboxes_per_key) {
        return refuse(p, 429, 30, "you have as many sandboxes as you may",
                      "limits.sandboxes_per_key", l->sandboxes_per_key);
    }
    return 0;
}

int admission_enter(struct lifecycle *lc, const struct caller *c, bool grows, struct problem *p)
{
    struct config *cfg = lifecycle_config(lc);
    const struct config_limits *l = &cfg->limits;
    struct admission *a = &lc->admission;
    struct str key = str_from(c->actor);
    int r = check_counts(lc, l, c, grows, p);
    __atomic_store_n(&a->last_ms, clock_mono_ms(), __ATOMIC_RELAXED);
    (void)pthread_mutex_lock(&a->lock);
    size_t mine = (size_t)(uintptr_t)map_get(&a->per_key, key);
    if (r < 0) {
        /* already told */
    } else if (a->total >= (size_t)l->create_queue) {
        r = refuse(p, 503, 2, "too many sandboxes are being created", "limits.create_queue",
                   l->create_queue);
    } else if (mine >= (size_t)l->create_per_key) {
        r = refuse(p, 429, 2, "too many of your sandboxes are being created",
                   "limits.create_per_key", l->create_per_key);
    } else {
        a->total++;
        (void)map_put(&a->per_key, key, (void *)(uintptr_t)(mine + 1));
    }
    (void)pthread_mutex_unlock(&a->lock);
    config_unref(cfg);
    return r;
}

void admission_leave(struct lifecycle *lc, const char *actor)
{
    struct admission *a = &lc->admission;
    struct str key = str_from(actor);
    __atomic_store_n(&a->last_ms, clock_mono_ms(), __ATOMIC_RELAXED);
    (void)pthread_mutex_lock(&a->lock);
    size_t mine = (size_t)(uintptr_t)map_get(&a->per_key, key);
    must(a->total > 0 && mine > 0);
    a->total--;
    if (mine == 1) {
        (void)map_del(&a->per_key, key);
    } else {
        (void)map_put(&a->per_key, key, (void *)(uintptr_t)(mine - 1));
    }
    (void)pthread_mutex_unlock(&a->lock);
}
