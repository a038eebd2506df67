#include "model/sandbox.h"

#include "../test.h"

static struct arena arena;

static int decode(const struct json_table *t, const char *text, void *out, struct json_issues *is)
{
    struct err e = {0};
    struct json *j = json_parse(str_from(text), &e);
    assert_non_null(j);
    int r = json_decode(&arena, t, j, out, is, &e);
    json_free(j);
    return r;
}

static int teardown(void **state)
{
    arena_done(&arena);
    return 0;
}

static void both_spellings(void **state)
{
    struct create_request q;
    struct json_issues is = {0};
    assert_int_equal(decode(&create_request_table,
                            "{\"image\":{\"uri\":\"host\"},\"resource_limits\":{\"cpu\":\"1\"},"
                            "\"secure_access\":\"yes\",\"timeout\":\"60\",\"entrypoint\":[\"a\"]}",
                            &q, &is),
                     0);
    assert_string_equal(q.image->uri, "host");
    assert_true(q.resource_limits.has);
    assert_true(q.secure_access.has && q.secure_access.v);
    assert_int_equal(q.timeout.v, 60);
    assert_int_equal(decode(&create_request_table,
                            "{\"resourceLimits\":{},\"secureAccess\":0,\"timeout\":61.0}", &q, &is),
                     0);
    assert_true(q.secure_access.has && !q.secure_access.v);
    assert_int_equal(q.timeout.v, 61);
}

static void all_issues_with_their_path(void **state)
{
    struct create_request q;
    struct json_issues is = {0};
    assert_int_equal(decode(&create_request_table,
                            "{\"image\":{},\"timeout\":59,\"metadata\":{\"a\":1},\"entrypoint\":[],"
                            "\"volumes\":[{\"name\":\"ok\",\"mountPath\":\"/m\"},"
                            "{\"name\":\"Bad\",\"mountPath\":\"m\"}]}",
                            &q, &is),
                     -1);
    static const char *const paths[] = {"image.uri",  "timeout",         "metadata.a",
                                        "entrypoint", "volumes[1].name", "volumes[1].mountPath"};
    assert_int_equal(is.n, sizeof(paths) / sizeof(*paths));
    for (size_t i = 0; i < is.n; i++) {
        assert_string_equal(is.v[i].path, paths[i]);
    }
}

static void times(void **state)
{
    struct renew_request q;
    struct json_issues is = {0};
    assert_int_equal(
        decode(&renew_request_table, "{\"expiresAt\":\"2026-01-02T03:04:05+01:00\"}", &q, &is), 0);
    int64_t us = q.expires_at.v;
    assert_int_equal(
        decode(&renew_request_table, "{\"expires_at\":\"2026-01-02T02:04:05\"}", &q, &is), 0);
    assert_int_equal(q.expires_at.v, us);
    assert_int_equal(decode(&renew_request_table, "{\"expiresAt\":1767319445}", &q, &is), 0);
    assert_int_equal(q.expires_at.v, us);
    assert_int_equal(decode(&renew_request_table, "{\"expiresAt\":\"2026-01-02\"}", &q, &is), 0);
    assert_int_equal(decode(&renew_request_table, "{\"expiresAt\":\"soon\"}", &q, &is), -1);
    assert_int_equal(decode(&renew_request_table, "{}", &q, &is), -1);
}

static void output_leaves_out_what_is_not_there(void **state)
{
    struct sandbox_status st = {.state = "Running", .last_transition_at = {true, 1500000}};
    struct sandbox_view v = {.id = "x", .status = &st, .created_at = {true, 1000000}};
    const char *argv[] = {"a"};
    v.entrypoint = (struct str_list){argv, 1};
    struct buf b = BUF_INIT(4096);
    struct json_out o;
    json_out_init(&o, &b);
    json_encode(&o, &sandbox_view_table, &v);
    assert_string_equal(buf_cstr(&b),
                        "{\"id\":\"x\",\"status\":{\"state\":\"Running\",\"lastTransitionAt\":"
                        "\"1970-01-01T00:00:01.500000Z\"},\"entrypoint\":[\"a\"],"
                        "\"createdAt\":\"1970-01-01T00:00:01Z\"}");
    buf_done(&b);
}

static void metadata_rules(void **state)
{
    struct err e = {0};
    static const char *const good[] = {"a", "A-b_c.d", "example.com/name", "9"};
    static const char *const bad[] = {"",         "-a",     "a-", "a b",
                                      "Ex.com/a", "/a",     "a/", "a/b/c",
                                      "a..b/c",   "a.-b/c", "ä",  "opensandbox.io/id"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_int_equal(metadata_key_check(good[i], &e), 0);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(metadata_key_check(bad[i], &e), -1);
    }
    char name[80];
    memset(name, 'a', sizeof(name));
    name[63] = '\0';
    assert_int_equal(metadata_key_check(name, &e), 0);
    assert_int_equal(metadata_value_check("k", name, &e), 0);
    name[63] = 'a';
    name[64] = '\0';
    assert_int_equal(metadata_key_check(name, &e), -1);
    assert_int_equal(metadata_value_check("k", name, &e), -1);
    assert_int_equal(metadata_value_check("k", "", &e), 0);
    assert_int_equal(metadata_value_check("k", "a b", &e), -1);
    assert_true(metadata_key_reserved("opensandbox.io/x"));
    assert_false(metadata_key_reserved("opensandbox.io.x"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_spellings), cmocka_unit_test(all_issues_with_their_path),
        cmocka_unit_test(times),          cmocka_unit_test(output_leaves_out_what_is_not_there),
        cmocka_unit_test(metadata_rules),
    };
    return cmocka_run_group_tests(tests, NULL, teardown);
}
