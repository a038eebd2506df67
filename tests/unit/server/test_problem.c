#include "server/lifecycle/problem.h"

#include "../test.h"

static void issues_have_the_known_shape(void **state)
{
    struct err e = {0};
    struct json *root = json_parse(STR("{\"a\":{\"b\":[1,{\"c\":2}]}}"), &e);
    struct arena a = {0};
    struct json_issues is = {0};
    struct problem p = {0};
    json_issue_add(&a, &is, JSON_BAD_TYPE, "a.b[1].c", "expected string, got integer");
    json_issue_add(&a, &is, JSON_MISSING, "d", "required");
    assert_int_equal(problem_issues(&p, "body", &is, root), -1);
    assert_int_equal(p.status, 422);
    assert_string_equal(p.message, "body.a.b[1].c: expected string, got integer");
    assert_string_equal(
        p.detail, "[{\"type\":\"string_type\",\"loc\":[\"body\",\"a\",\"b\",1,\"c\"],"
                  "\"msg\":\"expected string, got integer\",\"input\":2},"
                  "{\"type\":\"missing\",\"loc\":[\"body\",\"d\"],\"msg\":\"Field required\"}]");
    problem_done(&p);
    json_free(root);
    arena_done(&a);
}

static void status_follows_the_error(void **state)
{
    struct problem p = {0};
    struct err e = {0};
    (void)err_set(&e, ERR_INVALID, "x");
    (void)problem_err(&p, 0, "C", &e);
    assert_int_equal(p.status, 400);
    (void)err_set(&e, ERR_IO, "x");
    (void)problem_err(&p, 0, "C", &e);
    assert_int_equal(p.status, 500);
    (void)problem_err(&p, 504, "C", &e);
    assert_int_equal(p.status, 504);
    (void)err_set(&e, ERR_UNAVAILABLE, "disk full");
    (void)problem_err(&p, 500, "C", &e);
    assert_int_equal(p.status, 503);
    assert_true(p.retry_after_s > 0);
    assert_string_equal(p.message, "disk full");
    problem_done(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(issues_have_the_known_shape),
        cmocka_unit_test(status_follows_the_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
