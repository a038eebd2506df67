/* Diagnostics: plain text for people (logs, events, inspect, summary), and with `scope` the same as
 * JSON with a stable shape. */

#include <ctype.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/num.h"
#include "server/api/api.h"

DEFINE_CLEANUP(struct sandbox *, sandbox_unref)

#define TEXT "text/plain; charset=utf-8"
#define SINCE_DEFAULT_S 600

/* "15m", "2 h": anything else means ten minutes. */
static int64_t since_us(struct str s)
{
    if (!s.p) {
        return 0;
    }
    s = str_trim(s);
    size_t n = 0;
    while (n < s.n && isdigit((unsigned char)s.p[n])) {
        n++;
    }
    struct str unit = str_trim(str_sub(s, n, s.n));
    uint64_t v = 0;
    int64_t seconds = SINCE_DEFAULT_S;
    static const struct {
        char c;
        int64_t s;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    for (size_t i = 0; i < ARRAY_LEN(units) && n && unit.n == 1; i++) {
        if (tolower((unsigned char)unit.p[0]) == units[i].c &&
            parse_u64(str_sub(s, 0, n), &v) == 0 && v <= 36500u * 86400u) {
            seconds = (int64_t)v * units[i].s;
        }
    }
    return MAX(clock_wall_us() - seconds * 1000000, 1);
}

/* ---- collectors: append text, 0 or -1 ---- */
static int collect_logs(struct app *app, struct sandbox *sb, unsigned tail, int64_t since,
                        struct buf *out, struct err *e)
{
    size_t before = out->len;
    if (app->rt->ops->logs(app->rt, sb->id, tail, since, out, e) < 0) {
        return -1;
    }
    if (out->len == before) {
        (void)buf_add_cstr(out, "(no logs)");
    }
    return 0;
}

static int collect_events(struct app *app, struct sandbox *sb, unsigned limit, struct buf *out,
                          struct err *e)
{
    struct arena a = {0};
    struct store_event *v = NULL;
    size_t n = 0;
    if (store_event_list(app->store, &a, sb->id, limit, &v, &n, e) < 0) {
        arena_done(&a);
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        char at[RFC3339_MAX];
        rfc3339_format(v[i].at_us, 3, at);
        (void)buf_printf(out, "[%s] %-14s %-24s %s%s(by %s)\n", at, v[i].type, v[i].reason,
                         v[i].message, *v[i].message ? " " : "", v[i].actor);
    }
    if (!n) {
        (void)buf_add_cstr(out, "(no events)");
    }
    arena_done(&a);
    return 0;
}

static void put_time(struct buf *out, const char *key, int64_t us)
{
    char at[RFC3339_MAX] = "-";
    if (us) {
        rfc3339_format(us, 6, at);
    }
    (void)buf_printf(out, "%-18s %s\n", key, at);
}

static bool is_secret_name(const char *key)
{
    static const char *const words[] = {"SECRET", "TOKEN", "PASSWORD", "KEY"};
    char upper[128];
    size_t n = MIN(strlen(key), sizeof(upper) - 1);
    for (size_t i = 0; i < n; i++) {
        upper[i] = (char)toupper((unsigned char)key[i]);
    }
    upper[n] = '\0';
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strstr(upper, words[i])) {
            return true;
        }
    }
    return false;
}

/* What was asked for, out of the stored request. */
static void put_request(struct buf *out, const char *spec)
{
    struct err e = {0};
    cleanup_(json_free) struct json *j = json_parse(str_from(spec), &e);
    void *it = NULL;
    const char *key;
    struct json *v;
    (void)buf_add_cstr(out, "\nResources\n");
    const struct json *limits = json_get(j, "resourceLimits");
    while (json_is_object(limits) && json_next(limits, &it, &key, &v)) {
        (void)buf_printf(out, "  %-16s %s\n", key, json_cstr(v) ? json_cstr(v) : "-");
    }
    (void)buf_add_cstr(out, "\nEnvironment\n");
    const struct json *env = json_get(j, "env");
    it = NULL;
    while (json_is_object(env) && json_next(env, &it, &key, &v)) {
        (void)buf_printf(out, "  %s=%s\n", key,
                         is_secret_name(key) ? "***"
                         : json_cstr(v)      ? json_cstr(v)
                                             : "");
    }
}

