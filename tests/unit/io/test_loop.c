/* Posting, deferring, stopping, signals, groups. */

#include "on_loop.h"

#include <pthread.h>
#include <signal.h>

#include "io/timer.h"

#define N_POSTERS 4
#define N_POSTS 20000

struct msg {
    unsigned from, seq;
};

static unsigned next_seq[N_POSTERS];
static unsigned n_got;

static void on_msg(void *arg)
{
    struct msg *m = arg;

    assert_ptr_equal(io_loop_current(), loop);
    assert_int_equal(m->seq, next_seq[m->from]);
    next_seq[m->from]++;
    free(m);
    if (++n_got == N_POSTERS * N_POSTS) {
        io_loop_stop(loop);
    }
}

static void *poster(void *arg)
{
    for (unsigned i = 0; i < N_POSTS; i++) {
        struct msg *m = NEW(struct msg);
        m->from = (unsigned)(uintptr_t)arg;
        m->seq = i;
        io_post(loop, on_msg, m);
    }
    return NULL;
}

static void test_posts_arrive_in_order(void **state)
{
    pthread_t t[N_POSTERS];

    (void)state;
    for (uintptr_t i = 0; i < N_POSTERS; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, poster, (void *)i), 0);
    }
    io_loop_run(loop);
    for (size_t i = 0; i < N_POSTERS; i++) {
        assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_int_equal(next_seq[i], N_POSTS);
    }
    assert_null(io_loop_current());
}

static int order[8];
static int n_order;

static void note(void *arg)
{
    order[n_order++] = (int)(intptr_t)arg;
}

static void defer_and_note(void *arg)
{
    io_defer(loop, note, (void *)2);
    note((void *)1);
}

static void on_timer_defer(struct io_timer *t)
{
    io_defer(loop, note, (void *)9);
}

static void test_deferred_runs_after_the_turns_callbacks(void **state)
{
    (void)state;
    n_order = 0;
    io_post(loop, defer_and_note, NULL);
    io_post(loop, note, (void *)1);
    io_loop_turn(loop, true);
    assert_int_equal(n_order, 3);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 1);
    assert_int_equal(order[2], 2);
}

static void test_deferred_from_a_timer_does_not_wait_for_an_event(void **state)
{
    struct io_timer t;

    (void)state;
    n_order = 0;
    io_timer_init(&t, loop, on_timer_defer);
    io_timer_start(&t, 1);
    while (n_order == 0) {
        io_loop_turn(loop, true);
    }
    assert_int_equal(order[0], 9);
}

static void test_stop_before_run(void **state)
{
    (void)state;
    io_loop_stop(loop);
    io_loop_run(loop);
}

static void test_free_runs_what_was_handed_over(void **state)
{
    struct io_loop *l = io_loop_new();

    (void)state;
    n_order = 0;
    io_post(l, note, (void *)3);
    io_defer(l, note, (void *)4);
    io_loop_free(l);
    assert_int_equal(n_order, 2);
}

static int n_signals;

static void on_signal(int signo, void *arg)
{
    assert_int_equal(signo, SIGUSR1);
    n_signals++;
}

static void test_signal(void **state)
{
    (void)state;
    n_signals = 0;
    io_signal_watch(loop, SIGUSR1, on_signal, NULL);
    assert_int_equal(raise(SIGUSR1), 0);
    TURN_UNTIL(loop, n_signals == 1);
}

static void test_fake_clock_stands_still(void **state)
{
    (void)state;
    io_clock_fake(loop);
    uint64_t t = io_now_ms(loop);
    assert_true(t > 0);
    io_loop_turn(loop, false);
    assert_int_equal(io_now_ms(loop), t);
    io_clock_advance(loop, 17);
    assert_int_equal(io_now_ms(loop), t + 17);
}

static atomic_uint n_seen;

static void on_member(void *arg)
{
    assert_ptr_equal(io_loop_current(), arg);
    atomic_fetch_add(&n_seen, 1);
}

static void test_group(void **state)
{
    struct io_group *g = io_group_new(3);

    (void)state;
    atomic_store(&n_seen, 0);
    assert_int_equal(io_group_len(g), 3);
    io_group_start(g);
    for (unsigned i = 0; i < 3; i++) {
        io_post(io_group_loop(g, i), on_member, io_group_loop(g, i));
    }
    io_group_stop(g);
    io_group_free(g); /* runs posts that the stop overtook */
    assert_int_equal(atomic_load(&n_seen), 3);
    g = io_group_new(0);
    assert_true(io_group_len(g) >= 1);
    io_group_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOOP(test_posts_arrive_in_order),
        ON_LOOP(test_deferred_runs_after_the_turns_callbacks),
        ON_LOOP(test_deferred_from_a_timer_does_not_wait_for_an_event),
        ON_LOOP(test_stop_before_run),
        cmocka_unit_test(test_free_runs_what_was_handed_over),
        ON_LOOP(test_signal),
        ON_LOOP(test_fake_clock_stands_still),
        cmocka_unit_test(test_group),
    };
    return cmocka_run_group_tests(tests, first_loop, NULL);
}
