/* Event streams: the command is sent back as the stream, so each test writes its own. */

#include "fixture.h"

#define INIT "{\"type\":\"init\",\"text\":\"e1\",\"timestamp\":1}\n\n"
#define OUT(t) "{\"type\":\"stdout\",\"text\":\"" t "\",\"timestamp\":2}\n\n"
#define END "{\"type\":\"execution_complete\",\"execution_time\":5,\"timestamp\":3}\n\n"
#define FAILED(v)                                                                                  \
    "{\"type\":\"error\",\"error\":{\"ename\":\"CommandExecError\",\"evalue\":\"" v                \
    "\",\"traceback\":[\"a\",\"b\"]},\"timestamp\":3}\n\n"

static struct osb_sandbox *box;

static struct osb_result *run(const char *stream, const struct osb_run_opts *o, struct osb_error *e)
{
    *e = (struct osb_error){0};
    return osb_run(box, stream, o, e);
}

static void output(void **state)
{
    struct osb_error e;
    struct osb_result *r = run(
        INIT OUT("one") OUT(
            "\\n") "data: {\"type\":\"stderr\",\"text\":\"oops\",\"timestamp\":2}\n\n"
                   ": comment\nevent: x\n{\"type\":\"ping\"}\nnot json\n{\"type\":\"later\"}\n" END,
        NULL, &e);
    assert_non_null(r);
    assert_string_equal(osb_result_id(r), "e1");
    assert_string_equal(osb_result_stdout(r), "one\n\n");
    assert_string_equal(osb_result_stderr(r), "oops\n");
    assert_true(osb_result_has_exit_code(r));
    assert_int_equal(osb_result_exit_code(r), 0);
    assert_null(osb_result_error_name(r));
    osb_result_free(r);
}

static void failures(void **state)
{
    struct osb_error e;
    struct osb_result *r = run(INIT FAILED("7"), NULL, &e);
    assert_int_equal(osb_result_exit_code(r), 7);
    assert_string_equal(osb_result_error_name(r), "CommandExecError");
    assert_string_equal(osb_result_traceback(r)[1], "b");
    assert_null(osb_result_traceback(r)[2]);
    osb_result_free(r);
    r = run(INIT FAILED("signal: killed"), NULL, &e);
    assert_false(osb_result_has_exit_code(r));
    assert_int_equal(osb_result_exit_code(r), -1);
    osb_result_free(r);
    r = run(INIT, NULL, &e); /* a stream without its end */
    assert_false(osb_result_has_exit_code(r));
    osb_result_free(r);
}

static void code(void **state)
{
    struct osb_error e = {0};
    struct osb_result *r = osb_code_run(
        box, NULL, NULL, INIT OUT("50%") OUT("\\r100%\\n") OUT("no end") END, NULL, &e);
    assert_string_equal(osb_result_stdout(r), "50%\r100%\nno end"); /* pieces, not lines */
    assert_false(osb_result_has_exit_code(r));
    osb_result_free(r);
    r = osb_code_run(box, NULL, "bash", INIT FAILED("7"), NULL, &e);
    assert_false(osb_result_has_exit_code(r));
    assert_string_equal(osb_result_error_value(r), "7");
    osb_result_free(r);
}

static void no_stream(void **state)
{
    struct osb_error e;
    assert_null(run("hello\n", NULL, &e));
    assert_int_equal(e.code, OSB_EPROTOCOL);
    assert_null(run("{\"code\":\"BUSY\",\"message\":\"later\"}\n", NULL, &e));
    assert_int_equal(e.code, OSB_ESERVER);
    assert_string_equal(e.api_code, "BUSY");
    assert_string_equal(e.message, "later");
    assert_null(run(INIT END, &(struct osb_run_opts){.has_gid = true}, &e));
    assert_int_equal(e.code, OSB_EINVALID);
}

static void last_line_without_end(void **state)
{
    struct osb_error e;
    struct osb_result *r = run(INIT "{\"type\":\"execution_complete\",\"timestamp\":3}", NULL, &e);
    assert_int_equal(osb_result_exit_code(r), 0);
    osb_result_free(r);
}

static bool count(const struct osb_event *ev, void *arg)
{
    int *n = arg;
    return ev->type != OSB_EV_STDOUT || ++*n < 2;
}

static void listener(void **state)
{
    struct osb_error e;
    int n = 0;
    struct osb_run_opts o = {.on_event = count, .arg = &n, .discard = true};
    assert_null(run(INIT OUT("a") OUT("b") OUT("c") END, &o, &e));
    assert_int_equal(e.code, OSB_ECANCELED);
    assert_int_equal(n, 2);
    n = -10;
    struct osb_result *r = run(INIT OUT("a") END, &o, &e);
    assert_string_equal(osb_result_stdout(r), ""); /* discarded */
    osb_result_free(r);
}

static void values(void **state)
{
    struct osb_error e;
    struct osb_result *r =
        run(INIT
            "{\"type\":\"result\",\"results\":{\"text/plain\":\"42\",\"text/html\":\"<b>\"}}\n" END,
            NULL, &e);
    assert_string_equal(osb_result_text(r), "42");
    osb_result_free(r);
}

static void files(void **state)
{
    struct osb_error e = {0};
    size_t n = 0;
    char *text = osb_read_file(box, "/a b/\xc3\xa4+%?&", NULL, &n, &e);
    assert_non_null(text);
    assert_string_equal(text, "/a b/\xc3\xa4+%?&"); /* as the server understood the path */
    assert_int_equal(n, strlen(text));
    free(text);
    assert_int_equal(osb_download_file(box, "/x", "/no/such/dir/file", NULL, &e), -1);
    assert_int_equal(e.code, OSB_EIO);
}

static int start(void **state)
{
    (void)fx_start(state);
    box = osb_attach(fx.client, "box");
    return 0;
}

static int stop(void **state)
{
    osb_sandbox_free(box);
    return fx_stop(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(output),
                                       cmocka_unit_test(failures),
                                       cmocka_unit_test(code),
                                       cmocka_unit_test(no_stream),
                                       cmocka_unit_test(listener),
                                       cmocka_unit_test(values),
                                       cmocka_unit_test(last_line_without_end),
                                       cmocka_unit_test(files)};
    return cmocka_run_group_tests(tests, start, stop);
}
