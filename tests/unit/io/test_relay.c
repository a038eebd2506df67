/* Tunnels with random chunks, slow readers, half-closes and ends of every kind. */

#include "on_loop.h"

#include <netinet/in.h>

#include "io/internal.h"
#include "io/relay.h"

/* One of the two programs that talk through the relay. */
struct talker {
    struct io_stream *s;
    uint64_t to_send, sent, got;
    unsigned seed_out, seed_in;
    bool slow; /* reads small pieces, and often not at all */
    bool shut, eof;
    int error;
    size_t max_chunk;
};

static struct io_relay_end ended;
static int n_ended, n_traffic;

static int setup(void **state)
{
    n_ended = n_traffic = 0;
    return loop_open(state);
}

static unsigned char byte_at(unsigned seed, uint64_t i)
{
    return (unsigned char)((i * 2654435761u + seed) >> 7);
}

static void on_end(const struct io_relay_end *end, void *arg)
{
    ended = *end;
    n_ended++;
}

static void on_traffic(void *arg)
{
    n_traffic++;
}

static void talker_want(struct talker *t)
{
    bool send = !t->shut && t->sent < t->to_send;

    io_stream_want(t->s, (send ? IO_WRITABLE : 0) | (t->eof ? 0 : IO_READABLE));
}

static void talker_read(struct talker *t)
{
    unsigned char chunk[70000];
    size_t n = 1 + rand_below(t->slow ? 3000 : sizeof(chunk));

    if (t->slow && rand_below(3) > 0) {
        return;
    }
    ssize_t r = io_stream_read(t->s, chunk, n);
    if (r == 0) {
        t->eof = true;
    } else if (r < 0 && r != -EAGAIN) {
        t->error = (int)r;
        t->eof = true;
    }
    for (ssize_t i = 0; i < r; i++, t->got++) {
        if (chunk[i] != byte_at(t->seed_in, t->got)) {
            fail_msg("byte %llu is wrong", (unsigned long long)t->got);
        }
    }
}

static void talker_write(struct talker *t)
{
    unsigned char chunk[70000];
    size_t n = 1 + rand_below(t->max_chunk);

    n = MIN(n, t->to_send - t->sent);
    for (size_t i = 0; i < n; i++) {
        chunk[i] = byte_at(t->seed_out, t->sent + i);
    }
    ssize_t r = io_stream_write(t->s, chunk, n);
    if (r > 0) {
        t->sent += (uint64_t)r;
    } else if (r != -EAGAIN) {
        t->error = (int)r;
        t->shut = true;
    }
}

static void on_talk(struct io_stream *s, unsigned events, void *arg)
{
    struct talker *t = arg;

    if (events & IO_READABLE) {
        talker_read(t);
    }
    if ((events & IO_WRITABLE) && !t->shut && t->sent < t->to_send) {
        talker_write(t);
    }
    if (!t->shut && t->sent == t->to_send) {
        t->shut = true;
        assert_int_equal(io_stream_shutdown(s), 0);
    }
    talker_want(t);
}

static void talker_start(struct talker *t, int fd, unsigned seed_out, unsigned seed_in)
{
    t->s = io_stream_from_fd(loop, fd, on_talk, t);
    t->seed_out = seed_out;
    t->seed_in = seed_in;
    t->max_chunk = t->max_chunk ? t->max_chunk : 70000;
    io_stream_want(t->s, IO_WRITABLE | IO_READABLE);
}

static void tcp_pair(int fd[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(l, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(l, 1), 0);
    assert_int_equal(getsockname(l, (struct sockaddr *)&a, &len), 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd[0], (struct sockaddr *)&a, len), 0);
    fd[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd[1] >= 0);
    (void)close(l);
}

struct tunnel {
    struct talker x, y;
    struct io_relay *r;
};

static void tunnel_start(struct tunnel *t, void (*pair)(int fd[2]), struct str early_a,
                         struct str early_b, uint64_t idle_ms)
{
    int left[2], right[2];

