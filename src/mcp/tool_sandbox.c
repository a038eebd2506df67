/* Tools about whole sandboxes. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "mcp/registry.h"
#include "mcp/tool.h"

/* ---- create and connect ---- */

static struct osb_rule *policy_rules(const struct json *policy, size_t *ret_n)
{
    const struct json *list = json_get(policy, "egress");
    size_t n = json_len(list);
    struct osb_rule *rules = xcalloc(n + 1, sizeof(*rules));
    for (size_t i = 0; i < n; i++) {
        const struct json *r = json_item(list, i);
        rules[i] =
            (struct osb_rule){json_cstr(json_get(r, "action")), json_cstr(json_get(r, "target"))};
    }
    *ret_n = n;
    return rules;
}

static struct osb_sandbox *create(struct call *c, struct osb_error *e)
{
    const struct json *policy = json_get(c->args, "network_policy");
    const char *action = json_cstr(json_get(policy, "defaultAction"));
    size_t n_rules = 0;
    cleanup_free struct osb_pair *env = arg_pairs(json_get(c->args, "env"));
    cleanup_free struct osb_pair *metadata = arg_pairs(json_get(c->args, "metadata"));
    cleanup_free struct osb_pair *resource = arg_pairs(json_get(c->args, "resource"));
    cleanup_free struct osb_pair *extensions = arg_pairs(json_get(c->args, "extensions"));
    cleanup_free const char **entrypoint = arg_strings(json_get(c->args, "entrypoint"));
    cleanup_free struct osb_rule *rules = policy_rules(policy, &n_rules);
    return osb_create(
        c->session->app->client,
        &(struct osb_create_opts){
            .image = arg_text(c, "image"),
            .snapshot_id = arg_text(c, "snapshot_id"),
            .image_user = arg_text(c, "auth_username"),
            .image_password = arg_text(c, "auth_password"),
            .entrypoint = entrypoint && entrypoint[0] ? entrypoint : NULL,
            .env = env,
            .metadata = metadata,
            .resources = resource,
            .extensions = extensions,
            .timeout_seconds = (int64_t)ceil(json_num(json_get(c->args, "timeout_seconds"), 600)),
            .egress_default = json_is_object(policy) ? (action ? action : "deny") : NULL,
            .egress_rules = rules,
            .n_egress_rules = n_rules,
            .ready_timeout_ms = arg_seconds_ms(c, "ready_timeout_seconds"),
            .ready_poll_ms = (uint64_t)arg_int(c, "health_check_polling_interval_ms"),
            .skip_ready = arg_bool(c, "skip_health_check"),
            .call = call_bounds(c),
        },
        e);
}

/* From the arguments to a sandbox that the registry knows. */
static struct json *create_known(struct call *c, struct osb_error *e)
{
    struct mcp *m = c->session->app;
    call_progress(c, 0.1, 1, "checking the request");
    call_progress(c, 0.3, 1, "creating the sandbox");
    struct osb_sandbox *s = create(c, e);
    if (!s) {
        return NULL;
    }
    s = registry_add(m->registry, s);
    call_progress(c, 0.8, 1, "asking about the sandbox");
    struct json *result = created_result(c, osb_sandbox_id(s), e);
    registry_give(m->registry, s);
    if (result) {
        call_progress(c, 1, 1, "the sandbox is there");
    }
    return result;
}

struct json *tool_sandbox_create(struct call *c, struct osb_error *e)
{
    if (!arg_text(c, "auth_username") != !arg_text(c, "auth_password")) {
        (void)tool_fail(e, OSB_EINVALID, "auth_username and auth_password go together");
        return NULL;
    }
    return create_known(c, e);
}

struct json *tool_snapshot_restore(struct call *c, struct osb_error *e)
{
    return create_known(c, e);
}

struct json *tool_sandbox_connect(struct call *c, struct osb_error *e)
{
    struct mcp *m = c->session->app;
    const char *id = arg_text(c, "sandbox_id");
    struct json *result = created_result(c, id, e);
    if (!result) {
        return NULL;
    }
    struct osb_sandbox *s = registry_add(m->registry, osb_attach(m->client, id));
    struct osb_call bounds = call_bounds(c);
    bounds.timeout_ms = arg_seconds_ms(c, "connect_timeout_seconds");
    int r = arg_bool(c, "skip_health_check")
                ? 0
                : osb_wait_ready(s, (uint64_t)arg_int(c, "health_check_polling_interval_ms"),
                                 &bounds, e);
    registry_give(m->registry, s);
    if (r < 0) {
        registry_forget(m->registry, id);
        json_free(result);
        return NULL;
    }
    return result;
}

/* ---- by id ---- */

struct json *tool_sandbox_kill(struct call *c, struct osb_error *e)
{
    struct mcp *m = c->session->app;
    const char *id = arg_text(c, "sandbox_id");
    if (osb_kill_id(m->client, id, e) < 0) {
        return NULL;
    }
    registry_forget(m->registry, id);
    return status_result("killed");
}

struct json *tool_sandbox_get_info(struct call *c, struct osb_error *e)
{
    struct osb_info *i = osb_info_get(c->session->app->client, arg_text(c, "sandbox_id"), e);
    if (!i) {
        return NULL;
    }
    cleanup_(json_free) struct json *info = json_parse(str_from(osb_info_json(i)), NULL);
    osb_info_free(i);
    return info_result(info);
}

