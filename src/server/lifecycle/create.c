/* Create: record as Pending, runtime, record as Running, tell whoever waits.
 *
 * Who waits and what becomes of a create that nobody waits for:
 *   - it has an idempotency key, or its client was told "Pending": it goes on;
 *   - otherwise its client left without knowing the id: it is undone. */

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rand.h"
#include "server/lifecycle/internal.h"
#include "server/lifecycle/pool.h"

DEFINE_CLEANUP(struct create_plan *, plan_free)
DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

#define EGRESS_TOKEN_LEN 32

struct create_job {
    struct lifecycle *lc;
    struct sandbox *sb;
    char *actor;
    struct progress progress;
};

static bool is_cancelled(struct sandbox *sb)
{
    return __atomic_load_n(&sb->cancelled, __ATOMIC_ACQUIRE);
}

static bool on_progress(const char *what, uint64_t done, uint64_t total, void *arg)
{
    struct create_job *job = arg;
    progress_report(job->lc, job->sb, &job->progress, what, done, total);
    return !is_cancelled(job->sb) && !__atomic_load_n(&job->lc->stopping, __ATOMIC_RELAXED);
}

/* ---- the end of a create ---- */
static void finish(struct lifecycle *lc, struct sandbox *sb, const struct problem *p)
{
    struct list waiting;
    list_init(&waiting);
    (void)pthread_mutex_lock(&lc->op_lock);
    list_each (it, &sb->waiters) {
        struct create_waiter *w = list_entry(it, struct create_waiter, node);
        w->finished = true;
        list_del(&w->node);
        list_push_back(&waiting, &w->node);
    }
    sb->n_waiters = 0;
    struct create_plan *plan = take_ptr(&sb->plan);
    (void)pthread_mutex_unlock(&lc->op_lock);
    plan_free(plan);
    op_end(lc, sb);
    for (struct list *n; (n = list_pop_front(&waiting));) {
        struct create_waiter *w = list_entry(n, struct create_waiter, node);
        struct sandbox *held = take_ptr(&w->sb);
        w->done(w, p->status ? NULL : sb, p); /* w may be gone afterwards */
        sandbox_unref(held);
    }
}

/* Does anybody know or will anybody ask for this sandbox? */
static bool is_wanted(struct lifecycle *lc, struct sandbox *sb)
{
    (void)pthread_mutex_lock(&lc->op_lock);
    bool wanted = sb->n_waiters > 0 || sb->answered || sb->idem_key || sb->is_member;
    (void)pthread_mutex_unlock(&lc->op_lock);
    return wanted;
}

static bool is_answered(struct lifecycle *lc, struct sandbox *sb)
{
    (void)pthread_mutex_lock(&lc->op_lock);
    bool answered = sb->answered;
    (void)pthread_mutex_unlock(&lc->op_lock);
    return answered;
}

