/* The replay buffer against a plain copy of everything. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/must.h"
#include "execd/ring.h"

#define KEEP 10000u

static char all[200000];

static void check(const struct ring *r, uint64_t since)
{
    struct str pieces[2];
    uint64_t oldest = r->total > KEEP ? r->total - KEEP : 0;
    uint64_t from = ring_since(r, since, pieces);
    assert_int_equal(from, MIN(MAX(since, oldest), r->total));
    assert_int_equal(pieces[0].n + pieces[1].n, r->total - from);
    assert_memory_equal(pieces[0].p ? pieces[0].p : "", all + from, pieces[0].n);
    assert_memory_equal(pieces[1].p ? pieces[1].p : "", all + from + pieces[0].n, pieces[1].n);
}

static void test_against_a_copy(void **state)
{
    static const size_t steps[] = {1, 7, 100, 4095, 4096, 4097, 9999, 10000, 10001, 3};
    for (size_t i = 0; i < sizeof(all); i++) {
        all[i] = (char)(i * 31 + i / 251);
    }
    struct ring r;
    ring_init(&r, KEEP);
    check(&r, 0);
    for (size_t i = 0; r.total + 20000 < sizeof(all); i++) {
        size_t n = steps[i % ARRAY_LEN(steps)];
        ring_add(&r, str_n(all + r.total, n));
        check(&r, 0);
        check(&r, r.total);
        check(&r, r.total + 5);
        check(&r, r.total / 2);
        check(&r, r.total > 50 ? r.total - 50 : 0);
        assert_true(r.cap <= KEEP);
    }
    ring_done(&r);
}

static void test_one_huge_piece(void **state)
{
    struct ring r;
    ring_init(&r, KEEP);
    ring_add(&r, str_n(all, 150000));
    check(&r, 0);
    ring_add(&r, str_n(all + 150000, 0));
    check(&r, 149999);
    ring_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_a_copy),
        cmocka_unit_test(test_one_huge_piece),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
