/* Renewal of the expiry, by request or on access, and changes of metadata: the two things that are
 * written while other operations are at work. Serialised by the meta lock, which is held across the
 * store's write, so that no update is lost and none comes after the decision to remove. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

static int gone(struct problem *p, const struct sandbox *sb)
{
    return problem_set(p, 404, CODE_NOT_FOUND, "there is no sandbox %s", sb->id);
}

/* With the meta lock held. */
static int set_expiry(struct lifecycle *lc, struct sandbox *sb, const struct caller *c,
                      int64_t expires_us, const char *type, struct err *e)
{
    char at[RFC3339_MAX];
    rfc3339_format(expires_us, 6, at);
    struct store_event ev = event_make(sb, c, type, "EXPIRATION_SET", at);
    if (store_sandbox_set_expiry(lc->store, sb->id, expires_us, &ev, e) < 0) {
        return -1;
    }
    FAULT_POINT("server.renew.recorded");
    registry_write(&lc->reg);
    sb->expires_us = expires_us;
    registry_unlock(&lc->reg);
    expiry_schedule(lc, sb);
    event_publish(lc, &ev, sb);
    return 0;
}

int lifecycle_renew(struct lifecycle *lc, const struct caller *c, struct str id, int64_t expires_us,
                    struct problem *p)
{
    cleanup_(sandbox_unref) struct sandbox *sb = lifecycle_get(lc, c, id, p);
    if (!sb) {
        return -1;
    }
    if (expires_us <= clock_wall_us()) {
        return problem_set(p, 400, "DOCKER::INVALID_EXPIRATION", "expiresAt is not in the future");
    }
    struct err e = {0};
    int r;
    (void)pthread_mutex_lock(&lc->meta_lock);
    registry_read(&lc->reg);
    bool removing = sb->removing;
    int64_t old = sb->expires_us;
    registry_unlock(&lc->reg);
    if (removing) {
        r = gone(p, sb);
    } else if (!old) {
        r = problem_set(p, 409, "DOCKER::INVALID_EXPIRATION",
                        "sandbox %s was created without a timeout and never expires", sb->id);
    } else {
        r = set_expiry(lc, sb, c, expires_us, "renewed", &e);
        if (r < 0) {
            (void)problem_err(p, 0, "DOCKER::INVALID_EXPIRATION", &e);
        }
    }
    (void)pthread_mutex_unlock(&lc->meta_lock);
    return r;
}

/* ---- on access ---- */
struct touch_job {
    struct lifecycle *lc;
    struct sandbox *sb;
    const char *source;
};

static void touch_run(void *arg)
{
    struct touch_job *job = arg;
    struct lifecycle *lc = job->lc;
    struct sandbox *sb = job->sb;
    struct err e = {0};
    const struct caller c = {.actor = job->source};
    (void)pthread_mutex_lock(&lc->meta_lock);
    registry_read(&lc->reg);
    int64_t old = sb->expires_us;
    bool wanted = !sb->removing && sb->state == SB_RUNNING && old;
    registry_unlock(&lc->reg);
    int64_t new = clock_wall_us() + sb->renew_extend_s * 1000000;
    if (wanted && new > old) {
        if (set_expiry(lc, sb, &c, new, "renewed", &e) < 0) {
            log_warn("renewal on access failed", LOG_S("id", sb->id), LOG_ERR(&e));
        }
    }
    (void)pthread_mutex_unlock(&lc->meta_lock);
    __atomic_store_n(&sb->renew_queued, false, __ATOMIC_RELEASE);
    sandbox_unref(sb);
    free(job);
}

void lifecycle_touch(struct lifecycle *lc, struct sandbox *sb, const char *source)
{
    if (!sb->renew_extend_s) {
        return;
    }
    struct config *cfg = lifecycle_config(lc);
    uint64_t interval_ms = (uint64_t)cfg->renew.min_interval_seconds * 1000;
    bool enabled = cfg->renew.enabled;
    config_unref(cfg);
    uint64_t now = clock_mono_ms(), last = __atomic_load_n(&sb->renewed_ms, __ATOMIC_RELAXED);
    if (!enabled || (last && now - last < interval_ms) ||
        __atomic_exchange_n(&sb->renew_queued, true, __ATOMIC_ACQ_REL)) {
        return;
    }
    __atomic_store_n(&sb->renewed_ms, now, __ATOMIC_RELAXED);
    struct touch_job *job = NEW(struct touch_job);
    *job = (struct touch_job){lc, sandbox_ref(sb), source};
    if (io_pool_submit(lc->maint, touch_run, job) < 0) {
        __atomic_store_n(&sb->renew_queued, false, __ATOMIC_RELEASE);
        sandbox_unref(sb);
        free(job);
    }
}

