#include "execd/routes_metrics.h"

#include <stdlib.h>

#include "base/must.h"
#include "execd/execd.h"
#include "execd/limits.h"
#include "execd/reply.h"
#include "execd/sampler.h"
#include "http/sse.h"

void metrics_get(struct http_req *req)
{
    struct err e = {0};
    struct metrics m;
    if (sampler_read(execd_of(req)->sampler, NULL, &m, &e) < 0) {
        reply_error(req, 500, CODE_RUNTIME_ERROR, "error reading runtime metrics. %s", e.msg);
        return;
    }
    struct buf body = BUF_INIT(1024);
    struct json_out o;
    json_out_init(&o, &body);
    json_encode(&o, &metrics_table, &m);
    reply_json(req, 200, buf_str(&body));
    buf_done(&body);
}

struct watch {
    struct http_req *req;
    struct sampler *sampler;
    struct io_timer timer;
    struct stop_hook stop;
    struct cpu_sample last;
};

/* One object now. A client that does not read misses some instead of making us keep them. */
static void watch_send(struct watch *w, const struct cpu_sample *since)
{
    if (http_resp_queued(w->req) >= HTTP_OUT_HIGH) {
        return;
    }
    struct err e = {0};
    struct metrics m;
    struct buf body = BUF_INIT(4096);
    struct json_out o;
    json_out_init(&o, &body);
    if (sampler_read(w->sampler, since, &m, &e) == 0) {
        json_encode(&o, &metrics_table, &m);
    } else {
        json_obj_begin(&o);
        json_key(&o, "error");
        json_put_cstr(&o, e.msg);
        json_obj_end(&o);
    }
    (void)sse_send_bare(w->req, buf_str(&body));
    buf_done(&body);
}

static void watch_tick(struct io_timer *t)
{
    struct watch *w = container_of(t, struct watch, timer);
    struct err e = {0};
    struct cpu_sample since = w->last;
    (void)sampler_cpu(w->sampler, &w->last, &e); /* watch_send() meets the same error and tells */
    io_timer_start(t, METRICS_WATCH_MS);
    watch_send(w, &since);
}

static void watch_ended(struct http_req *req, bool completed, void *arg)
{
    struct watch *w = arg;
    io_timer_stop(&w->timer);
    list_del(&w->stop.node);
    free(w);
}

static void watch_stop(struct stop_hook *hook)
{
    struct watch *w = container_of(hook, struct watch, stop);
    io_timer_stop(&w->timer);
    http_resp_end(w->req);
}

void metrics_watch(struct http_req *req)
{
    struct execd *x = execd_of(req);
    struct err e = {0};
    struct watch *w = NEW(struct watch);
    w->req = req;
    w->sampler = x->sampler;
    w->stop.fn = watch_stop;
    list_push_back(&x->stop_hooks, &w->stop.node);
    io_timer_init(&w->timer, x->loop, watch_tick);
    http_req_on_end(req, watch_ended, w);
    sse_start(req, 200);
    (void)sampler_cpu(w->sampler, &w->last, &e);
    io_timer_start(&w->timer, METRICS_WATCH_MS);
    watch_send(w, NULL);
}
