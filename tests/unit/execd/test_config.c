/* Flags and environment of execd. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/must.h"
#include "execd/config.h"

static enum config_result parse(struct execd_config *c, struct err *e, int argc,
                                const char *const *argv)
{
    union {
        const char *const *c;
        char *const *m;
    } u = {.c = argv};
    return config_parse(c, argc, u.m, e);
}

#define PARSE(c, e, ...)                                                                           \
    parse(c, e, (int)ARRAY_LEN(((const char *const[]){"execd", __VA_ARGS__})),                     \
          (const char *const[]){"execd", __VA_ARGS__, NULL})

static void test_defaults(void **state)
{
    struct execd_config c;
    struct err e = {0};
    const char *const argv[] = {"execd", NULL};
    assert_int_equal(parse(&c, &e, 1, argv), CONFIG_RUN);
    assert_int_equal(c.port, 44772);
    assert_string_equal(c.address, "0.0.0.0");
    assert_int_equal(c.access_token.n, 0);
    assert_int_equal(c.log_level, LOG_INFO);
    assert_int_equal(c.listen_fd, -1);
    assert_int_equal(c.notify_fd, -1);
    assert_false(c.init);
    config_done(&c);
}

static void test_forms(void **state)
{
    struct execd_config c;
    struct err e = {0};
    assert_int_equal(
        PARSE(&c, &e, "-port", "1", "--log-level=7", "--access-token", "t", "-address=::1"),
        CONFIG_RUN);
    assert_int_equal(c.port, 1);
    assert_int_equal(c.log_level, LOG_DEBUG);
    assert_true(str_eq(c.access_token, STR("t")));
    assert_string_equal(c.address, "::1");
    config_done(&c);
    assert_int_equal(PARSE(&c, &e, "--port=2", "tail", "-f", "/dev/null"), CONFIG_RUN);
    assert_int_equal(c.port, 2);
    config_done(&c);
    assert_int_equal(PARSE(&c, &e, "--nope"), CONFIG_BAD);
    assert_string_equal(e.msg, "flag provided but not defined: -nope");
    config_done(&c);
    assert_int_equal(PARSE(&c, &e, "--keep"), CONFIG_BAD); /* only with init */
    config_done(&c);
    assert_int_equal(PARSE(&c, &e, "--help"), CONFIG_HELP);
    config_done(&c);
}

static void test_init(void **state)
{
    struct execd_config c;
    struct err e = {0};
    assert_int_equal(PARSE(&c, &e, "init", "--keep", "--port", "0", "--", "sh", "-c", "x"),
                     CONFIG_RUN);
    assert_true(c.init && c.keep);
    assert_string_equal(c.entrypoint[0], "sh");
    assert_string_equal(c.entrypoint[2], "x");
    assert_null(c.entrypoint[3]);
    config_done(&c);
    assert_int_equal(PARSE(&c, &e, "init", "--keep", "--exit-with-entrypoint"), CONFIG_RUN);
    assert_false(c.keep);
    assert_null(c.entrypoint);
    config_done(&c);
}

static void test_environment(void **state)
{
    struct execd_config c;
    struct err e = {0};
    (void)setenv("EXECD_ACCESS_TOKEN", "secret", 1);
    (void)setenv("EXECD_WORKLOAD_CGROUP", "/cg/a:/cg/b/cgroup.procs::/cg/c/tasks", 1);
    (void)setenv("TMPDIR", "relative", 1);
    const char *const argv[] = {"execd", NULL};
    assert_int_equal(parse(&c, &e, 1, argv), CONFIG_RUN);
    assert_true(str_eq(c.access_token, STR("secret")));
    assert_null(getenv("EXECD_ACCESS_TOKEN")); /* nobody inherits it */
    assert_string_equal(c.workload_procs[0], "/cg/a/cgroup.procs");
    assert_string_equal(c.workload_procs[1], "/cg/b/cgroup.procs");
    assert_string_equal(c.workload_procs[2], "/cg/c/tasks");
    assert_null(c.workload_procs[3]);
    assert_string_equal(c.tmp_dir, "/tmp");
    config_done(&c);
    (void)unsetenv("EXECD_WORKLOAD_CGROUP");
    (void)setenv("EXECD_API_GRACE_SHUTDOWN", "3 parsecs", 1);
    assert_int_equal(parse(&c, &e, 1, argv), CONFIG_BAD);
    config_done(&c);
    (void)unsetenv("EXECD_API_GRACE_SHUTDOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_forms),
        cmocka_unit_test(test_init),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