/* ---- metadata ---- */
static int check_changes(const struct str_pair *v, size_t n, struct problem *p)
{
    struct err e = {0};
    for (size_t i = 0; i < n; i++) {
        if (metadata_key_reserved(v[i].key)) {
            (void)metadata_key_check(v[i].key, &e);
            return problem_set(p, 400, "INVALID_METADATA_LABEL", "%s", e.msg);
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (v[i].value && (metadata_key_check(v[i].key, &e) < 0 ||
                           metadata_value_check(v[i].key, v[i].value, &e) < 0)) {
            return problem_set(p, 400, "SANDBOX::INVALID_METADATA_LABEL", "%s", e.msg);
        }
    }
    return 0;
}

static const struct str_pair *find_change(const struct str_pair *v, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++) {
        if (!strcmp(v[i].key, key)) {
            return &v[i];
        }
    }
    return NULL;
}

/* Old entries that stay or change, in their order, then the new ones. */
static struct str_map merge(struct arena *a, const struct str_map *old, const struct str_pair *v,
                            size_t n)
{
    struct str_map m = {.has = true, .v = arena_array(a, old->n + n + 1, sizeof(*v))};
    for (size_t i = 0; i < old->n; i++) {
        const struct str_pair *c = find_change(v, n, old->v[i].key);
        const char *value = c ? c->value : old->v[i].value;
        if (value) {
            m.v[m.n++] = (struct str_pair){arena_strdup(a, old->v[i].key), arena_strdup(a, value)};
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (v[i].value && !str_map_get(old, v[i].key)) {
            m.v[m.n++] = v[i];
        }
    }
    return m;
}

static const char *map_json(struct buf *b, const struct str_map *m)
{
    struct json_out o;
    json_out_init(&o, b);
    json_obj_begin(&o);
    for (size_t i = 0; i < m->n; i++) {
        json_key(&o, m->v[i].key);
        json_put_cstr(&o, m->v[i].value);
    }
    json_obj_end(&o);
    return buf_cstr(b);
}

/* With the meta lock held: nobody else changes the metadata meanwhile. */
static int patch_locked(struct lifecycle *lc, struct sandbox *sb, const struct caller *c,
                        const struct str_pair *v, size_t n, struct problem *p)
{
    struct arena a = {0};
    registry_read(&lc->reg);
    bool removing = sb->removing;
    struct str_map m = merge(&a, &sb->metadata, v, n);
    registry_unlock(&lc->reg);
    int r = 0;
    struct err e = {0};
    struct buf text = BUF_INIT(API_BODY_MAX);
    if (removing) {
        r = gone(p, sb);
    } else if (m.n > CREATE_METADATA_MAX) {
        r = problem_set(p, 400, "SANDBOX::INVALID_METADATA_LABEL",
                        "metadata has more than %u entries", CREATE_METADATA_MAX);
    } else {
        struct store_event ev = event_make(sb, c, "metadata", "METADATA_SET", "");
        if (store_sandbox_set_metadata(lc->store, sb->id, map_json(&text, &m), &ev, &e) < 0) {
            r = problem_err(p, 0, "DOCKER::SANDBOX_QUERY_FAILED", &e);
        } else {
            registry_write(&lc->reg);
            sandbox_set_metadata(sb, &m);
            registry_unlock(&lc->reg);
            event_publish(lc, &ev, sb);
        }
    }
    buf_done(&text);
    arena_done(&a);
    return r;
}

int lifecycle_patch_metadata(struct lifecycle *lc, const struct caller *c, struct str id,
                             const struct str_pair *changes, size_t n, struct problem *p)
{
    cleanup_(sandbox_unref) struct sandbox *sb = lifecycle_get(lc, c, id, p);
    if (!sb || check_changes(changes, n, p) < 0) {
        return -1;
    }
    if (n == 0) {
        return 0;
    }
    (void)pthread_mutex_lock(&lc->meta_lock);
    int r = patch_locked(lc, sb, c, changes, n, p);
    (void)pthread_mutex_unlock(&lc->meta_lock);
    return r;
}
