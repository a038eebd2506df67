/* The table of pools, and the way of a member to whoever asks for it. */

#include "server/lifecycle/pool.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"

DEFINE_CLEANUP(struct create_plan *, plan_free)

struct pools *pools_new(struct lifecycle *lc)
{
    struct pools *ps = NEW(struct pools);
    ps->lc = lc;
    list_init(&ps->all);
    (void)pthread_mutex_init(&ps->lock, NULL);
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&ps->cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return ps;
}

void pools_free(struct pools *ps)
{
    for (struct list *n; (n = list_pop_front(&ps->all));) {
        pool_unref(list_entry(n, struct pool, node));
    }
    (void)pthread_cond_destroy(&ps->cond);
    (void)pthread_mutex_destroy(&ps->lock);
    free(ps);
}

void pools_wake(struct pools *ps)
{
    (void)pthread_mutex_lock(&ps->lock);
    (void)pthread_cond_broadcast(&ps->cond);
    (void)pthread_mutex_unlock(&ps->lock);
}

/* ---- with the lock held ---- */
struct pool *pool_find(struct pools *ps, const char *owner, const char *name)
{
    list_each (it, &ps->all) {
        struct pool *p = list_entry(it, struct pool, node);
        if (!strcmp(p->name, name) && !strcmp(p->owner, owner)) {
            return p;
        }
    }
    return NULL;
}

struct pool *pool_find_member(struct pools *ps, const struct sandbox *sb)
{
    list_each (it, &ps->all) {
        struct pool *p = list_entry(it, struct pool, node);
        if (!strcmp(p->member_owner, sb->owner)) {
            return p;
        }
    }
    return NULL;
}

void pool_add(struct pools *ps, struct pool *p)
{
    list_push_back(&ps->all, &p->node);
    ps->n++;
}

void pool_push(struct pool *p, struct sandbox *sb)
{
    if (p->n_ready == p->cap_ready) {
        p->cap_ready = p->cap_ready ? 2 * p->cap_ready : 16;
        p->ready = xreallocarray(p->ready, p->cap_ready, sizeof(*p->ready));
    }
    p->ready[p->n_ready++] = sb;
}

static struct sandbox *pull_at(struct pool *p, size_t i)
{
    struct sandbox *sb = p->ready[i];
    p->n_ready--;
    memmove(p->ready + i, p->ready + i + 1, (p->n_ready - i) * sizeof(*p->ready));
    return sb;
}

struct sandbox *pool_shift(struct pool *p, const char *revision)
{
    for (size_t i = 0; i < p->n_ready; i++) {
        if (!strcmp(p->ready[i]->idem_hash, revision)) {
            return pull_at(p, i);
        }
    }
    return NULL;
}

struct sandbox *pool_pull(struct pool *p, const struct sandbox *sb)
{
    for (size_t i = 0; i < p->n_ready; i++) {
        if (p->ready[i] == sb) {
            return pull_at(p, i);
        }
    }
    return NULL;
}

struct sandbox *pool_pull_surplus(struct pool *p)
{
    for (size_t i = 0; i < p->n_ready; i++) {
        if (p->is_deleted || strcmp(p->ready[i]->idem_hash, p->hash) != 0) {
            return pull_at(p, i);
        }
    }
    int64_t idle = (int64_t)(p->n_ready + p->n_making), taken = (int64_t)p->n_taken;
    int64_t most = MAX(MAX(p->cap.buffer_max.v, p->cap.buffer_min.v), p->cap.pool_min.v - taken);
    return idle > most || idle + taken > p->cap.pool_max.v ? pool_shift(p, p->hash) : NULL;
}

void pool_unref(struct pool *p)
{
    if (--p->refs > 0) {
        return;
    }
    for (size_t i = 0; i < p->n_ready; i++) {
        sandbox_unref(p->ready[i]);
    }
    free(p->ready);
    free(p->request);
    free(p->tmpl);
    free(p->owner);
    free(p->name);
    free(p->member_owner);
    free(p);
}

/* ---- making one ---- */
static char *dump(const struct json *j)
{
    struct buf b = BUF_INIT(POOL_TEMPLATE_MAX);
    char *text = json_dump(j, &b, 0) == 0 ? str_dup(buf_str(&b)) : NULL;
    buf_done(&b);
    return text;
}

