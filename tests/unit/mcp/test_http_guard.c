#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/must.h"
#include "mcp/http_guard.h"

static const char *const some[] = {"https://app.example", NULL}, *const names[] = {"mcp.example",
                                                                                   NULL};
static const struct http_opts plain = {.host = "127.0.0.1"};
static const struct http_opts open_to = {.host = "192.0.2.1", .origins = some, .hosts = names};
static const struct http_opts with_token = {.host = "0.0.0.0", .token = "sesame"};

static void loopback(void **state)
{
    static const char *const yes[] = {"localhost",   "LOCALHOST:80", "127.0.0.1",
                                      "127.9.9.9:1", "[::1]",        "[::1]:80"};
    static const char *const no[] = {"",      "localhost.x", "127.0.0.1.x", "127.x", "10.0.0.1",
                                     "[::2]", "xlocalhost",  "127.0.0",     "[::1"};
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        assert_true(guard_is_loopback(str_from(yes[i])));
    }
    for (size_t i = 0; i < ARRAY_LEN(no); i++) {
        assert_false(guard_is_loopback(str_from(no[i])));
    }
}

static void hosts(void **state)
{
    assert_true(guard_host(&plain, STR("localhost:8000")));
    assert_false(guard_host(&plain, STR("evil.example")));
    assert_false(guard_host(&plain, STR("")));
    assert_true(guard_host(&open_to, STR("mcp.example:8000")));
    assert_true(guard_host(&open_to, STR("192.0.2.1:8000")));
    assert_false(guard_host(&open_to, STR("other.example")));
    assert_true(guard_host(&with_token, STR("anything")));
}

static void origins(void **state)
{
    assert_true(guard_origin(&plain, STR_NULL));
    assert_true(guard_origin(&plain, STR("http://localhost:1")));
    assert_false(guard_origin(&plain, STR("null")));
    assert_false(guard_origin(&plain, STR("")));
    assert_false(guard_origin(&plain, STR("ftp://localhost")));
    assert_false(guard_origin(&plain, STR("https://app.example")));
    assert_true(guard_origin(&open_to, STR("https://app.example")));
    assert_false(guard_origin(&open_to, STR("http://app.example")));
}

static void tokens(void **state)
{
    assert_true(guard_token(&plain, STR_NULL));
    assert_false(guard_token(&with_token, STR_NULL));
    assert_false(guard_token(&with_token, STR("Bearer ")));
    assert_false(guard_token(&with_token, STR("Bearer sesam")));
    assert_false(guard_token(&with_token, STR("sesame")));
    assert_true(guard_token(&with_token, STR("bearer sesame")));
}

static void media(void **state)
{
    struct str json = STR("application/json");
    assert_true(guard_accepts(STR_NULL, json));
    assert_true(guard_accepts(STR("text/html, application/json;q=0.5"), json));
    assert_true(guard_accepts(STR("*/*"), json));
    assert_true(guard_accepts(STR("Application/*"), json));
    assert_false(guard_accepts(STR("text/*"), json));
    assert_false(guard_accepts(STR(""), json));
    assert_false(guard_accepts(STR("application/jsonx"), json));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(loopback), cmocka_unit_test(hosts),
                                       cmocka_unit_test(origins), cmocka_unit_test(tokens),
                                       cmocka_unit_test(media)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
