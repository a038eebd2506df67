#pragma once
/* Shared by the files of the store only. */

#include <pthread.h>
#include <sqlite3.h>

#include "server/store/store.h"

enum stmt {
    STMT_BEGIN,
    STMT_COMMIT,
    STMT_ROLLBACK,
    STMT_SANDBOX_INSERT,
    STMT_SANDBOX_STATE,
    STMT_SANDBOX_EXPIRY,
    STMT_SANDBOX_SHIFT,
    STMT_SANDBOX_METADATA,
    STMT_SANDBOX_ANSWERED,
    STMT_SANDBOX_DELETE,
    STMT_SANDBOX_EACH,
    STMT_SANDBOX_GET,
    STMT_SNAPSHOT_INSERT,
    STMT_SNAPSHOT_STATE,
    STMT_SNAPSHOT_DELETE,
    STMT_SNAPSHOT_GET,
    STMT_SNAPSHOT_LIST,
    STMT_SNAPSHOT_COUNT,
    STMT_POOL_PUT,
    STMT_POOL_DELETE,
    STMT_POOL_EACH,
    STMT_EVENT_INSERT,
    STMT_EVENT_LIST,
    STMT_EVENT_PRUNE,
    STMT__COUNT
};

struct store {
    sqlite3 *db;
    char *path;
    pthread_mutex_t lock;
    sqlite3_stmt *stmts[STMT__COUNT]; /* prepared on first use */
};

/* All of these with the lock held. */
sqlite3_stmt *store_stmt(struct store *s, enum stmt which, struct err *e);
int store_step_done(struct store *s, sqlite3_stmt *st, struct err *e); /* runs, resets, unbinds */
void store_reset(sqlite3_stmt *st);
int store_fail(struct store *s, struct err *e, const char *what);
void store_bind_text(sqlite3_stmt *st, int i, const char *text); /* NULL binds NULL */
const char *store_text(struct arena *a, sqlite3_stmt *st, int i);
int store_event_insert(struct store *s, const struct store_event *ev, struct err *e);

/* A transaction: begin takes the lock, end commits when r is 0, rolls back otherwise, and releases.
 */
int store_begin(struct store *s, struct err *e);
int store_end(struct store *s, int r, struct err *e);

int store_migrate(struct store *s, struct err *e);
