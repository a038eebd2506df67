/* Rows of `events`: what happened to a sandbox, when, and on whose behalf. */

#include "server/store/internal.h"

static const char *text_or_empty(const char *s)
{
    return s ? s : "";
}

int store_event_insert(struct store *s, const struct store_event *ev, struct err *e)
{
    sqlite3_stmt *st = store_stmt(s, STMT_EVENT_INSERT, e);
    if (!st) {
        return -1;
    }
    (void)sqlite3_bind_int64(st, 1, ev->at_us);
    store_bind_text(st, 2, text_or_empty(ev->sandbox_id));
    store_bind_text(st, 3, text_or_empty(ev->owner));
    store_bind_text(st, 4, text_or_empty(ev->type));
    store_bind_text(st, 5, text_or_empty(ev->actor));
    store_bind_text(st, 6, text_or_empty(ev->request_id));
    store_bind_text(st, 7, text_or_empty(ev->reason));
    store_bind_text(st, 8, text_or_empty(ev->message));
    return store_step_done(s, st, e);
}

int store_event_add(struct store *s, const struct store_event *ev, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    return store_end(s, store_event_insert(s, ev, e), e);
}

static void read_event(sqlite3_stmt *st, struct arena *a, struct store_event *ev)
{
    *ev = (struct store_event){
        .seq = sqlite3_column_int64(st, 0),
        .at_us = sqlite3_column_int64(st, 1),
        .sandbox_id = store_text(a, st, 2),
        .owner = store_text(a, st, 3),
        .type = store_text(a, st, 4),
        .actor = store_text(a, st, 5),
        .request_id = store_text(a, st, 6),
        .reason = store_text(a, st, 7),
        .message = store_text(a, st, 8),
    };
}

int store_event_list(struct store *s, struct arena *a, const char *sandbox_id, unsigned limit,
                     struct store_event **ret, size_t *ret_n, struct err *e)
{
    struct store_event *v = arena_array(a, limit + 1, sizeof(*v));
    size_t n = 0;
    (void)pthread_mutex_lock(&s->lock);
    sqlite3_stmt *st = store_stmt(s, STMT_EVENT_LIST, e);
    int r = st ? 0 : -1;
    if (st) {
        store_bind_text(st, 1, sandbox_id);
        (void)sqlite3_bind_int64(st, 2, limit);
        int rc;
        while ((rc = sqlite3_step(st)) == SQLITE_ROW && n < limit) {
            read_event(st, a, &v[n++]);
        }
        if (rc != SQLITE_DONE && rc != SQLITE_ROW) {
            r = store_fail(s, e, "cannot read events");
        }
        store_reset(st);
    }
    (void)pthread_mutex_unlock(&s->lock);
    if (r < 0) {
        return -1;
    }
    for (size_t i = 0; i < n / 2; i++) { /* newest first in the query, oldest first for people */
        struct store_event t = v[i];
        v[i] = v[n - 1 - i];
        v[n - 1 - i] = t;
    }
    *ret = v;
    *ret_n = n;
    return 0;
}

int store_event_prune(struct store *s, int64_t before_us, unsigned max_rows, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_EVENT_PRUNE, e);
    int n = -1;
    if (st) {
        (void)sqlite3_bind_int64(st, 1, before_us);
        (void)sqlite3_bind_int64(st, 2, max_rows);
        n = store_step_done(s, st, e);
        n = n < 0 ? -1 : sqlite3_changes(s->db);
    }
    return store_end(s, n < 0 ? -1 : 0, e) < 0 ? -1 : n;
}
