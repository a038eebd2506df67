/* The exact bytes of each event, and how processes' ends are put into words. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "execd/event.h"
#include "execd/oom.h"
#include "execd/outcome.h"

#define NOW 1700000000000

static void test_bytes(void **state)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    event_add_init(&b, STR("id"), NOW);
    event_add_ping(&b, NOW);
    event_add_text(&b, STR("stderr"), STR("a\"\\\n\x01\xe2\x80\xa8\xff<"), NOW);
    event_add_complete(&b, 57, NOW);
    event_add_complete(&b, 0, NOW);
    event_add_error(&b, STR("E"), STR("v"), (const char *const[]){"t1", NULL, "t2"}, 3, NOW);
    event_add_error(&b, STR("E"), STR("v"), NULL, 0, NOW);
    assert_string_equal(
        buf_cstr(&b),
        "{\"type\":\"init\",\"text\":\"id\",\"timestamp\":1700000000000}\n\n"
        "{\"type\":\"ping\",\"text\":\"pong\",\"timestamp\":1700000000000}\n\n"
        "{\"type\":\"stderr\",\"text\":\"a\\\"\\\\\\n\\u0001\\u2028\xef\xbf\xbd<\",\"timestamp\":"
        "1700000000000}\n\n"
        "{\"type\":\"execution_complete\",\"execution_time\":57,\"timestamp\":1700000000000}\n\n"
        "{\"type\":\"execution_complete\",\"timestamp\":1700000000000}\n\n"
        "{\"type\":\"error\",\"timestamp\":1700000000000,\"error\":{\"ename\":\"E\",\"evalue\":"
        "\"v\","
        "\"traceback\":[\"t1\",\"t2\"]}}\n\n"
        "{\"type\":\"error\",\"timestamp\":1700000000000,\"error\":{\"ename\":\"E\",\"evalue\":"
        "\"v\","
        "\"traceback\":[]}}\n\n");
}

/* Plain runs are found eight bytes at a time: every byte at every place in such a word. */
static void test_every_byte_everywhere(void **state)
{
    for (unsigned c = 0; c < 256; c++) {
        for (size_t at = 0; at < 20; at++) {
            char text[20];
            memset(text, 'x', sizeof(text));
            text[at] = (char)c;
            cleanup_(buf_done) struct buf b = BUF_INIT(4096);
            event_add_text(&b, STR("t"), str_n(text, sizeof(text)), NOW);
            struct str got = buf_str(&b);
            bool plain = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
            size_t frame =
                sizeof("{\"type\":\"t\",\"text\":\"\",\"timestamp\":1700000000000}\n\n") - 1;
            assert_true(plain ? got.n == frame + 20 : got.n > frame + 20);
            assert_true(str_find(str_sub(got, 0, got.n - 2), '\n') < 0);
        }
    }
}

static void expect_outcome(struct io_child_status st, bool oom, const char *evalue,
                           const char *error, const char *extra)
{
    struct outcome o;
    outcome_of(&st, 1500, oom, &o);
    assert_string_equal(o.evalue, evalue);
    assert_string_equal(o.error, error);
    assert_string_equal(o.extra, extra);
}

static void test_outcomes(void **state)
{
    expect_outcome((struct io_child_status){IO_CHILD_EXITED, .code = 0}, false, "0",
                   "exit status 0", "");
    expect_outcome((struct io_child_status){IO_CHILD_EXITED, .code = 137}, true, "137",
                   "exit status 137", "out of memory");
    expect_outcome((struct io_child_status){IO_CHILD_SIGNALED, .signal = SIGKILL}, true, "-1",
                   "signal: killed", "out of memory");
    expect_outcome((struct io_child_status){IO_CHILD_SIGNALED, .signal = SIGSEGV, .core = true},
                   false, "-1", "signal: segmentation fault (core dumped)", "");
    expect_outcome((struct io_child_status){IO_CHILD_SIGNALED, .signal = 40}, false, "-1",
                   "signal: signal 40", "");
    expect_outcome((struct io_child_status){IO_CHILD_TIMEOUT, .signal = SIGKILL}, true, "-1",
                   "signal: killed", "timeout after 1.5s");
}

static void test_durations(void **state)
{
    static const struct {
        uint64_t ms;
        const char *text;
    } cases[] = {{1, "1ms"},         {999, "999ms"},      {1000, "1s"},
                 {1500, "1.5s"},     {1010, "1.01s"},     {60000, "1m0s"},
                 {90500, "1m30.5s"}, {3600000, "1h0m0s"}, {86400000, "24h0m0s"}};
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[32];
        duration_text(cases[i].ms, text);
        assert_string_equal(text, cases[i].text);
    }
}

static void test_oom_counters(void **state)
{
    assert_int_equal(oom_parse("low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n"), 2);
    assert_int_equal(oom_parse("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n"), 7);
    assert_int_equal(oom_parse(""), 0);
    assert_int_equal(oom_parse("oom_kill x\n"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes),        cmocka_unit_test(test_every_byte_everywhere),
        cmocka_unit_test(test_outcomes),     cmocka_unit_test(test_durations),
        cmocka_unit_test(test_oom_counters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
