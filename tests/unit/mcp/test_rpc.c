#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "mcp/mcp.h"

/* A sink that keeps what it gets. */
struct tape {
    struct sink base;
    struct buf b;
    size_t n_done;
};

static void tape_send(struct sink *s, struct str message, bool is_reply)
{
    struct tape *t = container_of(s, struct tape, base);
    (void)buf_printf(&t->b, "%s%.*s\n", is_reply ? "" : "~", STR_FMT(message));
}

static void tape_done(struct sink *s)
{
    container_of(s, struct tape, base)->n_done++;
}

static void tape_free(struct sink *s)
{
    (void)s;
}

static struct call *started;

static int hold(struct call *take_c)
{
    (void)pthread_mutex_lock(&take_c->session->app->lock);
    list_push_back(&take_c->session->calls, &take_c->node);
    (void)pthread_mutex_unlock(&take_c->session->app->lock);
    started = take_c;
    return 0;
}

static int refuse(struct call *take_c)
{
    (void)take_c;
    return -1;
}

static const char *const core[] = {"core", NULL};
static struct mcp app;

static void say(struct session *s, struct tape *t, const char *text)
{
    struct rpc_in in;
    struct err e = {0};
    buf_clear(&t->b);
    t->n_done = 0;
    assert_int_equal(rpc_read(str_from(text), &in, &e), 0);
    size_t n = in.is_batch ? in.n_requests > 0 : in.n_requests;
    started = NULL;
    rpc_run(s, &in, &t->base);
    assert_true(t->n_done == n || started);
    rpc_in_done(&in);
}

static void tape_init(struct tape *t)
{
    *t = (struct tape){.base = {.send = tape_send, .done = tape_done, .free = tape_free},
                       .b = BUF_INIT(1u << 20)};
    atomic_init(&t->base.refs, 1);
}

#define INIT(v)                                                                                    \
    "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"" v \
    "\"}}"

static bool has(struct tape *t, const char *text)
{
    return str_find_str(buf_str(&t->b), str_from(text)) >= 0;
}

static void handshake(void **state)
{
    struct tape t;
    struct session *s = session_new(&app);
    tape_init(&t);
    say(s, &t, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}");
    assert_true(has(&t, "-32600"));
    say(s, &t, INIT("2024-11-05"));
    assert_true(has(&t, "\"protocolVersion\":\"2024-11-05\""));
    assert_int_equal(s->version, MCP_2024_11_05);
    say(s, &t, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
    assert_int_equal(t.b.len, 0);
    say(s, &t, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"tools/list\"}");
    assert_true(has(&t, "\"id\":\"x\"") && has(&t, "sandbox_create") && !has(&t, "code_run"));
    session_unref(s);
    buf_done(&t.b);
}

static void calls(void **state)
{
    struct tape t;
    struct session *s = session_new(&app);
    tape_init(&t);
    say(s, &t, INIT("2025-11-25"));
    app.start = hold;
    say(s, &t,
        "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/"
        "call\",\"params\":{\"name\":\"command_run\","
        "\"arguments\":{\"sandbox_id\":\"a\",\"command\":\"x\"},\"_meta\":{\"progressToken\":\"p\"}"
        "}}");
    struct call *c = started;
    assert_non_null(c);
    assert_int_equal(t.b.len, 0);
    call_progress(c, 0.5, 1, "half");
    assert_true(has(&t, "~{") && has(&t, "\"progressToken\":\"p\"") && has(&t, "\"progress\":0.5"));
    buf_clear(&t.b);
    call_progress(c, 0.5, 1, "again"); /* it must grow */
    assert_int_equal(t.b.len, 0);
    say(s, &t,
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
        "cancelled\",\"params\":{\"requestId\":\"7\"}}");
    assert_false(atomic_load(&c->canceled)); /* another id: a string is not a number */
    say(s, &t,
        "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/"
        "cancelled\",\"params\":{\"requestId\":7}}");
    assert_true(atomic_load(&c->canceled));
    call_run(c); /* the tool fails, and a canceled call says nothing */
    assert_int_equal(t.b.len, 0);
    list_del(&c->node);
    call_free(c);
    app.start = refuse;
    say(s, &t,
        "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/"
        "call\",\"params\":{\"name\":\"sandbox_list\"}}");
    assert_true(has(&t, "-32000"));
    session_unref(s);
    buf_done(&t.b);
}

static void batches(void **state)
{
    static const char batch[] = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},3,"
                                "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}]";
    struct tape t;
    struct session *s = session_new(&app);
    tape_init(&t);
    say(s, &t, INIT("2025-03-26"));
    say(s, &t, batch);
    cleanup_(json_free) struct json *j = json_parse(buf_str(&t.b), NULL);
    assert_int_equal(json_len(j), 3);
    say(s, &t, INIT("2025-06-18"));
    say(s, &t, batch);
    assert_true(has(&t, "-32600"));
    session_unref(s);
    buf_done(&t.b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(handshake), cmocka_unit_test(calls),
                                       cmocka_unit_test(batches)};
    mcp_init(&app, osb_client_new(&(struct osb_config){.domain = "127.0.0.1:1"}, NULL), core);
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    mcp_done(&app);
    return r;
}
