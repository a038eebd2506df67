#include "base/arena.h"

#include <stdalign.h>

#include "../test.h"

static void hands_out_zeroed_aligned_memory(void **state)
{
    struct arena a = {0};
    uint64_t seed = 1;
    for (int i = 0; i < 2000; i++) {
        size_t n = test_rand(&seed) % 300;
        char *p = arena_alloc(&a, n);
        assert_int_equal((uintptr_t)p % alignof(max_align_t), 0);
        for (size_t k = 0; k < n; k++) {
            assert_int_equal(p[k], 0);
        }
        memset(p, 0xaa, n); /* an overlap would show in the next piece */
    }
    arena_done(&a);
    assert_int_equal(a.used, 0);
}

static void keeps_small_and_large_pieces_apart(void **state)
{
    struct arena a = {0};
    char *small = arena_strdup(&a, "small");
    char *large = arena_alloc(&a, 1u << 20);
    memset(large, 'x', 1u << 20);
    char *next = arena_strdup(&a, "next");
    assert_string_equal(small, "small");
    assert_string_equal(next, "next");
    assert_true(next > small && next - small < 64); /* the first chunk is still being filled */
    arena_done(&a);
}

static void copies_and_formats(void **state)
{
    struct arena a = {0};
    assert_string_equal(arena_str(&a, str_n("hello world", 5)), "hello");
    assert_string_equal(arena_str(&a, STR_NULL), "");
    assert_string_equal(arena_printf(&a, "%s-%d", "a", 42), "a-42");
    int *v = arena_array(&a, 10, sizeof(*v));
    assert_int_equal(v[9], 0);
    arena_done(&a);
    assert_string_equal(arena_strdup(&a, "again"), "again"); /* usable after done */
    arena_done(&a);
}

static void tells_its_room(void **state)
{
    struct arena a = {.max = 1000};
    assert_int_equal(arena_room(&a), 1000);
    arena_alloc(&a, 100);
    assert_true(arena_room(&a) <= 900 && arena_room(&a) > 850);
    arena_done(&a);
    struct arena unlimited = {0};
    assert_int_equal(arena_room(&unlimited), ARENA_DEFAULT_MAX);
}

static void over_the_maximum(void)
{
    struct arena a = {.max = 1000};
    arena_alloc(&a, 600);
    arena_alloc(&a, 600);
}
static void array_overflow(void)
{
    struct arena a = {0};
    arena_array(&a, SIZE_MAX / 2, 4);
}
static void huge(void)
{
    struct arena a = {0};
    arena_alloc(&a, SIZE_MAX);
}

static void aborts_over_the_maximum(void **state)
{
    assert_aborts(over_the_maximum);
    assert_aborts(array_overflow);
    assert_aborts(huge);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hands_out_zeroed_aligned_memory),
        cmocka_unit_test(keeps_small_and_large_pieces_apart),
        cmocka_unit_test(copies_and_formats),
        cmocka_unit_test(tells_its_room),
        cmocka_unit_test(aborts_over_the_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