    pair(left);
    pair(right);
    talker_start(&t->x, left[0], 11, 22);
    talker_start(&t->y, right[1], 22, 11);
    struct io_stream *a = io_stream_from_fd(loop, left[1], NULL, NULL);
    struct io_stream *b = io_stream_from_fd(loop, right[0], NULL, NULL);
    t->r = io_relay_start(a, b, early_a, early_b, idle_ms, on_end, NULL);
    io_relay_on_traffic(t->r, on_traffic, NULL);
}

static void tunnel_finish(struct tunnel *t)
{
    io_stream_close(t->x.s);
    io_stream_close(t->y.s);
}

static void test_random(void **state)
{
    (void)state;
    for (int i = 0; i < 12; i++) {
        struct tunnel t = {
            .x = {.to_send = rand_below(3) ? rand_below(4u << 20) : 0, .slow = i % 3 == 1},
            .y = {.to_send = rand_below(3) ? rand_below(4u << 20) : 0, .slow = i % 3 == 2},
        };
        t.x.max_chunk = i % 2 ? 100 + rand_below(1000) : 0;
        t.x.to_send = MIN(t.x.to_send, t.x.max_chunk ? 300000 : UINT64_MAX);
        n_ended = 0;
        tunnel_start(&t, i % 2 ? socket_pair : tcp_pair, STR_NULL, STR_NULL, 0);
        uint64_t end = clock_mono_ms() + WAIT_MS;
        while ((!n_ended || !t.x.eof || !t.y.eof) && clock_mono_ms() < end) {
            io_loop_turn(loop, false);
        }
        assert_int_equal(n_ended, 1);
        assert_int_equal(ended.error, 0);
        assert_int_equal(ended.bytes_ab, t.x.to_send);
        assert_int_equal(ended.bytes_ba, t.y.to_send);
        assert_int_equal(t.y.got, t.x.to_send);
        assert_int_equal(t.x.got, t.y.to_send);
        tunnel_finish(&t);
    }
    assert_true(loop->n_pipes > 0); /* bulk went through splice, and the pipes came back */
}

static void test_early_bytes_come_first(void **state)
{
    struct tunnel t = {.x = {.sent = 5}, .y = {.sent = 3}};
    char early_a[5], early_b[3];

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        early_a[i] = (char)byte_at(11, i);
    }
    for (size_t i = 0; i < 3; i++) {
        early_b[i] = (char)byte_at(22, i);
    }
    t.x.to_send = 2000;
    t.y.to_send = 1000;
    tunnel_start(&t, socket_pair, str_n(early_a, 5), str_n(early_b, 3), 0);
    memset(early_a, 0, sizeof(early_a)); /* they were copied */
    memset(early_b, 0, sizeof(early_b));
    TURN_UNTIL(loop, n_ended && t.x.eof && t.y.eof);
    assert_int_equal(ended.error, 0);
    assert_int_equal(t.y.got, 2000);
    assert_int_equal(t.x.got, 1000);
    assert_true(n_traffic > 0);
    tunnel_finish(&t);
}

/* One side has said all it has to say; the other goes on for as long as it likes. */
static void test_half_close(void **state)
{
    struct tunnel t = {.x = {.to_send = 0}, .y = {.to_send = 1}};

    (void)state;
    tunnel_start(&t, tcp_pair, STR_NULL, STR_NULL, 0);
    t.y.to_send = 500000;
    TURN_UNTIL(loop, t.y.eof);
    TURN_UNTIL(loop, n_ended && t.x.eof);
    assert_int_equal(ended.error, 0);
    assert_int_equal(t.x.got, 500000);
    tunnel_finish(&t);
}

