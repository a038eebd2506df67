/* What fits into memory, and how much there is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/must.h"
#include "egress/intercept/budget.h"
#include "egress/intercept/limits.h"
#include "egress/memory.h"

static void test_prices(void **state)
{
    struct budget b, least;
    size_t one = 0, two = 0;
    (void)state;
    budget_init(&b, 64u << 20);
    assert_true(b.bytes == 20u << 20 && b.n_turns == 64);
    /* All of it together is what there is. */
    assert_true(b.bytes + b.n_turns * (size_t)INTERCEPT_TURN_BYTES + INTERCEPT_MEMORY_OWN <=
                64u << 20);
    assert_true(budget_pay(&b, &one, b.bytes));
    assert_false(budget_pay(&b, &two, 1));
    assert_true(two == 0 && b.used == b.bytes);
    assert_true(budget_pay(&b, &one, INTERCEPT_OPEN_BYTES));
    assert_true(budget_pay(&b, &two, INTERCEPT_TUNNEL_BYTES));
    assert_true(budget_pay(&b, &one, 0) && budget_pay(&b, &two, 0) && b.used == 0);
    /* No limit is not no bound, and very little is still a few. */
    budget_init(&b, UINT64_MAX);
    budget_init(&least, INTERCEPT_MEMORY_MAX);
    assert_true(b.bytes == least.bytes && b.n_turns == least.n_turns);
    budget_init(&b, 1);
    assert_true(b.bytes == INTERCEPT_MIN_CONNECTIONS * (size_t)INTERCEPT_OPEN_BYTES &&
                b.n_turns == INTERCEPT_MIN_CONNECTIONS);
}

static void put(const char *root, const char *path, const char *text)
{
    char name[512];
    (void)snprintf(name, sizeof(name), "%s/%s", root, path);
    char *slash = strrchr(name, '/');
    *slash = 0;
    assert_int_equal(dir_make(AT_FDCWD, name, 0755), 0);
    *slash = '/';
    assert_int_equal(file_write_atomic(AT_FDCWD, name, str_from(text), 0644), 0);
}

static void test_control_groups(void **state)
{
    char root[] = "/tmp/osb-memory-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(root));
    put(root, "a/b/memory.max", "max\n");
    put(root, "a/memory.max", "1000\n");
    put(root, "memory/x/y/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "memory/x/memory.limit_in_bytes", "500\n");
    put(root, "memory/memory.limit_in_bytes", "700\n");
    assert_true(memory_limit_at("0::/a/b\n", root) == 1000);
    assert_true(memory_limit_at("5:cpu:/x\n3:memory:/x/y\n0::/a/b\n", root) == 500);
    assert_true(memory_limit_at("3:cpu,memory:/gone/elsewhere\n0::/\n", root) == 700);
    assert_true(memory_limit_at("0::/none\n", root) == UINT64_MAX);
    assert_true(memory_limit_at("nonsense\n\n::", root) == UINT64_MAX);
    assert_true(memory_limit() > 0);
    assert_int_equal(dir_remove(AT_FDCWD, root, true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_prices),
                                       cmocka_unit_test(test_control_groups)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
