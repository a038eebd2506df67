/* Snapshots: recorded as Creating, answered, captured by a worker, then Ready or Failed. The
 * runtime has the content under the snapshot's id; the row says whether it may be used.
 *
 *   Creating ──► Ready ──► Deleting ──► gone
 *        └─────► Failed ─────┘
 *
 * After a crash snapshot_recover() asks the runtime what became of those in between. */

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rand.h"
#include "server/lifecycle/internal.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

#define CREATING "Creating"
#define READY "Ready"
#define FAILED "Failed"
#define DELETING "Deleting"
#define NOT_FOUND "SNAPSHOT::NOT_FOUND"
#define NOTHING "{}" /* spec of one that there is nothing to restore from yet */

/* Returns whether it was in `from` and is in `state` now. */
static bool move(struct lifecycle *lc, const char *id, const char *from, const char *state,
                 const char *reason, const char *message)
{
    struct err e = {0};
    char spec[SANDBOX_ID_MAX + 48];
    (void)snprintf(spec, sizeof(spec), "{\"image\":\"snapshot:%s\"}", id);
    struct store_snapshot to = {
        .state = state,
        .reason = reason,
        .message = message,
        .spec = strcmp(state, READY) == 0 ? spec : NULL,
        .transition_us = clock_wall_us(),
    };
    int r = store_snapshot_set_state(lc->store, id, from, &to, &e);
    if (r < 0) {
        log_error("cannot record the state of a snapshot", LOG_S("id", id), LOG_ERR(&e));
    } else if (r > 0) {
        log_info("snapshot", LOG_S("id", id), LOG_S("state", state), LOG_S("reason", reason),
                 LOG_S("message", message));
    }
    return r > 0;
}

/* What it holds and then its row. On failure it stays Deleting, to be tried again. */
int snapshot_erase(struct lifecycle *lc, const char *id, struct err *e)
{
    if (lc->rt->ops->snapshot_remove && lc->rt->ops->snapshot_remove(lc->rt, id, e) < 0) {
        return -1;
    }
    FAULT_POINT("server.snapshot.removed");
    return store_snapshot_delete(lc->store, id, e);
}

int snapshot_end_fork(struct lifecycle *lc, const char *id, struct err *e)
{
    if (snapshot_erase(lc, id, e) == 0) {
        return 0;
    }
    /* A runtime whose sandboxes hold on to it: deleted at a start when they do not any more. */
    return e->code == ERR_CONFLICT &&
                   move(lc, id, CREATING, DELETING, "snapshot_delete_requested", "")
               ? 0
               : -1;
}

/* ---- the work ---- */

struct capture_job {
    struct lifecycle *lc;
    struct sandbox *sb;
    char id[UUID_LEN + 1];
};

int snapshot_capture(struct lifecycle *lc, struct sandbox *sb, const char *id, struct err *e)
{
    if (op_begin(lc, sb, OP_SNAPSHOT, OP_WAIT_MS) < 0) {
        return err_set(e, ERR_TIMEOUT, "sandbox %s is %s", sb->id, sandbox_op_name(sb->op));
    }
    int r = -1;
    registry_read(&lc->reg);
    bool runs = sb->state == SB_RUNNING && !sb->removing;
    registry_unlock(&lc->reg);
    if (runs) {
        r = lc->rt->ops->snapshot(lc->rt, sb->id, id, e);
    } else {
        (void)err_set(e, ERR_CONFLICT, "sandbox %s is not running any more", sb->id);
    }
    op_end(lc, sb);
    return r;
}

static void settle(struct lifecycle *lc, const char *id, int r, const struct err *e)
{
    const char *reason =
        e->code == ERR_TIMEOUT ? "snapshot_runtime_timeout" : "snapshot_runtime_failed";
    bool moved = r == 0 ? move(lc, id, CREATING, READY, "snapshot_runtime_ready", "")
                        : move(lc, id, CREATING, FAILED, reason, e->msg);
    if (!moved || r < 0) { /* nobody waits for it any more, or there is only a part of it */
        struct err ignored = {0};
        (void)lc->rt->ops->snapshot_remove(lc->rt, id, &ignored);
    }
}

