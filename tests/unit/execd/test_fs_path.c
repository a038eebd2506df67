/* Cleaning and expanding paths, and opening them in spite of links. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../tempdir.h"
#include "base/fd.h"
#include "base/must.h"
#include "execd/fs_path.h"
#include "execd/limits.h"

static const char *below(struct arena *a, const char *name)
{
    return arena_printf(a, "%s/%s", top, name);
}

static void test_clean(void **state)
{
    static const struct {
        const char *cwd, *path, *want;
    } cases[] = {
        {"/w", "/", "/"},
        {"/w", "//", "/"},
        {"/w", "/..", "/"},
        {"/w", "/a/../..", "/"},
        {"/w", "/a//b/./c/", "/a/b/c"},
        {"/w", "/a/b/../c", "/a/c"},
        {"/w", "x", "/w/x"},
        {"/w", "../x", "/x"},
        {"/", "x", "/x"},
        {"/w", ".", "/w"},
        {"/w", "/...", "/..."},
        {"/w", "/a\nb /$c", "/a\nb /$c"},
        {"/w", "/\xff", "/\xff"},
    };
    struct arena a = {0};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = {0};
        assert_string_equal(fs_path_clean(&a, str_from(cases[i].cwd), str_from(cases[i].path), &e),
                            cases[i].want);
    }
    struct err e = {0};
    assert_null(fs_path_clean(&a, STR("/"), STR(""), &e));
    assert_null(fs_path_clean(&a, STR("/"), STR("/a\0b"), &e));
    char longer[FS_PATH_MAX + 1];
    memset(longer, 'a', sizeof(longer));
    assert_null(fs_path_clean(&a, STR("/"), str_n(longer, sizeof(longer)), &e));
    assert_int_equal(e.sys, ENAMETOOLONG);
    arena_done(&a);
}

static const char *fake_env(const char *name, void *arg)
{
    if (strcmp(name, "HOME") == 0) {
        return arg;
    }
    return strcmp(name, "A") == 0 ? "x/y" : strcmp(name, "EMPTY") == 0 ? "" : NULL;
}

static void test_expand(void **state)
{
    static const struct {
        const char *path, *want; /* NULL: an error */
    } cases[] = {
        {"/p/$A/z", "/p/x/y/z"}, {"/p/${A}z", "/p/x/yz"}, {"~", "/h"},
        {"~/f", "/h/f"},         {"~x/f", "~x/f"},        {"/~", "/~"},
        {"/p/$NO", "/p/$NO"},    {"$NO/f", NULL},         {"${NO}/f", NULL},
        {"$5/f", "$5/f"},        {"/a$", "/a$"},          {"/${A", "/${A"},
        {"/${}", "/${}"},        {"/$EMPTY/f", "//f"},    {"/$$A", "/$x/y"},
        {"$A", "x/y"},
    };
    struct arena a = {0};
    char home[] = "/h";
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = {0};
        const char *got = fs_path_expand(&a, str_from(cases[i].path), fake_env, home, &e);
        if (!cases[i].want) {
            assert_null(got);
            assert_non_null(strstr(e.msg, "undefined environment variables"));
        } else {
            assert_string_equal(got, cases[i].want);
        }
    }
    struct err e = {0};
    assert_null(fs_path_expand(&a, STR("~/f"), fake_env, NULL, &e));
    arena_done(&a);
}

static void test_literal_dollar_wins(void **state)
{
    struct arena a = {0};
    struct err e = {0};
    const char *path = below(&a, "$HOME");
    assert_string_not_equal(fs_path_resolve(&a, str_from(path), &e), path);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_string_equal(fs_path_resolve(&a, str_from(path), &e), path);
    assert_int_equal(unlink(path), 0);
    arena_done(&a);
}

static void test_links(void **state)
{
    struct arena a = {0};
    const char *leaf;
    assert_int_equal(mkdir(below(&a, "d"), 0700), 0);
    assert_int_equal(symlink("d/new", below(&a, "rel")), 0);
    assert_int_equal(symlink(below(&a, "rel"), below(&a, "abs")), 0);
    assert_int_equal(symlink("loop2", below(&a, "loop1")), 0);
    assert_int_equal(symlink("loop1", below(&a, "loop2")), 0);

    int fd = fs_open_target(&a, below(&a, "abs"), &leaf);
    assert_true(fd >= 0);
    assert_string_equal(leaf, "new");
    struct stat got, want;
    assert_int_equal(fstat(fd, &got), 0);
    assert_int_equal(stat(below(&a, "d"), &want), 0);
    assert_int_equal(got.st_ino, want.st_ino);
    close(fd);

    assert_int_equal(fs_open_target(&a, below(&a, "loop1"), &leaf), -ELOOP);
    assert_int_equal(fs_open(below(&a, "loop1"), O_RDONLY, 0), -ELOOP);
    fd = fs_open_parent(below(&a, "loop1"), &leaf); /* the link itself can be named */
    assert_true(fd >= 0);
    assert_string_equal(leaf, "loop1");
    close(fd);
    arena_done(&a);
}

static void test_magic_links(void **state)
{
    char path[64];
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    assert_int_equal(fs_open(path, O_RDONLY, 0), -ELOOP);
    assert_int_equal(fs_open("/proc/self/root/etc", O_RDONLY, 0), -ELOOP);
    close(fd);
}

static void test_make_dirs(void **state)
{
    struct arena a = {0};
    bool created = false;
    assert_int_equal(fs_make_dirs(below(&a, "m/n/o"), 0755, &created), 0);
    assert_true(created);
    assert_int_equal(fs_make_dirs(below(&a, "m/n"), 0755, &created), 0);
    assert_false(created);
    assert_int_equal(symlink("m", below(&a, "ml")), 0);
    assert_int_equal(fs_make_dirs(below(&a, "ml/p"), 0755, &created), 0);
    assert_int_equal(access(below(&a, "m/p"), F_OK), 0);
    close(open(below(&a, "m/file"), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(fs_make_dirs(below(&a, "m/file/x"), 0755, NULL), -ENOTDIR);
    assert_int_equal(fs_make_dirs("/", 0755, &created), 0);
    assert_false(created);
    arena_done(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clean),
        cmocka_unit_test(test_expand),
        cmocka_unit_test_setup_teardown(test_literal_dollar_wins, top_make, top_remove),
        cmocka_unit_test_setup_teardown(test_links, top_make, top_remove),
        cmocka_unit_test(test_magic_links),
        cmocka_unit_test_setup_teardown(test_make_dirs, top_make, top_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
