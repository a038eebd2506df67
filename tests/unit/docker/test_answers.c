/* What the engine answers: lists, inspections, labels and the stream of events, also in pieces and
 * as nonsense. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

static struct json *parse(const char *text)
{
    struct err e = {0};
    struct json *j = json_parse(str_from(text), &e);
    assert_non_null(j);
    return j;
}

static void test_list(void **state)
{
    (void)state;
    struct container c;
    struct runtime_status st;
    struct json *j = parse(
        "{\"Id\":\"abc\",\"State\":\"exited\",\"Status\":\"Exited (7) 2 minutes ago\",\"Labels\":{"
        "\"opensandbox.io/id\":\"s-1\",\"opensandbox.io/http-port\":\"40001\","
        "\"opensandbox.io/embedding-proxy-port\":\"99999\",\"opensandbox.io/snapshot-id\":\"x\"},"
        "\"HostConfig\":{\"NetworkMode\":\"host\"},\"Mounts\":[{\"Type\":\"bind\"},{\"Type\":"
        "\"volume\"}],"
        "\"NetworkSettings\":{\"Networks\":{\"a\":{\"IPAddress\":\"\"},\"b\":{\"IPAddress\":\"10.1."
        "2.3\"}}}}");
    assert_true(container_from_list(j, &c));
    assert_string_equal(c.id, "s-1");
    assert_string_equal(c.cid, "abc");
    assert_string_equal(c.ip, "10.1.2.3");
    assert_int_equal(c.http_port, 40001);
    assert_int_equal(c.execd_port, 0); /* no such port */
    assert_true(c.is_host_net && c.has_volumes && c.has_snapshot && !c.has_sidecar);
    status_from_list(j, &st);
    assert_int_equal(st.state, RT_EXITED);
    assert_int_equal(st.exit, EXIT_CODE);
    assert_int_equal(st.exit_code, 7);
    json_free(j);
}

#define SIDECAR                                                                                    \
    "{\"Id\":\"x\",\"Labels\":{\"opensandbox.io/id\":\"a\","                                       \
    "\"opensandbox.io/egress-sidecar-for\":\"b\"}}"

static void test_not_a_sandbox(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "{\"Id\":\"x\",\"Labels\":{\"opensandbox.io/id\":\"\"}}",
        "{\"Id\":\"x\",\"Labels\":{\"opensandbox.io/id\":\"../../etc\"}}",
        "{\"Id\":\"x\",\"Labels\":{\"opensandbox.io/id\":7}}",
        "{\"Id\":3,\"Labels\":{\"opensandbox.io/id\":\"a\"}}",
        SIDECAR,
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct container c;
        struct json *j = parse(texts[i]);
        assert_false(container_from_list(j, &c));
        json_free(j);
    }
}

static void test_inspection(void **state)
{
    (void)state;
    struct runtime_status st;
    struct json *j = parse(
        "{\"State\":{\"Status\":\"exited\",\"ExitCode\":137,\"OOMKilled\":true,\"Error\":\"why\","
        "\"StartedAt\":\"2026-01-02T03:04:05.5Z\",\"FinishedAt\":\"0001-01-01T00:00:00Z\"}}");
    status_from_inspect(j, &st);
    assert_int_equal(st.state, RT_EXITED);
    assert_int_equal(st.exit, EXIT_CODE); /* what it means is found out with execd's words */
    assert_int_equal(st.exit_code, 137);
    assert_string_equal(st.detail, "why");
    assert_true(st.started_us > 0);
    assert_int_equal(st.finished_us, 0);
    json_free(j);
    j = parse("{\"State\":{\"Status\":\"paused\"}}");
    status_from_inspect(j, &st);
    assert_int_equal(st.state, RT_PAUSED);
    assert_int_equal(st.exit, EXIT_NONE);
    json_free(j);
    j = parse("{\"State\":7}");
    status_from_inspect(j, &st);
    assert_int_equal(st.state, RT_MISSING);
    json_free(j);
}

static int n_told;

static void told(const char *id, const struct runtime_status *st, void *arg)
{
    (void)st;
    (void)arg;
    assert_string_equal(id, "s-1");
    n_told++;
}

static void test_events(void **state)
{
    (void)state;
    struct docker d = {.rt = {.on_exit = told}};
    (void)pthread_mutex_init(&d.lock, NULL);
    (void)pthread_cond_init(&d.changed, NULL);
    index_put(&d,
              &(struct container){.id = "s-1", .cid = "abc", .state = RT_RUNNING, .is_up = true});
    struct engine_lines lines = {.on_line = events_line, .arg = &d};
    const char *die =
        "{\"Action\":\"die\",\"Actor\":{\"ID\":\"abc\",\"Attributes\":{\"opensandbox.io/id\":"
        "\"s-1\"}}}\r\n";
    for (const char *p = die; *p; p++) { /* byte by byte */
        assert_int_equal(n_told, 0);
        assert_int_equal(engine_lines_add(&lines, str_n(p, 1)), 0);
    }
    assert_int_equal(n_told, 1);
    struct container c;
    assert_true(index_get(&d, "s-1", &c));
    assert_int_equal(c.state, RT_EXITED);
    assert_int_equal(engine_lines_add(&lines, str_from(die)), 0);
    assert_int_equal(n_told, 1); /* known */
    /* Of another container of that name, of nobody, of nothing. */
    assert_int_equal(
        engine_lines_add(
            &lines,
            STR("{\"Action\":\"start\",\"Actor\":{\"ID\":\"old\",\"Attributes\":{"
                "\"opensandbox.io/id\":\"s-1\"}}}\n{\"Action\":\"die\"}\nnonsense\n[]\n\n")),
        0);
    assert_true(index_get(&d, "s-1", &c));
    assert_int_equal(c.state, RT_EXITED);
    assert_int_equal(n_told, 1);
    buf_done(&lines.rest);
    index_del(&d, "s-1");
    assert_false(index_get(&d, "s-1", &c));
    map_done(&d.containers);
}

static void test_a_line_without_end(void **state)
{
    (void)state;
    struct docker d = {0};
    struct engine_lines lines = {.on_line = events_line, .arg = &d};
    cleanup_free char *much = xcalloc(DOCKER_EVENT_MAX, 1);
    memset(much, 'x', DOCKER_EVENT_MAX - 1);
    assert_int_equal(engine_lines_add(&lines, str_from(much)), 0);
    assert_int_equal(engine_lines_add(&lines, str_from(much)), -EMSGSIZE);
    buf_done(&lines.rest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_not_a_sandbox),
        cmocka_unit_test(test_inspection),
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_a_line_without_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
