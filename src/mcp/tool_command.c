/* Tools that run something: commands, sessions, code. Events become an "execution". */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/codec.h"
#include "base/must.h"
#include "mcp/tool.h"

struct execution {
    struct call *call;
    struct json *out, *err, *results, *error, *complete;
    int64_t count;
    size_t n_bytes, n_lines, n_dropped;
};

struct execution *execution_new(struct call *c)
{
    struct execution *x = NEW(struct execution);
    x->call = c;
    x->out = json_array_new();
    x->err = json_array_new();
    x->results = json_array_new();
    return x;
}

void execution_free(struct execution *x)
{
    json_free(x->out);
    json_free(x->err);
    json_free(x->results);
    json_free(x->error);
    json_free(x->complete);
    free(x);
}

static struct json *line_new(struct str text, int64_t timestamp, bool is_error)
{
    struct json *j = json_object_new();
    json_set(j, "text", json_string_new(text));
    json_set(j, "timestamp", json_int_new(timestamp));
    json_set(j, "is_error", json_bool_new(is_error));
    return j;
}

static void take_line(struct execution *x, const struct osb_event *ev)
{
    bool is_error = ev->type == OSB_EV_STDERR;
    if (x->n_bytes + ev->text_len > MCP_MAX_OUTPUT || x->n_lines >= MCP_MAX_LINES) {
        x->n_dropped += ev->text_len;
        return;
    }
    x->n_bytes += ev->text_len;
    x->n_lines++;
    json_push(is_error ? x->err : x->out,
              line_new(str_n(ev->text, ev->text_len), ev->timestamp_ms, is_error));
}

/* What a value looks like in other MIME types than text. */
static struct json *other_types(const char *results_json)
{
    cleanup_(json_free) struct json *all = json_parse(str_from(results_json), NULL);
    struct json *out = json_object_new(), *value;
    void *it = NULL;
    const char *key;
    while (json_next(all, &it, &key, &value)) {
        if (json_is_string(value) && strcmp(key, "text/plain") != 0 && strcmp(key, "text") != 0) {
            json_set(out, key, json_clone(value));
        }
    }
    return out;
}

static void take_value(struct execution *x, const struct osb_event *ev)
{
    struct json *j = json_object_new();
    size_t n = ev->results_json ? strlen(ev->results_json) : 0;
    if (x->n_bytes + n > MCP_MAX_OUTPUT) {
        x->n_dropped += n;
        json_free(j);
        return;
    }
    x->n_bytes += n;
    json_set(j, "text",
             ev->text ? json_string_new(str_n(ev->text, ev->text_len)) : json_null_new());
    json_set(j, "timestamp", json_int_new(ev->timestamp_ms));
    json_set(j, "extra_properties", other_types(ev->results_json));
    json_push(x->results, j);
}

static void take_error(struct execution *x, const struct osb_event *ev)
{
    struct json *j = json_object_new(), *trace = json_array_new();
    for (const char *const *t = ev->traceback; t && *t; t++) {
        json_push(trace, json_string_new(str_from(*t)));
    }
    json_set(j, "name", json_string_new(str_from(ev->name)));
    json_set(j, "value", json_string_new(str_from(ev->value)));
    json_set(j, "timestamp", json_int_new(ev->timestamp_ms));
    json_set(j, "traceback", trace);
    json_free(x->error);
    x->error = j;
}

static void take_end(struct execution *x, const struct osb_event *ev)
{
    json_free(x->complete);
    x->complete = json_object_new();
    json_set(x->complete, "timestamp", json_int_new(ev->timestamp_ms));
    json_set(x->complete, "execution_time_in_millis", json_int_new(ev->execution_ms));
}

/* Lines seen so far, with the latest of them: shows that a long command is alive. */
static void tell(struct execution *x, const struct osb_event *ev)
{
    char text[200];
    uint64_t now = clock_mono_ms();
    if (!x->call->progress_token || now - x->call->last_progress_ms < MCP_PROGRESS_EVERY_MS) {
        return;
    }
    (void)snprintf(text, sizeof(text), "%.*s", (int)MIN(ev->text_len, sizeof(text) - 1),
                   ev->text ? ev->text : "");
    call_progress(x->call, (double)(x->n_lines + x->n_dropped), 0, text);
}