static int collect_inspect(struct app *app, struct sandbox *sb, struct buf *out, struct err *e)
{
    struct arena a = {0};
    struct store_sandbox row;
    struct sandbox_view v;
    struct registry *reg = lifecycle_registry(app->lc);
    registry_read(reg);
    sandbox_to_view(sb, &a, &v);
    registry_unlock(reg);
    (void)buf_printf(out, "%-18s %s\n%-18s %s\n", "Id", v.id, "Image",
                     v.image         ? v.image->uri
                     : v.snapshot_id ? v.snapshot_id
                                     : "-");
    (void)buf_printf(out, "%-18s %s\n%-18s %s\n%-18s %s\n", "State", v.status->state, "Reason",
                     v.status->reason, "Message", v.status->message);
    put_time(out, "Created", v.created_at.v);
    put_time(out, "Last transition", v.status->last_transition_at.v);
    put_time(out, "Expires", v.expires_at.v);
    (void)buf_add_cstr(out, "\nRuntime\n");
    if (app->rt->ops->describe(app->rt, sb->id, out, e) < 0) {
        (void)buf_printf(out, "  (%s)\n", e->msg);
        *e = (struct err){0};
    }
    if (store_sandbox_get(app->store, &a, sb->id, &row, e) < 0) {
        arena_done(&a);
        return -1;
    }
    put_request(out, row.spec);
    (void)buf_add_cstr(out, "\nMetadata\n");
    for (size_t i = 0; i < v.metadata.n; i++) {
        (void)buf_printf(out, "  %s=%s\n", v.metadata.v[i].key, v.metadata.v[i].value);
    }
    arena_done(&a);
    return 0;
}

/* ---- routes ---- */
static struct sandbox *find(struct http_req *req, struct problem *p)
{
    struct caller c = api_caller(req);
    return lifecycle_get(app_of(req)->lc, &c, http_req_param(req, "id"), p);
}

static bool scope_known(struct str s)
{
    static const char *const scopes[] = {"container", "lifecycle", "runtime",
                                         "network",   "process",   "all"};
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        if (str_eq(s, str_from(scopes[i]))) {
            return true;
        }
    }
    return false;
}

/* The stable JSON shape, delivered inline. */
static void reply_scoped(struct http_reply *r, const struct sandbox *sb, const char *kind,
                         struct str scope, const struct buf *text)
{
    struct json_out o;
    r->status = 200;
    json_out_init(&o, &r->body);
    json_obj_begin(&o);
    json_key(&o, "sandboxId");
    json_put_cstr(&o, sb->id);
    json_key(&o, "kind");
    json_put_cstr(&o, kind);
    json_key(&o, "scope");
    json_put_str(&o, scope);
    json_key(&o, "delivery");
    json_put_cstr(&o, "inline");
    json_key(&o, "contentType");
    json_put_cstr(&o, TEXT);
    json_key(&o, "content");
    json_put_str(&o, buf_str(text));
    json_key(&o, "contentLength");
    json_put_int(&o, (int64_t)text->len);
    json_key(&o, "truncated");
    json_put_bool(&o, buf_failed(text));
    json_obj_end(&o);
}

static void reply_text(struct http_req *req, struct http_reply *r, const struct sandbox *sb,
                       const char *kind, const struct buf *text)
{
    struct str scope = http_req_query_get(req, "scope", 0);
    if (scope.p) {
        reply_scoped(r, sb, kind, scope, text);
        return;
    }
    r->status = 200;
    r->ctype = TEXT;
    http_reply_header(r, STR("Deprecation"), STR("true"));
    (void)buf_add_str(&r->body, buf_str(text));
}

static int check_scope(struct http_req *req, struct problem *p)
{
    struct str scope = http_req_query_get(req, "scope", 0);
    if (scope.p && !scope_known(scope)) {
        return problem_set(p, 400, CODE_INVALID,
                           "scope '%.*s' is not one of container, lifecycle, runtime, network, "
                           "process, all",
                           (int)MIN(scope.n, 40u), scope.p);
    }
    return 0;
}

