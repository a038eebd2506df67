/* Metrics, snapshots, the egress policy and the vault. */

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/codec.h"
#include "base/must.h"
#include "client/internal.h"

/* ---- metrics ---- */

static bool read_metrics(struct str text, struct osb_metrics *ret)
{
    cleanup_(json_free) struct json *j = json_parse(text, NULL);
    *ret = (struct osb_metrics){.cpu_count = json_num(json_get(j, "cpu_count"), 0),
                                .cpu_used_pct = json_num(json_get(j, "cpu_used_pct"), 0),
                                .mem_total_mib = json_num(json_get(j, "mem_total_mib"), 0),
                                .mem_used_mib = json_num(json_get(j, "mem_used_mib"), 0),
                                .timestamp_ms = json_int(json_get(j, "timestamp"), 0)};
    return json_is_number(json_get(j, "cpu_count"));
}

int osb_metrics(struct osb_sandbox *s, struct osb_metrics *ret, struct osb_error *e)
{
    struct transfer t = {.method = "GET"};
    int r = sandbox_transfer(s, OSB_EXECD, "/metrics", &t, e);
    if (r == 0 && !read_metrics(buf_str(&t.answer), ret)) {
        r = osb_fail(e, OSB_EPROTOCOL, "unreadable metrics");
    }
    transfer_done(&t);
    return r;
}

struct watch {
    struct buf line;
    osb_metrics_fn *fn;
    void *arg;
};

