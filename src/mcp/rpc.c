/* JSON-RPC: messages in, methods, answers out. Nothing here blocks: what takes time is a tool call,
 * and that is handed to mcp.start(). */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "mcp/mcp.h"
#include "mcp/schema.h"
#include "mcp/tool.h"

static const char instructions[] =
    "Isolated sandboxes for running code. sandbox_create returns a sandbox_id: keep it, every "
    "other "
    "tool takes it. Run programs with command_run, move text with file_read and file_write (ask "
    "for "
    "ranges of large files), open a port to the outside with sandbox_get_endpoint, and end the "
    "sandbox with sandbox_kill when the work is done.";

#define META_VERSION "io.modelcontextprotocol/protocolVersion"

/* ---- reading ---- */

static bool is_id(const struct json *id)
{
    return json_is_number(id) || (json_is_string(id) && json_str(id).n <= MCP_MAX_ID);
}

static bool is_request(const struct json *m)
{
    return json_is_string(json_get(m, "method")) && json_get(m, "id");
}

int rpc_read(struct str text, struct rpc_in *ret, struct err *e)
{
    struct json *root = json_parse(text, e);
    if (!root) {
        return -1;
    }
    *ret = (struct rpc_in){.root = root, .is_batch = json_is_array(root)};
    if (!ret->is_batch) {
        ret->method = json_cstr(json_get(root, "method"));
        ret->version =
            json_cstr(json_get(json_get(json_get(root, "params"), "_meta"), META_VERSION));
        ret->n_requests = is_request(root);
        ret->is_initialize = ret->n_requests && strcmp(ret->method, "initialize") == 0;
    }
    for (size_t i = 0; ret->is_batch && i < json_len(root); i++) {
        ret->n_requests += is_request(json_item(root, i));
    }
    return 0;
}

void rpc_in_done(struct rpc_in *in)
{
    json_free(in->root);
    *in = (struct rpc_in){0};
}

/* ---- writing ---- */

static void message_begin(struct json_out *o, struct buf *b, const struct json *id)
{
    json_out_init(o, b);
    json_obj_begin(o);
    json_key(o, "jsonrpc");
    json_put_cstr(o, "2.0");
    json_key(o, "id");
    if (id) {
        json_put_tree(o, id);
    } else {
        json_put_null(o);
    }
}

static void error_begin(struct json_out *o, struct buf *b, const struct json *id,
                        enum rpc_code code, const char *message)
{
    message_begin(o, b, id);
    json_key(o, "error");
    json_obj_begin(o);
    json_key(o, "code");
    json_put_int(o, code);
    json_key(o, "message");
    json_put_cstr(o, message);
}

void rpc_error(struct buf *out, const struct json *id, enum rpc_code code, const char *message)
{
    struct json_out o;
    error_begin(&o, out, id, code, message);
    json_obj_end(&o);
    json_obj_end(&o);
}

/* One request being answered on this thread. */
struct request {
    struct session *session;
    struct sink *sink;
    const struct json *message, *id, *params;
    enum mcp_version version;
    struct buf b;
    struct json_out o;
};

static void result_begin(struct request *r)
{
    message_begin(&r->o, &r->b, r->id);
    json_key(&r->o, "result");
    json_obj_begin(&r->o);
}

static void send(struct request *r)
{
    r->sink->send(r->sink, buf_str(&r->b), true);
    r->sink->done(r->sink);
}

/* `cacheable`: of the kind that the newest protocol lets a client keep for a while. */
static void result_end(struct request *r, bool cacheable)
{
    if (r->version >= MCP_2026_07_28) {
        json_key(&r->o, "resultType");
        json_put_cstr(&r->o, "complete");
        if (cacheable) {
            json_key(&r->o, "ttlMs");
            json_put_int(&r->o, 0);
            json_key(&r->o, "cacheScope");
            json_put_cstr(&r->o, "private");
        }
    }
    json_obj_end(&r->o);
    json_obj_end(&r->o);
    send(r);
}

static void fail(struct request *r, enum rpc_code code, const char *message)
{
    rpc_error(&r->b, r->id, code, message);
    send(r);
}

/* ---- methods ---- */

static void put_capability(struct json_out *o, const char *name)
{
    json_key(o, name);
    json_obj_begin(o);
    json_key(o, "listChanged");
    json_put_bool(o, false);
    if (strcmp(name, "resources") == 0) {
        json_key(o, "subscribe");
        json_put_bool(o, false);
    }
    json_obj_end(o);
}

