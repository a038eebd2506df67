#include "execd/telemetry.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "execd/execd.h"
#include "execd/histogram.h"
#include "execd/limits.h"
#include "execd/lookup.h"
#include "execd/sampler.h"
#include "execd/system_stat.h"
#include "execd/task.h"
#include "http/client.h"
#include "io/timer.h"

struct telemetry {
    struct execd *x;
    struct arena arena;
    struct telemetry_config cfg;
    struct io_timer timer;
    uint64_t start_ns;
    struct histogram requests, executions, files;

    /* one export at a time */
    struct task task;
    bool busy, freed, failing;
    struct io_addr addr;
    int lookup_error;
    struct system_stat stat;
    struct http_call *call;
    int status;
};

/* ---- counting ---- */

static const struct {
    const char *method, *pattern, *name;
} file_operations[] = {
    {"GET", "/files/info", "info"},          {"DELETE", "/files", "delete"},
    {"POST", "/files/permissions", "chmod"}, {"POST", "/files/mv", "rename"},
    {"POST", "/directories", "mkdir"},       {"DELETE", "/directories", "rmdir"},
    {"GET", "/directories/list", "listdir"}, {"GET", "/files/search", "search"},
    {"POST", "/files/replace", "replace"},   {"POST", "/files/upload", "upload"},
    {"GET", "/files/download", "download"},
};

static struct str result_name(bool success)
{
    return success ? STR("success") : STR("failure");
}

/* "/session/{id}/run" as "/session/:id/run": the template, never a path. */
static void route_template(const struct http_route *route, struct buf *out)
{
    for (const char *p = route ? route->pattern : "unknown"; *p; p++) {
        if (*p == '{') {
            (void)buf_add_char(out, ':');
        } else if (*p != '}' && *p != '.') {
            (void)buf_add_char(out, *p);
        }
    }
}

static struct str known_method(struct str method)
{
    static const char *const known[] = {"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"};
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (str_eq(method, str_from(known[i]))) {
            return method;
        }
    }
    return STR("_OTHER");
}

void telemetry_request(struct telemetry *t, const struct http_req *req, int status, uint64_t us)
{
    if (!t) {
        return;
    }
    const struct http_route *route = http_req_route(req);
    char code[16], path[128];
    (void)snprintf(code, sizeof(code), "%d", status);
    struct buf template = BUF_INIT(sizeof(path));
    route_template(route, &template);
    const struct str values[3] = {known_method(http_req_method(req)), buf_str(&template),
                                  str_from(code)};
    histogram_add(&t->requests, values, (double)us / 1000);
    buf_done(&template);
    for (size_t i = 0; route && i < ARRAY_LEN(file_operations); i++) {
        if (strcmp(route->pattern, file_operations[i].pattern) == 0 &&
            strcmp(route->method, file_operations[i].method) == 0) {
            const struct str op[3] = {str_from(file_operations[i].name),
                                      result_name(status > 0 && status < 400)};
            histogram_add(&t->files, op, (double)us / 1000);
        }
    }
}

void telemetry_execution(struct telemetry *t, enum telemetry_operation op, bool success,
                         uint64_t ms)
{
    static const char *const names[TELEMETRY_OPERATION__COUNT] = {"run_code", "run_in_session",
                                                                  "run_command"};
    if (t) {
        const struct str values[3] = {str_from(names[op]), result_name(success)};
        histogram_add(&t->executions, values, (double)ms);
    }
}

/* ---- the document ---- */

static void metric_begin(struct json_out *o, const char *name, const char *unit, bool is_counter)
{
    json_obj_begin(o);
    json_key(o, "name");
    json_put_cstr(o, name);
    if (unit) {
        json_key(o, "unit");
        json_put_cstr(o, unit);
    }
    json_key(o, is_counter ? "sum" : "gauge");
    json_obj_begin(o);
    if (is_counter) {
        json_key(o, "aggregationTemporality");
        json_put_int(o, 2); /* cumulative */
        json_key(o, "isMonotonic");
        json_put_bool(o, true);
    }
    json_key(o, "dataPoints");
    json_arr_begin(o);
}

static void metric_end(struct json_out *o)
{
    json_arr_end(o);
    json_obj_end(o);
    json_obj_end(o);
}

