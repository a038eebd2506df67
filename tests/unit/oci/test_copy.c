/* Trees copied with all that belongs to them: what overlayfs keeps, links, holes, owners, times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/oci/copy.h"

struct trees {
    char dir[64];
    int from, to;
};

static int setup(void **state)
{
    struct trees *t = NEW(struct trees);
    (void)snprintf(t->dir, sizeof(t->dir), "/var/tmp/test-copy-XXXXXX");
    must(mkdtemp(t->dir));
    int dir = open(t->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(mkdirat(dir, "from", 0750) == 0 && mkdirat(dir, "to", 0700) == 0);
    t->from = openat(dir, "from", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    t->to = openat(dir, "to", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)close(dir);
    *state = t;
    return 0;
}

static int teardown(void **state)
{
    struct trees *t = *state;
    (void)close(t->from);
    (void)close(t->to);
    (void)dir_remove(AT_FDCWD, t->dir, true);
    free(t);
    return 0;
}

static void put(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0640);
    must(fd >= 0 && fd_write_full(fd, text, strlen(text)) == 0);
    (void)close(fd);
}

static void copy(const struct trees *t, const struct copy_opts *o, struct copy_stats *st)
{
    struct err e = {0};
    int r = copy_tree(t->from, t->to, o, st, &e);
    if (r < 0) {
        fail_msg("%s", e.msg);
    }
}

static struct stat look(int dir, const char *name)
{
    struct stat st;
    must(fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
    return st;
}

static void test_files(void **state)
{
    const struct trees *t = *state;
    const struct timespec times[] = {{1000, 1}, {2000, 123456789}};
    struct copy_stats s;
    put(t->from, "a", "content");
    must(linkat(t->from, "a", t->from, "b", 0) == 0 && symlinkat("a", t->from, "s") == 0);
    must(fchmodat(t->from, "a", 02751, 0) == 0 && utimensat(t->from, "a", times, 0) == 0);
    must(mkdirat(t->from, "d", 01777) == 0 && fchmodat(t->from, "d", 01777, 0) == 0);
    must(mkfifoat(t->from, "p", 0604) == 0 && fchmodat(t->from, "p", 0604, 0) == 0);
    put(t->from, "d/left-out", "x");
    must(utimensat(t->from, "d", times, 0) == 0);
    const char *const skip[] = {"d/left-out", NULL};
    copy(t, &(struct copy_opts){.skip = skip}, &s);
    struct stat a = look(t->to, "a"), b = look(t->to, "b"), d = look(t->to, "d");
    assert_int_equal(a.st_mode & 07777, 02751);
    assert_int_equal(a.st_ino, b.st_ino);
    assert_int_equal(a.st_nlink, 2);
    assert_int_equal(a.st_mtim.tv_sec, 2000);
    assert_int_equal(a.st_mtim.tv_nsec, 123456789);
    assert_int_equal(d.st_mode & 07777, 01777);
    assert_int_equal(d.st_mtim.tv_sec, 2000);
    assert_true(S_ISLNK(look(t->to, "s").st_mode) && S_ISFIFO(look(t->to, "p").st_mode));
    assert_int_equal(look(t->to, "p").st_mode & 07777, 0604);
    assert_int_equal(faccessat(t->to, "d/left-out", F_OK, 0), -1);
    assert_int_equal(look(t->to, ".").st_mode & 07777, 0750);
    assert_int_equal(s.files, 1);
    assert_int_equal(s.bytes, 7);
}

static void test_holes(void **state)
{
    const struct trees *t = *state;
    struct copy_stats s;
    char got[4] = "";
    int fd = openat(t->from, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    must(ftruncate(fd, 64 << 20) == 0 && pwrite(fd, "end", 3, (64 << 20) - 3) == 3);
    (void)close(fd);
    copy(t, &(struct copy_opts){0}, &s);
    struct stat st = look(t->to, "sparse");
    assert_int_equal(st.st_size, 64 << 20);
    assert_true(st.st_blocks * 512 < 1 << 20);
    fd = openat(t->to, "sparse", O_RDONLY | O_CLOEXEC);
    assert_int_equal(pread(fd, got, 3, (64 << 20) - 3), 3);
    assert_string_equal(got, "end");
    (void)close(fd);
}

/* Whiteouts, also several names of one; opaque directories; of overlayfs' attributes no other. */
static void test_overlay(void **state)
{
    const struct trees *t = *state;
    struct copy_stats s;
    char path[128], v[8] = "";
    if (geteuid() != 0 || mknodat(t->from, "gone", S_IFCHR, makedev(0, 0)) < 0) {
        skip();
    }
    must(linkat(t->from, "gone", t->from, "gone2", 0) == 0 && mkdirat(t->from, "o", 0755) == 0);
    must(fchownat(t->from, "o", 1000, 1001, 0) == 0);
    (void)snprintf(path, sizeof(path), "%s/from/o", t->dir);
    must(setxattr(path, "trusted.overlay.opaque", "y", 1, 0) == 0 &&
         setxattr(path, "trusted.overlay.origin", "x", 1, 0) == 0 &&
         setxattr(path, "user.mine", "z", 1, 0) == 0);
    copy(t, &(struct copy_opts){0}, &s);
    struct stat gone = look(t->to, "gone"), o = look(t->to, "o");
    assert_true(S_ISCHR(gone.st_mode) && gone.st_rdev == 0);
    assert_int_equal(look(t->to, "gone2").st_ino, gone.st_ino);
    assert_true(o.st_uid == 1000 && o.st_gid == 1001);
    (void)snprintf(path, sizeof(path), "%s/to/o", t->dir);
    assert_int_equal(getxattr(path, "trusted.overlay.opaque", v, sizeof(v)), 1);
    assert_int_equal(getxattr(path, "user.mine", v, sizeof(v)), 1);
    assert_int_equal(getxattr(path, "trusted.overlay.origin", v, sizeof(v)), -1);
}

/* Deep nesting is refused with a word, not with a crash. */
static void test_deep(void **state)
{
    const struct trees *t = *state;
    struct copy_stats s;
    struct err e = {0};
    struct rlimit files;
    must(getrlimit(RLIMIT_NOFILE, &files) == 0);
    files.rlim_cur = files.rlim_max; /* it holds three for each level */
    (void)setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < 2048) {
        skip();
    }
    int at = fcntl(t->from, F_DUPFD_CLOEXEC, 3);
    for (int i = 0; i < 600; i++) {
        must(mkdirat(at, "d", 0700) == 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        (void)close(at);
        at = next;
    }
    (void)close(at);
    assert_int_equal(copy_tree(t->from, t->to, &(struct copy_opts){0}, &s, &e), -1);
    assert_int_equal(e.code, ERR_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_holes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overlay, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deep, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