void route_diag_logs(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct err e = {0};
    int64_t tail;
    struct sandbox *found = NULL;
    if (check_scope(req, &p) < 0 || query_int(req, "tail", 1, DIAG_TAIL_MAX, 100, &tail, &p) < 0 ||
        !(found = find(req, &p))) {
        reply_problem(r, &p);
        return;
    }
    cleanup_(sandbox_unref) struct sandbox *sb = found;
    struct buf text = BUF_INIT(DIAG_LOG_MAX);
    int64_t since = since_us(http_req_query_get(req, "since", 0));
    if (collect_logs(app_of(req), sb, (unsigned)tail, since, &text, &e) < 0) {
        (void)problem_err(&p, 500, "DOCKER::SANDBOX_QUERY_FAILED", &e);
        reply_problem(r, &p);
    } else {
        reply_text(req, r, sb, "logs", &text);
    }
    buf_done(&text);
}

void route_diag_events(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct err e = {0};
    int64_t limit;
    struct sandbox *found = NULL;
    if (check_scope(req, &p) < 0 ||
        query_int(req, "limit", 1, DIAG_EVENTS_MAX, 50, &limit, &p) < 0 ||
        !(found = find(req, &p))) {
        reply_problem(r, &p);
        return;
    }
    cleanup_(sandbox_unref) struct sandbox *sb = found;
    struct buf text = BUF_INIT(DIAG_LOG_MAX);
    if (collect_events(app_of(req), sb, (unsigned)limit, &text, &e) < 0) {
        (void)problem_err(&p, 500, "DOCKER::SANDBOX_QUERY_FAILED", &e);
        reply_problem(r, &p);
    } else {
        reply_text(req, r, sb, "events", &text);
    }
    buf_done(&text);
}

void route_diag_inspect(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct err e = {0};
    cleanup_(sandbox_unref) struct sandbox *sb = find(req, &p);
    if (sb && collect_inspect(app_of(req), sb, &r->body, &e) < 0) {
        buf_clear(&r->body);
        (void)problem_err(&p, 500, "DOCKER::SANDBOX_QUERY_FAILED", &e);
    }
    if (p.status) {
        reply_problem(r, &p);
        return;
    }
    r->status = 200;
    r->ctype = TEXT;
}

static void section(struct buf *out, const char *title)
{
    static const char line[] = "----------------------------------------";
    (void)buf_printf(out, "\n%s\n%s\n%s\n", line, title, line);
}

static void section_end(struct buf *out, int r, struct err *e)
{
    if (r < 0) {
        (void)buf_printf(out, "[error] %s", e->msg);
        *e = (struct err){0};
    }
    (void)buf_add_char(out, '\n');
}

void route_diag_summary(struct http_req *req, struct http_reply *r)
{
    cleanup_(problem_done) struct problem p = {0};
    struct err e = {0};
    int64_t tail, limit;
    struct sandbox *found = NULL;
    if (query_int(req, "tail", 1, DIAG_TAIL_MAX, 50, &tail, &p) < 0 ||
        query_int(req, "event_limit", 1, DIAG_EVENTS_MAX, 20, &limit, &p) < 0 ||
        !(found = find(req, &p))) {
        reply_problem(r, &p);
        return;
    }
    cleanup_(sandbox_unref) struct sandbox *sb = found;
    struct app *app = app_of(req);
    struct buf *out = &r->body;
    static const char banner[] =
        "========================================================================";
    (void)buf_printf(out, "%s\nSandbox %s\n%s\n", banner, sb->id, banner);
    section(out, "INSPECT");
    section_end(out, collect_inspect(app, sb, out, &e), &e);
    section(out, "EVENTS");
    section_end(out, collect_events(app, sb, (unsigned)limit, out, &e), &e);
    section(out, "LOGS");
    section_end(out, collect_logs(app, sb, (unsigned)tail, 0, out, &e), &e);
    r->status = 200;
    r->ctype = TEXT;
}