/* False when the listener has heard enough. */
static bool on_line(struct watch *w, struct str line)
{
    struct osb_metrics m;
    if (read_metrics(line, &m)) {
        return w->fn(&m, w->arg);
    }
    /* Comments, blank lines and fields of the event format are no objects. */
    cleanup_(json_free) struct json *j = json_parse(line, NULL);
    const struct json *error = json_get(j, "error");
    if (!error) {
        return true;
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(64u << 10);
    if (!json_is_string(error)) {
        (void)json_dump(error, &b, 0);
    }
    m = (struct osb_metrics){.error = json_is_string(error) ? json_cstr(error) : buf_cstr(&b)};
    return w->fn(&m, w->arg);
}

static int on_sample(struct str data, void *arg)
{
    struct watch *w = arg;
    if (buf_add_str(&w->line, data) < 0) {
        return -EMSGSIZE;
    }
    ptrdiff_t end;
    while ((end = str_find(buf_str(&w->line), '\n')) >= 0) {
        struct str line = str_sub(buf_str(&w->line), 0, (size_t)end);
        line = str_starts(line, STR("data:")) ? str_sub(line, 5, line.n) : line;
        bool more = on_line(w, str_trim(line));
        buf_consume(&w->line, (size_t)end + 1);
        if (!more) {
            return -ECANCELED;
        }
    }
    return 0;
}

int osb_metrics_watch(struct osb_sandbox *s, osb_metrics_fn *fn, void *arg,
                      const struct osb_call *call, struct osb_error *e)
{
    struct watch w = {.line = BUF_INIT(64u << 10), .fn = fn, .arg = arg};
    struct transfer t = {.method = "GET", .on_data = on_sample, .arg = &w, .no_timeout = true};
    if (call) {
        t.call = *call;
    }
    int r = sandbox_transfer(s, OSB_EXECD, "/metrics/watch", &t, e);
    transfer_done(&t);
    buf_done(&w.line);
    return r;
}

/* ---- snapshots ---- */

char *osb_snapshot_create(struct osb_sandbox *s, const char *name, struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(4096);
    cleanup_(buf_done) struct buf path = BUF_INIT(4096);
    struct json_out o;
    json_out_init(&o, &body);
    json_obj_begin(&o);
    if (name) {
        json_key(&o, "name");
        json_put_cstr(&o, name);
    }
    json_obj_end(&o);
    (void)buf_add_cstr(&path, "/sandboxes/");
    (void)percent_encode(&path, str_from(s->id), false);
    (void)buf_add_cstr(&path, "/snapshots");
    return osb_request(
        s->client,
        &(struct osb_request){.method = "POST", .path = buf_cstr(&path), .body = buf_cstr(&body)},
        e);
}

static char *snapshot_path(const char *id)
{
    struct buf b = BUF_INIT(4096);
    (void)buf_add_cstr(&b, "/snapshots/");
    (void)percent_encode(&b, str_from(id), false);
    return buf_take(&b);
}

/* Sleeps; false when it was canceled meanwhile. */
static bool pause_ms(uint64_t ms, const struct osb_token *token)
{
    struct pollfd p = {.fd = token_fd(token), .events = POLLIN};
    return poll(&p, token ? 1 : 0, (int)ms) <= 0;
}

char *osb_snapshot_wait(struct osb_client *c, const char *snapshot_id, const struct osb_call *call,
                        struct osb_error *e)
{
    static const struct osb_call none;
    call = call ? call : &none;
    cleanup_free char *path = snapshot_path(snapshot_id);
    const struct osb_request r = {.method = "GET", .path = path, .call = {.token = call->token}};
    uint64_t wait = 5, deadline = clock_mono_ms() + (call->timeout_ms ? call->timeout_ms
                                                                      : CLIENT_SNAPSHOT_TIMEOUT_MS);
    for (;;) {
        cleanup_free char *text = osb_request(c, &r, e);
        if (!text) {
            return NULL;
        }
        cleanup_(json_free) struct json *j = json_parse(str_from(text), NULL);
        struct str state = json_str(json_at(j, "status.state"));
        if (str_eq(state, STR("Ready"))) {
            return xstrdup(text);
        }
        bool late = clock_mono_ms() >= deadline;
        if (str_eq(state, STR("Failed")) || late) {
            const char *why = json_cstr(json_at(j, "status.message"));
            (void)osb_fail(e, late ? OSB_ETIMEOUT : OSB_ESERVER, "snapshot %s is %.*s%s%s",
                           snapshot_id, STR_FMT(state), why ? ": " : "", why ? why : "");
            return NULL;
        }
        if (!pause_ms(wait, call->token)) {
            (void)osb_fail(e, OSB_ECANCELED, "canceled");
            return NULL;
        }
        wait = MIN(wait * 2, (uint64_t)200);
    }
}

int osb_snapshot_delete(struct osb_client *c, const char *snapshot_id, struct osb_error *e)
{
    cleanup_free char *path = snapshot_path(snapshot_id);
    cleanup_free char *text =
        osb_request(c, &(struct osb_request){.method = "DELETE", .path = path}, e);
    return text ? 0 : -1;
}

/* ---- egress ---- */

char *osb_egress_get(struct osb_sandbox *s, struct osb_error *e)
{
    return osb_sandbox_request(s, OSB_EGRESS,
                               &(struct osb_request){.method = "GET", .path = "/policy"}, e);
}

static int policy_send(struct osb_sandbox *s, const char *method, struct buf *body,
                       struct osb_error *e)
{
    cleanup_free char *text = osb_sandbox_request(
        s, OSB_EGRESS,
        &(struct osb_request){.method = method, .path = "/policy", .body = buf_cstr(body)}, e);
    return text ? 0 : -1;
}

int osb_egress_patch(struct osb_sandbox *s, const struct osb_rule *rules, size_t n,
                     struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(1u << 20);
    struct json_out o;
    json_out_init(&o, &body);
    json_arr_begin(&o);
    for (size_t i = 0; i < n; i++) {
        json_obj_begin(&o);
        json_key(&o, "action");
        json_put_cstr(&o, rules[i].action);
        json_key(&o, "target");
        json_put_cstr(&o, rules[i].target);
        json_obj_end(&o);
    }
    json_arr_end(&o);
    return policy_send(s, "PATCH", &body, e);
}

int osb_egress_delete(struct osb_sandbox *s, const char *const *targets, struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(1u << 20);
    struct json_out o;
    json_out_init(&o, &body);
    json_arr_begin(&o);
    for (; targets && *targets; targets++) {
        json_put_cstr(&o, *targets);
    }
    json_arr_end(&o);
    return policy_send(s, "DELETE", &body, e);
}

/* ---- vault ---- */

static char *vault(struct osb_sandbox *s, const char *method, const char *body, struct osb_error *e)
{
    return osb_sandbox_request(
        s, OSB_EGRESS,
        &(struct osb_request){.method = method, .path = "/credential-vault", .body = body}, e);
}

char *osb_vault_create(struct osb_sandbox *s, const char *json, struct osb_error *e)
{
    return vault(s, "POST", json, e);
}

char *osb_vault_get(struct osb_sandbox *s, struct osb_error *e)
{
    return vault(s, "GET", NULL, e);
}

char *osb_vault_patch(struct osb_sandbox *s, const char *json, struct osb_error *e)
{
    return vault(s, "PATCH", json, e);
}

int osb_vault_delete(struct osb_sandbox *s, struct osb_error *e)
{
    cleanup_free char *text = vault(s, "DELETE", NULL, e);
    return text ? 0 : -1;
}
