#include "server/lifecycle/pool.h"

#include "../test.h"

#define OLD "1111"
#define NEW_ONE "2222"

static struct sandbox *member(const char *id, const char *revision)
{
    struct store_sandbox row = {.id = id,
                                .owner = MEMBER_OWNER "p@o",
                                .runtime = "fake",
                                .state = "Running",
                                .reason = "R",
                                .message = "",
                                .entrypoint = "[\"x\"]",
                                .spec = "{}",
                                .created_us = 1,
                                .idem_hash = revision};
    struct err e = {0};
    struct sandbox *sb = sandbox_from_row(&row, &e);
    assert_non_null(sb);
    return sb;
}

static void assert_shifts(struct pool *p, const char *revision, const char *id)
{
    struct sandbox *sb = pool_shift(p, revision);
    assert_non_null(sb);
    assert_string_equal(sb->id, id);
    sandbox_unref(sb);
}

/* A create was completed from one template while another took its place. */
static void a_member_of_another_template_is_not_taken(void **state)
{
    struct pool *p = NEW(struct pool);
    p->refs = 1;
    pool_push(p, member("a", OLD));
    pool_push(p, member("b", NEW_ONE));
    pool_push(p, member("c", OLD));
    assert_null(pool_shift(p, "3333"));
    assert_shifts(p, NEW_ONE, "b");
    assert_null(pool_shift(p, NEW_ONE));
    assert_shifts(p, OLD, "a"); /* the longest waiting first */
    assert_int_equal(p->n_ready, 1);
    pool_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_member_of_another_template_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
