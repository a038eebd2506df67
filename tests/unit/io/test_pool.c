/* Worker pool: bounds, order of one worker, shutdown runs the queue. */

#include "util.h"

#include <pthread.h>
#include <semaphore.h>

#include "io/pool.h"

static sem_t gate, entered;
static atomic_uint n_done;

static void wait_at_gate(void *arg)
{
    (void)sem_post(&entered);
    (void)sem_wait(&gate);
    atomic_fetch_add(&n_done, 1);
}

static void count(void *arg)
{
    atomic_fetch_add(&n_done, 1);
}

static void test_full_queue_is_an_answer(void **state)
{
    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    assert_int_equal(sem_init(&entered, 0, 0), 0);
    atomic_store(&n_done, 0);
    struct io_pool *p = io_pool_new("a name longer than the kernel takes", 2, 3);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(io_pool_submit(p, wait_at_gate, NULL), 0);
        (void)sem_wait(&entered);
    }
    assert_int_equal(io_pool_busy(p), 2);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(io_pool_submit(p, count, NULL), 0);
    }
    assert_int_equal(io_pool_queued(p), 3);
    assert_int_equal(io_pool_submit(p, count, NULL), -EAGAIN);
    (void)sem_post(&gate);
    (void)sem_post(&gate);
    io_pool_free(p); /* everything queued still runs */
    assert_int_equal(atomic_load(&n_done), 5);
    (void)sem_destroy(&gate);
    (void)sem_destroy(&entered);
}

struct turn {
    unsigned n, *next, *n_wrong;
};

static void in_turn(void *arg)
{
    struct turn *t = arg;

    *t->n_wrong += t->n != (*t->next)++;
}

/* The queue grows with what is in it, and keeps the order also when it has gone round before. */
static void test_queue_grows_in_order(void **state)
{
    enum { N = 1000 };
    static struct turn turns[N];
    struct io_pool *p = io_pool_new("grows", 1, N);
    unsigned next = 0, n_wrong = 0;

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    assert_int_equal(sem_init(&entered, 0, 0), 0);
    for (unsigned done = 0, lot = 10; done < N; lot = MIN(lot * 4, N - done)) {
        assert_int_equal(io_pool_submit(p, wait_at_gate, NULL), 0);
        (void)sem_wait(&entered);
        for (unsigned i = 0; i < lot; i++, done++) {
            turns[done] = (struct turn){done, &next, &n_wrong};
            assert_int_equal(io_pool_submit(p, in_turn, &turns[done]), 0);
        }
        assert_int_equal(io_pool_queued(p), lot);
        (void)sem_post(&gate);
    }
    io_pool_free(p);
    assert_int_equal(next, N);
    assert_int_equal(n_wrong, 0);
    (void)sem_destroy(&gate);
    (void)sem_destroy(&entered);
}

/* All threads that the pool may have work at once, however they come into being. */
static void test_threads_come_with_the_work(void **state)
{
    enum { N = 8 };
    struct io_pool *p = io_pool_new_rare("threads", N, 100);

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    assert_int_equal(sem_init(&entered, 0, 0), 0);
    atomic_store(&n_done, 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(io_pool_submit(p, wait_at_gate, NULL), 0);
    }
    for (int i = 0; i < N; i++) {
        (void)sem_wait(&entered); /* nobody has left: they are N threads */
    }
    assert_int_equal(io_pool_busy(p), N);
    assert_int_equal(io_pool_submit(p, count, NULL), 0); /* and no more */
    assert_int_equal(io_pool_queued(p), 1);
    for (int i = 0; i < N; i++) {
        (void)sem_post(&gate);
    }
    io_pool_free(p);
    assert_int_equal(atomic_load(&n_done), N + 1);
    (void)sem_destroy(&gate);
    (void)sem_destroy(&entered);
}

struct closing {
    struct io_pool *p;
    int r;
};

static void submit_while_closing(void *arg)
{
    struct closing *c = arg;

    (void)sem_post(&entered);
    do { /* the pool is being freed by the other thread by now, or will be in a moment */
        c->r = io_pool_submit(c->p, count, NULL);
        (void)usleep(100);
    } while (c->r != -ESHUTDOWN);
}

static void test_submit_while_closing(void **state)
{
    struct closing c = {.p = io_pool_new("closing", 1, 1u << 20)};

    (void)state;
    assert_int_equal(sem_init(&entered, 0, 0), 0);
    assert_int_equal(io_pool_submit(c.p, submit_while_closing, &c), 0);
    (void)sem_wait(&entered);
    io_pool_free(c.p);
    assert_int_equal(c.r, -ESHUTDOWN);
    (void)sem_destroy(&entered);
}

struct trip {
    struct io_loop *loop;
    unsigned n, *n_back;
};

static void back(void *arg)
{
    struct trip *t = arg;

    assert_int_equal(t->n, 7);
    ++*t->n_back;
    free(t);
}

static void out(void *arg)
{
    struct trip *t = arg;

    t->n = 7;
    io_post(t->loop, back, t);
}

static void test_results_come_back_by_post(void **state)
{
    struct io_loop *l = io_loop_new();
    struct io_pool *p = io_pool_new("trip", 3, 1000);
    unsigned n_back = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct trip *t = NEW(struct trip);
        t->loop = l;
        t->n_back = &n_back;
        assert_int_equal(io_pool_submit(p, out, t), 0);
    }
    TURN_UNTIL(l, n_back == 1000);
    io_pool_free(p);
    io_loop_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_queue_is_an_answer),
        cmocka_unit_test(test_queue_grows_in_order),
        cmocka_unit_test(test_threads_come_with_the_work),
        cmocka_unit_test(test_submit_while_closing),
        cmocka_unit_test(test_results_come_back_by_post),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