static void put_about(struct json_out *o)
{
    json_key(o, "capabilities");
    json_obj_begin(o);
    put_capability(o, "tools");
    put_capability(o, "prompts");
    put_capability(o, "resources");
    json_obj_end(o);
    json_key(o, "serverInfo");
    json_obj_begin(o);
    json_key(o, "name");
    json_put_cstr(o, "OpenSandbox Sandbox");
    json_key(o, "title");
    json_put_cstr(o, "OpenSandbox");
    json_key(o, "version");
    json_put_cstr(o, OSB_VERSION);
    json_obj_end(o);
    json_key(o, "instructions");
    json_put_cstr(o, instructions);
}

static void on_initialize(struct request *r)
{
    struct str wanted = json_str(json_get(r->params, "protocolVersion"));
    enum mcp_version v = MCP_LATEST_HANDSHAKE;
    if (!wanted.p) {
        fail(r, RPC_BAD_PARAMS, "protocolVersion: expected a string");
        return;
    }
    if (!mcp_version_find(wanted, &v) || v > MCP_LATEST_HANDSHAKE) {
        v = MCP_LATEST_HANDSHAKE; /* the client decides whether it can live with that */
    }
    r->session->version = v;
    r->session->initialized = true;
    result_begin(r);
    json_key(&r->o, "protocolVersion");
    json_put_cstr(&r->o, mcp_version_text(v));
    put_about(&r->o);
    result_end(r, false);
}

static void on_discover(struct request *r)
{
    result_begin(r);
    json_key(&r->o, "supportedVersions");
    json_arr_begin(&r->o);
    json_put_cstr(&r->o, mcp_version_text(MCP_2026_07_28));
    json_arr_end(&r->o);
    put_about(&r->o);
    result_end(r, true);
}

static void on_ping(struct request *r)
{
    result_begin(r);
    result_end(r, false);
}

/* Everything fits on one page, so no cursor was ever given out. */
static bool refuse_cursor(struct request *r)
{
    const struct json *cursor = json_get(r->params, "cursor");
    if (cursor && !json_is_null(cursor)) {
        fail(r, RPC_BAD_PARAMS, "cursor: there is one page only");
        return true;
    }
    return false;
}

static void on_tools_list(struct request *r)
{
    if (refuse_cursor(r)) {
        return;
    }
    result_begin(r);
    json_key(&r->o, "tools");
    json_arr_begin(&r->o);
    for (const struct tool_text *t = tool_texts; t->name; t++) {
        if (tool_enabled(r->session->app, t)) {
            json_put_raw(&r->o, str_from(t->text));
        }
    }
    json_arr_end(&r->o);
    result_end(r, true);
}

static void empty_list(struct request *r, const char *key)
{
    if (refuse_cursor(r)) {
        return;
    }
    result_begin(r);
    json_key(&r->o, key);
    json_arr_begin(&r->o);
    json_arr_end(&r->o);
    result_end(r, true);
}

static void on_prompts_list(struct request *r)
{
    empty_list(r, "prompts");
}

static void on_resources_list(struct request *r)
{
    empty_list(r, "resources");
}

static void on_templates_list(struct request *r)
{
    empty_list(r, "resourceTemplates");
}

/* A call that failed before it began: an answer for the model, not a protocol error. */
static void tool_refused(struct request *r, const char *text)
{
    result_begin(r);
    json_key(&r->o, "content");
    json_arr_begin(&r->o);
    json_obj_begin(&r->o);
    json_key(&r->o, "type");
    json_put_cstr(&r->o, "text");
    json_key(&r->o, "text");
    json_put_cstr(&r->o, text);
    json_obj_end(&r->o);
    json_arr_end(&r->o);
    json_key(&r->o, "isError");
    json_put_bool(&r->o, true);
    result_end(r, false);
}

/* The arguments as the schema wants them, or NULL after the answer was sent. */
static struct json *fit_arguments(struct request *r, const struct tool *t)
{
    struct err e = {0};
    char text[ERR_MSG_MAX + 256];
    const struct json *given = json_get(r->params, "arguments");
    cleanup_(json_free) struct json *schema = json_parse(str_from(t->text->input), NULL);
    cleanup_(json_free) struct json *none = json_object_new();
    must(schema);
    struct json *args = schema_fit(schema, given && !json_is_null(given) ? given : none, &e);
    if (!args) {
        (void)snprintf(text, sizeof(text), "Error executing tool %s: %s", t->text->name, e.msg);
        tool_refused(r, text);
    }
    return args;
}

