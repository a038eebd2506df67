/* Agreement between store, memory and runtime: once at start, whenever the runtime reports an end,
 * and every minute for what slipped through.
 *
 * At start, by recorded state:
 *   Pending    known to a client (answered, or idempotency key): created anew; else undone
 *   Stopping   removed
 *   others     what the runtime says: running, paused, ended, or gone without a trace
 * A container without a record is removed, always. */

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"
#include "server/lifecycle/pool.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

struct verdict {
    enum sandbox_state state;
    const char *type, *reason;
    char message[320];
};

static void judge_exit(const struct runtime_status *st, struct verdict *v)
{
    v->state = SB_FAILED;
    v->type = "exited";
    v->reason = "CONTAINER_EXITED_ERROR";
    const char *sep = st->detail[0] ? ": " : "";
    switch (st->exit) {
    case EXIT_CODE:
        if (st->exit_code == 0) {
            v->state = SB_TERMINATED;
            v->reason = "CONTAINER_EXITED";
        }
        (void)snprintf(v->message, sizeof(v->message), "the entrypoint ended with exit code %d%s%s",
                       st->exit_code, sep, st->detail);
        break;
    case EXIT_SIGNAL:
        (void)snprintf(v->message, sizeof(v->message), "killed by signal %d%s%s", st->exit_code,
                       sep, st->detail);
        break;
    case EXIT_OOM:
        v->reason = "CONTAINER_OOM_KILLED";
        (void)snprintf(v->message, sizeof(v->message), "out of memory%s%s", sep, st->detail);
        break;
    case EXIT_NONE:
    case EXIT_UNKNOWN:
        (void)snprintf(v->message, sizeof(v->message), "ended for an unknown reason%s%s", sep,
                       st->detail);
        break;
    }
}

static void judge(const struct runtime_status *st, struct verdict *v)
{
    *v = (struct verdict){0};
    switch (st->state) {
    case RT_RUNNING:
        *v = (struct verdict){SB_RUNNING, "running", "CONTAINER_RUNNING", ""};
        break;
    case RT_PAUSED:
        *v = (struct verdict){SB_PAUSED, "paused", "CONTAINER_PAUSED", ""};
        break;
    case RT_CREATED:
    case RT_MISSING:
        *v = (struct verdict){SB_FAILED, "lost", "CONTAINER_LOST",
                              "it is not running any more and left no trace (was the machine "
                              "restarted?)"};
        break;
    case RT_EXITED:
        judge_exit(st, v);
        break;
    }
}

int reconcile_apply(struct lifecycle *lc, struct sandbox *sb, const struct runtime_status *st,
                    struct err *e)
{
    struct verdict v;
    judge(st, &v);
    registry_read(&lc->reg);
    enum sandbox_state now = sb->state;
    bool settled = sb->removing || now == v.state || now == SB_PENDING || now == SB_TERMINATED ||
                   now == SB_FAILED;
    registry_unlock(&lc->reg);
    if (settled) {
        return 0;
    }
    return change_state(lc, sb, &caller_runtime, v.state, v.type, v.reason, v.message, e);
}

/* ---- the runtime reports an end ---- */
struct exit_job {
    struct lifecycle *lc;
    char id[SANDBOX_ID_MAX];
};

static void inspect_one(struct lifecycle *lc, struct sandbox *sb)
{
    if (op_begin(lc, sb, OP_INSPECT, OP_WAIT_MS) < 0) {
        return; /* the next round looks again */
    }
    struct runtime_status st;
    struct err e = {0};
    if (state_of(lc, sb) != SB_PENDING && (lc->rt->ops->inspect(lc->rt, sb->id, &st, &e) < 0 ||
                                           reconcile_apply(lc, sb, &st, &e) < 0)) {
        log_error("cannot tell the state of a sandbox", LOG_S("id", sb->id), LOG_ERR(&e));
    }
    op_end(lc, sb);
}

static void exit_run(void *arg)
{
    struct exit_job *job = arg;
    struct sandbox *sb = registry_get(&job->lc->reg, NULL, str_from(job->id));
    if (sb) {
        inspect_one(job->lc, sb);
        sandbox_unref(sb);
    }
    free(job);
}

void reconcile_exit_cb(const char *id, const struct runtime_status *st, void *arg)
{
    (void)st; /* asked again with the operation slot held: it may be older than what we know */
    struct exit_job *job = NEW(struct exit_job);
    job->lc = arg;
    if (str_to_cstr(str_from(id), job->id, sizeof(job->id)) < 0 ||
        io_pool_submit(job->lc->maint, exit_run, job) < 0) {
        free(job); /* the next round of reconcile_tick() notices */
    }
}

