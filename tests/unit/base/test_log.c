#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

#include "../test.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/utf8.h"

static int fds[2];
static struct buf got = {.max = 1u << 20};

static int setup(void **state)
{
    return pipe2(fds, O_CLOEXEC | O_NONBLOCK);
}

/* Everything written since the last call. */
static const char *logged(void)
{
    buf_clear(&got);
    int r = buf_read_fd(&got, fds[0]);
    assert_true(r == 0 || r == -EAGAIN);
    return buf_cstr(&got);
}

static void human_lines(void **state)
{
    log_init(LOG_INFO, LOG_HUMAN, fds[1]);
    log_info("sandbox created", LOG_S("id", "abc"), LOG_I("ms", -12));
    const char *line = logged();
    assert_int_equal(line[23], 'Z');
    assert_string_equal(line + 24, "  INFO   sandbox created                   id=abc  ms=-12\n");
    log_warn("alone");
    assert_string_equal(logged() + 24, "  WARN   alone\n");
    log_error("quoting", LOG_S("a", "two words"), LOG_S("b", ""), LOG_S("c", NULL),
              LOG_S("d", "x=y"), LOG_S("e", "say \"hi\"\\"));
    assert_string_equal(logged() + 24,
                        "  ERROR  quoting                           a=\"two words\"  b=\"\"  c=\"\""
                        "  d=\"x=y\"  e=\"say \\\"hi\\\"\\\\\"\n");
}

static void json_lines(void **state)
{
    log_init(LOG_DEBUG, LOG_JSON, fds[1]);
    log_debug("m", LOG_S("k", "v\"\\\n"), LOG_I("n", INT64_MIN));
    const char *line = logged();
    assert_memory_equal(line, "{\"time\":\"20", 11);
    assert_string_equal(
        strstr(line, ",\"level\""),
        ",\"level\":\"debug\",\"msg\":\"m\",\"k\":\"v\\\"\\\\\\n\",\"n\":-9223372036854775808}\n");
}

static void nothing_leaves_its_line(void **state)
{
    static const char evil[] = "a\r\nb\x1b[31m\x7f\xc2\x9b\xe2\x80\xa8\xff\xc3";
    for (int format = LOG_HUMAN; format <= LOG_JSON; format++) {
        log_init(LOG_INFO, (enum log_format)format, fds[1]);
        log_info("x", LOG_S("v", evil));
        const char *line = logged();
        assert_int_equal(strcspn(line, "\n"), got.len - 1);
        assert_null(strpbrk(line, "\r\x1b\x7f"));
        assert_null(strstr(line, "\xc2\x9b"));
        assert_non_null(
            strstr(line, "a\\r\\nb\\u001b[31m\\u007f\\u009b\\u2028\xef\xbf\xbd\xef\xbf\xbd"));
        assert_true(utf8_valid(buf_str(&got)));
    }
}

static void levels(void **state)
{
    log_init(LOG_WARN, LOG_HUMAN, fds[1]);
    log_info("no");
    assert_string_equal(logged(), "");
    assert_false(log_enabled(LOG_INFO));
    assert_true(log_enabled(LOG_WARN));
    log_set_level(LOG_DEBUG);
    log_debug("yes");
    assert_non_null(strstr(logged(), "DEBUG  yes"));
    enum log_level l;
    assert_int_equal(log_level_parse(STR("Warning"), &l), 0);
    assert_int_equal(l, LOG_WARN);
    assert_int_equal(log_level_parse(STR("DEBUG"), &l), 0);
    assert_int_equal(l, LOG_DEBUG);
    assert_int_equal(log_level_parse(STR("error"), &l), 0);
    assert_int_equal(l, LOG_ERROR);
    assert_int_equal(log_level_parse(STR("trace"), &l), -EINVAL);
    assert_int_equal(log_level_parse(STR(""), &l), -EINVAL);
}

static void *other_thread(void *arg)
{
    log_info("other");
    return NULL;
}

static void request_id_is_of_the_thread(void **state)
{
    log_init(LOG_INFO, LOG_JSON, fds[1]);
    log_set_request_id(STR("req-1"));
    log_info("mine", LOG_I("a", 1));
    assert_non_null(strstr(logged(), "\"msg\":\"mine\",\"request_id\":\"req-1\",\"a\":1}"));
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, other_thread, NULL), 0);
    pthread_join(t, NULL);
    assert_null(strstr(logged(), "request_id"));
    char id[300];
    memset(id, 'i', sizeof(id));
    log_set_request_id(str_n(id, sizeof(id)));
    log_info("long");
    const char *at = strstr(logged(), "iii");
    assert_non_null(at);
    assert_int_equal(strspn(at, "i"), LOG_REQUEST_ID_MAX);
    log_set_request_id(STR(""));
    log_info("none");
    assert_null(strstr(logged(), "request_id"));
}

static void long_lines_stay_whole(void **state)
{
    static char big[100000];
    memset(big, 'b', sizeof(big) - 1);
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f"};
    struct log_field fields[7] = {0};
    for (size_t i = 0; i < 6; i++) {
        fields[i] = LOG_S(keys[i], big);
    }
    for (int format = LOG_HUMAN; format <= LOG_JSON; format++) {
        log_init(LOG_INFO, (enum log_format)format, fds[1]);
        log_event(LOG_INFO, "big", fields);
        const char *line = logged();
        assert_true(got.len <= LOG_LINE_MAX);
        assert_int_equal(line[got.len - 1], '\n');
        assert_non_null(strstr(line, "bbb..."));
        if (format == LOG_JSON) {
            assert_true(str_ends(buf_str(&got), STR("\",\"truncated\":true}\n")));
        } else {
            assert_true(str_ends(buf_str(&got), STR("  (truncated)\n")));
        }
        assert_null(strstr(line, "f="));
    }
    log_event(LOG_INFO, big, NULL); /* a message is cut as well */
    logged();
    assert_true(got.len <= LOG_LINE_MAX && got.p[got.len - 1] == '\n');
}

static void survives_a_broken_descriptor(void **state)
{
    log_init(LOG_INFO, LOG_HUMAN, -1);
    errno = 42;
    log_info("into the void");
    assert_int_equal(errno, 42);
    log_init(LOG_INFO, LOG_HUMAN, fds[1]);
}

static void *chatter(void *arg)
{
    for (int i = 0; i < 100; i++) {
        log_info("chatter", LOG_S("who", (const char *)arg), LOG_I("i", i));
    }
    return NULL;
}

static void threads_do_not_mix_lines(void **state)
{
    log_init(LOG_INFO, LOG_JSON, fds[1]);
    pthread_t t[4];
    static char names[4][8] = {"one", "two", "three", "four"};
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, chatter, names[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], NULL);
    }
    logged();
    struct str rest = buf_str(&got);
    int n = 0;
    while (rest.n) {
        struct str line = str_cut(&rest, '\n');
        assert_true(str_starts(line, STR("{\"time\":")) && str_ends(line, STR("}")));
        assert_int_equal(str_find_str(str_sub(line, 1, line.n), STR("{")), -1);
        n++;
    }
    assert_int_equal(n, 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(human_lines),
        cmocka_unit_test(json_lines),
        cmocka_unit_test(nothing_leaves_its_line),
        cmocka_unit_test(levels),
        cmocka_unit_test(request_id_is_of_the_thread),
        cmocka_unit_test(long_lines_stay_whole),
        cmocka_unit_test(survives_a_broken_descriptor),
        cmocka_unit_test(threads_do_not_mix_lines),
    };
    int r = cmocka_run_group_tests(tests, setup, NULL);
    buf_done(&got);
    return r;
}