static void on_tools_call(struct request *r)
{
    const char *name = json_cstr(json_get(r->params, "name"));
    char text[512];
    if (!name) {
        fail(r, RPC_BAD_PARAMS, "name: expected a string");
        return;
    }
    const struct tool *t = tool_find(r->session->app, name);
    if (!t) {
        const char *near = tool_nearest(r->session->app, name), *set = tool_toolset(name);
        if (set) {
            (void)snprintf(text, sizeof(text),
                           "Unknown tool: %.100s. It belongs to the toolset %s, which this server "
                           "was not started with "
                           "(--toolset core,%s)",
                           name, set, set);
        } else {
            (void)snprintf(text, sizeof(text), "Unknown tool: %.100s%s%s%s", name,
                           near ? ". Did you mean " : "", near ? near : "", near ? "?" : "");
        }
        tool_refused(r, text);
        return;
    }
    struct json *args = fit_arguments(r, t);
    if (!args) {
        return;
    }
    const struct json *token = json_get(json_get(r->params, "_meta"), "progressToken");
    struct call *c = NEW(struct call);
    list_init(&c->node);
    c->session = session_ref(r->session);
    c->sink = sink_ref(r->sink);
    c->tool = t;
    c->args = args;
    c->id = json_clone(r->id);
    c->progress_token = is_id(token) ? json_clone(token) : NULL;
    c->version = r->version;
    c->token = osb_token_new();
    if (!c->token || r->session->app->start(c) < 0) {
        call_free(c);
        fail(r, RPC_BUSY, "too many tool calls at the same time; try again when one has ended");
    }
}

static const struct method {
    const char *name;
    void (*run)(struct request *r);
    bool before; /* may come before initialize */
} methods[] = {
    {"initialize", on_initialize, true},
    {"ping", on_ping, true},
    {"server/discover", on_discover, true},
    {"tools/list", on_tools_list, false},
    {"tools/call", on_tools_call, false},
    {"prompts/list", on_prompts_list, false},
    {"resources/list", on_resources_list, false},
    {"resources/templates/list", on_templates_list, false},
};

static const struct method *method_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        if (strcmp(methods[i].name, name) == 0) {
            return &methods[i];
        }
    }
    return NULL;
}

/* ---- dispatch ---- */

static void refuse_version(struct request *r, struct str wanted)
{
    error_begin(&r->o, &r->b, r->id, RPC_BAD_VERSION, "this protocol version is not spoken here");
    json_key(&r->o, "data");
    json_obj_begin(&r->o);
    json_key(&r->o, "supported");
    json_arr_begin(&r->o);
    for (int v = 0; v < MCP_VERSION__COUNT; v++) {
        json_put_cstr(&r->o, mcp_version_text((enum mcp_version)v));
    }
    json_arr_end(&r->o);
    json_key(&r->o, "requested");
    json_put_str(&r->o, wanted);
    json_obj_end(&r->o);
    json_obj_end(&r->o);
    json_obj_end(&r->o);
    send(r);
}

static void run_request(struct session *s, const struct json *m, struct sink *sink)
{
    struct request r = {.session = s,
                        .sink = sink,
                        .message = m,
                        .id = json_get(m, "id"),
                        .params = json_get(m, "params"),
                        .version = s->version,
                        .b = BUF_INIT(MCP_MAX_REPLY)};
    struct str own = json_str(json_get(json_get(r.params, "_meta"), META_VERSION));
    const char *name = json_cstr(json_get(m, "method"));
    const struct method *method = method_find(name);
    char text[160];
    bool without_handshake = own.p != NULL;
    if (!is_id(r.id)) {
        r.id = NULL;
        fail(&r, RPC_INVALID, "id: expected a string of at most 256 bytes or a number");
    } else if (without_handshake &&
               (!mcp_version_find(own, &r.version) || r.version < MCP_2026_07_28)) {
        refuse_version(&r, own);
    } else if (r.params && !json_is_object(r.params)) {
        fail(&r, RPC_BAD_PARAMS, "params: expected an object");
    } else if (!method) {
        (void)snprintf(text, sizeof(text), "Method not found: %.100s", name);
        fail(&r, RPC_NO_METHOD, text);
    } else if (!method->before && !s->initialized && !without_handshake) {
        fail(&r, RPC_INVALID, "the session has not been initialized");
    } else {
        method->run(&r);
    }
    buf_done(&r.b);
}

