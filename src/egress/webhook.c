/* The webhook: a queue, one delivery at a time, up to EGRESS_WEBHOOK_TRIES attempts with growing
 * pauses. 2xx is success, 3xx and 4xx are final, everything else is tried again. */

#include "egress/webhook.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/must.h"
#include "egress/limits.h"
#include "http/client.h"
#include "io/timer.h"
#include "io/tls.h"
#include "net/dns.h"
#include "net/url.h"
#include "json/json.h"

struct notice {
    struct list node;
    int64_t when_us;
    char name[];
};

struct webhook {
    struct io_loop *loop;
    struct resolver *resolver;
    struct http_client *client;
    struct io_tls_ctx *tls;
    struct url url;
    char *host, *key;
    const char *sandbox_id;
    struct list queue;
    size_t n_queued;
    struct io_timer timer; /* the pause before another attempt */
    struct asker asker;
    struct http_call *call;
    struct buf body;
    bool busy;
    unsigned tries;
    int status;
};

static void attempt(struct webhook *w);

static void next(struct webhook *w)
{
    w->busy = false;
    struct list *node = list_first(&w->queue);
    if (node) {
        w->busy = true;
        w->tries = 0;
        attempt(w);
    }
}

static void delivered(struct webhook *w)
{
    struct notice *n = list_entry(list_pop_front(&w->queue), struct notice, node);
    w->n_queued--;
    free(n);
    next(w);
}

static void attempt_failed(struct webhook *w, const char *why)
{
    if (++w->tries < EGRESS_WEBHOOK_TRIES) {
        io_timer_start(&w->timer, 1000u << (w->tries - 1));
        return;
    }
    log_warn("a refusal could not be reported", LOG_S("reason", why), LOG_I("status", w->status));
    delivered(w);
}

static void on_head(struct http_call *c, const struct h1_head *head, void *arg)
{
    struct webhook *w = arg;
    w->status = head->status;
}

static void on_body(struct http_call *c, struct str data, void *arg)
{
}

static void on_end(struct http_call *c, int error, void *arg)
{
    struct webhook *w = arg;
    w->call = NULL;
    if (w->status >= 200 && w->status < 500) {
        if (w->status >= 300) {
            log_warn("the webhook does not want refusals", LOG_I("status", w->status));
        }
        delivered(w);
    } else {
        attempt_failed(w, error ? strerror(-error) : "server error");
    }
}

static void on_writable(struct http_call *c, void *arg)
{
}

static void put_body(struct webhook *w)
{
    const struct notice *n = list_entry(list_first(&w->queue), struct notice, node);
    char when[RFC3339_MAX];
    struct json_out o;
    buf_clear(&w->body);
    json_out_init(&o, &w->body);
    rfc3339_format(n->when_us, 0, when);
    json_obj_begin(&o);
    json_key(&o, "hostname");
    json_put_cstr(&o, n->name);
    json_key(&o, "timestamp");
    json_put_cstr(&o, when);
    json_key(&o, "source");
    json_put_cstr(&o, "opensandbox-egress");
    json_key(&o, "sandboxId");
    json_put_cstr(&o, w->sandbox_id);
    json_obj_end(&o);
}

static void post(struct webhook *w, const struct io_addr *to)
{
    static const struct http_call_ops ops = {on_writable, on_head, on_body, on_end};
    const struct h1_header headers[] = {{STR("Host"), str_from(w->key)},
                                        {STR("Content-Type"), STR("application/json")}};
    cleanup_(buf_done) struct buf target = BUF_INIT(8192);
    struct http_target t = {.key = str_from(w->key),
                            .addr = *to,
                            .netns_fd = -1,
                            .tls = w->tls,
                            .server_name = w->host};
    put_body(w);
    (void)buf_add_str(&target, w->url.path.n ? w->url.path : STR("/"));
    if (w->url.query.n) {
        (void)buf_add_char(&target, '?');
        (void)buf_add_str(&target, w->url.query);
    }
    struct http_call_opts o = {.method = STR("POST"),
                               .target = buf_str(&target),
                               .headers = headers,
                               .n_headers = ARRAY_LEN(headers),
                               .body_len = (int64_t)w->body.len,
                               .head_timeout_ms = EGRESS_WEBHOOK_TIMEOUT_MS,
                               .idle_timeout_ms = EGRESS_WEBHOOK_TIMEOUT_MS};
    w->status = 0;
    w->call = http_call_start(w->client, &t, &o, &ops, w);
    (void)http_call_write(w->call, buf_str(&w->body));
    http_call_end_body(w->call);
}

