#include "otlp/post.h"

#include <errno.h>

#include "base/log.h"

static void ended(struct otlp_post *p, int error)
{
    bool failed = error < 0 || p->status / 100 != 2;
    p->is_busy = false;
    if (failed && !p->is_failing) {
        log_warn("metrics cannot be exported", LOG_S("endpoint", p->authority),
                 LOG_I("errno", -error), LOG_I("status", p->status));
    } else if (!failed && p->is_failing) {
        log_info("metrics are exported again", LOG_S("endpoint", p->authority));
    }
    p->is_failing = failed;
}

static void on_head(struct http_call *c, const struct h1_head *head, void *arg)
{
    ((struct otlp_post *)arg)->status = head->status;
}

static void on_end(struct http_call *c, int error, void *arg)
{
    struct otlp_post *p = arg;
    p->call = NULL;
    ended(p, error);
}

void otlp_post_failed(struct otlp_post *p, int error)
{
    p->status = 0;
    ended(p, error);
}

void otlp_post_start(struct otlp_post *p, const struct io_addr *to, const struct buf *body)
{
    static const struct http_call_ops ops = {.on_head = on_head, .on_end = on_end};
    struct h1_header headers[2 + OTLP_MAX_PAIRS] = {
        {STR("Host"), str_from(p->authority)},
        {STR("Content-Type"), STR("application/json")},
    };
    size_t n = 2;
    if (buf_failed(body)) {
        otlp_post_failed(p, -EMSGSIZE);
        return;
    }
    for (size_t i = 0; i < p->n_headers; i++) {
        if (h1_is_token(p->headers[i].key) && h1_is_field_value(p->headers[i].value)) {
            headers[n++] = (struct h1_header){p->headers[i].key, p->headers[i].value};
        }
    }
    const struct http_target target = {.key = str_from(p->authority),
                                       .addr = *to,
                                       .netns_fd = -1,
                                       .tls = p->tls,
                                       .server_name = p->server_name};
    const struct http_call_opts opts = {.method = STR("POST"),
                                        .target = p->target,
                                        .headers = headers,
                                        .n_headers = n,
                                        .body_len = (int64_t)body->len,
                                        .head_timeout_ms = p->timeout_ms,
                                        .idle_timeout_ms = p->timeout_ms};
    p->status = 0;
    p->call = http_call_start(p->client, &target, &opts, &ops, p);
    (void)http_call_write(p->call, buf_str(body)); /* one piece: there is nothing to wait for */
    http_call_end_body(p->call);
}

void otlp_post_cancel(struct otlp_post *p)
{
    if (p->call) {
        http_call_cancel(p->call);
        p->call = NULL;
        p->is_busy = false;
    }
}