static void capture_run(void *arg)
{
    struct capture_job *job = arg;
    struct err e = {0};
    int r = snapshot_capture(job->lc, job->sb, job->id, &e);
    FAULT_POINT("server.snapshot.captured");
    settle(job->lc, job->id, r, &e);
    sandbox_unref(job->sb);
    free(job);
}

/* ---- requests ---- */

int snapshot_check_source(struct lifecycle *lc, struct sandbox *sb, struct problem *p)
{
    registry_read(&lc->reg);
    enum sandbox_state state = sb->state;
    registry_unlock(&lc->reg);
    if (state != SB_RUNNING) {
        return problem_set(p, 409, "SNAPSHOT::INVALID_SOURCE_STATE",
                           "sandbox %s is %s; only a Running one can be captured", sb->id,
                           sandbox_state_name(state));
    }
    if (!lc->rt->ops->snapshot) {
        return problem_set(p, 501, "SNAPSHOT::NOT_IMPLEMENTED",
                           "this runtime cannot take snapshots");
    }
    return 0;
}

int snapshot_record(struct lifecycle *lc, const struct caller *c, struct sandbox *sb,
                    const char *name, const char *reason, struct arena *a,
                    struct store_snapshot *ret, struct problem *p)
{
    char id[UUID_LEN + 1];
    struct err e = {0};
    rand_uuid(id);
    int64_t now = clock_wall_us();
    *ret = (struct store_snapshot){
        .id = arena_strdup(a, id),
        .owner = sb->owner,
        .sandbox_id = arena_strdup(a, sb->id),
        .name = name,
        .spec = NOTHING,
        .state = CREATING,
        .reason = reason,
        .message = "",
        .created_us = now,
        .transition_us = now,
    };
    struct store_event ev = event_make(sb, c, "snapshot", "SNAPSHOT", ret->id);
    if (store_snapshot_insert(lc->store, ret, &ev, &e) < 0) {
        return problem_err(p, 0, CODE_GENERAL, &e);
    }
    event_publish(lc, &ev, sb);
    FAULT_POINT("server.snapshot.recorded");
    return 0;
}

int lifecycle_snapshot(struct lifecycle *lc, const struct caller *c, struct str id,
                       const char *name, struct arena *a, struct store_snapshot *ret,
                       struct problem *p)
{
    cleanup_(sandbox_unref) struct sandbox *sb = lifecycle_get(lc, c, id, p);
    if (!sb || snapshot_check_source(lc, sb, p) < 0 ||
        snapshot_record(lc, c, sb, name, "snapshot_accepted", a, ret, p) < 0) {
        return -1;
    }
    struct capture_job *job = NEW(struct capture_job);
    job->lc = lc;
    job->sb = sandbox_ref(sb);
    memcpy(job->id, ret->id, sizeof(job->id));
    if (io_pool_submit(lc->captures, capture_run, job) < 0) {
        struct err e = {0};
        (void)store_snapshot_delete(lc->store, ret->id, &e);
        sandbox_unref(job->sb);
        free(job);
        (void)problem_set(p, 503, CODE_GENERAL, "too many snapshots are waiting");
        p->retry_after_s = 2;
        return -1;
    }
    return 0;
}

int lifecycle_snapshot_get(struct lifecycle *lc, const struct caller *c, struct str id,
                           struct arena *a, struct store_snapshot *ret, struct problem *p)
{
    struct err e = {0};
    if (store_snapshot_get(lc->store, a, c->owner, arena_str(a, id), ret, &e) < 0) {
        return problem_err(p, 0, e.code == ERR_NOT_FOUND ? NOT_FOUND : CODE_GENERAL, &e);
    }
    return 0;
}

