/* Streams over socket pairs, pipes and a terminal. */

#include "on_loop.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "io/internal.h"

struct end {
    struct io_stream *s;
    unsigned events; /* all that came */
    int n_calls, n_hup;
    void (*on)(struct end *e, unsigned events);
    struct end *other;
};

static void on_event(struct io_stream *s, unsigned events, void *arg)
{
    struct end *e = arg;

    assert_ptr_equal(s, e->s);
    e->events |= events;
    e->n_calls++;
    e->n_hup += events & IO_HUP ? 1 : 0;
    if (e->on) {
        e->on(e, events);
    }
}

static void open_end(struct end *e, int fd)
{
    e->s = io_stream_from_fd(loop, fd, on_event, e);
    assert_non_null(e->s);
}

static void open_pair(struct end *a, struct end *b)
{
    int fd[2];

    socket_pair(fd);
    open_end(a, fd[0]);
    open_end(b, fd[1]);
}

static void turns(int n)
{
    while (n-- > 0) {
        io_loop_turn(loop, false);
    }
}

static void test_size(void **state)
{
    (void)state;
    assert_true(sizeof(struct io_stream) <= 350);
}

static void test_level_triggered_and_backpressure(void **state)
{
    struct end a = {0}, b = {0};
    char got[8];

    (void)state;
    open_pair(&a, &b);
    turns(2);
    assert_int_equal(a.n_calls + b.n_calls, 0); /* nothing is wanted yet */
    io_stream_want(b.s, IO_READABLE);
    assert_int_equal(io_stream_read(b.s, got, 8), -EAGAIN);
    assert_int_equal(io_stream_write(a.s, "abc", 3), 3);
    turns(3);
    assert_int_equal(b.n_calls, 3); /* as long as it is not read */
    assert_int_equal(b.events, IO_READABLE);
    io_stream_want(b.s, 0);
    turns(3);
    assert_int_equal(b.n_calls, 3);
    io_stream_want(b.s, IO_READABLE);
    turns(1);
    assert_int_equal(b.n_calls, 4);
    assert_int_equal(io_stream_read(b.s, got, 8), 3);
    assert_memory_equal(got, "abc", 3);
    turns(2);
    assert_int_equal(b.n_calls, 4);
    io_stream_want(a.s, IO_WRITABLE | IO_READABLE);
    assert_int_equal(io_stream_wanted(a.s), IO_WRITABLE | IO_READABLE);
    turns(1);
    assert_int_equal(a.events, IO_WRITABLE);
    io_stream_close(a.s);
    io_stream_close(b.s);
    io_stream_close(NULL);
}

/* The kernel is told only when it matters. */
static void test_lazy_interest(void **state)
{
    struct end a = {0}, b = {0};
    char got[8];

    (void)state;
    open_pair(&a, &b);
    io_stream_want(b.s, IO_READABLE);
    assert_int_equal(b.s->armed, UV_READABLE);
    io_stream_want(b.s, 0);
    turns(1);
    assert_int_equal(b.s->armed, UV_READABLE); /* nothing came: left as it was */
    io_stream_want(b.s, IO_READABLE);
    io_stream_want(b.s, 0);
    assert_int_equal(io_stream_write(a.s, "x", 1), 1);
    turns(1);
    assert_int_equal(b.s->armed, 0); /* something came that nobody wanted */
    assert_int_equal(b.n_calls, 0);
    io_stream_want(b.s, IO_READABLE);
    turns(1);
    assert_int_equal(b.n_calls, 1);
    assert_int_equal(io_stream_read(b.s, got, 8), 1);
    io_stream_close(a.s);
    io_stream_close(b.s);
}

static void test_writable_after_full(void **state)
{
    struct end a = {0}, b = {0};
    static char block[65536];
    ssize_t r, total = 0, got = 0;

    (void)state;
    open_pair(&a, &b);
    while ((r = io_stream_write(a.s, block, sizeof(block))) > 0) {
        total += r;
    }
    assert_int_equal(r, -EAGAIN);
    io_stream_want(a.s, IO_WRITABLE);
    turns(3);
    assert_int_equal(a.n_calls, 0);
    while ((r = io_stream_read(b.s, block, sizeof(block))) > 0) {
        got += r;
    }
    assert_int_equal(got, total);
    turns(1);
    assert_int_equal(a.events, IO_WRITABLE);
    io_stream_close(a.s);
    io_stream_close(b.s);
}

static void test_hup_is_told_once(void **state)
{
    struct end a = {0}, b = {0};
    char got[8];

    (void)state;
    open_pair(&a, &b);
    io_stream_watch_hup(b.s, true);
    assert_int_equal(io_stream_write(a.s, "last", 4), 4);
    turns(2);
    assert_int_equal(b.n_calls, 0);
    io_stream_close(a.s);
    turns(5);
    assert_int_equal(b.n_calls, 1); /* once, and no spinning */
    assert_int_equal(b.events, IO_HUP);
    io_stream_want(b.s, IO_READABLE);
    turns(1);
    assert_int_equal(io_stream_read(b.s, got, 8), 4); /* what was sent is still there */
    assert_int_equal(io_stream_read(b.s, got, 8), 0);
    assert_int_equal(b.n_hup, 1);
    assert_int_equal(io_stream_write(b.s, "x", 1), -EPIPE);
    io_stream_want(b.s, 0);
    io_stream_watch_hup(b.s, true);
    turns(2);
    assert_int_equal(b.n_hup, 1); /* it was on already */
    io_stream_watch_hup(b.s, false);
    io_stream_watch_hup(b.s, true);
    turns(4);
    assert_int_equal(b.n_hup, 2); /* a new owner asks, and is told once as well */
    io_stream_close(b.s);
}

