#include "server/lifecycle/expiry.h"

#include "../test.h"
#include "base/rand.h"

static struct sandbox *make(const char *id)
{
    struct store_sandbox row = {.id = id,
                                .owner = "o",
                                .runtime = "fake",
                                .state = "Running",
                                .reason = "",
                                .message = "",
                                .entrypoint = "[]",
                                .spec = "{}"};
    struct err e = {0};
    struct sandbox *sb = sandbox_from_row(&row, &e);
    assert_non_null(sb);
    return sb;
}

static void fires_in_order(void **state)
{
    struct expiry x;
    expiry_init(&x);
    enum { N = 500 };
    struct sandbox *v[N];
    char id[32];
    for (int i = 0; i < N; i++) {
        (void)snprintf(id, sizeof(id), "s%d", i);
        v[i] = make(id);
        (void)expiry_set(&x, v[i], 1 + rand_below(1000));
    }
    for (int i = 0; i < N; i += 3) { /* move a third, remove another */
        (void)expiry_set(&x, v[i], 1 + rand_below(1000));
        if (i + 1 < N) {
            expiry_remove(&x, v[i + 1]);
            expiry_remove(&x, v[i + 1]); /* harmless */
        }
    }
    uint64_t last = 0;
    size_t left = expiry_len(&x), popped = 0;
    for (uint64_t now = 0; now <= 1001; now++) {
        for (struct sandbox *sb; (sb = expiry_pop(&x, now));) {
            assert_true(sb->due_ms >= last && sb->due_ms <= now);
            last = sb->due_ms;
            popped++;
            sandbox_unref(sb);
        }
        if (expiry_len(&x)) {
            assert_true(expiry_next(&x) > now);
        }
    }
    assert_int_equal(popped, left);
    assert_int_equal(expiry_next(&x), EXPIRY_NEVER);
    for (int i = 0; i < N; i++) {
        assert_int_equal(v[i]->refs, 1);
        sandbox_unref(v[i]);
    }
    expiry_done(&x);
}

static void tells_when_the_first_changes(void **state)
{
    struct expiry x;
    expiry_init(&x);
    struct sandbox *a = make("a"), *b = make("b");
    assert_true(expiry_set(&x, a, 100));
    assert_false(expiry_set(&x, b, 200));
    assert_true(expiry_set(&x, b, 50));
    assert_int_equal(expiry_next(&x), 50);
    assert_null(expiry_pop(&x, 49));
    assert_true(expiry_is_due(&x, b, 50));
    assert_false(expiry_is_due(&x, b, 49));
    expiry_done(&x); /* gives its references back */
    assert_int_equal(a->refs, 1);
    sandbox_unref(a);
    sandbox_unref(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fires_in_order),
        cmocka_unit_test(tells_when_the_first_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