int lifecycle_snapshot_delete(struct lifecycle *lc, const struct caller *c, struct str id,
                              struct problem *p)
{
    cleanup_(arena_done) struct arena a = {0};
    struct store_snapshot row;
    struct err e = {0};
    if (lifecycle_snapshot_get(lc, c, id, &a, &row, p) < 0) {
        return -1;
    }
    /* One that is Deleting already was interrupted: go on with it. */
    if (strcmp(row.state, DELETING) != 0 &&
        (strcmp(row.state, CREATING) == 0 ||
         !move(lc, row.id, row.state, DELETING, "snapshot_delete_requested", ""))) {
        return problem_set(p, 409, "SNAPSHOT::INVALID_STATE",
                           "snapshot %s is %s; it can be deleted when that is over", row.id,
                           row.state);
    }
    FAULT_POINT("server.snapshot.deleting");
    if (snapshot_erase(lc, row.id, &e) < 0) {
        log_error("cannot delete a snapshot", LOG_S("id", row.id), LOG_ERR(&e));
        return problem_err(p, 500,
                           e.code == ERR_CONFLICT ? "SNAPSHOT::DELETE_CONFLICT" : CODE_GENERAL, &e);
    }
    log_info("snapshot deleted", LOG_S("id", row.id));
    return 0;
}

int snapshot_restorable(struct lifecycle *lc, const struct caller *c, const char *id,
                        struct problem *p)
{
    cleanup_(arena_done) struct arena a = {0};
    struct store_snapshot row;
    if (lifecycle_snapshot_get(lc, c, str_from(id), &a, &row, p) < 0) {
        return -1;
    }
    if (strcmp(row.state, READY) != 0) {
        return problem_set(p, 409, "SNAPSHOT::NOT_READY", "snapshot %s is %s", row.id, row.state);
    }
    cleanup_(json_free) struct json *spec = json_parse(str_from(row.spec), NULL);
    if (!json_str(json_get(spec, "image")).n) {
        return problem_set(p, 409, "SNAPSHOT::INVALID_RESTORE_CONFIG",
                           "snapshot %s has nothing to restore from", row.id);
    }
    return 0;
}

/* ---- at start ---- */

static void recover_one(struct lifecycle *lc, const struct store_snapshot *row)
{
    struct err e = {0};
    bool is_fork = strcmp(row->reason, SNAPSHOT_FORK) == 0;
    if (is_fork) {
        fork_undo(lc, row->id);
    }
    if (is_fork || strcmp(row->state, DELETING) == 0) {
        if (snapshot_erase(lc, row->id, &e) < 0) {
            log_warn("a snapshot is still there", LOG_S("id", row->id), LOG_ERR(&e));
        }
        return;
    }
    int there =
        lc->rt->ops->snapshot_exists ? lc->rt->ops->snapshot_exists(lc->rt, row->id, &e) : 0;
    if (there > 0) {
        (void)move(lc, row->id, CREATING, READY, "snapshot_recovery_ready", "");
        return;
    }
    (void)move(lc, row->id, CREATING, FAILED,
               there < 0 ? "snapshot_recovery_inspect_failed" : "snapshot_recovery_missing_image",
               there < 0 ? e.msg : "the server ended before the snapshot was complete");
    if (there == 0 && lc->rt->ops->snapshot_remove) {
        (void)lc->rt->ops->snapshot_remove(lc->rt, row->id, &e);
    }
}

void snapshot_recover(struct lifecycle *lc)
{
    const struct str between[] = {STR(CREATING), STR(DELETING)};
    size_t before = SIZE_MAX;
    for (;;) {
        cleanup_(arena_done) struct arena a = {0};
        struct store_snapshot_filter f = {
            .states = between, .n_states = 2, .page = 1, .page_size = PAGE_SIZE_MAX};
        struct store_snapshot *v;
        struct err e = {0};
        size_t n = 0, total = 0;
        if (store_snapshot_list(lc->store, &a, &f, &v, &n, &total, &e) < 0) {
            log_error("cannot look at unfinished snapshots", LOG_ERR(&e));
            return;
        }
        for (size_t i = 0; i < n; i++) {
            recover_one(lc, &v[i]);
        }
        if (n == 0 || total >= before) { /* what is left now cannot be helped */
            return;
        }
        before = total;
    }
}
