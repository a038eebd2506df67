/* The table of tools, and small helpers for them. */

#include "mcp/tool.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "mcp/registry.h"

static const struct {
    const char *name;
    tool_fn *run;
    bool is_list;
} functions[] = {
    {"sandbox_create", tool_sandbox_create, false},
    {"sandbox_connect", tool_sandbox_connect, false},
    {"sandbox_kill", tool_sandbox_kill, false},
    {"sandbox_get_info", tool_sandbox_get_info, false},
    {"sandbox_list", tool_sandbox_list, false},
    {"sandbox_renew", tool_sandbox_renew, false},
    {"sandbox_get_metrics", tool_sandbox_get_metrics, false},
    {"sandbox_healthcheck", tool_sandbox_healthcheck, false},
    {"sandbox_get_endpoint", tool_sandbox_get_endpoint, false},
    {"sandbox_pause", tool_sandbox_pause, false},
    {"sandbox_resume", tool_sandbox_resume, false},
    {"sandbox_patch_metadata", tool_sandbox_patch_metadata, false},
    {"command_run", tool_command_run, false},
    {"command_interrupt", tool_command_interrupt, false},
    {"command_status", tool_command_status, false},
    {"command_logs", tool_command_logs, false},
    {"file_read", tool_file_read, false},
    {"file_write", tool_file_write, false},
    {"file_delete", tool_file_delete, false},
    {"file_search", tool_file_search, true},
    {"file_create_directories", tool_file_create_directories, false},
    {"file_delete_directories", tool_file_delete_directories, false},
    {"file_move", tool_file_move, false},
    {"file_replace_contents", tool_file_replace_contents, true},
    {"code_context_create", tool_code_context_create, false},
    {"code_context_list", tool_code_context_list, true},
    {"code_context_delete", tool_code_context_delete, false},
    {"code_run", tool_code_run, false},
    {"code_interrupt", tool_code_interrupt, false},
    {"session_create", tool_session_create, false},
    {"session_run", tool_session_run, false},
    {"session_delete", tool_session_delete, false},
    {"snapshot_create", tool_snapshot_create, false},
    {"snapshot_list", tool_snapshot_list, true},
    {"snapshot_get", tool_snapshot_get, false},
    {"snapshot_delete", tool_snapshot_delete, false},
    {"snapshot_restore", tool_snapshot_restore, false},
    {"egress_get_policy", tool_egress_get_policy, false},
    {"egress_patch_rules", tool_egress_patch_rules, false},
    {"egress_delete_rules", tool_egress_delete_rules, false},
    {"sandbox_logs", tool_sandbox_logs, false},
    {"sandbox_events", tool_sandbox_events, false},
};

#define N_TOOLS ARRAY_LEN(functions)

/* In the order of tool_texts, made once. */
static struct tool tools[N_TOOLS];

static void tools_make(void)
{
    size_t n = 0;
    for (const struct tool_text *t = tool_texts; t->name; t++) {
        for (size_t i = 0; i < N_TOOLS; i++) {
            if (strcmp(functions[i].name, t->name) == 0) {
                must(n < N_TOOLS);
                tools[n++] = (struct tool){t, functions[i].run, functions[i].is_list};
            }
        }
    }
    must(n == N_TOOLS); /* every description has a function and the other way round */
}

bool tool_enabled(const struct mcp *m, const struct tool_text *t)
{
    for (const char *const *s = m->toolsets; *s; s++) {
        if (strcmp(*s, "all") == 0 || strcmp(*s, t->toolset) == 0) {
            return true;
        }
    }
    return false;
}

bool toolset_known(const char *name)
{
    bool found = strcmp(name, "all") == 0;
    for (const struct tool_text *t = tool_texts; t->name; t++) {
        found = found || strcmp(t->toolset, name) == 0;
    }
    return found;
}

const struct tool *tool_find(const struct mcp *m, const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, tools_make);
    for (size_t i = 0; i < N_TOOLS; i++) {
        if (strcmp(tools[i].text->name, name) == 0 && tool_enabled(m, tools[i].text)) {
            return &tools[i];
        }
    }
    return NULL;
}

const char *tool_toolset(const char *name)
{
    for (const struct tool_text *t = tool_texts; t->name; t++) {
        if (strcmp(t->name, name) == 0) {
            return t->toolset;
        }
    }
    return NULL;
}

const char *tool_nearest(const struct mcp *m, const char *name)
{
    const char *best = NULL;
    size_t least = 5; /* more letters apart is not a slip any more */
    for (const struct tool_text *t = tool_texts; t->name; t++) {
        size_t d = str_distance(name, t->name);
        if (tool_enabled(m, t) && d < least) {
            least = d;
            best = t->name;
        }
    }
    return best;
}

/* ---- arguments ---- */

const char *arg_text(const struct call *c, const char *key)
{
    return json_cstr(json_get(c->args, key));
}

int64_t arg_int(const struct call *c, const char *key)
{
    return json_int(json_get(c->args, key), 0);
}

