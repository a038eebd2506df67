/* Sessions, sinks, and the life of a tool call: started, canceled, finished. */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "mcp/mcp.h"
#include "mcp/registry.h"
#include "mcp/tool.h"

static const char *const versions[] = {
    [MCP_2024_11_05] = "2024-11-05", [MCP_2025_03_26] = "2025-03-26",
    [MCP_2025_06_18] = "2025-06-18", [MCP_2025_11_25] = "2025-11-25",
    [MCP_2026_07_28] = "2026-07-28",
};

const char *mcp_version_text(enum mcp_version v)
{
    return versions[v];
}

bool mcp_version_find(struct str text, enum mcp_version *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
        if (str_eq(text, str_from(versions[i]))) {
            *ret = (enum mcp_version)i;
            return true;
        }
    }
    return false;
}

void sink_unref(struct sink *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        s->free(s);
    }
}

/* ---- the program ---- */

void mcp_init(struct mcp *m, struct osb_client *take_client, const char *const *toolsets)
{
    *m = (struct mcp){.client = take_client, .toolsets = toolsets, .start = call_start};
    m->registry = registry_new();
    (void)pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&m->idle, &attr);
    (void)pthread_condattr_destroy(&attr);
}

bool mcp_wait_idle(struct mcp *m, uint64_t ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int r = 0;
    (void)pthread_mutex_lock(&m->lock);
    while (m->n_calls > 0 && r == 0) {
        r = pthread_cond_timedwait(&m->idle, &m->lock, &until);
    }
    bool idle = m->n_calls == 0;
    (void)pthread_mutex_unlock(&m->lock);
    return idle;
}

void mcp_done(struct mcp *m)
{
    registry_free(m->registry);
    osb_client_free(m->client);
    (void)pthread_cond_destroy(&m->idle);
    (void)pthread_mutex_destroy(&m->lock);
}

/* ---- sessions ---- */

struct session *session_new(struct mcp *m)
{
    struct session *s = NEW(struct session);
    atomic_init(&s->refs, 1);
    s->app = m;
    s->version = MCP_2025_03_26; /* what the protocol says to assume */
    list_init(&s->calls);
    return s;
}

void session_unref(struct session *s)
{
    if (s && atomic_fetch_sub(&s->refs, 1) == 1) {
        free(s);
    }
}

void session_cancel(struct session *s)
{
    (void)pthread_mutex_lock(&s->app->lock);
    list_each (n, &s->calls) {
        struct call *c = list_entry(n, struct call, node);
        atomic_store(&c->canceled, true);
        osb_cancel(c->token);
    }
    (void)pthread_mutex_unlock(&s->app->lock);
}

bool session_busy(struct session *s)
{
    (void)pthread_mutex_lock(&s->app->lock);
    bool busy = !list_empty(&s->calls);
    (void)pthread_mutex_unlock(&s->app->lock);
    return busy;
}

/* ---- calls ---- */

void call_free(struct call *c)
{
    if (!c) {
        return;
    }
    sink_unref(c->sink);
    session_unref(c->session);
    json_free(c->id);
    json_free(c->progress_token);
    json_free(c->args);
    osb_token_free(c->token);
    free(c);
}

static void *call_thread(void *arg)
{
    struct call *c = arg;
    struct mcp *m = c->session->app;
    call_run(c);
    (void)pthread_mutex_lock(&m->lock);
    list_del(&c->node);
    (void)pthread_mutex_unlock(&m->lock);
    c->sink->done(c->sink);
    call_free(c);
    /* Last: whoever waits for idle may free everything now. */
    (void)pthread_mutex_lock(&m->lock);
    m->n_calls--;
    (void)pthread_cond_broadcast(&m->idle);
    (void)pthread_mutex_unlock(&m->lock);
    return NULL;
}

int call_start(struct call *take_c)
{
    struct mcp *m = take_c->session->app;
    pthread_attr_t attr;
    pthread_t t;
    (void)pthread_mutex_lock(&m->lock);
    bool room = m->n_calls < MCP_MAX_CALLS;
    if (room) {
        m->n_calls++;
        list_push_back(&take_c->session->calls, &take_c->node);
    }
    (void)pthread_mutex_unlock(&m->lock);
    if (!room) {
        return -1;
    }
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int r = pthread_create(&t, &attr, call_thread, take_c);
    (void)pthread_attr_destroy(&attr);
    if (r != 0) {
        (void)pthread_mutex_lock(&m->lock);
        m->n_calls--;
        list_del(&take_c->node);
        (void)pthread_mutex_unlock(&m->lock);
        return -1;
    }
    return 0;
}