struct json *tool_sandbox_renew(struct call *c, struct osb_error *e)
{
    char expires[40];
    int64_t seconds = (int64_t)ceil(json_num(json_get(c->args, "timeout_seconds"), 0));
    if (osb_renew_id(c->session->app->client, arg_text(c, "sandbox_id"), seconds, expires, e) < 0) {
        return NULL;
    }
    struct json *j = json_object_new();
    json_set(j, "expires_at", json_string_new(str_from(expires)));
    return j;
}

struct json *tool_sandbox_pause(struct call *c, struct osb_error *e)
{
    return osb_pause_id(c->session->app->client, arg_text(c, "sandbox_id"), e) < 0
               ? NULL
               : status_result("paused");
}

struct json *tool_sandbox_resume(struct call *c, struct osb_error *e)
{
    struct mcp *m = c->session->app;
    const char *id = arg_text(c, "sandbox_id");
    if (osb_resume_id(m->client, id, e) < 0) {
        return NULL;
    }
    registry_forget(m->registry, id); /* its endpoints may have changed */
    struct osb_call bounds = call_bounds(c);
    struct osb_sandbox *s = osb_connect(m->client, id, &bounds, e);
    if (!s) {
        return NULL;
    }
    registry_give(m->registry, registry_add(m->registry, s));
    return status_result("resumed");
}

struct json *tool_sandbox_patch_metadata(struct call *c, struct osb_error *e)
{
    cleanup_free struct osb_pair *patch = arg_pairs(json_get(c->args, "metadata"));
    struct osb_info *i =
        osb_patch_metadata(c->session->app->client, arg_text(c, "sandbox_id"), patch, e);
    if (!i) {
        return NULL;
    }
    cleanup_(json_free) struct json *info = json_parse(str_from(osb_info_json(i)), NULL);
    osb_info_free(i);
    return info_result(info);
}

/* ---- list ---- */

static struct json *page_result(const struct json *p)
{
    static const char *const names[][2] = {{"page", "page"},
                                           {"page_size", "pageSize"},
                                           {"total_items", "totalItems"},
                                           {"total_pages", "totalPages"}};
    struct json *j = json_object_new();
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        json_set(j, names[i][0], json_int_new(json_int(json_get(p, names[i][1]), 0)));
    }
    json_set(j, "has_next_page", json_bool_new(json_bool(json_get(p, "hasNextPage"), false)));
    return j;
}

struct json *tool_sandbox_list(struct call *c, struct osb_error *e)
{
    const struct json *f = json_get(c->args, "filter");
    cleanup_free const char **states = arg_strings(json_get(f, "states"));
    cleanup_free struct osb_pair *metadata = arg_pairs(json_get(f, "metadata"));
    call_progress(c, 0.1, 1, "asking the server");
    struct osb_list *l =
        osb_list(c->session->app->client,
                 &(struct osb_filter){.states = states,
                                      .metadata = metadata,
                                      .page = (int)json_int(json_get(f, "page"), 0),
                                      .page_size = (int)json_int(json_get(f, "page_size"), 0)},
                 e);
    if (!l) {
        return NULL;
    }
    cleanup_(json_free) struct json *all = json_parse(str_from(osb_list_json(l)), NULL);
    osb_list_free(l);
    struct json *j = json_object_new(), *infos = json_array_new();
    const struct json *items = json_get(all, "items");
    for (size_t i = 0; i < json_len(items); i++) {
        json_push(infos, info_result(json_item(items, i)));
    }
    json_set(j, "sandbox_infos", infos);
    json_set(j, "pagination", page_result(json_get(all, "pagination")));
    call_progress(c, 1, 1, "done");
    return j;
}

/* ---- those that need a connection ---- */

struct json *tool_sandbox_get_metrics(struct call *c, struct osb_error *e)
{
    struct osb_metrics v;
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    int r = osb_metrics(s, &v, e);
    call_give(c, s);
    if (r < 0) {
        return NULL;
    }
    struct json *j = json_object_new();
    json_set(j, "cpu_count", json_num_new(v.cpu_count));
    json_set(j, "cpu_used_percentage", json_num_new(v.cpu_used_pct));
    json_set(j, "memory_total_in_mib", json_num_new(v.mem_total_mib));
    json_set(j, "memory_used_in_mib", json_num_new(v.mem_used_mib));
    json_set(j, "timestamp", json_int_new(v.timestamp_ms));
    return j;
}

struct json *tool_sandbox_healthcheck(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    struct json *j = json_object_new();
    json_set(j, "sandbox_id", json_string_new(str_from(osb_sandbox_id(s))));
    json_set(j, "healthy", json_bool_new(osb_is_healthy(s)));
    call_give(c, s);
    return j;
}

struct json *tool_sandbox_get_endpoint(struct call *c, struct osb_error *e)
{
    struct osb_sandbox *s = call_sandbox(c, e);
    if (!s) {
        return NULL;
    }
    struct osb_endpoint *ep =
        osb_endpoint_get(c->session->app->client, osb_sandbox_id(s), (int)arg_int(c, "port"), 0, e);
    call_give(c, s);
    if (!ep) {
        return NULL;
    }
    struct json *j = json_object_new(), *headers = json_object_new();
    for (const struct osb_pair *p = osb_endpoint_headers(ep); p && p->key; p++) {
        json_set(headers, p->key, json_string_new(str_from(p->value)));
    }
    json_set(j, "endpoint", json_string_new(str_from(osb_endpoint_text(ep))));
    json_set(j, "headers", headers);
    osb_endpoint_free(ep);
    return j;
}