static void fail_problem(struct problem *p, enum runtime_stage stage, const struct err *e)
{
    static const struct {
        int status;
        const char *code;
        bool exact; /* whatever the error says of itself */
    } rows[] = {
        [STAGE_PREPARE] = {500, "DOCKER::SANDBOX_START_FAILED", false},
        [STAGE_IMAGE] = {500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED", true},
        [STAGE_START] = {500, "DOCKER::SANDBOX_START_FAILED", false},
        [STAGE_EXECD] = {503, "DOCKER::SANDBOX_EXECD_START_FAILED", false},
        [STAGE_HOST_PATH_DENIED] = {400, "VOLUME::HOST_PATH_NOT_ALLOWED", true},
        [STAGE_HOST_PATH] = {500, "VOLUME::HOST_PATH_CREATE_FAILED", true},
        [STAGE_PVC_MISSING] = {400, "VOLUME::PVC_NOT_FOUND", true},
        [STAGE_PVC] = {500, "VOLUME::PVC_INSPECT_FAILED", true},
        [STAGE_PVC_DRIVER] = {400, "VOLUME::PVC_SUBPATH_UNSUPPORTED_DRIVER", true},
        [STAGE_SUB_PATH] = {400, "VOLUME::INVALID_SUB_PATH", true},
        [STAGE_OSSFS_ROOT] = {500, "VOLUME::INVALID_OSSFS_MOUNT_ROOT", true},
        [STAGE_OSSFS] = {500, "VOLUME::OSSFS_MOUNT_FAILED", true},
    };
    if (rows[stage].exact) {
        (void)problem_set(p, rows[stage].status, rows[stage].code, "%s", e->msg);
    } else if (stage != STAGE_IMAGE && (e->code == ERR_INVALID || e->code == ERR_UNSUPPORTED)) {
        /* What is wrong with an image is found out at its registry, and not the request's fault. */
        (void)problem_err(p, 400, CODE_INVALID, e);
    } else {
        (void)problem_err(p, rows[stage].status, rows[stage].code, e);
    }
}

/* The runtime has nothing of it. Known to a client: stays visible as Failed. Otherwise: gone. */
static void create_failed(struct lifecycle *lc, struct sandbox *sb, struct problem *p)
{
    struct err e = {0};
    log_warn("create failed", LOG_S("id", sb->id), LOG_S("code", p->code),
             LOG_S("error", p->message));
    registry_read(&lc->reg);
    bool removing = sb->removing;
    registry_unlock(&lc->reg);
    if (removing) {
        return; /* whoever removes it waits for this operation to end */
    }
    if (is_answered(lc, sb)) {
        if (change_state(lc, sb, &caller_runtime, SB_FAILED, "create_failed", p->code, p->message,
                         &e) < 0) {
            log_error("cannot record a failed create", LOG_S("id", sb->id), LOG_ERR(&e));
        }
        expiry_schedule(lc, sb);
        return;
    }
    if (!remove_decide(lc, sb, false)) {
        return;
    }
    FAULT_POINT("server.create.failed");
    if (remove_record(lc, sb, &caller_runtime, "create_failed", p->code, p->message, &e) < 0) {
        log_error("cannot remove the record of a failed create", LOG_S("id", sb->id), LOG_ERR(&e));
    }
}

/* ---- the work ---- */
enum create_end { CREATE_RUNNING, CREATE_REFUSED, CREATE_MUST_UNDO, CREATE_COLD };

static enum create_end create_start(struct create_job *job, struct problem *p)
{
    struct lifecycle *lc = job->lc;
    struct sandbox *sb = job->sb;
    struct err e = {0};
    enum runtime_stage stage = STAGE_PREPARE;
    struct runtime_spec *spec = &sb->plan->spec;
    spec->id = sb->id;
    spec->egress_token = sb->egress_token;
    spec->renew_extend_s = sb->renew_extend_s;
    registry_read(&lc->reg);
    spec->expires_us = sb->expires_us;
    registry_unlock(&lc->reg);
    spec->progress = on_progress;
    spec->progress_arg = job;
    if (sb->plan->warm && lc->rt->ops->activate(lc->rt, spec, &e) < 0) {
        /* Used, or dead since a moment: not for anybody. A create of its id begins from nothing. */
        log_warn("a pool's sandbox cannot be given away, making another", LOG_S("id", sb->id),
                 LOG_ERR(&e));
        sb->plan->warm = false;
        return CREATE_COLD;
    }
    if (!sb->plan->warm && lc->rt->ops->create(lc->rt, spec, &stage, &e) < 0) {
        FAULT_POINT("server.create.refused");
        fail_problem(p, stage, &e);
        return CREATE_REFUSED;
    }
    FAULT_POINT("server.create.started");
    if (is_cancelled(sb) || !is_wanted(lc, sb)) {
        (void)problem_set(p, 409, CODE_NOT_FOUND, "sandbox %s was deleted while it was created",
                          sb->id);
        return CREATE_MUST_UNDO;
    }
    bool boots =
        spec->os && strcmp(spec->os, "windows") == 0; /* for minutes: nobody waits for it */
    if (change_state(lc, sb, &caller_runtime, SB_RUNNING, "running", "CONTAINER_RUNNING",
                     boots ? "the machine inside is booting" : "execd answers", &e) < 0) {
        (void)problem_err(p, 0, "DOCKER::SANDBOX_START_FAILED", &e);
        return CREATE_MUST_UNDO;
    }
    FAULT_POINT("server.create.running");
    return CREATE_RUNNING;
}

static void create_undo(struct lifecycle *lc, struct sandbox *sb)
{
    struct err e = {0};
    if (lc->rt->ops->remove(lc->rt, sb->id, &e) < 0) {
        log_error("cannot undo a create", LOG_S("id", sb->id), LOG_ERR(&e));
    }
    FAULT_POINT("server.create.undone");
}

static bool is_stopping(struct lifecycle *lc)
{
    return __atomic_load_n(&lc->stopping, __ATOMIC_RELAXED);
}

/* What comes of the work. */
enum work_end { WORK_DONE, WORK_INTERRUPTED, WORK_AGAIN };

/* The work, up to what is recorded. */
static enum work_end create_work(struct create_job *job, struct problem *p)
{
    struct lifecycle *lc = job->lc;
    struct sandbox *sb = job->sb;
    enum create_end end = CREATE_REFUSED;
    if (is_cancelled(sb) || !is_wanted(lc, sb)) {
        (void)problem_set(p, 409, CODE_NOT_FOUND, "sandbox %s was given up before it started",
                          sb->id);
    } else if (is_stopping(lc)) {
        return WORK_INTERRUPTED;
    } else {
        end = create_start(job, p);
    }
    if (end == CREATE_COLD) {
        return WORK_AGAIN;
    }
    if (end == CREATE_MUST_UNDO) {
        create_undo(lc, sb);
    }
    if (end != CREATE_RUNNING) {
        if (is_stopping(lc) && !is_cancelled(sb)) {
            return WORK_INTERRUPTED;
        }
        create_failed(lc, sb, p);
    }
    return WORK_DONE;
}

static void create_submit(struct create_job *job);

static void create_run(void *arg)
{
    struct create_job *job = arg;
    struct lifecycle *lc = job->lc;
    struct sandbox *sb = job->sb;
    cleanup_(problem_done) struct problem p = {0};
    uint64_t begin = clock_mono_us();
    enum work_end end = create_work(job, &p);
    if (end == WORK_AGAIN) {
        create_submit(job);
        return;
    }
    if (end == WORK_INTERRUPTED) {
        /* The record stays Pending: the next start goes on with it, or drops it. */
        (void)problem_set(&p, 503, CODE_GENERAL, "the server is shutting down");
        p.retry_after_s = 2;
    }
    log_debug("create took", LOG_S("id", sb->id), LOG_I("us", clock_mono_us() - begin));
    admission_leave(lc, job->actor);
    finish(lc, sb, &p);
    sandbox_unref(sb);
    free(job->actor);
    free(job);
}

static void create_submit(struct create_job *job)
{
    struct lifecycle *lc = job->lc;
    /* Whoever waits for a registry must not stand in the way of those who need none. */
    bool fetch = lc->rt->ops->must_fetch && lc->rt->ops->must_fetch(lc->rt, &job->sb->plan->spec);
    /* The queue is longer than admission allows, so that this fails only while shutting down. */
    if (io_pool_submit(fetch ? lc->fetches : lc->creates, create_run, job) < 0) {
        create_run(job);
    }
}

void create_enqueue(struct lifecycle *lc, struct sandbox *sb, struct create_plan *take_plan,
                    const char *actor)
{
    struct create_job *job = NEW(struct create_job);
    *job = (struct create_job){lc, sandbox_ref(sb), xstrdup(actor), PROGRESS_INIT};
    bool warm = take_plan->warm;
    (void)pthread_mutex_lock(&lc->op_lock);
    must(sb->op == OP_CREATE && !sb->plan);
    sb->plan = take_plan;
    (void)pthread_mutex_unlock(&lc->op_lock);
    if (warm) {
        create_run(job); /* a matter of a millisecond: it waits for no other create */
    } else {
        create_submit(job);
    }
}

/* ---- the beginning ---- */
static void add_waiter(struct sandbox *sb, struct create_waiter *w)
{
    w->sb = sandbox_ref(sb);
    w->finished = false;
    list_push_back(&sb->waiters, &w->node);
    sb->n_waiters++;
}

/* A create with this key is known: wait for it, or answer with what it has become. */
static int join(struct lifecycle *lc, struct sandbox *sb, const struct create_plan *plan,
                struct create_waiter *w, struct problem *p)
{
    if (strcmp(sb->idem_hash, plan->hash) != 0) {
        return problem_set(p, 409, "SANDBOX::IDEMPOTENCY_KEY_REUSED",
                           "this Idempotency-Key belongs to another request (sandbox %s)", sb->id);
    }
    registry_read(&lc->reg);
    bool removing = sb->removing;
    registry_unlock(&lc->reg);
    if (removing) {
        (void)problem_set(p, 409, "SANDBOX::IDEMPOTENCY_KEY_REUSED",
                          "the sandbox of this Idempotency-Key (%s) is being removed", sb->id);
        p->retry_after_s = 1;
        return -1;
    }
    (void)pthread_mutex_lock(&lc->op_lock);
    bool wait = sb->op == OP_CREATE && !sb->answered;
    if (wait) {
        add_waiter(sb, w);
    }
    (void)pthread_mutex_unlock(&lc->op_lock);
    if (!wait) {
        w->finished = true;
        w->done(w, sb, p);
    }
    return 0;
}

static struct sandbox *record_make(struct lifecycle *lc, const struct caller *c,
                                   const struct create_plan *plan, const char *idem_key,
                                   const struct sandbox *member, struct store_sandbox *row,
                                   char token[EGRESS_TOKEN_LEN + 1])
{
    int64_t now = clock_wall_us();
    *row = (struct store_sandbox){
        .id = plan->spec.id,
        .owner = c->owner,
        .runtime = lc->rt->ops->name,
        .state = sandbox_state_name(SB_PENDING),
        .reason = "CONTAINER_STARTING",
        .message = "",
        .created_us = now,
        .transition_us = now,
        .expires_us = plan->timeout_s ? now + plan->timeout_s * 1000000 : 0,
        .image = plan->image,
        .snapshot_id = plan->snapshot_id,
        .os = plan->os,
        .arch = plan->arch,
        .entrypoint = plan->entrypoint_json,
        .metadata = plan->metadata_json,
        .renew_extend_s = plan->renew_extend_s,
        .spec = plan->spec_json,
        .idem_key = idem_key,
        .idem_hash = idem_key || plan->spec.standby ? plan->hash : NULL,
        .had_auth = plan->had_auth,
        .pool = plan->pool,
    };
    if (member) {
        row->egress_token = member->egress_token; /* its sidecar has it already */
    } else if (plan->spec.egress_policy) {
        rand_token(token, EGRESS_TOKEN_LEN);
        token[EGRESS_TOKEN_LEN] = '\0';
        row->egress_token = token;
    }
    struct err e = {0};
    struct sandbox *sb = sandbox_from_row(row, &e);
    must(sb); /* made from what was just validated */
    sb->op = OP_CREATE;
    return sb;
}

/* Into memory and store, in place of the one that waited in the pool where there is one. -EEXIST
 * when the idempotency key is known. */
static int record_put(struct lifecycle *lc, struct sandbox *sb, const struct store_sandbox *row,
                      struct sandbox *member, const struct store_event *ev, struct problem *p)
{
    struct err e = {0};
    /* Memory first: two creates with one key meet here, and the loser joins without a row of its
     * own. Until the row is there nobody can be told of the sandbox, as its operation is not over.
     */
    int r = member ? registry_replace(&lc->reg, member, sandbox_ref(sb))
                   : registry_add(&lc->reg, sandbox_ref(sb));
    if (r < 0) {
        sandbox_unref(sb);
        return r;
    }
    FAULT_POINT("server.create.begin");
    r = member ? store_sandbox_replace(lc->store, row, ev, &e)
               : store_sandbox_insert(lc->store, row, ev, &e);
    if (r == 0) {
        FAULT_POINT("server.create.recorded");
        return 0;
    }
    if (!member || registry_replace(&lc->reg, sb, sandbox_ref(member)) < 0) {
        registry_remove(&lc->reg, sb);
    }
    log_error("cannot record a sandbox", LOG_ERR(&e));
    return problem_err(p, 0, "DOCKER::SANDBOX_START_FAILED", &e);
}

static int record(struct lifecycle *lc, const struct caller *c, struct create_plan *take_plan,
                  const char *idem_key, struct sandbox *member, struct create_waiter *w,
                  struct problem *p)
{
    cleanup_(plan_free) struct create_plan *plan = take_plan;
    char token[EGRESS_TOKEN_LEN + 1];
    struct store_sandbox row;
    cleanup_(sandbox_unref) struct sandbox *sb =
        record_make(lc, c, plan, idem_key, member, &row, token);
    struct store_event ev =
        event_make(sb, c, "create", member ? "POOL_TAKEN" : "CONTAINER_STARTING", "");
    int r = record_put(lc, sb, &row, member, &ev, p);
    if (r < 0) {
        return r;
    }
    event_publish(lc, &ev, sb);
    expiry_schedule(lc, sb);
    (void)pthread_mutex_lock(&lc->op_lock);
    add_waiter(sb, w);
    (void)pthread_mutex_unlock(&lc->op_lock);
    create_enqueue(lc, sb, take_ptr(&plan), c->actor);
    return 0;
}

/* Everything is checked: takes what the pool has, if it is for one, and records. */
static int claim_and_record(struct lifecycle *lc, const struct caller *c,
                            struct create_plan *take_plan, const char *idem_key,
                            struct create_waiter *w, struct problem *p)
{
    cleanup_(plan_free) struct create_plan *plan = take_plan;
    struct pool_claim claim = {0};
    if (plan->pool && pool_claim(lc, c, plan, &claim, p) < 0) {
        return -1;
    }
    if (claim.member) {
        plan->warm = true;
        plan->spec.id = arena_strdup(&plan->arena, claim.member->id);
    }
    if (admission_enter(lc, c, !claim.member, p) < 0) {
        pool_unclaim(lc, &claim);
        return -1;
    }
    if (claim.member) {
        FAULT_POINT("server.pool.claimed");
    }
    int r = record(lc, c, take_ptr(&plan), idem_key, claim.member, w, p);
    if (r < 0) {
        admission_leave(lc, c->actor);
        pool_unclaim(lc, &claim);
    } else {
        pool_claimed(lc, &claim);
    }
    return r;
}

int lifecycle_create(struct lifecycle *lc, const struct caller *c, struct create_plan *take_plan,
                     const char *idem_key, struct create_waiter *w, struct problem *p)
{
    cleanup_(plan_free) struct create_plan *plan = take_plan;
    struct err e = {0};
    if (idem_key) {
        cleanup_(sandbox_unref) struct sandbox *sb =
            registry_get_idem(&lc->reg, c->owner, idem_key);
        if (sb) {
            return join(lc, sb, plan, w, p);
        }
    }
    if (plan->pool_ref && pool_complete(lc, c, &plan, p) < 0) {
        return -1;
    }
    if (plan->snapshot_id && !plan->is_fork &&
        snapshot_restorable(lc, c, plan->snapshot_id, p) < 0) {
        return -1;
    }
    char id[UUID_LEN + 1];
    rand_uuid(id);
    plan->spec.id = id;
    if (lc->rt->ops->check(lc->rt, &plan->spec, &e) < 0) {
        return problem_err(p, 0, CODE_INVALID, &e);
    }
    char hash[PLAN_HASH_LEN + 1];
    memcpy(hash, plan->hash, sizeof(hash));
    int r = claim_and_record(lc, c, take_ptr(&plan), idem_key, w, p);
    if (r == 0) {
        return 0;
    }
    if (r == -EEXIST && idem_key) {
        /* Another request with this key was quicker by a moment. */
        cleanup_(sandbox_unref) struct sandbox *sb =
            registry_get_idem(&lc->reg, c->owner, idem_key);
        struct create_plan same = {0};
        memcpy(same.hash, hash, sizeof(hash));
        if (sb) {
            return join(lc, sb, &same, w, p);
        }
    }
    return p->status ? -1 : problem_set(p, 503, CODE_GENERAL, "try again");
}

/* ---- for a pool ---- */
struct sandbox *create_member(struct lifecycle *lc, const struct caller *c,
                              struct create_plan *take_plan, struct problem *p)
{
    cleanup_(plan_free) struct create_plan *plan = take_plan;
    char token[EGRESS_TOKEN_LEN + 1], id[UUID_LEN + 1];
    struct store_sandbox row;
    struct err e = {0};
    rand_uuid(id);
    plan->spec.id = id;
    plan->spec.standby = true;
    if (lc->rt->ops->check(lc->rt, &plan->spec, &e) < 0) {
        (void)problem_err(p, 0, CODE_INVALID, &e);
        return NULL;
    }
    struct sandbox *sb = record_make(lc, c, plan, NULL, NULL, &row, token);
    struct store_event ev = event_make(sb, c, "create", "POOL_REFILL", "");
    if (record_put(lc, sb, &row, NULL, &ev, p) < 0) {
        sandbox_unref(sb);
        return NULL;
    }
    event_publish(lc, &ev, sb);
    (void)pthread_mutex_lock(&lc->op_lock);
    sb->plan = take_ptr(&plan);
    (void)pthread_mutex_unlock(&lc->op_lock);
    struct create_job job = {.lc = lc, .sb = sb, .progress = PROGRESS_INIT};
    if (create_work(&job, p) == WORK_INTERRUPTED) {
        (void)problem_set(p, 503, CODE_GENERAL, "the server is shutting down");
    }
    finish(lc, sb, p);
    if (p->status) {
        sandbox_unref(sb);
        return NULL;
    }
    return sb;
}

/* ---- waiting ---- */
static bool waiter_remove(struct lifecycle *lc, struct create_waiter *w, bool answered,
                          struct sandbox **ret_sb)
{
    (void)pthread_mutex_lock(&lc->op_lock);
    bool removed = !w->finished && w->sb;
    struct sandbox *sb = NULL;
    if (removed) {
        sb = take_ptr(&w->sb);
        list_del(&w->node);
        sb->n_waiters--;
        sb->answered |= answered;
        w->finished = true;
    }
    (void)pthread_mutex_unlock(&lc->op_lock);
    *ret_sb = sb;
    return removed;
}

bool lifecycle_create_leave(struct lifecycle *lc, struct create_waiter *w)
{
    struct sandbox *sb;
    bool removed = waiter_remove(lc, w, false, &sb);
    if (removed && !is_wanted(lc, sb)) {
        __atomic_store_n(&sb->cancelled, true, __ATOMIC_RELEASE);
    }
    sandbox_unref(sb);
    return removed;
}

bool lifecycle_create_detach(struct lifecycle *lc, struct create_waiter *w, struct sandbox **ret_sb)
{
    struct sandbox *sb;
    if (!waiter_remove(lc, w, true, &sb)) {
        return false;
    }
    struct err e = {0};
    if (store_sandbox_set_answered(lc->store, sb->id, &e) < 0) {
        log_error("cannot record that a client was answered", LOG_S("id", sb->id), LOG_ERR(&e));
    }
    FAULT_POINT("server.create.answered");
    *ret_sb = sb;
    return true;
}