static bool on_event(const struct osb_event *ev, void *arg)
{
    struct execution *x = arg;
    switch (ev->type) {
    case OSB_EV_STDOUT:
    case OSB_EV_STDERR:
        take_line(x, ev);
        tell(x, ev);
        break;
    case OSB_EV_RESULT:
        take_value(x, ev);
        break;
    case OSB_EV_COUNT:
        x->count = ev->execution_count;
        break;
    case OSB_EV_ERROR:
        take_error(x, ev);
        break;
    case OSB_EV_COMPLETE:
        take_end(x, ev);
        break;
    case OSB_EV_INIT:
        break;
    }
    return true;
}

struct osb_run_opts execution_opts(struct execution *x)
{
    return (struct osb_run_opts){
        .on_event = on_event, .arg = x, .discard = true, .call = call_bounds(x->call)};
}

struct json *execution_result(struct execution *x, const struct osb_result *r, bool has_exit_code)
{
    if (!r) {
        return NULL;
    }
    char text[128];
    struct json *j = json_object_new(), *logs = json_object_new();
    if (x->n_dropped > 0) {
        (void)snprintf(text, sizeof(text),
                       "[%zu more bytes of output were left out: redirect long output to a file]",
                       x->n_dropped);
        json_push(x->err, line_new(str_from(text), clock_wall_ms(), true));
    }
    bool known = has_exit_code && osb_result_has_exit_code(r);
    json_set(j, "id", text_or_null(osb_result_id(r)[0] ? osb_result_id(r) : NULL));
    json_set(j, "execution_count", x->count ? json_int_new(x->count) : json_null_new());
    json_set(j, "result", take_ptr(&x->results));
    json_set(j, "error", x->error ? take_ptr(&x->error) : json_null_new());
    json_set(j, "complete", x->complete ? take_ptr(&x->complete) : json_null_new());
    json_set(j, "exit_code", known ? json_int_new(osb_result_exit_code(r)) : json_null_new());
    json_set(logs, "stdout", take_ptr(&x->out));
    json_set(logs, "stderr", take_ptr(&x->err));
    json_set(j, "logs", logs);
    return j;
}

/* ---- commands ---- */

/* An agent that gives up on a command does not want it to go on. */
static void stop_if_canceled(struct call *c, struct osb_sandbox *s, const struct execution *x,
                             const char *id)
{
    if (atomic_load(&c->canceled) && id[0] && !x->complete && !x->error) {
        (void)osb_interrupt(s, id, NULL);
    }
}

struct id_watch {
    struct execution *x;
    char id[64];
};

static bool on_command_event(const struct osb_event *ev, void *arg)
{
    struct id_watch *w = arg;
    if (ev->type == OSB_EV_INIT) {
        (void)str_to_cstr(str_n(ev->text, ev->text_len), w->id, sizeof(w->id));
    }
    return on_event(ev, w->x);
}

struct json *tool_command_run(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    struct execution *x = execution_new(c);
    struct id_watch w = {.x = x};
    struct osb_run_opts o = execution_opts(x);
    o.cwd = arg_text(c, "working_directory");
    o.background = arg_bool(c, "background");
    o.on_event = on_command_event;
    o.arg = &w;
    struct osb_result *r = osb_run(s, arg_text(c, "command"), &o, e);
    struct json *j = execution_result(x, r, !o.background);
    if (!o.background) {
        stop_if_canceled(c, s, x, w.id);
    }
    osb_result_free(r);
    execution_free(x);
    call_give(c, s);
    return j;
}

struct json *tool_command_interrupt(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int r = osb_interrupt(s, arg_text(c, "execution_id"), e);
    call_give(c, s);
    return r < 0 ? NULL : status_result("interrupted");
}

