#include "execd/telemetry.h"

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
#include "execd/telemetry_config.h"
#include "io/timer.h"
#include "otlp/post.h"

struct telemetry {
    struct execd *x;
    struct arena arena;
    struct telemetry_config cfg;
    struct io_timer timer;
    uint64_t start_ns;
    struct histogram requests, executions, files;

    /* one export at a time */
    struct otlp_post post;
    struct task task;
    bool freed;
    struct io_addr addr;
    int lookup_error;
    struct system_stat stat;
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

static void encode_system(struct telemetry *t, const struct otlp_common *c, struct json_out *o)
{
    struct err e = {0};
    struct metrics m;
    uint64_t used, total;
    otlp_metric_begin(o, "execd.system.process.count", NULL, OTLP_GAUGE);
    otlp_put_int(o, c, NULL, 0, t->stat.processes);
    otlp_metric_end(o);
    if (sampler_read(t->x->sampler, NULL, &m, &e) == 0) {
        otlp_metric_begin(o, "execd.system.cpu.usage", "%", OTLP_GAUGE);
        otlp_put_double(o, c, m.cpu_used_pct.v);
        otlp_metric_end(o);
    }
    if (sampler_memory(t->x->sampler, &used, &total, &e) == 0) {
        otlp_metric_begin(o, "execd.system.memory.usage_bytes", "By", OTLP_GAUGE);
        otlp_put_int(o, c, NULL, 0, used);
        otlp_metric_end(o);
    }
    otlp_metric_begin(o, "execd.system.network.io.bytes", "By", OTLP_COUNTER);
    otlp_put_int(o, c, &(struct otlp_pair){STR("direction"), STR("in")}, 1, t->stat.net_in);
    otlp_put_int(o, c, &(struct otlp_pair){STR("direction"), STR("out")}, 1, t->stat.net_out);
    otlp_metric_end(o);
    otlp_metric_begin(o, "execd.system.network.connections.active", NULL, OTLP_GAUGE);
    otlp_put_int(o, c, &(struct otlp_pair){STR("protocol"), STR("tcp")}, 1, t->stat.tcp_active);
    otlp_put_int(o, c, &(struct otlp_pair){STR("protocol"), STR("udp")}, 1, t->stat.udp_active);
    otlp_metric_end(o);
}

static void encode(struct telemetry *t, struct buf *out)
{
    const struct otlp_common c = {t->cfg.attrs, t->cfg.n_attrs, t->start_ns,
                                  (uint64_t)clock_wall_us() * 1000};
    const struct otlp_pair resource[] = {
        {STR("service.name"), STR("opensandbox-execd-" OSB_VERSION)},
        {STR("sandbox_id"), str_from(t->cfg.sandbox_id)},
    };
    struct json_out o;
    json_out_init(&o, out);
    otlp_document_begin(&o, "opensandbox/execd", resource, t->cfg.sandbox_id ? 2 : 1);
    histogram_encode(&t->requests, &c, &o);
    histogram_encode(&t->executions, &c, &o);
    histogram_encode(&t->files, &c, &o);
    encode_system(t, &c, &o);
    otlp_document_end(&o);
}

/* ---- sending ---- */

static void post(struct telemetry *t)
{
    struct buf body = BUF_INIT(TELEMETRY_MAX_BODY);
    encode(t, &body);
    otlp_post_start(&t->post, &t->addr, &body);
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
        otlp_post_failed(&t->post, t->lookup_error);
    } else {
        post(t);
    }
}

void telemetry_flush(struct telemetry *t)
{
    if (!t || t->post.is_busy) {
        return;
    }
    t->task = (struct task){t->x->loop, gather, gathered};
    t->post.is_busy = task_start(t->x->pool, &t->task) == 0;
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
    (void)file_read_regular(AT_FDCWD, "/etc/hostinfo", &hostinfo); /* mostly absent */
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
    t->post = (struct otlp_post){.client = x->client,
                                 .authority = t->cfg.authority,
                                 .target = str_from(t->cfg.target),
                                 .headers = t->cfg.headers,
                                 .n_headers = t->cfg.n_headers,
                                 .timeout_ms = TELEMETRY_TIMEOUT_MS};
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
    otlp_post_cancel(&t->post);
    if (t->post.is_busy) {
        t->freed = true; /* a worker still has it */
    } else {
        destroy(t);
    }
}