/* ---- every minute ---- */
/* The id of a sandbox, or of a snapshot: a runtime may have either lie about. */
static bool is_known(const char *id, void *arg)
{
    struct lifecycle *lc = arg;
    struct sandbox *sb = registry_get(&lc->reg, NULL, str_from(id));
    if (sb) {
        sandbox_unref(sb);
        return true;
    }
    cleanup_(arena_done) struct arena a = {0};
    struct store_snapshot row;
    struct err e = {0};
    int r = store_snapshot_get(lc->store, &a, NULL, id, &row, &e);
    return r == 0 || e.code != ERR_NOT_FOUND; /* in doubt it stays */
}

static int remove_orphans(struct lifecycle *lc, struct err *e)
{
    int n = lc->rt->ops->sweep ? lc->rt->ops->sweep(lc->rt, is_known, lc, e) : 0;
    if (n > 0) {
        log_warn("removed what belonged to no sandbox", LOG_I("count", n));
    }
    return n < 0 ? -1 : 0;
}

struct seen {
    struct map by_id; /* id -> struct runtime_status, heap */
};

static void on_listed(const char *id, const struct runtime_status *st, void *arg)
{
    struct seen *s = arg;
    struct runtime_status *copy = NEW(struct runtime_status);
    *copy = *st;
    free(map_put(&s->by_id, str_from(id), copy));
}

static void seen_done(struct seen *s)
{
    size_t it = 0;
    struct str key;
    void *v;
    while (map_next(&s->by_id, &it, &key, &v)) {
        free(v);
    }
    map_done(&s->by_id);
}

/* Ends that were reported while the queue was full, or never. */
static void check_running(struct lifecycle *lc, const struct seen *s)
{
    size_t n;
    struct sandbox **all = registry_all(&lc->reg, &n);
    for (size_t i = 0; i < n; i++) {
        enum sandbox_state state = state_of(lc, all[i]);
        const struct runtime_status *st = map_get(&s->by_id, str_from(all[i]->id));
        bool alive = st && (st->state == RT_RUNNING || st->state == RT_PAUSED);
        if ((state == SB_RUNNING || state == SB_PAUSED) && !alive) {
            inspect_one(lc, all[i]);
        }
        sandbox_unref(all[i]);
    }
    free(all);
}

static void prune(struct lifecycle *lc)
{
    struct config *cfg = lifecycle_config(lc);
    int64_t before = clock_wall_us() - cfg->store.event_retention_days * 86400 * INT64_C(1000000);
    config_unref(cfg);
    struct err e = {0};
    int n = (int)EVENTS_PRUNE_ROWS;
    while (n == (int)EVENTS_PRUNE_ROWS && !__atomic_load_n(&lc->stopping, __ATOMIC_RELAXED)) {
        n = store_event_prune(lc->store, before, EVENTS_PRUNE_ROWS, &e);
    }
    if (n < 0) {
        log_warn("cannot prune events", LOG_ERR(&e));
    }
    store_checkpoint(lc->store);
}

static void sweep_run(void *arg)
{
    struct lifecycle *lc = arg;
    struct seen s = {0};
    struct err e = {0};
    if (lc->rt->ops->list(lc->rt, on_listed, &s, &e) < 0 || remove_orphans(lc, &e) < 0) {
        log_warn("reconcile failed", LOG_ERR(&e));
    } else {
        check_running(lc, &s);
        if (found_adopt(lc, &e) < 0) {
            log_warn("sandboxes of another server could not be taken over", LOG_ERR(&e));
        }
    }
    seen_done(&s);
    prune(lc);
    __atomic_store_n(&lc->sweeping, false, __ATOMIC_RELEASE);
}

void reconcile_tick(struct io_timer *t)
{
    struct lifecycle *lc = container_of(t, struct lifecycle, sweep_timer);
    if (!__atomic_exchange_n(&lc->sweeping, true, __ATOMIC_ACQ_REL) &&
        io_pool_submit(lc->maint, sweep_run, lc) < 0) {
        __atomic_store_n(&lc->sweeping, false, __ATOMIC_RELEASE);
    }
    io_timer_start(t, RECONCILE_INTERVAL_MS);
}

/* ---- at start ---- */
struct load {
    struct lifecycle *lc;
    struct err e;
    size_t n;
};

static void on_row(const struct store_sandbox *row, void *arg)
{
    struct load *l = arg;
    if (l->e.code) {
        return;
    }
    struct sandbox *sb = sandbox_from_row(row, &l->e);
    if (sb && registry_add(&l->lc->reg, sb) < 0) {
        (void)err_set(&l->e, ERR_INTERNAL, "sandbox %s is recorded twice", row->id);
        sandbox_unref(sb);
    }
    l->n++;
}