/* ---- a call's answer ---- */

static void put_text_block(struct json_out *o, struct str text)
{
    json_obj_begin(o);
    json_key(o, "type");
    json_put_cstr(o, "text");
    json_key(o, "text");
    json_put_str(o, text);
    json_obj_end(o);
}

static void put_blocks(struct json_out *o, const struct tool *t, const struct json *result)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(MCP_MAX_REPLY);
    if (!t->is_list) {
        (void)json_dump(result, &b, 2);
        put_text_block(o, buf_str(&b));
        return;
    }
    const struct json *list = json_get(result, "result");
    for (size_t i = 0; i < json_len(list); i++) {
        buf_clear(&b);
        (void)json_dump(json_item(list, i), &b, 2);
        put_text_block(o, buf_str(&b));
    }
}

static void reply(struct call *c, const struct json *result, const char *error)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(MCP_MAX_REPLY);
    struct json_out o;
    json_out_init(&o, &b);
    json_obj_begin(&o);
    json_key(&o, "jsonrpc");
    json_put_cstr(&o, "2.0");
    json_key(&o, "id");
    json_put_tree(&o, c->id);
    json_key(&o, "result");
    json_obj_begin(&o);
    json_key(&o, "content");
    json_arr_begin(&o);
    if (error) {
        put_text_block(&o, str_from(error));
    } else {
        put_blocks(&o, c->tool, result);
    }
    json_arr_end(&o);
    if (!error) {
        json_key(&o, "structuredContent");
        json_put_tree(&o, result);
    }
    json_key(&o, "isError");
    json_put_bool(&o, error != NULL);
    if (c->version >= MCP_2026_07_28) {
        json_key(&o, "resultType");
        json_put_cstr(&o, "complete");
    }
    json_obj_end(&o);
    json_obj_end(&o);
    if (buf_failed(&b)) {
        buf_done(&b);
        b = BUF_INIT(1u << 20);
        rpc_error(&b, c->id, RPC_INTERNAL, "the result is larger than a message may be");
    }
    c->sink->send(c->sink, buf_str(&b), true);
}

void call_run(struct call *c)
{
    struct osb_error e = {0};
    char text[sizeof(e.message) + 256];
    cleanup_(json_free) struct json *result = c->tool->run(c, &e);
    if (atomic_load(&c->canceled)) {
        return; /* nobody wants the answer of a canceled request */
    }
    if (!result) {
        (void)snprintf(text, sizeof(text), "Error executing tool %s: %s%s%s%s", c->tool->text->name,
                       e.message[0] ? e.message : "it failed", e.request_id[0] ? " (request " : "",
                       e.request_id, e.request_id[0] ? ")" : "");
    }
    reply(c, result, result ? NULL : text);
}

void call_progress(struct call *c, double progress, double total, const char *message)
{
    if (!c->progress_token || atomic_load(&c->canceled) || progress <= c->last_progress) {
        return;
    }
    c->last_progress = progress;
    c->last_progress_ms = clock_mono_ms();
    cleanup_(buf_done) struct buf b = BUF_INIT(64u << 10);
    struct json_out o;
    json_out_init(&o, &b);
    json_obj_begin(&o);
    json_key(&o, "jsonrpc");
    json_put_cstr(&o, "2.0");
    json_key(&o, "method");
    json_put_cstr(&o, "notifications/progress");
    json_key(&o, "params");
    json_obj_begin(&o);
    json_key(&o, "progressToken");
    json_put_tree(&o, c->progress_token);
    json_key(&o, "progress");
    json_put_num(&o, progress);
    if (total > 0) {
        json_key(&o, "total");
        json_put_num(&o, total);
    }
    json_key(&o, "message");
    json_put_cstr(&o, message);
    json_obj_end(&o);
    json_obj_end(&o);
    if (!buf_failed(&b)) {
        c->sink->send(c->sink, buf_str(&b), false);
    }
}
