#include "base/must.h"

#include <fcntl.h>
#include <stdlib.h>

#include "../test.h"
#include "base/cleanup.h"
#include "base/log.h"

static void failing_must(void)
{
    must(1 + 1 == 3);
}
static void array_too_large(void)
{
    free(xreallocarray(NULL, SIZE_MAX / 2, 3));
}

static void must_aborts(void **state)
{
    must(1 + 1 == 2);
    assert_aborts(failing_must);
    assert_aborts(array_too_large);
}

static void bugs_are_counted(void **state)
{
    log_init(LOG_ERROR, LOG_HUMAN, -1);
    unsigned long before = bug_count();
    assert_false(bug_if(1 == 2));
    assert_int_equal(bug_count(), before);
    assert_true(bug_if(1 == 1));
    assert_int_equal(bug_count(), before + 1);
}

static void allocators(void **state)
{
    free(xmalloc(0));
    char *p = xcalloc(3, 5);
    for (int i = 0; i < 15; i++) {
        assert_int_equal(p[i], 0);
    }
    p = xrealloc(p, 100);
    p = xreallocarray(p, 10, 20);
    free(p);
    p = xstrdup("abc");
    assert_string_equal(p, "abc");
    free(p);
    p = xstrndup("abcdef", 3);
    assert_string_equal(p, "abc");
    free(p);
    p = xstrndup("ab", 30);
    assert_string_equal(p, "ab");
    free(p);
    p = xasprintf("%d-%s", 7, "x");
    assert_string_equal(p, "7-x");
    free(p);
}

static void cleanup_and_take(void **state)
{
    int kept = -1, closed;
    {
        cleanup_close int a = open("/dev/null", O_RDONLY | O_CLOEXEC);
        cleanup_close int b = open("/dev/null", O_RDONLY | O_CLOEXEC);
        cleanup_close int none = -1;
        cleanup_free char *text = xstrdup("freed at the end");
        assert_true(a >= 0 && b >= 0 && none < 0 && text);
        closed = a;
        kept = take_fd(&b);
        assert_int_equal(b, -1);
        cleanup_free char *moved = take_ptr(&text);
        assert_null(text);
        assert_string_equal(moved, "freed at the end");
    }
    assert_int_equal(fcntl(closed, F_GETFD), -1);
    assert_true(fcntl(kept, F_GETFD) >= 0);
    close(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(must_aborts),
        cmocka_unit_test(bugs_are_counted),
        cmocka_unit_test(allocators),
        cmocka_unit_test(cleanup_and_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
