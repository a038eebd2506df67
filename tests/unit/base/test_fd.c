#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "../tempdir.h"
#include "../test.h"
#include "base/buf.h"

static void put(const char *path, const char *content)
{
    assert_int_equal(file_write_atomic(top_fd, path, str_from(content), 0644), 0);
}

static void flags(void **state)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(fd_set_nonblock(fds[0], true), 0);
    assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(fd_set_nonblock(fds[0], false), 0);
    assert_false(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
    assert_int_equal(fd_set_cloexec(fds[0], true), 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), FD_CLOEXEC);
    assert_int_equal(fd_set_cloexec(fds[0], false), 0);
    assert_int_equal(fcntl(fds[0], F_GETFD), 0);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(fd_set_cloexec(-1, true), -EBADF);
}

static void reads_and_writes_in_full(void **state)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[0]);
        static char big[300000];
        memset(big, 'z', sizeof(big));
        _exit(fd_write_full(fds[1], big, sizeof(big)) == 0 ? 0 : 1);
    }
    close(fds[1]);
    static char got[300001];
    assert_int_equal(fd_read_full(fds[0], got, 100), 100);
    assert_int_equal(fd_read_full(fds[0], got + 100, sizeof(got) - 100), 299900);
    assert_int_equal(got[299999], 'z');
    assert_int_equal(fd_read_full(fds[0], got, 1), 0);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    close(fds[0]);
    assert_int_equal(fd_read_full(-1, got, 1), -EBADF);
    assert_int_equal(fd_write_full(-1, got, 1), -EBADF);
    assert_int_equal(fd_write_full(-1, got, 0), 0);
}

static void atomic_write_replaces(void **state)
{
    mode_t old = umask(077);
    assert_int_equal(file_write_atomic(top_fd, "state", STR("one"), 0644), 0);
    umask(old);
    struct stat st;
    assert_int_equal(fstatat(top_fd, "state", &st, 0), 0);
    assert_int_equal(st.st_mode & 07777, 0644); /* not what the umask says */
    assert_int_equal(file_write_atomic(top_fd, "state", STR("two"), 0600), 0);
    struct buf b = BUF_INIT(100);
    assert_int_equal(file_read(top_fd, "state", &b), 0);
    assert_string_equal(buf_cstr(&b), "two");
    buf_clear(&b);
    assert_int_equal(file_write_atomic(top_fd, "state", STR_NULL, 0600), 0);
    assert_int_equal(file_read(top_fd, "state", &b), 0);
    assert_int_equal(b.len, 0);
    buf_done(&b);

    /* by absolute path, and nothing is left beside it */
    char path[100];
    assert_int_equal(mkdirat(top_fd, "alone", 0755), 0);
    snprintf(path, sizeof(path), "%s/alone/f", top);
    assert_int_equal(file_write_atomic(AT_FDCWD, path, STR("x"), 0600), 0);
    assert_int_equal(unlinkat(top_fd, "alone/f", 0), 0);
    assert_int_equal(unlinkat(top_fd, "alone", AT_REMOVEDIR), 0);
}

static void atomic_write_fails_cleanly(void **state)
{
    assert_int_equal(file_write_atomic(top_fd, "missing/f", STR("x"), 0600), -ENOENT);
    assert_int_equal(file_write_atomic(top_fd, "", STR("x"), 0600), -EINVAL);
    assert_int_equal(file_write_atomic(top_fd, "a/", STR("x"), 0600), -EINVAL);
    assert_int_equal(file_write_atomic(top_fd, "..", STR("x"), 0600), -EINVAL);
    /* onto a directory: the temporary file must not stay behind */
    assert_int_equal(dir_make(top_fd, "clean/target", 0755), 0);
    assert_int_equal(file_write_atomic(top_fd, "clean/target", STR("x"), 0600), -EISDIR);
    assert_int_equal(unlinkat(top_fd, "clean/target", AT_REMOVEDIR), 0);
    assert_int_equal(unlinkat(top_fd, "clean", AT_REMOVEDIR), 0);
    /* a symlink is replaced, not followed */
    put("victim", "untouched");
    assert_int_equal(symlinkat("victim", top_fd, "link"), 0);
    put("link", "mine");
    struct buf b = BUF_INIT(100);
    assert_int_equal(file_read(top_fd, "victim", &b), 0);
    assert_string_equal(buf_cstr(&b), "untouched");
    buf_done(&b);
    /* a name as long as names can be */
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    put(name, "x");
}

static void reads_with_a_limit(void **state)
{
    put("ten", "0123456789");
    struct buf b = BUF_INIT(10);
    assert_int_equal(file_read(top_fd, "ten", &b), 0);
    assert_int_equal(b.len, 10);
    buf_done(&b);
    struct buf small = BUF_INIT(9);
    assert_int_equal(file_read(top_fd, "ten", &small), -EFBIG);
    buf_done(&small);
    assert_int_equal(file_read(top_fd, "none", &small), -ENOENT);
    struct buf proc = BUF_INIT(4096); /* st_size is 0 there */
    assert_int_equal(file_read(AT_FDCWD, "/proc/self/status", &proc), 0);
    assert_true(proc.len > 100);
    buf_done(&proc);
}

