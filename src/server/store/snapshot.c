/* Rows of `snapshots`. */

#include "server/store/internal.h"

static int bound_end(struct store *s, sqlite3_stmt *st, struct err *e)
{
    return store_end(s, st ? store_step_done(s, st, e) : -1, e);
}

int store_snapshot_insert(struct store *s, const struct store_snapshot *r,
                          const struct store_event *ev, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_SNAPSHOT_INSERT, e);
    if (st) {
        const char *text[] = {r->id,   r->owner, r->sandbox_id, r->name,
                              r->spec, r->state, r->reason,     r->message};
        for (int i = 0; i < 8; i++) {
            store_bind_text(st, i + 1, text[i]);
        }
        (void)sqlite3_bind_int64(st, 9, r->created_us);
        (void)sqlite3_bind_int64(st, 10, r->transition_us);
    }
    int n = st ? store_step_done(s, st, e) : -1;
    if (n == 0 && ev) {
        n = store_event_insert(s, ev, e);
    }
    return store_end(s, n, e);
}

int store_snapshot_set_state(struct store *s, const char *id, const char *from,
                             const struct store_snapshot *to, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_SNAPSHOT_STATE, e);
    if (st) {
        const char *text[] = {id, from, to->state, to->reason, to->message, to->spec};
        for (int i = 0; i < 6; i++) {
            store_bind_text(st, i + 1, text[i]);
        }
        (void)sqlite3_bind_int64(st, 7, to->transition_us);
    }
    int r = st ? store_step_done(s, st, e) : -1;
    int changed = r == 0 ? sqlite3_changes(s->db) : 0;
    return store_end(s, r, e) < 0 ? -1 : changed;
}

int store_snapshot_delete(struct store *s, const char *id, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_SNAPSHOT_DELETE, e);
    if (st) {
        store_bind_text(st, 1, id);
    }
    return bound_end(s, st, e);
}

static void read_row(sqlite3_stmt *st, struct arena *a, struct store_snapshot *r)
{
    *r = (struct store_snapshot){
        .id = store_text(a, st, 0),
        .owner = store_text(a, st, 1),
        .sandbox_id = store_text(a, st, 2),
        .name = store_text(a, st, 3),
        .spec = store_text(a, st, 4),
        .state = store_text(a, st, 5),
        .reason = store_text(a, st, 6),
        .message = store_text(a, st, 7),
        .created_us = sqlite3_column_int64(st, 8),
        .transition_us = sqlite3_column_int64(st, 9),
    };
}

int store_snapshot_get(struct store *s, struct arena *a, const char *owner, const char *id,
                       struct store_snapshot *ret, struct err *e)
{
    int r = -1;
    (void)pthread_mutex_lock(&s->lock);
    sqlite3_stmt *st = store_stmt(s, STMT_SNAPSHOT_GET, e);
    if (st) {
        store_bind_text(st, 1, id);
        store_bind_text(st, 2, owner);
        int rc = sqlite3_step(st);
        if (rc == SQLITE_ROW) {
            read_row(st, a, ret);
            r = 0;
        } else if (rc == SQLITE_DONE) {
            (void)err_set(e, ERR_NOT_FOUND, "there is no snapshot %.64s", id);
        } else {
            (void)store_fail(s, e, "cannot read a snapshot");
        }
        store_reset(st);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

/* "\nReady\nFailed\n": one text for any number of states. */
static const char *joined(struct arena *a, const struct store_snapshot_filter *f)
{
    const char *all = f->n_states ? "\n" : NULL;
    for (size_t i = 0; i < f->n_states; i++) {
        all = arena_printf(a, "%s%.*s\n", all, STR_FMT(f->states[i]));
    }
    return all;
}

static sqlite3_stmt *filtered(struct store *s, enum stmt which, const char *states,
                              const struct store_snapshot_filter *f, struct err *e)
{
    sqlite3_stmt *st = store_stmt(s, which, e);
    if (st) {
        store_bind_text(st, 1, f->owner);
        store_bind_text(st, 2, f->sandbox_id);
        store_bind_text(st, 3, f->name);
        store_bind_text(st, 4, states);
    }
    return st;
}

static int count(struct store *s, const char *states, const struct store_snapshot_filter *f,
                 size_t *ret, struct err *e)
{
    sqlite3_stmt *st = filtered(s, STMT_SNAPSHOT_COUNT, states, f, e);
    if (!st) {
        return -1;
    }
    bool ok = sqlite3_step(st) == SQLITE_ROW;
    *ret = ok ? (size_t)sqlite3_column_int64(st, 0) : 0;
    int r = ok ? 0 : store_fail(s, e, "cannot count the snapshots");
    store_reset(st);
    return r;
}

static int fetch(struct store *s, struct arena *a, const char *states,
                 const struct store_snapshot_filter *f, struct store_snapshot *v, size_t *ret_n,
                 struct err *e)
{
    sqlite3_stmt *st = filtered(s, STMT_SNAPSHOT_LIST, states, f, e);
    if (!st) {
        return -1;
    }
    (void)sqlite3_bind_int64(st, 5, (int64_t)f->page_size);
    (void)sqlite3_bind_int64(st, 6, (int64_t)((f->page - 1) * f->page_size));
    int rc, r = 0;
    size_t n = 0;
    while ((rc = sqlite3_step(st)) == SQLITE_ROW && n < f->page_size) {
        read_row(st, a, &v[n++]);
    }
    if (rc != SQLITE_DONE && rc != SQLITE_ROW) {
        r = store_fail(s, e, "cannot read the snapshots");
    }
    store_reset(st);
    *ret_n = n;
    return r;
}

int store_snapshot_list(struct store *s, struct arena *a, const struct store_snapshot_filter *f,
                        struct store_snapshot **ret, size_t *ret_n, size_t *ret_total,
                        struct err *e)
{
    const char *states = joined(a, f);
    *ret = arena_array(a, f->page_size + 1, sizeof(**ret));
    *ret_n = 0;
    (void)pthread_mutex_lock(&s->lock);
    int r = count(s, states, f, ret_total, e);
    if (r == 0 && f->page <= *ret_total / f->page_size + 1) {
        r = fetch(s, a, states, f, *ret, ret_n, e);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
