#include "server/proxy/redis.h"

#include <errno.h>

#include "../test.h"

#define NOW INT64_C(1767319445000000) /* 2026-01-02T02:04:05Z */

static int parse(const char *text, char id[SANDBOX_ID_MAX])
{
    return renew_intent_parse(str_from(text), NOW, id);
}

static void intents(void **state)
{
    char id[SANDBOX_ID_MAX];
    assert_int_equal(
        parse("{\"sandbox_id\":\" abc \",\"observed_at\":\"2026-01-02T02:04:00Z\"}", id), 0);
    assert_string_equal(id, "abc");
    assert_int_equal(parse("{\"sandbox_id\":\"a\",\"observed_at\":"
                           "\"2026-01-02T03:04:00.123456789+01:00\",\"port\":80}",
                           id),
                     0);
    assert_int_equal(parse("{\"sandbox_id\":\"a\",\"observed_at\":\"2026-01-02T02:04:05\"}", id),
                     0);
    assert_int_equal(parse("{\"sandbox_id\":\"a\",\"observed_at\":\"2026-01-02T01:59:04Z\"}", id),
                     -ETIME);
    static const char *const bad[] = {
        "",
        "[]",
        "{",
        "{\"sandbox_id\":\"a\"}",
        "{\"sandbox_id\":\"  \",\"observed_at\":\"2026-01-02T02:04:00Z\"}",
        "{\"sandbox_id\":1,\"observed_at\":\"2026-01-02T02:04:00Z\"}",
        "{\"sandbox_id\":\"a\",\"observed_at\":\"now\"}",
        "{\"sandbox_id\":"
        "\"a123456789012345678901234567890123456789012345678901234567890123456789\","
        "\"observed_at\":\"2026-01-02T02:04:00Z\"}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_int_equal(parse(bad[i], id), -EINVAL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(intents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