static void put_int_point(struct json_out *o, const struct otlp_common *c, const char *key,
                          const char *value, uint64_t v)
{
    otlp_point_begin(o, c, key, value);
    otlp_put_u64(o, "asInt", v);
    json_obj_end(o);
}

static void encode_system(struct telemetry *t, const struct otlp_common *c, struct json_out *o)
{
    struct err e = {0};
    struct metrics m;
    uint64_t used, total;
    metric_begin(o, "execd.system.process.count", NULL, false);
    put_int_point(o, c, NULL, NULL, t->stat.processes);
    metric_end(o);
    if (sampler_read(t->x->sampler, NULL, &m, &e) == 0) {
        metric_begin(o, "execd.system.cpu.usage", "%", false);
        otlp_point_begin(o, c, NULL, NULL);
        json_key(o, "asDouble");
        json_put_num(o, m.cpu_used_pct.v);
        json_obj_end(o);
        metric_end(o);
    }
    if (sampler_memory(t->x->sampler, &used, &total, &e) == 0) {
        metric_begin(o, "execd.system.memory.usage_bytes", "By", false);
        put_int_point(o, c, NULL, NULL, used);
        metric_end(o);
    }
    metric_begin(o, "execd.system.network.io.bytes", "By", true);
    put_int_point(o, c, "direction", "in", t->stat.net_in);
    put_int_point(o, c, "direction", "out", t->stat.net_out);
    metric_end(o);
    metric_begin(o, "execd.system.network.connections.active", NULL, false);
    put_int_point(o, c, "protocol", "tcp", t->stat.tcp_active);
    put_int_point(o, c, "protocol", "udp", t->stat.udp_active);
    metric_end(o);
}

static void encode_resource(const struct telemetry *t, struct json_out *o)
{
    json_key(o, "resource");
    json_obj_begin(o);
    json_key(o, "attributes");
    json_arr_begin(o);
    otlp_put_attr(o, STR("service.name"), STR("opensandbox-execd-" OSB_VERSION));
    if (t->cfg.sandbox_id) {
        otlp_put_attr(o, STR("sandbox_id"), str_from(t->cfg.sandbox_id));
    }
    json_arr_end(o);
    json_obj_end(o);
}

static void encode(struct telemetry *t, struct buf *out)
{
    const struct otlp_common c = {t->cfg.attrs, t->cfg.n_attrs, t->start_ns,
                                  (uint64_t)clock_wall_us() * 1000};
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "resourceMetrics");
    json_arr_begin(&o);
    json_obj_begin(&o);
    encode_resource(t, &o);
    json_key(&o, "scopeMetrics");
    json_arr_begin(&o);
    json_obj_begin(&o);
    json_key(&o, "scope");
    json_obj_begin(&o);
    json_key(&o, "name");
    json_put_cstr(&o, "opensandbox/execd");
    json_obj_end(&o);
    json_key(&o, "metrics");
    json_arr_begin(&o);
    histogram_encode(&t->requests, &c, &o);
    histogram_encode(&t->executions, &c, &o);
    histogram_encode(&t->files, &c, &o);
    encode_system(t, &c, &o);
    json_arr_end(&o);
    json_obj_end(&o);
    json_arr_end(&o);
    json_obj_end(&o);
    json_arr_end(&o);
    json_obj_end(&o);
}

/* ---- sending ---- */

/* Says it once when it begins to fail, and once when it works again. */
static void export_ended(struct telemetry *t, int error)
{
    t->busy = false;
    bool failed = error < 0 || t->status / 100 != 2;
    if (failed && !t->failing) {
        log_warn("metrics cannot be exported", LOG_S("endpoint", t->cfg.authority),
                 LOG_I("errno", -error), LOG_I("status", t->status));
    } else if (!failed && t->failing) {
        log_info("metrics are exported again", LOG_S("endpoint", t->cfg.authority));
    }
    t->failing = failed;
}

static void on_head(struct http_call *c, const struct h1_head *head, void *arg)
{
    ((struct telemetry *)arg)->status = head->status;
}

static void on_end(struct http_call *c, int error, void *arg)
{
    struct telemetry *t = arg;
    t->call = NULL;
    export_ended(t, error);
}

