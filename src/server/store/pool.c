/* Rows of `pools`. */

#include "server/store/internal.h"

int store_pool_put(struct store *s, const struct store_pool *p, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_POOL_PUT, e);
    if (st) {
        store_bind_text(st, 1, p->owner);
        store_bind_text(st, 2, p->name);
        store_bind_text(st, 3, p->spec);
        (void)sqlite3_bind_int64(st, 4, p->created_us);
    }
    return store_end(s, st ? store_step_done(s, st, e) : -1, e);
}

int store_pool_delete(struct store *s, const char *owner, const char *name, struct err *e)
{
    if (store_begin(s, e) < 0) {
        return -1;
    }
    sqlite3_stmt *st = store_stmt(s, STMT_POOL_DELETE, e);
    if (st) {
        store_bind_text(st, 1, owner);
        store_bind_text(st, 2, name);
    }
    return store_end(s, st ? store_step_done(s, st, e) : -1, e);
}

int store_pool_each(struct store *s, void (*fn)(const struct store_pool *p, void *arg), void *arg,
                    struct err *e)
{
    (void)pthread_mutex_lock(&s->lock);
    sqlite3_stmt *st = store_stmt(s, STMT_POOL_EACH, e);
    int r = st ? 0 : -1, rc = SQLITE_DONE;
    while (r == 0 && (rc = sqlite3_step(st)) == SQLITE_ROW) {
        struct store_pool row = {
            .owner = store_text(NULL, st, 0),
            .name = store_text(NULL, st, 1),
            .spec = store_text(NULL, st, 2),
            .created_us = sqlite3_column_int64(st, 3),
        };
        fn(&row, arg);
    }
    if (r == 0 && rc != SQLITE_DONE) {
        r = store_fail(s, e, "cannot read the pools");
    }
    if (st) {
        store_reset(st);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}