static void test_half_close(void **state)
{
    struct end a = {0}, b = {0};
    char got[8];

    (void)state;
    open_pair(&a, &b);
    io_stream_watch_hup(b.s, true);
    io_stream_want(b.s, IO_READABLE);
    assert_int_equal(io_stream_shutdown(a.s), 0);
    turns(1);
    assert_int_equal(b.n_hup, 1);
    assert_true(b.events & IO_READABLE);
    assert_int_equal(io_stream_read(b.s, got, 8), 0);
    assert_int_equal(io_stream_write(b.s, "back", 4), 4);
    assert_int_equal(io_stream_read(a.s, got, 8), 4);
    io_stream_close(a.s);
    io_stream_close(b.s);
}

static void close_self(struct end *e, unsigned events)
{
    io_stream_close(e->s);
}

static void close_both(struct end *e, unsigned events)
{
    io_stream_close(e->s);
    io_stream_close(e->other->s);
}

static void test_close_inside_callback(void **state)
{
    struct end a = {.on = close_self}, b = {0};

    (void)state;
    open_pair(&a, &b);
    io_stream_want(a.s, IO_WRITABLE | IO_READABLE);
    io_stream_watch_hup(a.s, true);
    turns(3);
    assert_int_equal(a.n_calls, 1);
    io_stream_close(b.s);
}

/* Both have an event in the same batch; whoever comes first closes the other too. */
static void test_close_other_in_same_batch(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++) {
        struct end a = {.on = close_both}, b = {.on = close_both};
        open_pair(&a, &b);
        a.other = &b;
        b.other = &a;
        io_stream_want(a.s, IO_WRITABLE);
        io_stream_want(b.s, IO_WRITABLE);
        turns(2);
        assert_int_equal(a.n_calls + b.n_calls, 1);
    }
}

static void reopen(struct end *e, unsigned events)
{
    int fd[2];

    /* The numbers of the closed descriptors are taken again at once, within the same batch. */
    close_both(e, events);
    socket_pair(fd);
    e->on = e->other->on = NULL;
    e->n_calls = e->other->n_calls = 0;
    open_end(e, fd[0]);
    open_end(e->other, fd[1]);
}

static void test_descriptor_number_reused_in_same_batch(void **state)
{
    struct end a = {.on = reopen}, b = {.on = reopen};

    (void)state;
    open_pair(&a, &b);
    a.other = &b;
    b.other = &a;
    io_stream_want(a.s, IO_WRITABLE);
    io_stream_want(b.s, IO_WRITABLE);
    turns(3);
    assert_int_equal(a.n_calls + b.n_calls, 0); /* no event of the old ones reached the new ones */
    io_stream_want(a.s, IO_WRITABLE);
    turns(1);
    assert_int_equal(a.n_calls, 1);
    io_stream_close(a.s);
    io_stream_close(b.s);
}

static void test_pipe(void **state)
{
    struct end r = {0}, w = {0};
    int fd[2];
    char got[8];

    (void)state;
    assert_int_equal(pipe2(fd, O_NONBLOCK | O_CLOEXEC), 0);
    open_end(&r, fd[0]);
    open_end(&w, fd[1]);
    io_stream_watch_hup(r.s, true);
    io_stream_want(r.s, IO_READABLE);
    assert_int_equal(io_stream_write(w.s, "abc", 3), 3);
    turns(1);
    assert_int_equal(r.events, IO_READABLE);
    assert_int_equal(io_stream_read(r.s, got, 8), 3);
    assert_int_equal(io_stream_shutdown(w.s), 0); /* the end of the pipe, not of the stream */
    assert_int_equal(io_stream_shutdown(w.s), 0);
    turns(1);
    assert_true(r.events & IO_HUP);
    assert_int_equal(io_stream_read(r.s, got, 8), 0);
    assert_int_equal(io_stream_write(w.s, "x", 1), -EPIPE);
    assert_int_equal(io_stream_read(w.s, got, 8), 0);
    io_stream_want(w.s, IO_WRITABLE | IO_READABLE); /* must not disturb libuv */
    turns(2);
    io_stream_close(w.s);
    io_stream_close(r.s);
}

