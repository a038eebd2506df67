/* The end of a sandbox, by delete, expiry or undo: record the intent, take it down, drop the
 * record. After a crash anywhere in between lifecycle_recover() goes on from the intent. */

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"
#include "server/lifecycle/pool.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

bool remove_decide(struct lifecycle *lc, struct sandbox *sb, bool only_expired)
{
    (void)pthread_mutex_lock(&lc->meta_lock);
    registry_write(&lc->reg);
    /* Renewed since the timer fired: the new time is in the heap already. */
    bool renewed = only_expired && !expiry_is_due(&lc->expiry, sb, clock_mono_ms());
    bool decided = !sb->removing && !renewed;
    sb->removing |= decided;
    registry_unlock(&lc->reg);
    (void)pthread_mutex_unlock(&lc->meta_lock);
    return decided;
}

static int retry_later(struct lifecycle *lc, struct sandbox *sb)
{
    unsigned failed = __atomic_fetch_add(&sb->n_failed, 1, __ATOMIC_RELAXED);
    uint64_t wait = (uint64_t)EXPIRY_RETRY_MS << MIN(failed, 8u);
    if (expiry_set(&lc->expiry, sb, clock_mono_ms() + MIN(wait, EXPIRY_RETRY_MAX_MS))) {
        expiry_arm(lc);
    }
    return -1;
}

int remove_record(struct lifecycle *lc, struct sandbox *sb, const struct caller *c,
                  const char *type, const char *reason, const char *message, struct err *e)
{
    struct store_event ev = event_make(sb, c, type, reason, message);
    if (store_sandbox_delete(lc->store, sb->id, &ev, e) < 0) {
        return retry_later(lc, sb);
    }
    FAULT_POINT("server.remove.deleted");
    expiry_remove(&lc->expiry, sb);
    registry_remove(&lc->reg, sb);
    pool_on_gone(lc, sb);
    event_publish(lc, &ev, sb);
    return 0;
}

int remove_run(struct lifecycle *lc, struct sandbox *sb, const struct caller *c, const char *type,
               const char *reason, struct err *e)
{
    FAULT_POINT("server.remove.begin");
    if (state_of(lc, sb) != SB_STOPPING &&
        change_state(lc, sb, c, SB_STOPPING, "stopping", reason, "", e) < 0) {
        /* A full disk must not keep a sandbox alive: go on, taking it down makes room. */
        log_warn("cannot record that a sandbox is being removed", LOG_S("id", sb->id), LOG_ERR(e));
        *e = (struct err){0};
    }
    FAULT_POINT("server.remove.recorded");
    if (lc->rt->ops->remove(lc->rt, sb->id, e) < 0) {
        return retry_later(lc, sb);
    }
    FAULT_POINT("server.remove.removed");
    return remove_record(lc, sb, c, type, reason, "", e);
}

/* ---- delete ---- */
int lifecycle_delete(struct lifecycle *lc, const struct caller *c, struct str id, struct problem *p)
{
    cleanup_(sandbox_unref) struct sandbox *sb = lifecycle_get(lc, c, id, p);
    if (!sb) {
        return -1;
    }
    bool mine = remove_decide(lc, sb, false);
    __atomic_store_n(&sb->cancelled, true, __ATOMIC_RELEASE); /* a create at work gives up */
    if (op_begin(lc, sb, OP_REMOVE, OP_WAIT_MS) < 0) {
        (void)problem_set(p, 409, "DOCKER::SANDBOX_DELETE_FAILED",
                          "sandbox %s is still %s; it will be removed when that ends", sb->id,
                          sandbox_op_name(sb->op));
        if (mine) {
            (void)retry_later(lc, sb);
        }
        return -1;
    }
    struct err e = {0};
    int r = 0;
    struct sandbox *still = registry_get(&lc->reg, NULL, str_from(sb->id));
    if (!still) { /* somebody else has removed it while this call waited */
        r = problem_set(p, 404, CODE_NOT_FOUND, "there is no sandbox %s", sb->id);
    } else if (remove_run(lc, sb, c, "deleted", "DELETED", &e) < 0) {
        log_error("cannot delete a sandbox", LOG_S("id", sb->id), LOG_ERR(&e));
        r = problem_err(p, 500, "DOCKER::SANDBOX_DELETE_FAILED", &e);
    }
    sandbox_unref(still);
    op_end(lc, sb);
    return r;
}

/* ---- expiry and retries ---- */
static void expire_run(struct lifecycle *lc, struct sandbox *sb)
{
    registry_read(&lc->reg);
    bool again = sb->removing;
    registry_unlock(&lc->reg);
    FAULT_POINT("server.expiry.due");
    if (!again && !remove_decide(lc, sb, true)) {
        return;
    }
    __atomic_store_n(&sb->cancelled, true, __ATOMIC_RELEASE);
    if (op_begin(lc, sb, OP_REMOVE, 1000) < 0) {
        (void)retry_later(lc, sb);
        return;
    }
    struct err e = {0};
    struct sandbox *still = registry_get(&lc->reg, NULL, str_from(sb->id));
    if (still && remove_run(lc, sb, &caller_expiry, again ? "deleted" : "expired",
                            again ? "RETRIED" : "EXPIRED", &e) < 0) {
        log_error("cannot remove a sandbox, will try again", LOG_S("id", sb->id), LOG_ERR(&e));
    }
    sandbox_unref(still);
    op_end(lc, sb);
}

struct expire_job {
    struct lifecycle *lc;
    struct sandbox *sb;
};

static void expire_job_run(void *arg)
{
    struct expire_job *job = arg;
    expire_run(job->lc, job->sb);
    sandbox_unref(job->sb);
    free(job);
}

void remove_async(struct lifecycle *lc, struct sandbox *sb)
{
    struct expire_job *job = NEW(struct expire_job);
    *job = (struct expire_job){lc, sandbox_ref(sb)};
    if (io_pool_submit(lc->maint, expire_job_run, job) < 0) {
        (void)expiry_set(&lc->expiry, sb, clock_mono_ms() + EXPIRY_RETRY_MS);
        sandbox_unref(sb);
        free(job);
    }
}
