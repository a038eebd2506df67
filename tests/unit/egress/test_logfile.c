/* A log that is cut: whole lines stay, the newest ones, and appending goes on. */

#include "egress/logfile.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../test.h"

static int make(int flags, int n_lines)
{
    char path[] = "/tmp/test-logfile-XXXXXX";
    int made = mkstemp(path);
    assert_true(made >= 0);
    int fd = open(path, flags | O_APPEND | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    (void)close(made);
    for (int i = 0; i < n_lines; i++) {
        assert_int_equal(dprintf(fd, "line %07d of the log\n", i), 24);
    }
    return fd;
}

static off_t size_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_size;
}

static void the_newest_lines_stay(void **state)
{
    char text[64] = {0};
    int fd = make(O_RDWR, 5000); /* 120,000 bytes */
    assert_int_equal(logfile_cut(fd, 120000, 60000), 0);
    assert_int_equal(logfile_cut(fd, 100000, 50000), 1);
    off_t left = size_of(fd);
    assert_true(left <= 50000 && left > 50000 - 24 && left % 24 == 0);
    assert_int_equal(pread(fd, text, 24, left - 24), 24);
    assert_string_equal(text, "line 0004999 of the log\n");
    assert_int_equal(pread(fd, text, 5, 0), 5);
    assert_memory_equal(text, "line ", 5);
    assert_int_equal(dprintf(fd, "line %07d of the log\n", 5000), 24); /* behind it, as before */
    assert_int_equal(size_of(fd), left + 24);
    assert_int_equal(pread(fd, text, 24, left), 24);
    assert_string_equal(text, "line 0005000 of the log\n");
    (void)close(fd);
}

static void what_cannot_be_read_is_emptied(void **state)
{
    int fd = make(O_WRONLY, 100);
    assert_int_equal(logfile_cut(fd, 1000, 500), 1);
    assert_int_equal(size_of(fd), 0);
    assert_int_equal(dprintf(fd, "x\n"), 2);
    assert_int_equal(size_of(fd), 2);
    (void)close(fd);
}

static void other_things_are_left_alone(void **state)
{
    int p[2];
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    assert_int_equal(logfile_cut(p[1], 0, 0), 0);
    assert_true(logfile_cut(-1, 0, 0) < 0);
    (void)close(p[0]);
    (void)close(p[1]);
    int fd = make(O_RDWR, 1); /* one line longer than what may stay */
    assert_int_equal(logfile_cut(fd, 20, 10), 1);
    assert_int_equal(size_of(fd), 0);
    (void)close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_newest_lines_stay),
        cmocka_unit_test(what_cannot_be_read_is_emptied),
        cmocka_unit_test(other_things_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
