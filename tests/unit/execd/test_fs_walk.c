/* Walking trees that are deep, that change meanwhile, and that try to lead astray. */
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
#include "base/buf.h"
#include "base/fd.h"
#include "execd/fs_walk.h"

static struct buf seen;

static int setup(void **state)
{
    buf_init(&seen, 1u << 20);
    return top_make(state);
}

static int teardown(void **state)
{
    buf_done(&seen);
    return top_remove(state);
}

static int open_root(void)
{
    int fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void make(const char *path)
{
    char full[256];
    (void)snprintf(full, sizeof(full), "%s/%s", top, path);
    size_t n = strlen(full);
    if (full[n - 1] == '/') {
        assert_int_equal(dir_make(AT_FDCWD, full, 0700), 0);
    } else {
        close(open(full, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
}

static int note(const struct fs_entry *e, void *arg)
{
    (void)buf_printf(&seen, "%.*s:%u ", STR_FMT(e->rel), e->depth);
    return 1;
}

static void test_order(void **state)
{
    make("b/x/");
    make("b/a");
    make("b-");
    make("a");
    make("c\n/");
    make("c\n/$");
    char link[256];
    (void)snprintf(link, sizeof(link), "%s/z", top);
    assert_int_equal(symlink(".", link), 0);
    static const struct fs_walk_ops ops = {.visit = note};
    assert_int_equal(fs_walk(open_root(), top, &ops, NULL), 0);
    assert_string_equal(buf_cstr(&seen), "a:0 b:0 b/a:1 b/x:1 b-:0 c\n:0 c\n/$:1 z:0 ");
}

static int count(const struct fs_entry *e, void *arg)
{
    ++*(int *)arg;
    return 1;
}

static void test_deep(void **state)
{
    int fd = open_root();
    for (int i = 0; i < 3000; i++) { /* deeper than descriptors and PATH_MAX allow at once */
        assert_int_equal(mkdirat(fd, "d", 0700), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
    }
    close(fd);
    int n = 0;
    static const struct fs_walk_ops ops = {.visit = count};
    assert_int_equal(fs_walk(open_root(), top, &ops, &n), 0);
    assert_int_equal(n, 3000);
}

/* Moves the directory that is being walked out of its parent. */
static int move_away(const struct fs_entry *e, void *arg)
{
    if (e->depth == 1) {
        char from[256], to[256];
        (void)snprintf(from, sizeof(from), "%s/in", top);
        (void)snprintf(to, sizeof(to), "%s/other/in", top);
        (void)rename(from, to);
    }
    return note(e, arg);
}

static void test_moved_meanwhile(void **state)
{
    make("other/");
    make("in/");
    make("in/f");
    make("secret");
    static const struct fs_walk_ops ops = {.visit = move_away};
    assert_int_equal(fs_walk(open_root(), top, &ops, NULL), -ESTALE);
    assert_null(strstr(buf_cstr(&seen), "secret"));
}

/* Replaces a directory by a link after it was looked at. */
static int swap_for_link(const struct fs_entry *e, void *arg)
{
    if (strcmp(e->name, "dir") == 0) {
        assert_int_equal(unlinkat(e->dir_fd, "dir", AT_REMOVEDIR), 0);
        assert_int_equal(symlinkat("/etc", e->dir_fd, "dir"), 0);
    }
    return note(e, arg);
}

static void test_swapped_for_link(void **state)
{
    make("dir/");
    make("z");
    static const struct fs_walk_ops ops = {.visit = swap_for_link};
    assert_int_equal(fs_walk(open_root(), top, &ops, NULL), 0);
    assert_string_equal(buf_cstr(&seen), "dir:0 z:0 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_order, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deep, setup, teardown),
        cmocka_unit_test_setup_teardown(test_moved_meanwhile, setup, teardown),
        cmocka_unit_test_setup_teardown(test_swapped_for_link, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