/* What is told of a template is about the template, and not about the request it came with. */
static int template_problem(struct problem *p)
{
    char why[ERR_MSG_MAX];
    (void)snprintf(why, sizeof(why), "%.*s", (int)sizeof(why) - 1,
                   p->detail ? p->detail : p->message);
    return problem_set(p, 400, CODE_INVALID, "template: %.400s", why);
}

/* A template in all its forms, checked. */
struct checked {
    char *tmpl, *request;
    char hash[PLAN_HASH_LEN + 1];
    struct runtime_limits limits;
};

static int check_plan(struct lifecycle *lc, const struct create_plan *plan, struct problem *p)
{
    struct err e = {0};
    struct runtime_spec spec = plan->spec;
    spec.id = "pool";
    spec.standby = true;
    if (plan->had_auth) {
        return problem_set(p, 400, CODE_INVALID,
                           "credentials (image.auth, keys of buckets) are not kept, and a pool "
                           "would need them again and again");
    }
    return lc->rt->ops->check(lc->rt, &spec, &e) < 0 ? problem_err(p, 400, CODE_INVALID, &e) : 0;
}

static int template_check(struct lifecycle *lc, const struct json *tmpl, struct checked *ret,
                          struct problem *p)
{
    cleanup_(plan_free) struct create_plan *plan = NULL;
    cleanup_(json_free) struct json *j = template_to_request(tmpl, p);
    cleanup_free char *given = dump(tmpl);
    cleanup_free char *request = j ? dump(j) : NULL;
    if (!j) {
        return template_problem(p);
    }
    if (!given || !request) {
        return problem_set(p, 400, CODE_INVALID, "template: longer than %u bytes",
                           POOL_TEMPLATE_MAX);
    }
    struct config *cfg = lifecycle_config(lc);
    int r = plan_build(str_from(request), cfg, &plan, p);
    config_unref(cfg);
    if (r < 0 || check_plan(lc, plan, p) < 0) {
        return template_problem(p);
    }
    *ret = (struct checked){.limits = plan->spec.limits};
    memcpy(ret->hash, plan->hash, sizeof(ret->hash));
    ret->tmpl = take_ptr(&given);
    ret->request = take_ptr(&request);
    return 0;
}

static void use_template(struct pool *p, struct checked *c)
{
    free(p->tmpl);
    free(p->request);
    p->tmpl = c->tmpl;
    p->request = c->request;
    p->limits = c->limits;
    memcpy(p->hash, c->hash, sizeof(p->hash));
    p->retry_ms = 0;
    p->n_failed = 0;
}

struct pool *pool_make(struct lifecycle *lc, const char *owner, const char *name,
                       const struct json *tmpl, const struct pool_capacity *cap, struct problem *pr)
{
    struct checked c = {0};
    if (template_check(lc, tmpl, &c, pr) < 0) {
        return NULL;
    }
    struct pool *p = NEW(struct pool);
    p->refs = 1;
    p->owner = xstrdup(owner);
    p->name = xstrdup(name);
    p->member_owner = xasprintf(MEMBER_OWNER "%s@%s", name, owner);
    p->cap = *cap;
    p->created_us = clock_wall_us();
    use_template(p, &c);
    return p;
}

int pool_set_template(struct lifecycle *lc, struct pool *p, const struct json *tmpl,
                      struct problem *pr)
{
    struct checked c = {0};
    if (template_check(lc, tmpl, &c, pr) < 0) {
        return -1;
    }
    (void)pthread_mutex_lock(&lc->pools->lock);
    use_template(p, &c);
    (void)pthread_mutex_unlock(&lc->pools->lock);
    return 0;
}

int pool_store(struct lifecycle *lc, const struct pool *p, struct err *e)
{
    struct buf b = BUF_INIT(2 * POOL_TEMPLATE_MAX);
    struct json_out o;
    json_out_init(&o, &b);
    json_obj_begin(&o);
    json_key(&o, "template");
    json_put_raw(&o, str_from(p->tmpl));
    json_key(&o, "capacitySpec");
    json_encode(&o, &pool_capacity_table, &p->cap);
    json_key(&o, "origin");
    json_put_cstr(&o, p->from_config ? "config" : "api");
    json_obj_end(&o);
    struct store_pool row = {p->owner, p->name, buf_cstr(&b), p->created_us};
    int r = buf_failed(&b) ? err_set(e, ERR_LIMIT, "the template is too long")
                           : store_pool_put(lc->store, &row, e);
    buf_done(&b);
    return r;
}

