/* What a container wrote: pieces of the engine's stream, whose line is whose, and how it ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

#define AT "2026-01-02T03:04:05.678901234Z "
#define EXECD(rest)                                                                                \
    AT "{\"time\":\"2026-01-02T03:04:05.678901Z\",\"level\":\"info\",\"program\":\"execd\"," rest  \
       "}\n"

static void test_pieces(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(4096);
    logs_unframe(STR("\1\0\0\0\0\0\0\2a\n\2\0\0\0\0\0\0\3bc\n"), &out);
    assert_string_equal(buf_cstr(&out), "a\nbc\n");
    buf_clear(&out);
    logs_unframe(STR("plain text of a terminal"), &out);
    assert_string_equal(buf_cstr(&out), "plain text of a terminal");
    buf_clear(&out);
    logs_unframe(STR("\1\0\0\0\xff\xff\xff\xff"
                     "cut"),
                 &out);
    assert_string_equal(buf_cstr(&out), "cut"); /* as much as there is */
    buf_clear(&out);
    logs_unframe(STR("\1\0\0\0"), &out);
    assert_int_equal(out.len, 4);
    buf_done(&out);
}

static void test_whose(void **state)
{
    (void)state;
    struct buf out = BUF_INIT(4096);
    const char *theirs =
        AT "{\"time\":\"x\",\"level\":\"info\",\"program\":\"mine\",\"msg\":\"m\"}\n";
    cleanup_free char *text = xasprintf("%s%s%s%s%s", EXECD("\"msg\":\"listening\""), AT "one\n",
                                        theirs, EXECD("\"msg\":\"x\""), AT "last");
    logs_without_execd(str_from(text), 10, &out);
    cleanup_free char *want = xasprintf("%s%s%s", AT "one\n", theirs, AT "last");
    assert_string_equal(buf_cstr(&out), want);
    buf_clear(&out);
    logs_without_execd(str_from(text), 1, &out);
    assert_string_equal(buf_cstr(&out), AT "last");
    buf_clear(&out);
    logs_without_execd(str_from(text), 0, &out);
    assert_int_equal(out.len, 0);
    logs_without_execd(STR_NULL, 3, &out);
    assert_int_equal(out.len, 0);
    buf_done(&out);
}

static struct runtime_status ended(int code, const char *words, bool oom)
{
    struct last_words w;
    struct runtime_status st = {.state = RT_EXITED, .exit = EXIT_CODE, .exit_code = code};
    last_words_read(str_from(words), &w);
    status_by_words(&w, oom, &st);
    return st;
}

static void test_ends(void **state)
{
    (void)state;
    struct runtime_status st = ended(
        137, EXECD("\"msg\":\"entrypoint ended\",\"status\":137,\"signal\":9,\"oom\":0"), false);
    assert_int_equal(st.exit, EXIT_SIGNAL);
    assert_int_equal(st.exit_code, 9);
    st = ended(137, EXECD("\"msg\":\"entrypoint ended\",\"status\":137,\"signal\":0,\"oom\":0"),
               false);
    assert_int_equal(st.exit, EXIT_CODE);
    assert_int_equal(st.exit_code, 137);
    assert_string_equal(st.detail, "");
    st = ended(137, EXECD("\"msg\":\"entrypoint ended\",\"status\":137,\"signal\":9,\"oom\":1"),
               false);
    assert_int_equal(st.exit, EXIT_OOM);
    st = ended(137, EXECD("\"msg\":\"entrypoint ended\",\"status\":137,\"signal\":9,\"oom\":0"),
               true);
    assert_int_equal(st.exit, EXIT_OOM);
    /* The engine's flag is set for a child as well. */
    st = ended(3, EXECD("\"msg\":\"entrypoint ended\",\"status\":3,\"signal\":0,\"oom\":0"), true);
    assert_int_equal(st.exit, EXIT_CODE);
    assert_non_null(strstr(st.detail, "out of memory"));
    st = ended(127, EXECD("\"msg\":\"entrypoint not started\",\"error\":\"x: no such file\""),
               false);
    assert_non_null(strstr(st.detail, "x: no such file"));
}

static void test_silent_ends(void **state)
{
    (void)state;
    struct runtime_status st = ended(143, "", false);
    assert_int_equal(st.exit, EXIT_CODE);
    assert_int_equal(st.exit_code, 143);
    assert_string_equal(st.detail, "as after signal 15");
    st = ended(1, AT "{\"msg\":\"entrypoint ended\",\"signal\":9}\n", false); /* not execd's */
    assert_int_equal(st.exit, EXIT_CODE);
    assert_int_equal(st.exit_code, 1);
    st = ended(200, "", false);
    assert_string_equal(st.detail, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_whose),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_silent_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
