/* Names that need no network. */

#include "util.h"

#include <semaphore.h>

#include "io/resolve.h"

struct result {
    int n, error, n_calls;
    bool loopback;
    uint16_t port;
};

static void on_result(const struct io_addr *addrs, int n, int error, void *arg)
{
    struct result *r = arg;

    r->n = n;
    r->error = error;
    r->n_calls++;
    for (int i = 0; i < n; i++) {
        r->loopback = io_addr_is_loopback(&addrs[i]);
        r->port = io_addr_port(&addrs[i]);
    }
}

static void test_resolve(void **state)
{
    struct io_loop *l = io_loop_new();
    struct io_pool *p = io_pool_new("resolve", 1, 4);
    struct result r = {0}, bad = {0};

    (void)state;
    assert_int_equal(io_resolve(l, p, "127.0.0.1", 8080, on_result, &r), 0);
    TURN_UNTIL(l, r.n_calls == 1);
    assert_int_equal(r.error, 0);
    assert_int_equal(r.n, 1);
    assert_true(r.loopback);
    assert_int_equal(r.port, 8080);
    assert_int_equal(io_resolve(l, p, "localhost", 81, on_result, &r), 0);
    TURN_UNTIL(l, r.n_calls == 2);
    assert_int_equal(r.error, 0);
    assert_true(r.n >= 1 && r.n <= IO_RESOLVE_MAX);
    assert_true(r.loopback);
    assert_int_equal(io_resolve(l, p, "not a name", 81, on_result, &bad), 0);
    TURN_UNTIL(l, bad.n_calls == 1);
    assert_true(bad.error < 0);
    assert_int_equal(bad.n, 0);
    io_pool_free(p);
    io_loop_free(l);
}

static sem_t gate, entered;

static void wait_at_gate(void *arg)
{
    (void)sem_post(&entered);
    (void)sem_wait(&gate);
}

static void test_full_pool(void **state)
{
    struct io_loop *l = io_loop_new();
    struct io_pool *p = io_pool_new("resolve", 1, 1);
    struct result r = {0};

    (void)state;
    assert_int_equal(sem_init(&gate, 0, 0), 0);
    assert_int_equal(sem_init(&entered, 0, 0), 0);
    assert_int_equal(io_pool_submit(p, wait_at_gate, NULL), 0);
    (void)sem_wait(&entered);
    assert_int_equal(io_resolve(l, p, "127.0.0.1", 1, on_result, &r), 0);
    assert_int_equal(io_resolve(l, p, "127.0.0.1", 1, on_result, &r), -EAGAIN);
    (void)sem_post(&gate);
    TURN_UNTIL(l, r.n_calls == 1);
    io_pool_free(p);
    io_loop_free(l);
    assert_int_equal(r.n_calls, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_resolve),
                                       cmocka_unit_test(test_full_pool)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
