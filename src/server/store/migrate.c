/* The schema, as the list of steps from an empty database to today's. PRAGMA user_version says how
 * many of them a database has seen; each runs in a transaction of its own. Steps are never edited,
 * only added. */

#include "base/must.h"
#include "server/store/internal.h"

#define APPLICATION_ID 0x4f534231 /* "OSB1" */

static const char *const steps[] = {
    /* 1: everything of the first release; snapshots and pools are filled by the runtimes that have
     * them. */
    "CREATE TABLE sandboxes("
    " id TEXT PRIMARY KEY NOT NULL,"
    " owner TEXT NOT NULL,"
    " runtime TEXT NOT NULL,"
    " state TEXT NOT NULL,"
    " reason TEXT NOT NULL,"
    " message TEXT NOT NULL,"
    " created_us INTEGER NOT NULL,"
    " transition_us INTEGER NOT NULL,"
    " expires_us INTEGER,"
    " image TEXT,"
    " snapshot_id TEXT,"
    " os TEXT,"
    " arch TEXT,"
    " entrypoint TEXT NOT NULL,"
    " metadata TEXT,"
    " renew_extend_s INTEGER NOT NULL,"
    " spec TEXT NOT NULL,"
    " egress_token TEXT,"
    " idem_key TEXT,"
    " idem_hash TEXT,"
    " answered INTEGER NOT NULL,"
    " had_auth INTEGER NOT NULL"
    ") STRICT;"
    "CREATE UNIQUE INDEX sandboxes_idem ON sandboxes(owner, idem_key) WHERE idem_key IS NOT NULL;"
    "CREATE TABLE events("
    " seq INTEGER PRIMARY KEY,"
    " at_us INTEGER NOT NULL,"
    " sandbox_id TEXT NOT NULL,"
    " owner TEXT NOT NULL,"
    " type TEXT NOT NULL,"
    " actor TEXT NOT NULL,"
    " request_id TEXT NOT NULL,"
    " reason TEXT NOT NULL,"
    " message TEXT NOT NULL"
    ") STRICT;"
    "CREATE INDEX events_sandbox ON events(sandbox_id, seq);"
    "CREATE INDEX events_at ON events(at_us);"
    "CREATE TABLE snapshots("
    " id TEXT PRIMARY KEY NOT NULL,"
    " owner TEXT NOT NULL,"
    " source_sandbox_id TEXT NOT NULL,"
    " name TEXT,"
    " spec TEXT NOT NULL,"
    " state TEXT NOT NULL,"
    " reason TEXT NOT NULL,"
    " message TEXT NOT NULL,"
    " created_us INTEGER NOT NULL,"
    " transition_us INTEGER NOT NULL"
    ") STRICT;"
    "CREATE INDEX snapshots_source ON snapshots(owner, source_sandbox_id);"
    "CREATE INDEX snapshots_created ON snapshots(owner, created_us DESC, id DESC);"
    "CREATE TABLE pools("
    " owner TEXT NOT NULL,"
    " name TEXT NOT NULL,"
    " spec TEXT NOT NULL,"
    " created_us INTEGER NOT NULL,"
    " PRIMARY KEY(owner, name)"
    ") STRICT;",
    /* the pool a sandbox was taken from, or waits in */
    "ALTER TABLE sandboxes ADD COLUMN pool TEXT;",
};

static int read_int(struct store *s, const char *sql, int64_t *ret, struct err *e)
{
    sqlite3_stmt *st = NULL;
    if (sqlite3_prepare_v2(s->db, sql, -1, &st, NULL) != SQLITE_OK ||
        sqlite3_step(st) != SQLITE_ROW) {
        (void)sqlite3_finalize(st);
        return store_fail(s, e, "cannot read the schema version");
    }
    *ret = sqlite3_column_int64(st, 0);
    (void)sqlite3_finalize(st);
    return 0;
}

static int exec(struct store *s, const char *sql, struct err *e)
{
    return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : store_fail(s, e, "cannot bring the database up to date");
}

static int migrate_step(struct store *s, size_t i, struct err *e)
{
    char version[64];
    (void)snprintf(version, sizeof(version), "PRAGMA user_version = %zu", i + 1);
    if (exec(s, "BEGIN IMMEDIATE", e) < 0) {
        return -1;
    }
    if (exec(s, steps[i], e) < 0 || exec(s, version, e) < 0 || exec(s, "COMMIT", e) < 0) {
        (void)sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
        return -1;
    }
    return 0;
}

int store_migrate(struct store *s, struct err *e)
{
    int64_t version = 0, app = 0, tables = 0;
    if (read_int(s, "PRAGMA user_version", &version, e) < 0 ||
        read_int(s, "PRAGMA application_id", &app, e) < 0 ||
        read_int(s, "SELECT count(*) FROM sqlite_schema", &tables, e) < 0) {
        return -1;
    }
    if (tables && app != APPLICATION_ID) {
        return err_set(e, ERR_INVALID,
                       "%s is a database of another program; name another file in store.path",
                       s->path);
    }
    if (version > (int64_t)ARRAY_LEN(steps)) {
        return err_set(e, ERR_INVALID,
                       "%s was written by a newer version (schema %lld, this program knows %zu)",
                       s->path, (long long)version, ARRAY_LEN(steps));
    }
    if (!tables) {
        char sql[64];
        (void)snprintf(sql, sizeof(sql), "PRAGMA application_id = %d", APPLICATION_ID);
        if (exec(s, sql, e) < 0) {
            return -1;
        }
    }
    for (size_t i = (size_t)version; i < ARRAY_LEN(steps); i++) {
        if (migrate_step(s, i, e) < 0) {
            return -1;
        }
    }
    return 0;
}