/* Created anew from the recorded request, or marked as failed if that cannot be. */
static void recover_create(struct lifecycle *lc, struct sandbox *sb)
{
    struct arena a = {0};
    struct store_sandbox row;
    struct err e = {0};
    cleanup_(problem_done) struct problem p = {0};
    struct create_plan *plan = NULL;
    struct config *cfg = lifecycle_config(lc);
    const struct caller c = {.owner = sb->owner, .actor = "reconcile"};
    if (store_sandbox_get(lc->store, &a, sb->id, &row, &e) < 0) {
        (void)problem_err(&p, 0, CODE_GENERAL, &e);
    } else if (sb->had_auth) {
        (void)problem_set(&p, 500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED",
                          "the server was restarted, and credentials are not kept");
    } else if (plan_build(str_from(row.spec), cfg, &plan, &p) == 0) {
        log_info("create goes on", LOG_S("id", sb->id));
        (void)pthread_mutex_lock(&lc->admission.lock); /* counted, but not refused */
        lc->admission.total++;
        void *mine = map_get(&lc->admission.per_key, str_from(c.actor));
        (void)map_put(&lc->admission.per_key, str_from(c.actor), (void *)((uintptr_t)mine + 1));
        (void)pthread_mutex_unlock(&lc->admission.lock);
        sb->op = OP_CREATE;
        create_enqueue(lc, sb, plan, c.actor);
        expiry_schedule(lc, sb);
    }
    if (p.status) {
        if (lc->rt->ops->remove(lc->rt, sb->id, &e) < 0 ||
            change_state(lc, sb, &c, SB_FAILED, "create_failed", p.code, p.message, &e) < 0) {
            log_error("cannot record a failed create", LOG_S("id", sb->id), LOG_ERR(&e));
        }
        sb->answered = true;
        expiry_schedule(lc, sb);
    }
    config_unref(cfg);
    arena_done(&a);
}

static void recover_one(struct lifecycle *lc, struct sandbox *sb, const struct seen *s)
{
    struct err e = {0};
    const struct runtime_status missing = {.state = RT_MISSING};
    const struct runtime_status *st = map_get(&s->by_id, str_from(sb->id));
    enum sandbox_state state = state_of(lc, sb);
    if (state == SB_PENDING && (sb->answered || sb->idem_key)) {
        recover_create(lc, sb);
        return;
    }
    if (state == SB_PENDING || state == SB_STOPPING) {
        (void)remove_decide(lc, sb, false);
        (void)expiry_set(&lc->expiry, sb, clock_mono_ms()); /* removed by the first tick */
        return;
    }
    struct runtime_status whole; /* a list may know less of an end than a look at it */
    if (st && st->state == RT_EXITED && (state == SB_RUNNING || state == SB_PAUSED) &&
        lc->rt->ops->inspect(lc->rt, sb->id, &whole, &e) == 0 && whole.state == RT_EXITED) {
        st = &whole;
    }
    if (reconcile_apply(lc, sb, st ? st : &missing, &e) < 0) {
        log_error("cannot record the state of a sandbox", LOG_S("id", sb->id), LOG_ERR(&e));
    }
    expiry_schedule(lc, sb);
}

int lifecycle_recover(struct lifecycle *lc, struct err *e)
{
    struct load l = {.lc = lc};
    uint64_t begin = clock_mono_us();
    if (store_sandbox_each(lc->store, on_row, &l, e) < 0) {
        return -1;
    }
    if (l.e.code) {
        *e = l.e;
        return -1;
    }
    struct seen s = {0};
    if (lc->rt->ops->adopt(lc->rt, e) < 0 || lc->rt->ops->list(lc->rt, on_listed, &s, e) < 0) {
        seen_done(&s);
        return -1;
    }
    FAULT_POINT("server.recover.listed");
    size_t n;
    struct sandbox **all = registry_all(&lc->reg, &n);
    for (size_t i = 0; i < n; i++) {
        recover_one(lc, all[i], &s);
        sandbox_unref(all[i]);
    }
    free(all);
    int r = pools_recover(lc, e) < 0 ? -1 : remove_orphans(lc, e);
    snapshot_recover(lc);
    r = r < 0 ? r : found_adopt(lc, e);
    log_info("recovered", LOG_I("records", n), LOG_I("containers", map_len(&s.by_id)),
             LOG_I("us", clock_mono_us() - begin));
    seen_done(&s);
    return r;
}