bool arg_bool(const struct call *c, const char *key)
{
    return json_bool(json_get(c->args, key), false);
}

uint64_t arg_seconds_ms(const struct call *c, const char *key)
{
    double s = json_num(json_get(c->args, key), 0);
    return (uint64_t)(s * 1000 + 0.5);
}

struct osb_pair *arg_pairs(const struct json *object)
{
    void *it = NULL;
    const char *key;
    struct json *value;
    size_t n = 0;
    if (!json_is_object(object)) {
        return NULL;
    }
    struct osb_pair *out = xcalloc(json_len(object) + 1, sizeof(*out));
    while (json_next(object, &it, &key, &value)) {
        out[n++] = (struct osb_pair){key, json_cstr(value)};
    }
    return out;
}

const char **arg_strings(const struct json *list)
{
    if (!json_is_array(list)) {
        return NULL;
    }
    const char **out = xcalloc(json_len(list) + 1, sizeof(*out));
    for (size_t i = 0; i < json_len(list); i++) {
        out[i] = json_cstr(json_item(list, i));
    }
    return out;
}

/* ---- sandboxes ---- */

int tool_fail(struct osb_error *e, enum osb_code code, const char *fmt, ...)
{
    va_list ap;
    *e = (struct osb_error){.code = code};
    va_start(ap, fmt);
    (void)vsnprintf(e->message, sizeof(e->message), fmt, ap);
    va_end(ap);
    return -1;
}

struct osb_call call_bounds(const struct call *c)
{
    return (struct osb_call){.token = c->token};
}

struct osb_sandbox *call_sandbox(struct call *c, struct osb_error *e)
{
    struct mcp *m = c->session->app;
    const char *id = arg_text(c, "sandbox_id");
    struct osb_sandbox *s = registry_use(m->registry, id);
    if (s) {
        return s;
    }
    if (!arg_bool(c, "connect_if_missing")) {
        (void)tool_fail(e, OSB_ENOTFOUND,
                        "sandbox '%.100s' is not in the local registry: call sandbox_connect "
                        "first, or set connect_if_missing to true",
                        id);
        return NULL;
    }
    struct osb_call bounds = call_bounds(c);
    s = osb_connect(m->client, id, &bounds, e);
    return s ? registry_add(m->registry, s) : NULL;
}

void call_give(struct call *c, struct osb_sandbox *s)
{
    registry_give(c->session->app->registry, s);
}

/* ---- results ---- */

struct json *status_result(const char *status)
{
    struct json *j = json_object_new();
    json_set(j, "status", json_string_new(str_from(status)));
    return j;
}

struct json *text_or_null(const char *s)
{
    return s ? json_string_new(str_from(s)) : json_null_new();
}

static struct json *copy_or_null(const struct json *j)
{
    return j ? json_clone(j) : json_null_new();
}

static struct json *image_result(const struct json *image)
{
    const char *uri = json_cstr(json_get(image, "uri"));
    if (!uri) {
        return json_null_new();
    }
    struct json *j = json_object_new();
    json_set(j, "image", json_string_new(str_from(uri)));
    json_set(j, "auth", json_null_new()); /* secrets are not for models */
    return j;
}

struct json *info_result(const struct json *info)
{
    const struct json *status = json_get(info, "status"),
                      *entrypoint = json_get(info, "entrypoint");
    const char *state = json_cstr(json_get(status, "state"));
    struct json *j = json_object_new(), *s = json_object_new();
    json_set(s, "state", json_string_new(str_from(state ? state : "Unknown")));
    json_set(s, "reason", copy_or_null(json_get(status, "reason")));
    json_set(s, "message", copy_or_null(json_get(status, "message")));
    json_set(s, "last_transition_at", copy_or_null(json_get(status, "lastTransitionAt")));
    const char *id = json_cstr(json_get(info, "id")),
               *made = json_cstr(json_get(info, "createdAt"));
    json_set(j, "id", json_string_new(str_from(id ? id : "")));
    json_set(j, "status", s);
    json_set(j, "entrypoint", entrypoint ? json_clone(entrypoint) : json_array_new());
    json_set(j, "expires_at", copy_or_null(json_get(info, "expiresAt")));
    json_set(j, "created_at", json_string_new(str_from(made ? made : "")));
    json_set(j, "image", image_result(json_get(info, "image")));
    json_set(j, "snapshot_id", copy_or_null(json_get(info, "snapshotId")));
    json_set(j, "platform", copy_or_null(json_get(info, "platform")));
    json_set(j, "metadata", copy_or_null(json_get(info, "metadata")));
    return j;
}

struct json *created_result(struct call *c, const char *id, struct osb_error *e)
{
    struct osb_info *i = osb_info_get(c->session->app->client, id, e);
    if (!i) {
        return NULL;
    }
    cleanup_(json_free) struct json *info = json_parse(str_from(osb_info_json(i)), NULL);
    osb_info_free(i);
    struct json *j = json_object_new();
    json_set(j, "sandbox_id", json_string_new(str_from(id)));
    json_set(j, "info", info_result(info));
    return j;
}
