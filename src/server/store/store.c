/* Opening the database, statements and transactions. */

#include "server/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/store/internal.h"

#define WAL_PAGES_BEFORE_CHECKPOINT 1000
#define WAL_PAGES_AT_COMMIT 20000 /* backstop, should nobody call store_checkpoint() */

#define SNAPSHOT_COLUMNS                                                                           \
    "id, owner, source_sandbox_id, name, spec, state, reason, message, created_us, transition_us"
#define SNAPSHOT_FILTER                                                                            \
    " FROM snapshots WHERE (?1 IS NULL OR owner = ?1) AND (?2 IS NULL OR source_sandbox_id = ?2) " \
    "AND (?3 IS NULL OR name = ?3) AND (?4 IS NULL OR "                                            \
    "instr(?4, char(10) || state || char(10)) > 0)"

static const char *const stmt_sql[STMT__COUNT] = {
    [STMT_BEGIN] = "BEGIN IMMEDIATE",
    [STMT_COMMIT] = "COMMIT",
    [STMT_ROLLBACK] = "ROLLBACK",
    [STMT_SANDBOX_INSERT] =
        "INSERT INTO sandboxes(id, owner, runtime, state, reason, message, created_us, "
        "transition_us, expires_us, image, snapshot_id, os, arch, entrypoint, metadata, "
        "renew_extend_s, spec, egress_token, idem_key, idem_hash, answered, had_auth, pool) "
        "VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
    [STMT_SANDBOX_STATE] = "UPDATE sandboxes SET state = ?2, reason = ?3, message = ?4, "
                           "transition_us = ?5 WHERE id = ?1",
    [STMT_SANDBOX_EXPIRY] = "UPDATE sandboxes SET expires_us = ?2 WHERE id = ?1",
    [STMT_SANDBOX_SHIFT] = "UPDATE sandboxes SET expires_us = expires_us + ?1 "
                           "WHERE expires_us IS NOT NULL",
    [STMT_SANDBOX_METADATA] = "UPDATE sandboxes SET metadata = ?2 WHERE id = ?1",
    [STMT_SANDBOX_ANSWERED] = "UPDATE sandboxes SET answered = 1 WHERE id = ?1",
    [STMT_SANDBOX_DELETE] = "DELETE FROM sandboxes WHERE id = ?1",
    [STMT_SANDBOX_EACH] =
        "SELECT id, owner, runtime, state, reason, message, created_us, transition_us, expires_us, "
        "image, snapshot_id, os, arch, entrypoint, metadata, renew_extend_s, NULL, egress_token, "
        "idem_key, idem_hash, answered, had_auth, pool FROM sandboxes ORDER BY created_us, id",
    [STMT_SANDBOX_GET] =
        "SELECT id, owner, runtime, state, reason, message, created_us, transition_us, expires_us, "
        "image, snapshot_id, os, arch, entrypoint, metadata, renew_extend_s, spec, egress_token, "
        "idem_key, idem_hash, answered, had_auth, pool FROM sandboxes WHERE id = ?1",
    [STMT_SNAPSHOT_INSERT] =
        "INSERT INTO snapshots(" SNAPSHOT_COLUMNS ") VALUES(?,?,?,?,?,?,?,?,?,?)",
    [STMT_SNAPSHOT_STATE] = "UPDATE snapshots SET state = ?3, reason = ?4, message = ?5, "
                            "spec = coalesce(?6, spec), transition_us = ?7 "
                            "WHERE id = ?1 AND (?2 IS NULL OR state = ?2)",
    [STMT_SNAPSHOT_DELETE] = "DELETE FROM snapshots WHERE id = ?1",
    [STMT_SNAPSHOT_GET] = "SELECT " SNAPSHOT_COLUMNS " FROM snapshots WHERE id = ?1 AND "
                          "(?2 IS NULL OR owner = ?2)",
    [STMT_SNAPSHOT_LIST] = "SELECT " SNAPSHOT_COLUMNS SNAPSHOT_FILTER
                           " ORDER BY created_us DESC, id DESC LIMIT ?5 OFFSET ?6",
    [STMT_SNAPSHOT_COUNT] = "SELECT count(*)" SNAPSHOT_FILTER,
    [STMT_POOL_PUT] = "INSERT INTO pools(owner, name, spec, created_us) VALUES(?,?,?,?) "
                      "ON CONFLICT(owner, name) DO UPDATE SET spec = excluded.spec",
    [STMT_POOL_DELETE] = "DELETE FROM pools WHERE owner = ?1 AND name = ?2",
    [STMT_POOL_EACH] = "SELECT owner, name, spec, created_us FROM pools ORDER BY created_us, name",
    [STMT_EVENT_INSERT] = "INSERT INTO events(at_us, sandbox_id, owner, type, actor, request_id, "
                          "reason, message) VALUES(?,?,?,?,?,?,?,?)",
    [STMT_EVENT_LIST] = "SELECT seq, at_us, sandbox_id, owner, type, actor, request_id, reason, "
                        "message FROM events WHERE sandbox_id = ?1 ORDER BY seq DESC LIMIT ?2",
    [STMT_EVENT_PRUNE] = "DELETE FROM events WHERE seq IN (SELECT seq FROM events WHERE at_us < ?1 "
                         "ORDER BY at_us LIMIT ?2)",
};

