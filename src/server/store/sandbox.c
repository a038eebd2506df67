/* Rows of `sandboxes`. */

#include "server/store/internal.h"

static void bind_int(sqlite3_stmt *st, int i, int64_t v)
{
    (void)sqlite3_bind_int64(st, i, v);
}

/* Ends a transaction whose statement has been bound: step, event, commit. `e` is set on failure. */
static int finish(struct store *s, sqlite3_stmt *st, const struct store_event *ev, struct err *e)
{
    int r = st ? store_step_done(s, st, e) : -1;
    if (r == 0 && ev) {
        r = store_event_insert(s, ev, e);
    }
    return store_end(s, r, e);
}

static void bind_row(sqlite3_stmt *st, const struct store_sandbox *r)
{
    store_bind_text(st, 1, r->id);
    store_bind_text(st, 2, r->owner);
    store_bind_text(st, 3, r->runtime);
    store_bind_text(st, 4, r->state);
    store_bind_text(st, 5, r->reason);
    store_bind_text(st, 6, r->message);
    bind_int(st, 7, r->created_us);
    bind_int(st, 8, r->transition_us);
    if (r->expires_us) {
        bind_int(st, 9, r->expires_us);
    }
    store_bind_text(st, 10, r->image);
    store_bind_text(st, 11, r->snapshot_id);
    store_bind_text(st, 12, r->os);
    store_bind_text(st, 13, r->arch);
    store_bind_text(st, 14, r->entrypoint);
    store_bind_text(st, 15, r->metadata);
    bind_int(st, 16, r->renew_extend_s);
    store_bind_text(st, 17, r->spec);
    store_bind_text(st, 18, r->egress_token);
    store_bind_text(st, 19, r->idem_key);
    store_bind_text(st, 20, r->idem_hash);
    bind_int(st, 21, r->answered);
    bind_int(st, 22, r->had_auth);
    store_bind_text(st, 23, r->pool);
}

int store_sandbox_insert(struct store *s, const struct store_sandbox *r,
                         const struct store_event *ev, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_SANDBOX_INSERT, e);
    if (st) {
        bind_row(st, r);
    }
    return finish(s, st, ev, e);
}

int store_sandbox_replace(struct store *s, const struct store_sandbox *r,
                          const struct store_event *ev, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_SANDBOX_DELETE, e);
    if (st) {
        store_bind_text(st, 1, r->id);
        st = store_step_done(s, st, e) < 0 ? NULL : store_stmt(s, STMT_SANDBOX_INSERT, e);
    }
    if (st) {
        bind_row(st, r);
    }
    return finish(s, st, ev, e);
}

int store_sandbox_set_state(struct store *s, const char *id, const char *state, const char *reason,
                            const char *message, int64_t transition_us,
                            const struct store_event *ev, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_SANDBOX_STATE, e);
    if (st) {
        store_bind_text(st, 1, id);
        store_bind_text(st, 2, state);
        store_bind_text(st, 3, reason);
        store_bind_text(st, 4, message);
        bind_int(st, 5, transition_us);
    }
    return finish(s, st, ev, e);
}

int store_sandbox_set_expiry(struct store *s, const char *id, int64_t expires_us,
                             const struct store_event *ev, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_SANDBOX_EXPIRY, e);
    if (st) {
        store_bind_text(st, 1, id);
        if (expires_us) {
            bind_int(st, 2, expires_us);
        }
    }
    return finish(s, st, ev, e);
}

int store_sandbox_shift_expiry(struct store *s, int64_t by_us, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_SANDBOX_SHIFT, e);
    if (st) {
        bind_int(st, 1, by_us);
    }
    return finish(s, st, NULL, e);
}

int store_sandbox_set_metadata(struct store *s, const char *id, const char *metadata,
                               const struct store_event *ev, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_SANDBOX_METADATA, e);
    if (st) {
        store_bind_text(st, 1, id);
        store_bind_text(st, 2, metadata);
    }
    return finish(s, st, ev, e);
}

static int by_id(struct store *s, enum stmt which, const char *id, const struct store_event *ev,
                 struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, which, e);
    if (st) {
        store_bind_text(st, 1, id);
    }
    return finish(s, st, ev, e);
}

int store_sandbox_set_answered(struct store *s, const char *id, struct err *e)
{
    return by_id(s, STMT_SANDBOX_ANSWERED, id, NULL, e);
}

int store_sandbox_delete(struct store *s, const char *id, const struct store_event *ev,
                         struct err *e)
{
    return by_id(s, STMT_SANDBOX_DELETE, id, ev, e);
}

static void read_row(sqlite3_stmt *st, struct arena *a, struct store_sandbox *r)
{
    *r = (struct store_sandbox){
        .id = store_text(a, st, 0),
        .owner = store_text(a, st, 1),
        .runtime = store_text(a, st, 2),
        .state = store_text(a, st, 3),
        .reason = store_text(a, st, 4),
        .message = store_text(a, st, 5),
        .created_us = sqlite3_column_int64(st, 6),
        .transition_us = sqlite3_column_int64(st, 7),
        .expires_us = sqlite3_column_int64(st, 8),
        .image = store_text(a, st, 9),
        .snapshot_id = store_text(a, st, 10),
        .os = store_text(a, st, 11),
        .arch = store_text(a, st, 12),
        .entrypoint = store_text(a, st, 13),
        .metadata = store_text(a, st, 14),
        .renew_extend_s = sqlite3_column_int64(st, 15),
        .spec = store_text(a, st, 16),
        .egress_token = store_text(a, st, 17),
        .idem_key = store_text(a, st, 18),
        .idem_hash = store_text(a, st, 19),
        .answered = sqlite3_column_int(st, 20) != 0,
        .had_auth = sqlite3_column_int(st, 21) != 0,
        .pool = store_text(a, st, 22),
    };
}

int store_sandbox_each(struct store *s, void (*fn)(const struct store_sandbox *r, void *arg),
                       void *arg, struct err *e)
{
    (void)pthread_mutex_lock(&s->lock);
    sqlite3_stmt *st = store_stmt(s, STMT_SANDBOX_EACH, e);
    int r = st ? 0 : -1;
    while (r == 0) {
        int rc = sqlite3_step(st);
        if (rc == SQLITE_DONE) {
            break;
        }
        if (rc != SQLITE_ROW) {
            r = store_fail(s, e, "cannot read the sandboxes");
            break;
        }
        struct store_sandbox row;
        read_row(st, NULL, &row);
        fn(&row, arg);
    }
    if (st) {
        store_reset(st);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

int store_sandbox_get(struct store *s, struct arena *a, const char *id, struct store_sandbox *ret,
                      struct err *e)
{
    (void)pthread_mutex_lock(&s->lock);
    sqlite3_stmt *st = store_stmt(s, STMT_SANDBOX_GET, e);
    int r = -1;
    if (st) {
        store_bind_text(st, 1, id);
        int rc = sqlite3_step(st);
        if (rc == SQLITE_ROW) {
            read_row(st, a, ret);
            r = 0;
        } else if (rc == SQLITE_DONE) {
            (void)err_set(e, ERR_NOT_FOUND, "there is no sandbox %s", id);
        } else {
            (void)store_fail(s, e, "cannot read a sandbox");
        }
        store_reset(st);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
