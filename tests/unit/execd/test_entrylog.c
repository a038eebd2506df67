/* The entrypoint's log: times, split lines, and never more than two files of their size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/must.h"
#include "execd/entrylog.h"
#include "execd/limits.h"
#include "io/loop.h"

struct fixture {
    struct io_loop *loop;
    struct entry_log *log;
    int files[2], write_fd;
};

static void ignore(struct io_stream *s, unsigned events, void *arg)
{
}

static void begin(struct fixture *f, size_t n_files, uint64_t max)
{
    int p[2];
    f->loop = io_loop_new();
    for (size_t i = 0; i < 2; i++) {
        f->files[i] = memfd_create("log", MFD_CLOEXEC);
        must(fcntl(f->files[i], F_SETFL, O_APPEND) == 0);
    }
    must(pipe2(p, O_CLOEXEC | O_NONBLOCK) == 0);
    must(fcntl(p[1], F_SETPIPE_SZ, 1 << 20) > 0);
    f->write_fd = p[1];
    f->log = entry_log_new(f->files, n_files, max);
    entry_log_follow(f->log, io_stream_from_fd(f->loop, p[0], ignore, NULL));
}

static void end(struct fixture *f)
{
    entry_log_free(f->log);
    if (f->write_fd >= 0) {
        (void)close(f->write_fd);
    }
    (void)close(f->files[0]);
    (void)close(f->files[1]);
    io_loop_free(f->loop);
}

static void say(struct fixture *f, struct str text)
{
    assert_int_equal(fd_write_full(f->write_fd, text.p, text.n), 0);
    entry_log_flush(f->log);
}

static void content(int fd, struct buf *out)
{
    must(lseek(fd, 0, SEEK_SET) == 0);
    must(buf_read_fd(out, fd) == 0);
}

/* Each line's text without its time, joined by '|'. */
static char *texts(int fd)
{
    cleanup_(buf_done) struct buf all = BUF_INIT(1 << 20);
    struct buf out = BUF_INIT(1 << 20);
    content(fd, &all);
    struct str rest = buf_str(&all);
    while (rest.n) {
        struct str line = str_cut(&rest, '\n');
        int64_t us;
        assert_int_equal(rfc3339_parse(str_cut(&line, ' '), &us), 0);
        assert_true(us > 0);
        (void)buf_add_str(&out, line);
        (void)buf_add_char(&out, '|');
    }
    return buf_take(&out);
}

static void test_lines(void **state)
{
    struct fixture f;
    (void)state;
    begin(&f, 2, 1 << 20);
    say(&f, STR("one\ntwo\n\nthr"));
    cleanup_free char *now = texts(f.files[0]);
    assert_string_equal(now, "one|two||");
    say(&f, STR("ee\nlast"));
    (void)close(take_fd(&f.write_fd));
    entry_log_flush(f.log);
    cleanup_free char *then = texts(f.files[0]);
    assert_string_equal(then, "one|two||three|last|");
    end(&f);
}

static void test_long_line_is_split(void **state)
{
    struct fixture f;
    struct buf big = BUF_INIT(1 << 20);
    (void)state;
    for (unsigned i = 0; i < 4 * EXECD_ENTRY_LINE_MAX; i++) {
        (void)buf_add_char(&big, 'x');
    }
    begin(&f, 2, 1 << 20);
    say(&f, buf_str(&big));
    say(&f, STR("\n"));
    cleanup_free char *all = texts(f.files[0]);
    size_t n = 0;
    for (const char *p = all; *p; p++) {
        n += *p == 'x';
    }
    assert_int_equal(n, big.len); /* nothing is lost */
    buf_done(&big);
    end(&f);
}

static void fill(struct fixture *f, unsigned lines)
{
    for (unsigned i = 0; i < lines; i++) {
        char line[1024];
        int n = snprintf(line, sizeof(line), "%0*u\n", 1000, i);
        say(f, str_n(line, (size_t)n));
    }
}

static void test_rotation(void **state)
{
    struct fixture f;
    struct stat st;
    uint64_t max = 4u * EXECD_ENTRY_LINE_MAX;
    (void)state;
    begin(&f, 2, max);
    fill(&f, 1000); /* some fifteen files full */
    uint64_t total = 0;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fstat(f.files[i], &st), 0);
        assert_true((uint64_t)st.st_size <= max);
        assert_true(st.st_size > 0);
        total += (uint64_t)st.st_size;
    }
    assert_true(total > max / 2);
    /* The newest line is there, whole. */
    cleanup_free char *a = texts(f.files[0]);
    cleanup_free char *b = texts(f.files[1]);
    assert_true(strstr(a, "0999|") || strstr(b, "0999|"));
    end(&f);
}

static void test_single_file_starts_again(void **state)
{
    struct fixture f;
    struct stat st;
    uint64_t max = 4u * EXECD_ENTRY_LINE_MAX;
    (void)state;
    begin(&f, 1, max);
    fill(&f, 500);
    assert_int_equal(fstat(f.files[0], &st), 0);
    assert_true(st.st_size > 0 && (uint64_t)st.st_size <= max);
    cleanup_free char *a = texts(f.files[0]);
    assert_non_null(strstr(a, "0499|"));
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_long_line_is_split),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_single_file_starts_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