/* ---- members that are not wanted any more ---- */
void pool_discard(struct lifecycle *lc, struct sandbox *sb)
{
    if (remove_decide(lc, sb, false)) {
        remove_async(lc, sb);
    }
    sandbox_unref(sb);
}

void pool_trim(struct lifecycle *lc, struct pool *p)
{
    struct sandbox *sb;
    do {
        (void)pthread_mutex_lock(&lc->pools->lock);
        sb = pool_pull_surplus(p);
        (void)pthread_mutex_unlock(&lc->pools->lock);
        if (sb) {
            pool_discard(lc, sb);
        }
    } while (sb);
    pools_wake(lc->pools);
}

size_t pool_count_taken(struct lifecycle *lc, const char *owner, const char *name)
{
    size_t n = 0;
    registry_read(&lc->reg);
    for (size_t i = 0; i < lc->reg.n; i++) {
        const struct sandbox *sb = lc->reg.ordered[i];
        n += sb->pool && !sb->is_member && !strcmp(sb->pool, name) && !strcmp(sb->owner, owner);
    }
    registry_unlock(&lc->reg);
    return n;
}

/* ---- a create that names a pool ---- */
static int no_pool(struct problem *p, const char *name)
{
    return problem_set(p, 404, POOL_CODE_NOT_FOUND, "there is no pool '%.64s'", name);
}

int pool_complete(struct lifecycle *lc, const struct caller *c, struct create_plan **plan,
                  struct problem *p)
{
    const char *name = (*plan)->pool_ref;
    struct err e = {0};
    if (!lc->rt->ops->activate) {
        return problem_set(p, 400, "SANDBOX::UNSUPPORTED_POOL_REF",
                           "extensions.poolRef: this runtime has no pools");
    }
    (void)pthread_mutex_lock(&lc->pools->lock);
    const struct pool *pool = pool_find(lc->pools, c->owner, name);
    cleanup_free char *request = pool ? xstrdup(pool->request) : NULL;
    char revision[PLAN_HASH_LEN + 1] = "";
    if (pool) {
        memcpy(revision, pool->hash, sizeof(revision));
    }
    (void)pthread_mutex_unlock(&lc->pools->lock);
    if (!request) {
        return no_pool(p, name);
    }
    cleanup_(json_free) struct json *j = json_parse(str_from(request), &e);
    must(j); /* we wrote it */
    cleanup_(json_free) struct json *merged = template_merge(j, *plan, p);
    if (!merged) {
        return -1;
    }
    struct buf text = BUF_INIT(CREATE_BODY_MAX + POOL_TEMPLATE_MAX);
    struct create_plan *whole = NULL;
    struct config *cfg = lifecycle_config(lc);
    int r = json_dump(merged, &text, 0) < 0
                ? problem_set(p, 400, CODE_INVALID, "the request is too long")
                : plan_build(buf_str(&text), cfg, &whole, p);
    config_unref(cfg);
    buf_done(&text);
    if (r < 0 || !whole) {
        return -1;
    }
    whole->pool = arena_strdup(&whole->arena, name);
    whole->pool_revision = arena_strdup(&whole->arena, revision);
    memcpy(whole->hash, (*plan)->hash, sizeof(whole->hash)); /* the key is for what was sent */
    plan_free(*plan);
    *plan = whole;
    return 0;
}

/* Nothing else works on it, and it is as the pool made it. */
static bool is_fresh(struct lifecycle *lc, struct sandbox *sb)
{
    if (op_begin(lc, sb, OP_CREATE, 0) < 0) {
        return false;
    }
    registry_read(&lc->reg);
    bool fresh = sb->state == SB_RUNNING && !sb->removing;
    registry_unlock(&lc->reg);
    if (!fresh) {
        op_end(lc, sb);
    }
    return fresh;
}

/* The size of a writable layer cannot be changed any more, nor how fast its disk is. */
static bool can_become(const struct runtime_limits *from, const struct runtime_limits *to)
{
    return from->disk_bytes == to->disk_bytes && memcmp(from->io, to->io, sizeof(from->io)) == 0;
}

