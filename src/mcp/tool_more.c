/* Tools beside the short list: snapshots, outbound policy, diagnostics. */

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "mcp/tool.h"

static struct json *copy_or_null(const struct json *j)
{
    return j ? json_clone(j) : json_null_new();
}

static struct json *parse_answer(const char *text, struct osb_error *e)
{
    struct err why = {0};
    struct json *j = json_parse(str_from(text), &why);
    if (!j) {
        (void)tool_fail(e, OSB_EPROTOCOL, "the answer is not JSON: %s", why.msg);
    }
    return j;
}

/* ---- snapshots ---- */

static struct json *snapshot_result(const struct json *s)
{
    struct json *j = json_object_new(), *status = json_object_new();
    const struct json *from = json_get(s, "status");
    const char *id = json_cstr(json_get(s, "id")), *state = json_cstr(json_get(from, "state"));
    json_set(status, "state", json_string_new(str_from(state ? state : "Unknown")));
    json_set(status, "reason", copy_or_null(json_get(from, "reason")));
    json_set(status, "message", copy_or_null(json_get(from, "message")));
    json_set(j, "id", json_string_new(str_from(id ? id : "")));
    json_set(j, "name", copy_or_null(json_get(s, "name")));
    json_set(j, "sandbox_id", copy_or_null(json_get(s, "sandboxId")));
    json_set(j, "status", status);
    json_set(j, "created_at", copy_or_null(json_get(s, "createdAt")));
    return j;
}

struct json *tool_snapshot_create(struct call *c, struct osb_error *e)
{
    struct mcp *m = c->session->app;
    /* No connection inside is needed, so any id will do. */
    struct osb_sandbox *s = osb_attach(m->client, arg_text(c, "sandbox_id"));
    call_progress(c, 0.1, 1, "asking for a snapshot");
    cleanup_free char *text = osb_snapshot_create(s, arg_text(c, "name"), e);
    osb_sandbox_free(s);
    cleanup_(json_free) struct json *j = text ? parse_answer(text, e) : NULL;
    if (!j || !arg_bool(c, "wait")) {
        return j ? snapshot_result(j) : NULL;
    }
    call_progress(c, 0.5, 1, "the snapshot is being made");
    const char *id = json_cstr(json_get(j, "id"));
    struct osb_call bounds = call_bounds(c);
    bounds.timeout_ms = arg_seconds_ms(c, "timeout_seconds");
    cleanup_free char *ready = osb_snapshot_wait(m->client, id ? id : "", &bounds, e);
    cleanup_(json_free) struct json *k = ready ? parse_answer(ready, e) : NULL;
    call_progress(c, 1, 1, "done");
    return k ? snapshot_result(k) : NULL;
}

static char *get(struct call *c, const char *path, struct osb_error *e)
{
    return osb_request(c->session->app->client,
                       &(struct osb_request){.method = "GET", .path = path, .call = call_bounds(c)},
                       e);
}

static void query(struct buf *b, const char *key, const char *value)
{
    if (value) {
        (void)buf_printf(b, "%c%s=", str_find(buf_str(b), '?') < 0 ? '?' : '&', key);
        (void)percent_encode(b, str_from(value), false);
    }
}

struct json *tool_snapshot_list(struct call *c, struct osb_error *e)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(64u << 10);
    (void)buf_add_cstr(&path, "/snapshots");
    query(&path, "sandboxId", arg_text(c, "sandbox_id"));
    query(&path, "name", arg_text(c, "name"));
    query(&path, "state", arg_text(c, "state"));
    query(&path, "pageSize", "200");
    cleanup_free char *text = get(c, buf_cstr(&path), e);
    cleanup_(json_free) struct json *all = text ? parse_answer(text, e) : NULL;
    if (!all) {
        return NULL;
    }
    const struct json *items = json_get(all, "items");
    struct json *j = json_object_new(), *list = json_array_new();
    for (size_t i = 0; i < json_len(items); i++) {
        json_push(list, snapshot_result(json_item(items, i)));
    }
    json_set(j, "result", list);
    return j;
}