int store_fail(struct store *s, struct err *e, const char *what)
{
    int rc = s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
    switch (rc & 0xff) {
    case SQLITE_FULL:
        return err_set(e, ERR_UNAVAILABLE, "%s: the disk of %s is full", what, s->path);
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return err_set(e, ERR_INTERNAL, "%s: the database %s is damaged (%s)", what, s->path,
                       sqlite3_errmsg(s->db));
    case SQLITE_CONSTRAINT:
        return err_set(e, ERR_CONFLICT, "%s: %s", what, sqlite3_errmsg(s->db));
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return err_set(e, ERR_UNAVAILABLE, "%s: the database %s is locked by another program", what,
                       s->path);
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return err_set(e, ERR_IO, "%s: %s (%s)", what, sqlite3_errmsg(s->db), s->path);
    default:
        return err_set(e, ERR_INTERNAL, "%s: %s", what,
                       s->db ? sqlite3_errmsg(s->db) : "no memory");
    }
}

sqlite3_stmt *store_stmt(struct store *s, enum stmt which, struct err *e)
{
    if (!s->stmts[which] &&
        sqlite3_prepare_v3(s->db, stmt_sql[which], -1, SQLITE_PREPARE_PERSISTENT, &s->stmts[which],
                           NULL) != SQLITE_OK) {
        (void)store_fail(s, e, "cannot prepare a statement");
        return NULL;
    }
    return s->stmts[which];
}

void store_reset(sqlite3_stmt *st)
{
    (void)sqlite3_reset(st); /* repeats the error of the step, which was reported then */
    (void)sqlite3_clear_bindings(st);
}

int store_step_done(struct store *s, sqlite3_stmt *st, struct err *e)
{
    int r = 0;
    if (sqlite3_step(st) != SQLITE_DONE) {
        r = store_fail(s, e, "cannot write to the database");
    }
    store_reset(st);
    return r;
}

void store_bind_text(sqlite3_stmt *st, int i, const char *text)
{
    if (text) {
        (void)sqlite3_bind_text(st, i, text, -1, SQLITE_STATIC);
    } else {
        (void)sqlite3_bind_null(st, i);
    }
}

const char *store_text(struct arena *a, sqlite3_stmt *st, int i)
{
    const char *t = (const char *)sqlite3_column_text(st, i);
    return t && a ? arena_strdup(a, t) : t;
}

static int run(struct store *s, enum stmt which, struct err *e)
{
    sqlite3_stmt *st = store_stmt(s, which, e);
    return st ? store_step_done(s, st, e) : -1;
}

int store_begin(struct store *s, struct err *e)
{
    (void)pthread_mutex_lock(&s->lock);
    if (run(s, STMT_BEGIN, e) < 0) {
        (void)pthread_mutex_unlock(&s->lock);
        return -1;
    }
    return 0;
}