static void reads_only_files_where_asked_to(void **state)
{
    put("eleven", "0123456789a");
    struct buf b = BUF_INIT(11);
    assert_int_equal(file_read_regular(top_fd, "eleven", &b), 0);
    assert_int_equal(b.len, 11);
    buf_clear(&b);
    assert_int_equal(mkfifoat(top_fd, "pipe", 0600), 0);
    assert_int_equal(file_read_regular(top_fd, "pipe", &b), -EINVAL); /* and is not waited for */
    assert_int_equal(file_read_regular(AT_FDCWD, "/dev/zero", &b), -EINVAL);
    assert_int_equal(file_read_regular(AT_FDCWD, "/", &b), -EINVAL);
    assert_int_equal(file_read_regular(top_fd, "none", &b), -ENOENT);
    assert_int_equal(unlinkat(top_fd, "pipe", 0), 0);
    buf_done(&b);
}

static void plain_write_needs_the_file(void **state)
{
    assert_int_equal(file_write(top_fd, "absent", STR("x")), -ENOENT);
    put("present", "long content");
    assert_int_equal(file_write(top_fd, "present", STR("LONG")), 0);
    struct buf b = BUF_INIT(100);
    assert_int_equal(file_read(top_fd, "present", &b), 0);
    assert_string_equal(buf_cstr(&b), "LONG content");
    buf_done(&b);
}

static void link_once(const char *target, int dir_fd, const char *path)
{
    assert_true(symlinkat(target, dir_fd, path) == 0 || errno == EEXIST);
}

/* top/secret, top/jail/in, and links inside the jail that point out of it. */
static int make_jail(void)
{
    assert_int_equal(dir_make(top_fd, "jail/sub", 0755), 0);
    put("secret", "outside");
    put("jail/secret", "inside");
    put("jail/sub/file", "file");
    link_once("/secret", top_fd, "jail/abs");
    link_once("../../secret", top_fd, "jail/sub/up");
    link_once("sub/file", top_fd, "jail/ok");
    link_once("/proc/self/root/etc/passwd", top_fd, "jail/magic");
    link_once("loop", top_fd, "jail/loop");
    int fd = openat(top_fd, "jail", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void assert_reads(int fd, const char *expected)
{
    char text[32] = {0};
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    assert_string_equal(text, expected);
    close(fd);
}

static void in_root_stays_inside(void **state)
{
    int jail = make_jail();
    assert_reads(fd_open_in_root(jail, "sub/file", O_RDONLY, 0), "file");
    assert_reads(fd_open_in_root(jail, "/sub/file", O_RDONLY, 0), "file");
    assert_reads(fd_open_in_root(jail, "../secret", O_RDONLY, 0), "inside");
    assert_reads(fd_open_in_root(jail, "../../../../secret", O_RDONLY, 0), "inside");
    assert_reads(fd_open_in_root(jail, "abs", O_RDONLY, 0), "inside");
    assert_reads(fd_open_in_root(jail, "sub/up", O_RDONLY, 0), "inside");
    assert_reads(fd_open_in_root(jail, "ok", O_RDONLY, 0), "file");
    assert_int_equal(fd_open_in_root(jail, "magic", O_RDONLY, 0), -ENOENT);
    assert_int_equal(fd_open_in_root(jail, "loop", O_RDONLY, 0), -ELOOP);
    assert_int_equal(fd_open_in_root(jail, "ok", O_RDONLY | O_NOFOLLOW, 0), -ELOOP);
    assert_int_equal(fd_open_in_root(jail, "none", O_RDONLY, 0644), -ENOENT); /* stray mode */
    int fd = fd_open_in_root(jail, "../made", O_WRONLY | O_CREAT | O_EXCL, 0640);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(faccessat(jail, "made", F_OK, 0), 0);
    assert_int_equal(unlinkat(jail, "made", 0), 0);
    close(jail);
}

static void beneath_follows_nothing(void **state)
{
    int jail = make_jail();
    assert_reads(fd_open_beneath(jail, "sub/file", O_RDONLY, 0), "file");
    assert_reads(fd_open_beneath(jail, "sub/../secret", O_RDONLY, 0), "inside");
    assert_int_equal(fd_open_beneath(jail, "../secret", O_RDONLY, 0), -EXDEV);
    assert_int_equal(fd_open_beneath(jail, "/secret", O_RDONLY, 0), -EXDEV);
    assert_int_equal(fd_open_beneath(jail, "ok", O_RDONLY, 0), -ELOOP);
    assert_int_equal(fd_open_beneath(jail, "abs", O_RDONLY, 0), -ELOOP);
    assert_int_equal(fd_open_beneath(-1, "x", O_RDONLY, 0), -EBADF);
    close(jail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flags),
        cmocka_unit_test(reads_and_writes_in_full),
        cmocka_unit_test(atomic_write_replaces),
        cmocka_unit_test(atomic_write_fails_cleanly),
        cmocka_unit_test(reads_with_a_limit),
        cmocka_unit_test(reads_only_files_where_asked_to),
        cmocka_unit_test(plain_write_needs_the_file),
        cmocka_unit_test(in_root_stays_inside),
        cmocka_unit_test(beneath_follows_nothing),
    };
    return cmocka_run_group_tests(tests, top_make, top_remove);
}