static void post(struct telemetry *t)
{
    struct buf body = BUF_INIT(TELEMETRY_MAX_BODY);
    encode(t, &body);
    if (buf_failed(&body)) {
        buf_done(&body);
        export_ended(t, -EMSGSIZE);
        return;
    }
    struct h1_header headers[2 + TELEMETRY_MAX_ATTRS] = {
        {STR("Host"), str_from(t->cfg.authority)},
        {STR("Content-Type"), STR("application/json")},
    };
    size_t n = 2;
    for (size_t i = 0; i < t->cfg.n_headers; i++) {
        if (h1_is_token(t->cfg.headers[i].key) && h1_is_field_value(t->cfg.headers[i].value)) {
            headers[n++] = (struct h1_header){t->cfg.headers[i].key, t->cfg.headers[i].value};
        }
    }
    const struct http_target target = {
        .key = str_from(t->cfg.authority), .addr = t->addr, .netns_fd = -1};
    const struct http_call_opts opts = {
        .method = STR("POST"),
        .target = str_from(t->cfg.target),
        .headers = headers,
        .n_headers = n,
        .body_len = (int64_t)body.len,
        .head_timeout_ms = TELEMETRY_TIMEOUT_MS,
        .idle_timeout_ms = TELEMETRY_TIMEOUT_MS,
    };
    static const struct http_call_ops ops = {.on_head = on_head, .on_end = on_end};
    t->call = http_call_start(t->x->client, &target, &opts, &ops, t);
    (void)http_call_write(t->call, buf_str(&body)); /* one piece: there is nothing to wait for */
    http_call_end_body(t->call);
    buf_done(&body);
}

static void gather(struct task *task)
{
    struct telemetry *t = container_of(task, struct telemetry, task);
    system_stat_read(&t->stat);
    t->lookup_error = lookup_host(str_from(t->cfg.host), t->cfg.port, &t->addr);
}

static void destroy(struct telemetry *t)
{
    histogram_done(&t->requests);
    histogram_done(&t->executions);
    histogram_done(&t->files);
    arena_done(&t->arena);
    free(t);
}

static void gathered(struct task *task)
{
    struct telemetry *t = container_of(task, struct telemetry, task);
    if (t->freed) {
        destroy(t);
    } else if (t->lookup_error < 0) {
        export_ended(t, t->lookup_error);
    } else {
        post(t);
    }
}

void telemetry_flush(struct telemetry *t)
{
    if (!t || t->busy) {
        return;
    }
    t->status = 0;
    t->task = (struct task){t->x->loop, gather, gathered};
    t->busy = task_start(t->x->pool, &t->task) == 0;
}

static void on_timer(struct io_timer *timer)
{
    struct telemetry *t = container_of(timer, struct telemetry, timer);
    io_timer_start(timer, t->cfg.period_ms);
    telemetry_flush(t);
}

/* ---- life ---- */

static const char *env_of_process(const char *name, void *arg)
{
    return getenv(name);
}

struct telemetry *telemetry_new(struct execd *x)
{
    struct telemetry *t = NEW(struct telemetry);
    struct err e = {0};
    struct buf hostinfo = BUF_INIT(4096);
    (void)file_read(AT_FDCWD, "/etc/hostinfo", &hostinfo); /* mostly absent */
    int r = telemetry_config_read(&t->arena, env_of_process, NULL, buf_str(&hostinfo), &t->cfg, &e);
    buf_done(&hostinfo);
    if (r <= 0) {
        if (r < 0) {
            log_warn("metrics export is off: the OTLP endpoint cannot be used", LOG_ERR(&e));
        }
        destroy(t);
        return NULL;
    }
    t->x = x;
    t->start_ns = (uint64_t)clock_wall_us() * 1000;
    t->requests = (struct histogram){"execd.http.request.duration",
                                     {"http_method", "http_route", "http_status_code"}};
    t->executions = (struct histogram){"execd.execution.duration", {"operation", "result"}};
    t->files = (struct histogram){"execd.filesystem.operations.duration", {"operation", "result"}};
    io_timer_init(&t->timer, x->loop, on_timer);
    io_timer_start(&t->timer, t->cfg.period_ms);
    return t;
}

void telemetry_free(struct telemetry *t)
{
    if (!t) {
        return;
    }
    io_timer_stop(&t->timer);
    if (t->call) {
        http_call_cancel(t->call);
        t->busy = false;
    }
    if (t->busy) {
        t->freed = true; /* a worker still has it */
    } else {
        destroy(t);
    }
}