/* y reads nothing: what is held on the way is bounded, x is stopped. */
static void test_backpressure(void **state)
{
    struct tunnel t = {.x = {.to_send = UINT64_MAX}};
    uint64_t before;

    (void)state;
    tunnel_start(&t, socket_pair, STR_NULL, STR_NULL, 0);
    io_stream_set_cb(t.y.s, NULL, NULL);
    io_stream_want(t.y.s, 0);
    do {
        before = t.x.sent;
        for (int i = 0; i < 200; i++) {
            io_loop_turn(loop, false);
        }
    } while (t.x.sent != before);
    assert_true(t.x.sent < 8u << 20); /* four socket buffers and ours */
    assert_int_equal(n_ended, 0);
    io_relay_cancel(t.r);
    assert_int_equal(n_ended, 1);
    assert_int_equal(ended.error, -ECANCELED);
    tunnel_finish(&t);
}

static void test_idle_timeout(void **state)
{
    struct tunnel t = {.x = {.to_send = 1}, .y = {.to_send = 1}};

    (void)state;
    io_clock_fake(loop);
    tunnel_start(&t, socket_pair, STR_NULL, STR_NULL, 1000);
    io_stream_want(t.x.s, 0);
    io_stream_want(t.y.s, 0);
    io_clock_advance(loop, 999);
    assert_int_equal(n_ended, 0);
    assert_int_equal(io_stream_write(t.x.s, "x", 1), 1); /* traffic: the clock starts anew */
    TURN_UNTIL(loop, n_traffic == 1);
    io_clock_advance(loop, 999);
    assert_int_equal(n_ended, 0);
    io_clock_advance(loop, 1);
    assert_int_equal(n_ended, 1);
    assert_int_equal(ended.error, -ETIMEDOUT);
    assert_int_equal(ended.bytes_ab, 1);
    tunnel_finish(&t);
}

static void test_reset_is_passed_on(void **state)
{
    struct tunnel t = {.x = {.to_send = UINT64_MAX}, .y = {.to_send = UINT64_MAX}};

    (void)state;
    tunnel_start(&t, tcp_pair, STR_NULL, STR_NULL, 0);
    TURN_UNTIL(loop, t.y.got > 100000 && t.x.got > 100000);
    io_stream_abort(t.x.s);
    TURN_UNTIL(loop, n_ended && t.y.eof && t.y.shut);
    assert_true(ended.error == -ECONNRESET || ended.error == -EPIPE);
    assert_int_not_equal(t.y.error, 0);
    io_stream_close(t.y.s);
}

/* y sends its answer and is gone; x, which still sends, gets the whole answer. */
static void test_target_gone_answer_still_delivered(void **state)
{
    struct tunnel t = {.x = {.to_send = UINT64_MAX}, .y = {.to_send = 50000}};

    (void)state;
    tunnel_start(&t, tcp_pair, STR_NULL, STR_NULL, 0);
    TURN_UNTIL(loop, t.y.shut && t.x.sent > 100000);
    io_stream_close(t.y.s);
    TURN_UNTIL(loop, n_ended && t.x.eof);
    assert_true(ended.error == -EPIPE || ended.error == -ECONNRESET);
    assert_int_equal(t.x.got, 50000);
    io_stream_close(t.x.s);
}

static void test_loop_free_with_relays(void **state)
{
    struct tunnel t = {.x = {.to_send = UINT64_MAX}, .y = {.to_send = UINT64_MAX}};

    (void)state;
    tunnel_start(&t, tcp_pair, STR_NULL, STR_NULL, 0);
    TURN_UNTIL(loop, t.y.got > 300000);
    /* the teardown counts what is left */
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, loop_close)
    const struct CMUnitTest tests[] = {
        T(test_random),
        T(test_early_bytes_come_first),
        T(test_half_close),
        T(test_backpressure),
        T(test_idle_timeout),
        T(test_reset_is_passed_on),
        T(test_target_gone_answer_still_delivered),
        T(test_loop_free_with_relays),
    };
    return cmocka_run_group_tests(tests, first_loop, NULL);
}