static void test_pipe_reader_gone(void **state)
{
    struct end w = {0};
    int fd[2];

    (void)state;
    assert_int_equal(pipe2(fd, O_NONBLOCK | O_CLOEXEC), 0);
    open_end(&w, fd[1]);
    io_stream_watch_hup(w.s, true);
    turns(2);
    assert_int_equal(w.n_calls, 0);
    (void)close(fd[0]);
    turns(4);
    assert_int_equal(w.n_calls, 1);
    assert_int_equal(w.events, IO_HUP);
    io_stream_want(w.s, IO_WRITABLE);
    turns(1);
    assert_int_equal(w.events, IO_HUP | IO_WRITABLE);
    assert_int_equal(io_stream_write(w.s, "x", 1), -EPIPE);
    io_stream_close(w.s);
}

static void test_terminal_end_is_an_end(void **state)
{
    struct end m = {0};
    char got[64];
    int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC), zero = 0;

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ioctl(fd, TIOCSPTLCK, &zero), 0);
    int peer = ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    assert_true(peer >= 0);
    open_end(&m, fd);
    io_stream_want(m.s, IO_READABLE);
    assert_int_equal(write(peer, "hi", 2), 2);
    TURN_UNTIL(loop, m.n_calls > 0);
    assert_int_equal(io_stream_read(m.s, got, sizeof(got)), 2);
    assert_int_equal(io_stream_shutdown(m.s), -EOPNOTSUPP);
    m.n_calls = 0;
    (void)close(peer);
    TURN_UNTIL(loop, m.n_calls > 0);
    assert_int_equal(io_stream_read(m.s, got, sizeof(got)), 0);
    io_stream_close(m.s);
}

static int file_with(size_t n)
{
    int fd = memfd_create("io-test", MFD_CLOEXEC);

    assert_true(fd >= 0);
    for (size_t i = 0; i < n; i++) {
        char c = (char)(i * 31 % 251);
        assert_int_equal(write(fd, &c, 1), 1);
    }
    return fd;
}

static void test_sendfile(void **state)
{
    struct end a = {0}, b = {0};
    size_t n = 100000, got = 0;
    off_t at = 5;
    unsigned char chunk[4096];

    (void)state;
    open_pair(&a, &b);
    int fd = file_with(n);
    while (got < n - 5) {
        ssize_t r = io_stream_sendfile(a.s, fd, &at, n);
        assert_true(r > 0 || r == -EAGAIN || (r == 0 && at == (off_t)n));
        while ((r = io_stream_read(b.s, chunk, sizeof(chunk))) > 0) {
            for (ssize_t i = 0; i < r; i++, got++) {
                assert_int_equal(chunk[i], (got + 5) * 31 % 251);
            }
        }
    }
    assert_int_equal(at, n);
    assert_int_equal(io_stream_sendfile(a.s, fd, &at, n), 0);
    at = 0;
    assert_int_equal(stream_copy_file(a.s, fd, &at, 1000), 1000);
    assert_int_equal(at, 1000);
    (void)close(fd);
    io_stream_close(a.s);
    io_stream_close(b.s);
}

static void test_take_fd_and_peer(void **state)
{
    struct end a = {0}, b = {0};
    struct io_addr peer;

    (void)state;
    open_pair(&a, &b);
    assert_int_equal(io_stream_peer(a.s, &peer), 0);
    assert_int_equal(peer.sa.sa_family, AF_UNIX);
    assert_false(io_stream_is_tls(a.s));
    assert_ptr_equal(io_stream_loop(a.s), loop);
    io_stream_want(a.s, IO_WRITABLE);
    int fd = io_stream_fd(a.s);
    assert_int_equal(io_stream_take_fd(a.s), fd);
    open_end(&a, fd); /* back on the same loop before the old one is gone */
    io_stream_want(a.s, IO_WRITABLE);
    turns(2);
    assert_true(a.n_calls > 0);
    assert_int_equal(io_stream_count(), 2);
    io_stream_close(a.s);
    assert_int_equal(io_stream_count(), 1);
    io_stream_close(b.s);
}

static void test_unwatchable(void **state)
{
    int fd = file_with(1);

    (void)state;
    assert_null(io_stream_from_fd(loop, fd, on_event, NULL));
    assert_int_equal(fcntl(fd, F_GETFD), -1); /* closed: it was taken */
}

static void test_loop_free_closes_streams(void **state)
{
    struct end a = {0}, b = {0};

    (void)state;
    open_pair(&a, &b);
    io_stream_want(a.s, IO_READABLE); /* the teardown checks that nothing is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOOP(test_size),
        ON_LOOP(test_level_triggered_and_backpressure),
        ON_LOOP(test_lazy_interest),
        ON_LOOP(test_writable_after_full),
        ON_LOOP(test_hup_is_told_once),
        ON_LOOP(test_half_close),
        ON_LOOP(test_close_inside_callback),
        ON_LOOP(test_close_other_in_same_batch),
        ON_LOOP(test_descriptor_number_reused_in_same_batch),
        ON_LOOP(test_pipe),
        ON_LOOP(test_pipe_reader_gone),
        ON_LOOP(test_terminal_end_is_an_end),
        ON_LOOP(test_sendfile),
        ON_LOOP(test_take_fd_and_peer),
        ON_LOOP(test_unwatchable),
        ON_LOOP(test_loop_free_closes_streams),
    };
    return cmocka_run_group_tests(tests, first_loop, NULL);
}