static uint16_t port_of(const struct webhook *w)
{
    return w->url.port ? w->url.port : w->tls ? 443 : 80;
}

static void on_address(struct asker *a, struct str answer)
{
    struct webhook *w = container_of(a, struct webhook, asker);
    struct io_addr to;
    if (resolver_first_addr(answer, port_of(w), &to)) {
        post(w, &to);
    } else {
        attempt_failed(w, "its host does not resolve");
    }
}

static void attempt(struct webhook *w)
{
    struct io_addr to;
    if (io_addr_ip(str_from(w->host), port_of(w), &to) == 0) {
        post(w, &to);
    } else {
        resolver_ask_name(w->resolver, str_from(w->host), DNS_A, &w->asker);
    }
}

static void on_pause_over(struct io_timer *t)
{
    attempt(container_of(t, struct webhook, timer));
}

struct webhook *webhook_new(struct io_loop *l, struct resolver *r, const char *url,
                            const char *sandbox_id, struct err *e)
{
    struct webhook *w = NEW(struct webhook);
    w->loop = l;
    w->resolver = r;
    w->sandbox_id = sandbox_id;
    w->asker.done = on_address;
    list_init(&w->queue);
    buf_init(&w->body, 4096);
    io_timer_init(&w->timer, l, on_pause_over);
    bool parsed = url_parse(str_trim(str_from(url)), &w->url) == 0 && w->url.host.n;
    bool https = parsed && str_eq_nocase(w->url.scheme, STR("https"));
    if (!parsed || (!https && !str_eq_nocase(w->url.scheme, STR("http")))) {
        (void)err_set(e, ERR_INVALID, "OPENSANDBOX_EGRESS_DENY_WEBHOOK is not an http(s) URL");
        webhook_free(w);
        return NULL;
    }
    w->host = str_dup(w->url.host);
    w->key = xasprintf(w->url.port ? "%s:%u" : "%s", w->host, w->url.port);
    if (https && !(w->tls = io_tls_client_new(&(struct io_tls_client_opts){0}, e))) {
        webhook_free(w);
        return NULL;
    }
    w->client = http_client_new(l, &(struct http_client_opts){0});
    return w;
}

void webhook_free(struct webhook *w)
{
    if (!w) {
        return;
    }
    io_timer_stop(&w->timer);
    resolver_forget(w->resolver, &w->asker);
    if (w->call) {
        http_call_cancel(w->call);
    }
    if (w->client) {
        http_client_free(w->client);
    }
    if (w->tls) {
        io_tls_ctx_unref(w->tls);
    }
    struct list *node;
    while ((node = list_pop_front(&w->queue))) {
        free(list_entry(node, struct notice, node));
    }
    buf_done(&w->body);
    free(w->host);
    free(w->key);
    free(w);
}

void webhook_send(struct webhook *w, struct str hostname)
{
    if (w->n_queued >= EGRESS_MAX_WEBHOOKS) {
        log_warn("a refusal is not reported: too many wait", LOG_STR("target.host", hostname));
        return;
    }
    struct notice *n = xcalloc(1, sizeof(*n) + hostname.n + 1);
    memcpy(n->name, hostname.p, hostname.n);
    n->when_us = clock_wall_us();
    list_init(&n->node);
    list_push_back(&w->queue, &n->node);
    w->n_queued++;
    if (!w->busy) { /* not from inside the resolver, which is answering right now */
        w->busy = true;
        w->tries = 0;
        io_timer_start(&w->timer, 1);
    }
}