struct json *tool_command_status(struct call *c, struct osb_error *e)
{
    struct osb_command_status st;
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int r = osb_command_status(s, arg_text(c, "execution_id"), &st, e);
    call_give(c, s);
    if (r < 0) {
        return NULL;
    }
    struct json *j = json_object_new();
    json_set(j, "id", json_string_new(str_from(arg_text(c, "execution_id"))));
    json_set(j, "running", json_bool_new(st.running));
    json_set(j, "exit_code", st.has_exit_code ? json_int_new(st.exit_code) : json_null_new());
    json_set(j, "error", text_or_null(st.error[0] ? st.error : NULL));
    json_set(j, "started_at", text_or_null(st.started_at[0] ? st.started_at : NULL));
    json_set(j, "finished_at", text_or_null(st.finished_at[0] ? st.finished_at : NULL));
    return j;
}

struct json *tool_command_logs(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int64_t cursor = arg_int(c, "cursor");
    cleanup_free char *text = osb_command_logs(s, arg_text(c, "execution_id"), &cursor, e);
    call_give(c, s);
    if (!text) {
        return NULL;
    }
    struct json *j = json_object_new();
    json_set(j, "content", json_string_new(str_from(text)));
    json_set(j, "cursor", json_int_new(cursor));
    return j;
}

/* ---- sessions ---- */

struct json *tool_session_create(struct call *c, struct osb_error *e)
{
    char id[64];
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int r = osb_session_new(s, arg_text(c, "working_directory"), id, e);
    call_give(c, s);
    if (r < 0) {
        return NULL;
    }
    struct json *j = json_object_new();
    json_set(j, "session_id", json_string_new(str_from(id)));
    return j;
}

struct json *tool_session_run(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    struct execution *x = execution_new(c);
    struct osb_run_opts o = execution_opts(x);
    o.cwd = arg_text(c, "working_directory");
    o.timeout_ms = arg_seconds_ms(c, "timeout_seconds");
    struct osb_result *r =
        osb_session_run(s, arg_text(c, "session_id"), arg_text(c, "command"), &o, e);
    struct json *j = execution_result(x, r, true);
    osb_result_free(r);
    execution_free(x);
    call_give(c, s);
    return j;
}

struct json *tool_session_delete(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int r = osb_session_delete(s, arg_text(c, "session_id"), e);
    call_give(c, s);
    return r < 0 ? NULL : status_result("deleted");
}

/* ---- code ---- */

struct json *tool_code_context_create(struct call *c, struct osb_error *e)
{
    char id[64];
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int r = osb_context_new(s, arg_text(c, "language"), arg_text(c, "working_directory"), id, e);
    call_give(c, s);
    if (r < 0) {
        return NULL;
    }
    struct json *j = json_object_new();
    json_set(j, "context_id", json_string_new(str_from(id)));
    json_set(j, "language", json_string_new(str_from(arg_text(c, "language"))));
    return j;
}

struct json *tool_code_context_list(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    cleanup_free char *text = osb_context_list_json(s, arg_text(c, "language"), e);
    call_give(c, s);
    if (!text) {
        return NULL;
    }
    cleanup_(json_free) struct json *list = json_parse(str_from(text), NULL);
    struct json *j = json_object_new(), *out = json_array_new();
    for (size_t i = 0; i < json_len(list); i++) {
        const struct json *item = json_item(list, i);
        struct json *x = json_object_new();
        json_set(x, "context_id", text_or_null(json_cstr(json_get(item, "id"))));
        json_set(x, "language", text_or_null(json_cstr(json_get(item, "language"))));
        json_push(out, x);
    }
    json_set(j, "result", out);
    return j;
}

struct json *tool_code_context_delete(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int r = osb_context_delete(s, arg_text(c, "context_id"), e);
    call_give(c, s);
    return r < 0 ? NULL : status_result("deleted");
}

struct json *tool_code_run(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    struct execution *x = execution_new(c);
    struct osb_run_opts o = execution_opts(x);
    struct osb_result *r = osb_code_run(s, arg_text(c, "context_id"), arg_text(c, "language"),
                                        arg_text(c, "code"), &o, e);
    struct json *j = execution_result(x, r, false);
    osb_result_free(r);
    execution_free(x);
    call_give(c, s);
    return j;
}

struct json *tool_code_interrupt(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int r = osb_code_interrupt(s, arg_text(c, "context_id"), e);
    call_give(c, s);
    return r < 0 ? NULL : status_result("interrupted");
}
