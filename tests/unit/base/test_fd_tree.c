#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "../tempdir.h"
#include "../test.h"
#include "base/fd.h"

static bool exists(const char *path)
{
    struct stat st;
    return fstatat(top_fd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void touch(const char *path)
{
    int fd = openat(top_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void makes_all_parts(void **state)
{
    assert_int_equal(dir_make(top_fd, "a/b/c", 0755), 0);
    assert_int_equal(dir_make(top_fd, "a/b/c", 0755), 0);
    assert_int_equal(dir_make(top_fd, "a//d///e//", 0755), 0);
    assert_true(exists("a/d/e"));
    assert_int_equal(dir_make(top_fd, "./x/../y", 0755), 0);
    assert_true(exists("x") && exists("y"));
    char path[100];
    snprintf(path, sizeof(path), "%s/abs/olute/", top);
    assert_int_equal(dir_make(AT_FDCWD, path, 0755), 0);
    assert_true(exists("abs/olute"));
    assert_int_equal(dir_make(AT_FDCWD, "/", 0755), 0);
    assert_int_equal(dir_make(top_fd, "", 0755), -ENOENT);
    touch("file");
    assert_int_equal(dir_make(top_fd, "file", 0755), -ENOTDIR);
    assert_int_equal(dir_make(top_fd, "file/sub", 0755), -ENOTDIR);
}

static void removes_trees_and_files(void **state)
{
    assert_int_equal(dir_make(top_fd, "r/a/b/c", 0755), 0);
    for (int i = 0; i < 500; i++) {
        char name[32];
        snprintf(name, sizeof(name), "r/a/f%d", i);
        touch(name);
    }
    assert_int_equal(mkfifoat(top_fd, "r/fifo", 0600), 0);
    assert_int_equal(dir_remove(top_fd, "r", true), 0);
    assert_false(exists("r"));
    assert_int_equal(dir_remove(top_fd, "r", true), 0); /* missing is success */
    touch("single");
    assert_int_equal(dir_remove(top_fd, "single", false), 0);
    assert_false(exists("single"));
}

static void does_not_follow_links(void **state)
{
    assert_int_equal(dir_make(top_fd, "keep/inner", 0755), 0);
    touch("keep/inner/file");
    assert_int_equal(dir_make(top_fd, "gone", 0755), 0);
    assert_int_equal(symlinkat("../keep", top_fd, "gone/link"), 0);
    assert_int_equal(symlinkat("../keep/inner/file", top_fd, "gone/link2"), 0);
    assert_int_equal(dir_remove(top_fd, "gone", true), 0);
    assert_true(exists("keep/inner/file"));
    assert_int_equal(symlinkat("keep", top_fd, "link"), 0);
    assert_int_equal(dir_remove(top_fd, "link", true), 0);
    assert_false(exists("link"));
    assert_true(exists("keep/inner/file"));
}

static void removes_deeper_than_it_has_descriptors(void **state)
{
    assert_int_equal(dir_make(top_fd, "deep", 0755), 0);
    int fd = openat(top_fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 2000; i++) { /* far beyond PATH_MAX and the usual number of descriptors */
        assert_int_equal(mkdirat(fd, "some-directory", 0755), 0);
        int next = openat(fd, "some-directory", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        int file = openat(fd, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        close(file);
        close(fd);
        fd = next;
    }
    close(fd);
    struct rlimit old, few = {200, 200};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    few.rlim_max = old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    int r = dir_remove(top_fd, "deep", true);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(r, 0);
    assert_false(exists("deep"));
}

/* A bind mount of the same file system: the most expensive mistake rm -rf can make. */
static void stops_at_mount_points(void **state)
{
    assert_int_equal(dir_make(top_fd, "precious", 0755), 0);
    touch("precious/file");
    assert_int_equal(dir_make(top_fd, "root/mnt", 0755), 0);
    touch("root/other");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char from[100], to[100];
        snprintf(from, sizeof(from), "%s/precious", top);
        snprintf(to, sizeof(to), "%s/root/mnt", top);
        if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount(from, to, NULL, MS_BIND, NULL) < 0) {
            _exit(77); /* not allowed here */
        }
        int r = dir_remove(top_fd, "root", true);
        _exit(r < 0 && exists("precious/file") && !exists("root/other") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_int_equal(status, 0);
    assert_true(exists("precious/file"));
}

static void reports_what_it_cannot_remove(void **state)
{
    if (geteuid() != 0) {
        skip();
    }
    assert_int_equal(dir_make(top_fd, "locked/in", 0755), 0);
    touch("locked/in/f");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (setuid(65534) < 0) {
            _exit(77);
        }
        _exit(dir_remove(top_fd, "locked", true) == -EACCES ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status) == 77 ? 0 : status, 0);
    assert_true(exists("locked/in/f"));
    assert_int_equal(dir_remove(top_fd, "locked", true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_all_parts),
        cmocka_unit_test(removes_trees_and_files),
        cmocka_unit_test(does_not_follow_links),
        cmocka_unit_test(removes_deeper_than_it_has_descriptors),
        cmocka_unit_test(stops_at_mount_points),
        cmocka_unit_test(reports_what_it_cannot_remove),
    };
    return cmocka_run_group_tests(tests, top_make, top_remove);
}
