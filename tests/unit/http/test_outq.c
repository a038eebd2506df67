#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/must.h"
#include "http/outq.h"

static struct io_loop *loop;
static struct io_stream *stream;
static int peer;

static int setup(void **state)
{
    int sv[2];
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sv) == 0);
    loop = io_loop_new();
    stream = io_stream_from_fd(loop, sv[0], NULL, NULL);
    peer = sv[1];
    return 0;
}

static int teardown(void **state)
{
    io_stream_close(stream);
    (void)close(peer);
    io_loop_free(loop);
    return 0;
}

static void drain(struct buf *out)
{
    char chunk[65536];
    ssize_t n;
    while ((n = recv(peer, chunk, sizeof(chunk), 0)) > 0) {
        must(buf_add(out, chunk, (size_t)n) == 0);
    }
}

static int temp_file(const char *text)
{
    char path[] = "/tmp/osb-test-outq-XXXXXX";
    int fd = mkstemp(path);
    must(fd >= 0 && unlink(path) == 0);
    must(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    return fd;
}

static void test_order(void **state)
{
    struct outq q = {0};
    struct buf out = BUF_INIT(1u << 20);
    outq_add(&q, STR("a"));
    outq_add(&q, STR(""));
    outq_add(&q, STR("bc"));
    outq_add_ref(&q, STR("REF"));
    outq_add(&q, STR("d"));
    outq_add_file(&q, temp_file("0123456789"), 2, 3);
    outq_add(&q, STR("e"));
    outq_add_file(&q, temp_file("x"), 0, 0);
    assert_int_equal(q.queued, 8);
    assert_int_equal(outq_flush(&q, stream), 0);
    assert_true(outq_empty(&q));
    assert_int_equal(q.queued, 0);
    assert_int_equal(q.sent, 11);
    drain(&out);
    assert_string_equal(buf_cstr(&out), "abcREFd234e");
    assert_int_equal(outq_flush(&q, stream), 0);
    buf_done(&out);
}

static void test_writev_at_once(void **state)
{
    struct outq q = {0};
    struct buf out = BUF_INIT(1u << 20);
    struct iovec iov[] = {{(void *)(uintptr_t) "head", 4}, {(void *)(uintptr_t) "body", 4}};
    assert_int_equal(outq_writev(&q, stream, iov, 2), 0);
    assert_true(outq_empty(&q));
    outq_add(&q, STR("queued-"));
    assert_int_equal(outq_writev(&q, stream, iov, 2), 0);
    assert_true(outq_empty(&q));
    outq_add_file(&q, temp_file("file-"), 0, 5); /* the new bytes must wait for the file */
    assert_int_equal(outq_writev(&q, stream, iov, 1), 0);
    assert_int_equal(q.queued, 4);
    assert_int_equal(outq_flush(&q, stream), 0);
    drain(&out);
    assert_string_equal(buf_cstr(&out), "headbodyqueued-headbodyfile-head");
    assert_int_equal(q.sent, out.len);
    buf_done(&out);
}

/* Bytes that differ everywhere arrive in order through a socket that is full again and again. */
static void test_partial(void **state)
{
    enum { N = 3u << 20 };
    struct outq q = {0};
    struct buf in = BUF_INIT(N + 64), out = BUF_INIT(N + 64);
    for (unsigned i = 0; in.len < N; i++) {
        (void)buf_printf(&in, "%u,", i);
    }
    size_t at = 0, step = 1;
    while (at < in.len) {
        struct str piece = str_sub(buf_str(&in), at, at + step);
        struct iovec iov[2] = {{(void *)(uintptr_t)piece.p, piece.n / 2},
                               {(void *)(uintptr_t)(piece.p + piece.n / 2), piece.n - piece.n / 2}};
        assert_int_equal(outq_writev(&q, stream, iov, 2), 0);
        at += piece.n;
        step = step * 7 % 100003 + 1;
        if (q.queued > 1u << 20) {
            drain(&out);
        }
    }
    while (outq_flush(&q, stream) == -EAGAIN) {
        drain(&out);
    }
    drain(&out);
    assert_true(str_eq(buf_str(&in), buf_str(&out)));
    assert_int_equal(q.queued, 0);
    buf_done(&in);
    buf_done(&out);
}

static void test_broken(void **state)
{
    struct outq q = {0};
    (void)close(peer);
    struct iovec iov = {(void *)(uintptr_t) "x", 1};
    assert_int_equal(outq_writev(&q, stream, &iov, 1), -EPIPE);
    outq_add(&q, STR("x"));
    outq_add_file(&q, temp_file("x"), 0, 1);
    assert_int_equal(outq_flush(&q, stream), -EPIPE);
    outq_done(&q);
    assert_true(outq_empty(&q));
    assert_int_equal(q.queued, 0);
    peer = -1;
}

static void test_short_file(void **state)
{
    struct outq q = {0};
    outq_add_file(&q, temp_file("abc"), 0, 4);
    assert_int_equal(outq_flush(&q, stream), -EIO);
    outq_done(&q);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_order), T(test_writev_at_once), T(test_partial), T(test_broken), T(test_short_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
