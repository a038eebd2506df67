#include "model/command.h"

#include <stdio.h>

#include "../test.h"

static int decode_envs(size_t n, struct json_issues *issues)
{
    struct json *j = json_object_new(), *envs = json_object_new();
    json_set(j, "command", json_string_new(STR("true")));
    for (size_t i = 0; i < n; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "K%zu", i);
        json_set(envs, key, json_string_new(STR("v")));
    }
    json_set(j, "envs", envs);
    struct arena a = {0};
    struct command_request r;
    int done = json_decode(&a, &command_request_table, j, &r, issues, NULL);
    arena_done(&a);
    json_free(j);
    return done;
}

static void envs_are_limited(void **state)
{
    struct json_issues issues;
    assert_int_equal(decode_envs(COMMAND_MAX_ENVS, &issues), 0);
    assert_int_equal(decode_envs(COMMAND_MAX_ENVS + 1, &issues), -1);
    assert_int_equal(issues.v[0].kind, JSON_BAD_LENGTH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(envs_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
