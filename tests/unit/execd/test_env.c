/* Environments for children, and paths expanded against them. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "execd/env.h"

static struct arena arena;

static int setup(void **state)
{
    (void)setenv("BASE", "base", 1);
    (void)setenv("HOME", "/home/me", 1);
    (void)unsetenv("NOPE");
    return 0;
}

static int teardown(void **state)
{
    arena_done(&arena);
    return 0;
}

static void test_overlay(void **state)
{
    struct env env;
    env_init(&env, &arena);
    size_t before = env.n;
    assert_string_equal(env_get(&env, STR("BASE")), "base");
    assert_null(env_get(&env, STR("BAS")));
    env_set(&env, STR("BASE"), STR("other"));
    assert_int_equal(env.n, before);
    assert_string_equal(env_get(&env, STR("BASE")), "other");
    for (int i = 0; i < 200; i++) {
        env_put(&env, arena_printf(&arena, "N%d=%d", i, i));
    }
    assert_int_equal(env.n, before + 200);
    assert_null(env.v[env.n]);
    assert_string_equal(env_get(&env, STR("N199")), "199");
    assert_string_equal(getenv("BASE"), "base");
}

static void test_file(void **state)
{
    struct env env;
    env_init(&env, &arena);
    env_add_lines(&env,
                  STR("# comment\n\n  A = 1 2 \r\nB=$BASE-${BASE}-$NOPE-$\nnone\n=x\nA2=${BASE\n"
                      "C=1\nC=2\nPATHLIKE=/a:$PATHLIKE\nD=a=b\nBASE=changed\nE=$BASE"));
    assert_string_equal(env_get(&env, STR("A")), " 1 2");
    assert_string_equal(env_get(&env, STR("B")), "base-base--$");
    assert_string_equal(env_get(&env, STR("A2")), "${BASE");
    assert_string_equal(env_get(&env, STR("C")), "2");
    assert_string_equal(env_get(&env, STR("PATHLIKE")), "/a:");
    assert_string_equal(env_get(&env, STR("D")), "a=b");
    assert_string_equal(env_get(&env, STR("E")), "base"); /* ours, not the file's own */
    assert_null(env_get(&env, STR("none")));
}

static void test_quotes(void **state)
{
    struct env env;
    env_init(&env, &arena);
    env_add_lines(
        &env,
        STR("A='for all $BASE'\nB=\"it's\\t$BASE\\n\\\"q\\\"\\\\\"  \nC='two\nlines=1'\nD='open\n"
            "E='x' y\nF=\"\"\nG=''\nH=\"open\\\"\nI=it's\nJ=last"));
    assert_string_equal(env_get(&env, STR("A")), "for all $BASE");
    assert_string_equal(env_get(&env, STR("B")), "it's\tbase\n\"q\"\\");
    assert_string_equal(env_get(&env, STR("C")), "two\nlines=1");
    assert_null(env_get(&env, STR("lines")));
    assert_string_equal(env_get(&env, STR("D")), "'open");
    assert_string_equal(env_get(&env, STR("E")), "'x' y");
    assert_string_equal(env_get(&env, STR("F")), "");
    assert_string_equal(env_get(&env, STR("G")), "");
    assert_string_equal(env_get(&env, STR("H")), "\"open\\\"");
    assert_string_equal(env_get(&env, STR("I")), "it's");
    assert_string_equal(env_get(&env, STR("J")), "last");
}

static void expect_path(const char *path, const char *want)
{
    struct env env;
    struct err e = {0};
    env_init(&env, &arena);
    const char *got = env_expand_path(&env, path, &e);
    if (!want) {
        assert_null(got);
        assert_int_equal(e.code, ERR_INVALID);
        return;
    }
    assert_non_null(got);
    assert_string_equal(got, want);
}

static void test_paths(void **state)
{
    expect_path("/plain", "/plain");
    expect_path("~", "/home/me");
    expect_path("~/x", "/home/me/x");
    expect_path("~user", "~user");
    expect_path("/a/~", "/a/~");
    expect_path("$BASE/x/${BASE}y", "base/x/basey");
    expect_path("cost$", "cost$");
    expect_path("a$1", "a$1");
    expect_path("$NOPE/x", NULL);
    struct env env;
    struct err e = {0};
    env_init(&env, &arena);
    assert_null(env_expand_path(&env, "$NOPE/${NOPE2}", &e));
    assert_string_equal(e.msg, "path references undefined environment variables: NOPE,NOPE2");
    (void)unsetenv("HOME");
    expect_path("~", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_overlay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_quotes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_paths, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
