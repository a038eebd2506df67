/* state.json: there and back, damaged, and telling one process from the next with its number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../tempdir.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/oci/state.h"

static void test_round_trip(void **state)
{
    cleanup_(arena_done) struct arena a = {0};
    const char *args[] = {"sh", "-c", "echo \"\\ \t\""};
    struct str_pair labels[] = {{"a", "1"}, {"b", ""}};
    struct sandbox_state s = {
        .id = "x1",
        .phase = "running",
        .boot_id = state_boot_id(),
        .image = "host",
        .entrypoint = {args, 3},
        .labels = {labels, 2, true},
        .pid = {true, 4242},
        .id_range = {true, 0},
        .memory_bytes = {true, INT64_C(1) << 40},
    };
    struct sandbox_state r;
    (void)state;
    assert_int_equal(state_write(top_fd, &s, NULL), 0);
    assert_int_equal(state_read(top_fd, &a, &r, NULL), 0);
    assert_string_equal(r.phase, "running");
    assert_int_equal(r.entrypoint.n, 3);
    assert_string_equal(r.entrypoint.v[2], args[2]);
    assert_int_equal(r.labels.n, 2);
    assert_string_equal(r.labels.v[1].value, "");
    assert_true(r.id_range.has && r.id_range.v == 0);
    assert_false(r.finished_us.has);
    assert_int_equal(r.memory_bytes.v, INT64_C(1) << 40);
    assert_string_not_equal(r.boot_id, "");
}

static void test_damaged(void **state)
{
    cleanup_(arena_done) struct arena a = {0};
    static const char *const texts[] = {"", "{", "{}", "{\"id\":1}", "[]", "{\"id\":\"x\"}"};
    struct sandbox_state r;
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct err e = {0};
        assert_int_equal(file_write_atomic(top_fd, STATE_FILE, str_from(texts[i]), 0600), 0);
        assert_int_equal(state_read(top_fd, &a, &r, &e), -1);
        assert_int_equal(e.code, ERR_INVALID);
    }
    (void)unlinkat(top_fd, STATE_FILE, 0);
    struct err e = {0};
    assert_int_equal(state_read(top_fd, &a, &r, &e), -1);
    assert_int_equal(e.code, ERR_NOT_FOUND);
}

static void test_pid_start(void **state)
{
    (void)state;
    uint64_t own = state_pid_start(getpid());
    assert_true(own > 0);
    assert_int_equal(own, state_pid_start(getpid()));
    assert_int_equal(state_pid_start(-1), 0);
    assert_int_equal(state_pid_start(INT32_MAX), 0);
    assert_true(state_pid_start(1) < own);
}

static void test_exit_names(void **state)
{
    (void)state;
    for (int x = EXIT_CODE; x <= EXIT_UNKNOWN; x++) {
        assert_int_equal(exit_kind_parse(exit_kind_name((enum runtime_exit)x)), x);
    }
    assert_int_equal(exit_kind_parse("?"), EXIT_NONE);
    assert_int_equal(exit_kind_parse(NULL), EXIT_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_pid_start),
        cmocka_unit_test(test_exit_names),
    };
    return cmocka_run_group_tests(tests, top_make, top_remove);
}