struct json *tool_snapshot_get(struct call *c, struct osb_error *e)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(4096);
    (void)buf_add_cstr(&path, "/snapshots/");
    (void)percent_encode(&path, str_from(arg_text(c, "snapshot_id")), false);
    cleanup_free char *text = get(c, buf_cstr(&path), e);
    cleanup_(json_free) struct json *j = text ? parse_answer(text, e) : NULL;
    return j ? snapshot_result(j) : NULL;
}

struct json *tool_snapshot_delete(struct call *c, struct osb_error *e)
{
    return osb_snapshot_delete(c->session->app->client, arg_text(c, "snapshot_id"), e) < 0
               ? NULL
               : status_result("deleted");
}

/* ---- outbound policy ---- */

static struct json *policy_of(struct osb_sandbox *s, struct osb_error *e)
{
    cleanup_free char *text = osb_egress_get(s, e);
    cleanup_(json_free) struct json *all = text ? parse_answer(text, e) : NULL;
    if (!all) {
        return NULL;
    }
    const struct json *policy = json_get(all, "policy"), *rules = json_get(policy, "egress");
    struct json *j = json_object_new();
    json_set(j, "default_action", copy_or_null(json_get(policy, "defaultAction")));
    json_set(j, "egress", json_is_array(rules) ? json_clone(rules) : json_array_new());
    json_set(j, "mode", copy_or_null(json_get(all, "mode")));
    return j;
}

struct json *tool_egress_get_policy(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    struct json *j = s ? policy_of(s, e) : NULL;
    call_give(c, s);
    return j;
}

struct json *tool_egress_patch_rules(struct call *c, struct osb_error *e)
{
    const struct json *list = json_get(c->args, "rules");
    size_t n = json_len(list);
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    cleanup_free struct osb_rule *rules = xcalloc(n + 1, sizeof(*rules));
    for (size_t i = 0; i < n; i++) {
        const struct json *r = json_item(list, i);
        rules[i] =
            (struct osb_rule){json_cstr(json_get(r, "action")), json_cstr(json_get(r, "target"))};
    }
    struct json *j = osb_egress_patch(s, rules, n, e) < 0 ? NULL : policy_of(s, e);
    call_give(c, s);
    return j;
}

struct json *tool_egress_delete_rules(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    cleanup_free const char **targets = arg_strings(json_get(c->args, "targets"));
    struct json *j = osb_egress_delete(s, targets, e) < 0 ? NULL : policy_of(s, e);
    call_give(c, s);
    return j;
}

/* ---- diagnostics ---- */

static struct json *diagnostics(struct call *c, const char *kind, struct osb_error *e)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(8192);
    (void)buf_add_cstr(&path, "/sandboxes/");
    (void)percent_encode(&path, str_from(arg_text(c, "sandbox_id")), false);
    (void)buf_printf(&path, "/diagnostics/%s", kind);
    query(&path, "scope", arg_text(c, "scope"));
    cleanup_free char *text = osb_request(c->session->app->client,
                                          &(struct osb_request){.method = "GET",
                                                                .path = buf_cstr(&path),
                                                                .accept = "application/json",
                                                                .call = call_bounds(c)},
                                          e);
    cleanup_(json_free) struct json *all = text ? parse_answer(text, e) : NULL;
    if (!all) {
        return NULL;
    }
    struct json *j = json_object_new();
    json_set(j, "scope", json_string_new(str_from(arg_text(c, "scope"))));
    json_set(j, "content", copy_or_null(json_get(all, "content")));
    json_set(j, "content_url", copy_or_null(json_get(all, "contentUrl")));
    json_set(j, "truncated", json_bool_new(json_bool(json_get(all, "truncated"), false)));
    return j;
}

struct json *tool_sandbox_logs(struct call *c, struct osb_error *e)
{
    return diagnostics(c, "logs", e);
}

struct json *tool_sandbox_events(struct call *c, struct osb_error *e)
{
    return diagnostics(c, "events", e);
}
