/* Timers against the plainest possible model, on the fake clock. */

#include "on_loop.h"

#include "io/timer.h"

#define N_TIMERS 300
#define N_STEPS 20000

struct probe {
    struct io_timer t;
    uint64_t model_due; /* 0: not armed */
    unsigned fired;
};

static struct probe probes[N_TIMERS];
static unsigned n_fired;

static void model_start(struct probe *p, uint64_t after)
{
    io_timer_start(&p->t, after);
    p->model_due = io_now_ms(loop) + after;
}

static void on_probe(struct io_timer *t)
{
    struct probe *p = container_of(t, struct probe, t);

    assert_false(io_timer_armed(t));
    assert_int_equal(p->model_due, io_now_ms(loop)); /* exactly on time, the clock being fake */
    p->model_due = 0;
    p->fired++;
    n_fired++;
    /* Callbacks meddle with timers too, also with ones that are due at this very moment. */
    struct probe *other = &probes[rand_below(N_TIMERS)];
    switch (rand_below(4)) {
    case 0:
        model_start(other, 1 + rand_below(50));
        break;
    case 1:
        io_timer_stop(&other->t);
        other->model_due = 0;
        break;
    default:
        break;
    }
}

static void test_against_model(void **state)
{
    (void)state;
    io_clock_fake(loop);
    for (size_t i = 0; i < N_TIMERS; i++) {
        io_timer_init(&probes[i].t, loop, on_probe);
    }
    for (int step = 0; step < N_STEPS; step++) {
        struct probe *p = &probes[rand_below(N_TIMERS)];
        switch (rand_below(4)) {
        case 0:
        case 1:
            model_start(p, 1 + rand_below(200));
            break;
        case 2:
            io_timer_stop(&p->t);
            p->model_due = 0;
            break;
        default:
            io_clock_advance(loop, rand_below(30));
            break;
        }
        for (size_t i = 0; i < N_TIMERS; i++) {
            assert_int_equal(io_timer_armed(&probes[i].t), probes[i].model_due != 0);
            assert_true(!probes[i].model_due || probes[i].model_due > io_now_ms(loop) ||
                        probes[i].model_due == probes[i].t.due_ms);
        }
    }
    io_clock_advance(loop, 1000);
    for (size_t i = 0; i < N_TIMERS; i++) {
        io_timer_stop(&probes[i].t);
    }
    assert_true(n_fired > N_STEPS / 20);
}

struct counter {
    struct io_timer t;
    int n;
};

static void on_count(struct io_timer *t)
{
    container_of(t, struct counter, t)->n++;
}

static void test_pushing_forward_keeps_the_heap_still(void **state)
{
    struct counter c = {0};

    (void)state;
    io_clock_fake(loop);
    io_timer_init(&c.t, loop, on_count);
    io_timer_start(&c.t, 100);
    uint64_t key = c.t.heap_ms;
    for (int i = 0; i < 50; i++) {
        io_clock_advance(loop, 1);
        io_timer_start(&c.t, 100);
        assert_int_equal(c.t.heap_ms, key);
    }
    io_clock_advance(loop, 99);
    assert_int_equal(c.n, 0);
    io_clock_advance(loop, 1);
    assert_int_equal(c.n, 1);
}

static void on_restart(struct io_timer *t)
{
    container_of(t, struct counter, t)->n++;
    io_timer_start(t, 0);
}

static void test_restarting_itself_does_not_hang(void **state)
{
    struct counter c = {0};

    (void)state;
    io_clock_fake(loop);
    io_timer_init(&c.t, loop, on_restart);
    io_timer_start(&c.t, 0);
    io_clock_advance(loop, 10);
    assert_int_equal(c.n, 11);
    io_timer_stop(&c.t);
    io_timer_stop(&c.t);
}

static void test_real_time(void **state)
{
    struct counter a = {0}, b = {0}, far = {0};

    (void)state;
    io_timer_init(&a.t, loop, on_count);
    io_timer_init(&b.t, loop, on_count);
    io_timer_init(&far.t, loop, on_count);
    uint64_t t0 = clock_mono_ms();
    io_timer_start(&far.t, 1000000);
    io_timer_start(&a.t, 30);
    io_timer_start(&b.t, 10);
    while (!a.n || !b.n) {
        io_loop_turn(loop, true); /* blocks: wakes up only if the uv timer is set right */
    }
    assert_true(clock_mono_ms() - t0 >= 29);
    assert_int_equal(far.n, 0);
    io_timer_start(&a.t, UINT64_MAX); /* no overflow into the past */
    io_loop_turn(loop, false);
    assert_int_equal(a.n, 1);
    assert_true(io_timer_armed(&a.t));
    io_timer_stop(&a.t);
    io_timer_stop(&far.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_LOOP(test_against_model),
        ON_LOOP(test_pushing_forward_keeps_the_heap_still),
        ON_LOOP(test_restarting_itself_does_not_hang),
        ON_LOOP(test_real_time),
    };
    return cmocka_run_group_tests(tests, first_loop, NULL);
}
