#include "server/store/store.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "../tempdir.h"
#include "../test.h"
#include "base/fd.h"

static char path[128];

static int setup(void **state)
{
    int r = top_make(state);
    (void)snprintf(path, sizeof(path), "%s/sub/x.db", top);
    return r;
}

static int fresh(void **state)
{
    return dir_remove(top_fd, "sub", true);
}

static const struct store_sandbox row = {
    .id = "id-1",
    .owner = "o",
    .runtime = "fake",
    .state = "Pending",
    .reason = "r",
    .message = "",
    .created_us = 5,
    .transition_us = 6,
    .expires_us = 7,
    .image = "host",
    .entrypoint = "[\"a\"]",
    .metadata = "{\"k\":\"v\"}",
    .spec = "{}",
    .idem_key = "key",
    .idem_hash = "hash",
};

static struct store *open_it(void)
{
    struct err e = {0};
    struct store *s = store_open(path, &e);
    if (!s) {
        fail_msg("%s", e.msg);
    }
    return s;
}

static void count_rows(const struct store_sandbox *r, void *arg)
{
    (*(int *)arg)++;
}

static void survives_reopening(void **state)
{
    struct err e = {0};
    struct store *s = open_it();
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    struct store_event ev = {.at_us = 1, .sandbox_id = "id-1", .owner = "o", .type = "create"};
    assert_int_equal(store_sandbox_insert(s, &row, &ev, &e), 0);
    assert_int_equal(store_sandbox_set_state(s, "id-1", "Running", "rr", "m", 9, &ev, &e), 0);
    assert_int_equal(store_sandbox_set_expiry(s, "id-1", 99, NULL, &e), 0);
    assert_int_equal(store_sandbox_set_metadata(s, "id-1", "{}", NULL, &e), 0);
    assert_int_equal(store_sandbox_set_answered(s, "id-1", &e), 0);
    assert_int_equal(store_sandbox_shift_expiry(s, -9, &e), 0);
    store_close(s);
    s = open_it();
    struct arena a = {0};
    struct store_sandbox r;
    assert_int_equal(store_sandbox_get(s, &a, "id-1", &r, &e), 0);
    assert_string_equal(r.state, "Running");
    assert_string_equal(r.reason, "rr");
    assert_int_equal(r.expires_us, 90);
    assert_int_equal(r.transition_us, 9);
    assert_string_equal(r.metadata, "{}");
    assert_true(r.answered);
    assert_null(r.os);
    assert_string_equal(r.idem_key, "key");
    struct store_event *v = NULL;
    size_t n = 0;
    assert_int_equal(store_event_list(s, &a, "id-1", 10, &v, &n, &e), 0);
    assert_int_equal(n, 2);
    assert_int_equal(store_sandbox_delete(s, "id-1", &ev, &e), 0);
    assert_int_equal(store_sandbox_get(s, &a, "id-1", &r, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    int rows = 0;
    assert_int_equal(store_sandbox_each(s, count_rows, &rows, &e), 0);
    assert_int_equal(rows, 0);
    arena_done(&a);
    store_close(s);
}

static void keys_are_unique_per_owner(void **state)
{
    struct err e = {0};
    struct store *s = open_it();
    assert_int_equal(store_sandbox_insert(s, &row, NULL, &e), 0);
    struct store_sandbox other = row;
    other.id = "id-2";
    assert_int_equal(store_sandbox_insert(s, &other, NULL, &e), -1);
    assert_int_equal(e.code, ERR_CONFLICT);
    other.owner = "p";
    e = (struct err){0};
    assert_int_equal(store_sandbox_insert(s, &other, NULL, &e), 0);
    other.id = "id-3";
    other.owner = "o";
    other.idem_key = NULL;
    assert_int_equal(store_sandbox_insert(s, &other, NULL, &e), 0);
    store_close(s);
}

static void events_are_ordered_and_pruned(void **state)
{
    struct err e = {0};
    struct store *s = open_it();
    char type[16];
    for (int i = 0; i < 10; i++) {
        (void)snprintf(type, sizeof(type), "t%d", i);
        struct store_event ev = {.at_us = i, .sandbox_id = "x", .type = type};
        assert_int_equal(store_event_add(s, &ev, &e), 0);
    }
    struct arena a = {0};
    struct store_event *v = NULL;
    size_t n = 0;
    assert_int_equal(store_event_list(s, &a, "x", 3, &v, &n, &e), 0);
    assert_int_equal(n, 3);
    assert_string_equal(v[0].type, "t7");
    assert_string_equal(v[2].type, "t9");
    assert_int_equal(store_event_prune(s, 8, 5, &e), 5);
    assert_int_equal(store_event_prune(s, 8, 5, &e), 3);
    assert_int_equal(store_event_list(s, &a, "x", 100, &v, &n, &e), 0);
    assert_int_equal(n, 2);
    arena_done(&a);
    store_checkpoint(s);
    store_close(s);
}

static void put(const char *content, size_t n)
{
    struct store *s = open_it(); /* makes the directory */
    store_close(s);
    assert_int_equal(file_write_atomic(AT_FDCWD, path, str_n(content, n), 0600), 0);
}

static void refuse(const char *want)
{
    struct err e = {0};
    struct buf before = BUF_INIT(1u << 20), after = BUF_INIT(1u << 20);
    assert_int_equal(file_read(AT_FDCWD, path, &before), 0);
    struct store *s = store_open(path, &e);
    if (s || !strstr(e.msg, want)) {
        fail_msg("got '%s'", s ? "no error" : e.msg);
    }
    assert_int_equal(file_read(AT_FDCWD, path, &after), 0);
    assert_true(str_eq(buf_str(&before), buf_str(&after))); /* not touched */
    buf_done(&before);
    buf_done(&after);
}

static void damaged_databases_are_refused_untouched(void **state)
{
    char junk[8192];
    memset(junk, 'x', sizeof(junk));
    put(junk, sizeof(junk));
    refuse("is damaged");
}

static void half_overwritten_databases_are_refused(void **state)
{
    struct err e = {0};
    struct store *s = open_it();
    struct store_sandbox r = row;
    char id[32];
    r.idem_key = NULL;
    for (int i = 0; i < 300; i++) {
        (void)snprintf(id, sizeof(id), "id-%d", i);
        r.id = id;
        assert_int_equal(store_sandbox_insert(s, &r, NULL, &e), 0);
    }
    store_close(s);
    struct buf b = BUF_INIT(4u << 20);
    assert_int_equal(file_read(AT_FDCWD, path, &b), 0);
    assert_true(b.len > 40000);
    memset(b.p + 8192, 0x5a, 20000);
    assert_int_equal(file_write_atomic(AT_FDCWD, path, buf_str(&b), 0600), 0);
    buf_done(&b);
    refuse("damaged");
}

static void run_sql(const char *sql)
{
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void foreign_and_newer_databases_are_refused(void **state)
{
    struct store *s = open_it();
    store_close(s);
    run_sql("PRAGMA user_version = 99");
    struct err e = {0};
    assert_null(store_open(path, &e));
    assert_non_null(strstr(e.msg, "newer version"));
    run_sql("PRAGMA user_version = 1; PRAGMA application_id = 0");
    e = (struct err){0};
    assert_null(store_open(path, &e));
    assert_non_null(strstr(e.msg, "another program"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(survives_reopening, fresh),
        cmocka_unit_test_setup(keys_are_unique_per_owner, fresh),
        cmocka_unit_test_setup(events_are_ordered_and_pruned, fresh),
        cmocka_unit_test_setup(damaged_databases_are_refused_untouched, fresh),
        cmocka_unit_test_setup(half_overwritten_databases_are_refused, fresh),
        cmocka_unit_test_setup(foreign_and_newer_databases_are_refused, fresh),
    };
    return cmocka_run_group_tests(tests, setup, top_remove);
}