static void on_cancelled(struct session *s, const struct json *params)
{
    const struct json *id = json_get(params, "requestId");
    (void)pthread_mutex_lock(&s->app->lock);
    list_each (n, &s->calls) {
        struct call *c = list_entry(n, struct call, node);
        if (json_eq(c->id, id)) {
            atomic_store(&c->canceled, true);
            osb_cancel(c->token);
        }
    }
    (void)pthread_mutex_unlock(&s->app->lock);
}

static void run_one(struct session *s, const struct json *m, struct sink *sink)
{
    const char *method = json_cstr(json_get(m, "method"));
    struct str version = json_str(json_get(m, "jsonrpc"));
    if (json_is_object(m) && str_eq(version, STR("2.0"))) {
        if (is_request(m)) {
            run_request(s, m, sink);
            return;
        }
        if (method) {
            if (strcmp(method, "notifications/cancelled") == 0) {
                on_cancelled(s, json_get(m, "params"));
            }
            return; /* other notifications need nothing */
        }
        if (json_get(m, "id") && (json_get(m, "result") || json_get(m, "error"))) {
            return; /* an answer, though nothing was asked */
        }
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    rpc_error(&b, NULL, RPC_INVALID, "not a JSON-RPC 2.0 message");
    sink->send(sink, buf_str(&b), true);
    if (json_is_object(m) && is_request(m)) {
        sink->done(sink);
    }
}

/* ---- batches: answers are gathered and sent as one array ---- */

struct batch {
    struct sink base;
    struct sink *parent;
    pthread_mutex_t lock;
    struct buf b;
    size_t waiting;
};

static void batch_send(struct sink *s, struct str message, bool is_reply)
{
    struct batch *x = container_of(s, struct batch, base);
    if (!is_reply) {
        x->parent->send(x->parent, message, false);
        return;
    }
    (void)pthread_mutex_lock(&x->lock);
    (void)buf_add_char(&x->b, x->b.len ? ',' : '[');
    (void)buf_add_str(&x->b, message);
    (void)pthread_mutex_unlock(&x->lock);
}

static void batch_done(struct sink *s)
{
    struct batch *x = container_of(s, struct batch, base);
    (void)pthread_mutex_lock(&x->lock);
    bool last = --x->waiting == 0;
    (void)pthread_mutex_unlock(&x->lock);
    if (!last) {
        return;
    }
    (void)buf_add_char(&x->b, ']');
    if (buf_failed(&x->b)) {
        buf_clear(&x->b);
        rpc_error(&x->b, NULL, RPC_INTERNAL, "the answers are larger than a message may be");
    }
    if (x->b.len > 1) {
        x->parent->send(x->parent, buf_str(&x->b), true);
    }
    x->parent->done(x->parent);
}

static void batch_free(struct sink *s)
{
    struct batch *x = container_of(s, struct batch, base);
    sink_unref(x->parent);
    (void)pthread_mutex_destroy(&x->lock);
    buf_done(&x->b);
    free(x);
}

static void run_batch(struct session *s, const struct rpc_in *in, struct sink *sink)
{
    struct batch *x = NEW(struct batch);
    x->base = (struct sink){.send = batch_send, .done = batch_done, .free = batch_free};
    atomic_init(&x->base.refs, 1);
    x->parent = sink_ref(sink);
    x->b = BUF_INIT(MCP_MAX_REPLY);
    x->waiting = in->n_requests + 1; /* one is ours, so that it ends after the last was begun */
    (void)pthread_mutex_init(&x->lock, NULL);
    for (size_t i = 0; i < json_len(in->root); i++) {
        run_one(s, json_item(in->root, i), &x->base);
    }
    x->base.done(&x->base);
    sink_unref(&x->base);
}

void rpc_run(struct session *s, const struct rpc_in *in, struct sink *sink)
{
    size_t n = json_len(in->root);
    if (!in->is_batch) {
        run_one(s, in->root, sink);
        return;
    }
    if (n > 0 && n <= MCP_MAX_BATCH && s->initialized && s->version <= MCP_2025_03_26) {
        run_batch(s, in, sink);
        return;
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    rpc_error(&b, NULL, RPC_INVALID,
              n > MCP_MAX_BATCH ? "too many messages in one batch"
                                : "batches are part of protocol 2025-03-26 only, and not empty");
    sink->send(sink, buf_str(&b), true);
    if (in->n_requests > 0) {
        sink->done(sink);
    }
}
