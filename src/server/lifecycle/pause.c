/* Pause and resume: intent, runtime, record. A crash in between leaves the intent in the store;
 * what the runtime says then is what counts (lifecycle/reconcile.c). */

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "server/lifecycle/internal.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

struct transition {
    enum sandbox_op op;
    enum sandbox_state from, during, to;
    const char *type, *during_type, *during_reason, *reason;
    const char *conflict, *failed; /* error codes */
    const char *want;              /* for the message */
};

static const struct transition pausing = {
    .op = OP_PAUSE,
    .from = SB_RUNNING,
    .during = SB_PAUSING,
    .to = SB_PAUSED,
    .type = "paused",
    .during_type = "pausing",
    .during_reason = "PAUSING",
    .reason = "CONTAINER_PAUSED",
    .conflict = "DOCKER::SANDBOX_NOT_RUNNING",
    .failed = "DOCKER::SANDBOX_PAUSE_FAILED",
    .want = "running",
};

static const struct transition resuming = {
    .op = OP_RESUME,
    .from = SB_PAUSED,
    .during = SB_RESUMING,
    .to = SB_RUNNING,
    .type = "resumed",
    .during_type = "resuming",
    .during_reason = "RESUMING",
    .reason = "CONTAINER_RUNNING",
    .conflict = "DOCKER::SANDBOX_NOT_PAUSED",
    .failed = "DOCKER::SANDBOX_RESUME_FAILED",
    .want = "paused",
};

static int runtime_do(struct lifecycle *lc, struct sandbox *sb, enum sandbox_op op, struct err *e)
{
    return op == OP_PAUSE ? lc->rt->ops->pause(lc->rt, sb->id, e)
                          : lc->rt->ops->resume(lc->rt, sb->id, e);
}

/* The runtime refused: what is it really now? */
static void settle(struct lifecycle *lc, struct sandbox *sb)
{
    struct runtime_status st;
    struct err e = {0};
    if (lc->rt->ops->inspect(lc->rt, sb->id, &st, &e) < 0 || reconcile_apply(lc, sb, &st, &e) < 0) {
        log_error("cannot tell the state of a sandbox", LOG_S("id", sb->id), LOG_ERR(&e));
    }
}

static int run(struct lifecycle *lc, struct sandbox *sb, const struct caller *c,
               const struct transition *t, struct problem *p)
{
    struct err e = {0};
    registry_read(&lc->reg);
    enum sandbox_state state = sb->state;
    bool removing = sb->removing;
    registry_unlock(&lc->reg);
    if (removing) {
        return problem_set(p, 404, CODE_NOT_FOUND, "there is no sandbox %s", sb->id);
    }
    if (state != t->from) {
        return problem_set(p, 409, t->conflict, "sandbox %s is %s, not %s", sb->id,
                           sandbox_state_name(state), t->want);
    }
    FAULT_POINT(t->op == OP_PAUSE ? "server.pause.begin" : "server.resume.begin");
    if (change_state(lc, sb, c, t->during, t->during_type, t->during_reason, "", &e) < 0) {
        return problem_err(p, 0, t->failed, &e);
    }
    FAULT_POINT(t->op == OP_PAUSE ? "server.pause.recorded" : "server.resume.recorded");
    if (runtime_do(lc, sb, t->op, &e) < 0) {
        log_error("pause or resume failed", LOG_S("id", sb->id), LOG_ERR(&e));
        settle(lc, sb);
        return problem_err(p, 500, t->failed, &e);
    }
    FAULT_POINT(t->op == OP_PAUSE ? "server.pause.done" : "server.resume.done");
    if (change_state(lc, sb, c, t->to, t->type, t->reason, "", &e) < 0) {
        return problem_err(p, 0, t->failed, &e);
    }
    FAULT_POINT(t->op == OP_PAUSE ? "server.pause.paused" : "server.resume.running");
    return 0;
}

static int transition(struct lifecycle *lc, const struct caller *c, struct str id,
                      const struct transition *t, struct problem *p)
{
    cleanup_(sandbox_unref) struct sandbox *sb = lifecycle_get(lc, c, id, p);
    if (!sb) {
        return -1;
    }
    if (state_of(lc, sb) == SB_PENDING) { /* do not wait for a long create */
        return problem_set(p, 409, t->conflict, "sandbox %s is Pending, not %s", sb->id, t->want);
    }
    if (op_begin(lc, sb, t->op, OP_WAIT_MS) < 0) {
        return problem_set(p, 409, t->conflict, "sandbox %s is %s", sb->id,
                           sandbox_op_name(sb->op));
    }
    int r = run(lc, sb, c, t, p);
    op_end(lc, sb);
    return r;
}

int lifecycle_pause(struct lifecycle *lc, const struct caller *c, struct str id, struct problem *p)
{
    return transition(lc, c, id, &pausing, p);
}

int lifecycle_resume(struct lifecycle *lc, const struct caller *c, struct str id, struct problem *p)
{
    return transition(lc, c, id, &resuming, p);
}
