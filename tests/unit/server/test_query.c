#include "../test.h"
#include "server/api/api.h"

static void metadata_filters(void **state)
{
    struct arena a = {0};
    struct problem p = {0};
    struct str_map m;
    assert_int_equal(query_metadata(&a, STR("a=1&b=x%20y&c=p+q&a=2&d="), &m, &p), 0);
    assert_int_equal(m.n, 4);
    assert_string_equal(str_map_get(&m, "a"), "2");
    assert_string_equal(str_map_get(&m, "b"), "x y");
    assert_string_equal(str_map_get(&m, "c"), "p q");
    assert_string_equal(str_map_get(&m, "d"), "");
    static const char *const bad[] = {"a", "a=1&", "&a=1", "a=1&&b=2", "=1", "a=%zz", "a=%00"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(query_metadata(&a, str_from(bad[i]), &m, &p), -1);
        assert_int_equal(p.status, 400);
        assert_string_equal(p.code, "INVALID_METADATA_FORMAT");
    }
    arena_done(&a);
}

static void errors_have_code_and_message(void **state)
{
    struct problem p = {0};
    struct buf b = BUF_INIT(4096);
    (void)problem_set(&p, 404, "X::Y", "no \"%s\"", "z");
    problem_write(&b, &p);
    assert_string_equal(buf_cstr(&b), "{\"code\":\"X::Y\",\"message\":\"no \\\"z\\\"\"}");
    buf_clear(&b);
    (void)problem_set(&p, 500, "", "%s", "");
    problem_write(&b, &p);
    assert_string_equal(buf_cstr(&b),
                        "{\"code\":\"GENERAL::UNKNOWN_ERROR\",\"message\":\"the request failed\"}");
    buf_clear(&b);
    (void)problem_invalid(&p, "missing", "[\"body\"]", "Field required");
    problem_write(&b, &p);
    assert_string_equal(buf_cstr(&b),
                        "{\"detail\":[{\"type\":\"missing\",\"loc\":[\"body\"],\"msg\":\"Field "
                        "required\"}],\"code\":\"SANDBOX::INVALID_PARAMETER\",\"message\":\"Field "
                        "required\"}");
    problem_done(&p);
    buf_done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(metadata_filters),
        cmocka_unit_test(errors_have_code_and_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