int store_end(struct store *s, int r, struct err *e)
{
    if (r == 0) {
        r = run(s, STMT_COMMIT, e);
    }
    if (r < 0 && !sqlite3_get_autocommit(s->db)) {
        struct err ignored = {0};
        (void)run(s, STMT_ROLLBACK, &ignored); /* the first error is the one to tell */
    }
    (void)pthread_mutex_unlock(&s->lock);
    return r;
}

void store_checkpoint(struct store *s)
{
    /* PASSIVE waits for nobody. Done here and not by COMMIT, so that no create pays for the fsync.
     */
    int in_log = 0, moved = 0;
    (void)pthread_mutex_lock(&s->lock);
    if (sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_PASSIVE, &in_log, &moved) ==
            SQLITE_OK &&
        in_log > 4 * WAL_PAGES_BEFORE_CHECKPOINT) {
        (void)sqlite3_wal_checkpoint_v2(s->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

static int pragma(struct store *s, const char *sql, struct err *e)
{
    if (sqlite3_exec(s->db, sql, NULL, NULL, NULL) != SQLITE_OK) {
        return store_fail(s, e, sql);
    }
    return 0;
}

/* Reads pages of every table before anything is changed: damage shows here, not weeks later. */
static int check_integrity(struct store *s, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, "PRAGMA quick_check(1)", -1, &st, NULL) != SQLITE_OK) {
        return store_fail(s, e, "cannot check the database");
    }
    int r = 0;
    if (sqlite3_step(st) != SQLITE_ROW) {
        r = store_fail(s, e, "cannot check the database");
    } else {
        const char *said = (const char *)sqlite3_column_text(st, 0);
        if (!said || strcmp(said, "ok") != 0) {
            r = err_set(e, ERR_INTERNAL, "the database %s is damaged: %s", s->path,
                        said ? said : "unknown");
        }
    }
    (void)sqlite3_finalize(st);
    return r;
}

static int store_setup(struct store *s, struct err *e)
{
    (void)sqlite3_extended_result_codes(s->db, 1);
    (void)sqlite3_busy_timeout(s->db, 5000);
    (void)sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    if (check_integrity(s, e) < 0 || pragma(s, "PRAGMA journal_mode = WAL", e) < 0 ||
        pragma(s, "PRAGMA synchronous = NORMAL", e) < 0 ||
        pragma(s, "PRAGMA cache_size = -1024", e) < 0 ||
        pragma(s, "PRAGMA temp_store = MEMORY", e) < 0 ||
        pragma(s, "PRAGMA foreign_keys = ON", e) < 0) {
        return -1;
    }
    (void)sqlite3_wal_autocheckpoint(s->db, WAL_PAGES_AT_COMMIT);
    return store_migrate(s, e);
}

static int make_parent(const char *path, struct err *e)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) {
        return 0;
    }
    cleanup_free char *dir = xstrndup(path, (size_t)(slash - path));
    int r = dir_make(AT_FDCWD, dir, 0700);
    return r < 0 ? err_sys(e, r, "cannot create %s", dir) : 0;
}

struct store *store_open(const char *path, struct err *e)
{
    if (make_parent(path, e) < 0) {
        return NULL;
    }
    struct store *s = NEW(struct store);
    s->path = xstrdup(path);
    (void)pthread_mutex_init(&s->lock, NULL);
    /* Created here, so that the mode is ours whatever the umask. */
    cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        (void)err_sys(e, errno, "cannot open the database %s", path);
        store_close(s);
        return NULL;
    }
    if (sqlite3_open_v2(path, &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) !=
            SQLITE_OK ||
        store_setup(s, e) < 0) {
        if (!e->code) {
            (void)store_fail(s, e, "cannot open the database");
        }
        store_close(s);
        return NULL;
    }
    return s;
}

void store_close(struct store *s)
{
    if (!s) {
        return;
    }
    for (int i = 0; i < STMT__COUNT; i++) {
        (void)sqlite3_finalize(s->stmts[i]);
    }
    if (s->db) {
        (void)sqlite3_close(s->db);
    }
    (void)pthread_mutex_destroy(&s->lock);
    free(s->path);
    free(s);
}