int pool_claim(struct lifecycle *lc, const struct caller *c, const struct create_plan *plan,
               struct pool_claim *ret, struct problem *p)
{
    struct pools *ps = lc->pools;
    (void)pthread_mutex_lock(&ps->lock);
    struct pool *pool = pool_find(ps, c->owner, plan->pool);
    int64_t max = pool ? pool->cap.pool_max.v : 0;
    bool full = pool && (int64_t)pool->n_taken >= max;
    if (pool && !full) {
        pool->n_taken++;
        pool->refs++;
    }
    bool fits = pool && can_become(&pool->limits, &plan->spec.limits);
    struct sandbox *sb = fits && !full ? pool_shift(pool, plan->pool_revision) : NULL;
    (void)pthread_mutex_unlock(&ps->lock);
    if (!pool) {
        return no_pool(p, plan->pool);
    }
    if (full) {
        (void)problem_set(p, 503, "SANDBOX::LIMIT_REACHED",
                          "pool '%.64s' has as many sandboxes as it may (poolMax = %lld); try "
                          "again later",
                          plan->pool, (long long)max);
        p->retry_after_s = 5;
        return -1;
    }
    while (sb && !is_fresh(lc, sb)) {
        pool_discard(lc, sb);
        (void)pthread_mutex_lock(&ps->lock);
        sb = pool_shift(pool, plan->pool_revision);
        (void)pthread_mutex_unlock(&ps->lock);
    }
    *ret = (struct pool_claim){pool, sb};
    return 0;
}

static void claim_end(struct lifecycle *lc, struct pool_claim *claim)
{
    (void)pthread_mutex_lock(&lc->pools->lock);
    pool_unref(claim->pool);
    (void)pthread_cond_broadcast(&lc->pools->cond);
    (void)pthread_mutex_unlock(&lc->pools->lock);
    *claim = (struct pool_claim){0};
}

void pool_claimed(struct lifecycle *lc, struct pool_claim *claim)
{
    if (!claim->pool) {
        return;
    }
    if (claim->member) {
        /* Another object has its id now; whoever still holds this one leaves it alone. */
        registry_write(&lc->reg);
        claim->member->removing = true;
        registry_unlock(&lc->reg);
        op_end(lc, claim->member);
        sandbox_unref(claim->member);
    } else {
        pool_trim(lc, claim->pool); /* one more than the pool had counted on */
    }
    claim_end(lc, claim);
}

void pool_unclaim(struct lifecycle *lc, struct pool_claim *claim)
{
    if (!claim->pool) {
        return;
    }
    struct pool *p = claim->pool;
    if (claim->member) {
        op_end(lc, claim->member);
    }
    (void)pthread_mutex_lock(&lc->pools->lock);
    p->n_taken -= p->n_taken > 0;
    if (claim->member) {
        pool_push(p, claim->member);
    }
    (void)pthread_mutex_unlock(&lc->pools->lock);
    pool_trim(lc, p);
    claim_end(lc, claim);
}

/* ---- what becomes of sandboxes ---- */
void pool_on_gone(struct lifecycle *lc, const struct sandbox *sb)
{
    struct pools *ps = lc->pools;
    if (!sb->pool || !ps) {
        return;
    }
    struct sandbox *waiting = NULL;
    (void)pthread_mutex_lock(&ps->lock);
    struct pool *p = sb->is_member ? pool_find_member(ps, sb) : pool_find(ps, sb->owner, sb->pool);
    if (p && sb->is_member) {
        waiting = pool_pull(p, sb);
    } else if (p) {
        p->n_taken -= p->n_taken > 0;
    }
    (void)pthread_cond_broadcast(&ps->cond);
    (void)pthread_mutex_unlock(&ps->lock);
    sandbox_unref(waiting);
}

void pool_on_event(struct lifecycle *lc, const char *type, const struct sandbox *sb)
{
    if (strcmp(type, "exited") != 0 && strcmp(type, "lost") != 0) {
        return;
    }
    (void)pthread_mutex_lock(&lc->pools->lock);
    struct pool *p = pool_find_member(lc->pools, sb);
    struct sandbox *dead = p ? pool_pull(p, sb) : NULL;
    (void)pthread_cond_broadcast(&lc->pools->cond);
    (void)pthread_mutex_unlock(&lc->pools->lock);
    if (dead) {
        pool_discard(lc, dead);
    }
}
