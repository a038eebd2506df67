/* Id ranges: disjoint, none twice, used again as late as possible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "base/must.h"
#include "server/runtime/oci/idrange.h"

static void test_bounds(void **state)
{
    struct idrange r;
    struct err e = {0};
    (void)state;
    assert_int_equal(idrange_init(&r, 1879048192, 65536, 65536, &e), -1);
    assert_int_equal(e.code, ERR_INVALID);
    assert_int_equal(idrange_init(&r, 0, 65536, 1, &e), -1);
    assert_int_equal(idrange_init(&r, 4294901759, 65536, 1, NULL), 0);
    idrange_done(&r);
}

static void test_disjoint(void **state)
{
    struct idrange r;
    (void)state;
    assert_int_equal(idrange_init(&r, 100000, 65536, 70, NULL), 0);
    for (int i = 0; i < 70; i++) {
        int k = idrange_take(&r);
        assert_int_equal(k, i);
        assert_int_equal(idrange_first(&r, (uint32_t)k), 100000 + k * 65536);
    }
    assert_int_equal(idrange_take(&r), -1);
    idrange_release(&r, 13);
    idrange_release(&r, 13); /* twice is once */
    assert_int_equal(idrange_take(&r), 13);
    assert_int_equal(idrange_take(&r), -1);
    idrange_done(&r);
}

static void test_rest_before_reuse(void **state)
{
    struct idrange r;
    (void)state;
    assert_int_equal(idrange_init(&r, 1000, 10, 5, NULL), 0);
    int a = idrange_take(&r);
    idrange_release(&r, (uint32_t)a);
    assert_int_not_equal(idrange_take(&r), a);
    idrange_done(&r);
}

static void test_reserve(void **state)
{
    struct idrange r;
    (void)state;
    assert_int_equal(idrange_init(&r, 1000, 10, 3, NULL), 0);
    assert_true(idrange_reserve(&r, 0));
    assert_false(idrange_reserve(&r, 0));
    assert_false(idrange_reserve(&r, 3));
    assert_int_equal(idrange_take(&r), 1);
    assert_int_equal(idrange_take(&r), 2);
    assert_int_equal(idrange_take(&r), -1);
    idrange_done(&r);
}

static void *taker(void *arg)
{
    struct idrange *r = arg;
    intptr_t sum = 0;
    for (int i = 0; i < 100; i++) {
        sum += idrange_take(r) + 1;
    }
    return (void *)sum;
}

static void test_threads(void **state)
{
    struct idrange r;
    pthread_t t[4];
    intptr_t sum = 0;
    (void)state;
    assert_int_equal(idrange_init(&r, 1000, 10, 400, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        assert_int_equal(pthread_create(&t[i], NULL, taker, &r), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        void *part;
        assert_int_equal(pthread_join(t[i], &part), 0);
        sum += (intptr_t)part;
    }
    assert_int_equal(sum, 400 * 401 / 2); /* each exactly once */
    idrange_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),  cmocka_unit_test(test_disjoint),
        cmocka_unit_test(test_reserve), cmocka_unit_test(test_rest_before_reuse),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
