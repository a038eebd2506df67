/* The HTTP client: its life, and the beginning and end of calls. */

#include "http/client.h"

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "http/client_internal.h"
#include "io/dial.h"
#include "io/tls.h"

/* As in client_call.c: a program without TLS does not link it. */
#pragma weak io_tls_cancel

#define SPARE_HEAD_MAX 4096 /* larger head buffers are given back */

struct http_client *http_client_new(struct io_loop *l, const struct http_client_opts *o)
{
    struct http_client *cl = NEW(struct http_client);
    cl->loop = l;
    cl->opts = o ? *o : (struct http_client_opts){0};
    if (!cl->opts.connect_timeout_ms) {
        cl->opts.connect_timeout_ms = HTTP_CONNECT_TIMEOUT_MS;
    }
    if (!cl->opts.idle_pool_ms) {
        cl->opts.idle_pool_ms = HTTP_POOL_IDLE_MS;
    }
    if (!cl->opts.max_idle_per_target) {
        cl->opts.max_idle_per_target = HTTP_POOL_MAX_IDLE;
    }
    list_init(&cl->calls);
    list_init(&cl->deferred);
    cl->read_buf = xmalloc(HTTP_READ_CHUNK);
    return cl;
}

static void client_free_memory(void *arg)
{
    struct http_client *cl = arg;
    free(cl->read_buf);
    free(cl);
}

void http_client_free(struct http_client *cl)
{
    struct list *n;
    if (!cl) {
        return;
    }
    cl->dead = true;
    while ((n = list_first(&cl->calls))) {
        http_call_cancel(list_entry(n, struct http_call, link));
    }
    http_client_forget(cl, STR(""));
    map_done(&cl->pools);
    while (cl->spare) {
        struct http_call *c = cl->spare;
        cl->spare = c->next_spare;
        buf_done(&c->head);
        free(c);
    }
    /* One of our callbacks may be running above us on the stack. */
    io_defer(cl->loop, client_free_memory, cl);
}

/* ---- calls ---- */

static struct http_call *call_new(struct http_client *cl)
{
    struct http_call *c = cl->spare;
    if (c) {
        cl->spare = c->next_spare;
        cl->n_spare--;
        struct buf head = c->head;
        memset(c, 0, sizeof(*c));
        c->head = head;
        buf_clear(&c->head);
    } else {
        c = NEW(struct http_call);
        buf_init(&c->head, HTTP_CALL_MAX_HEAD);
    }
    c->client = cl;
    buf_init(&c->out, HTTP_CALL_MAX_OUT);
    list_init(&c->deferred_link);
    io_timer_init(&c->timer, cl->loop, client_call_on_timer);
    list_push_back(&cl->calls, &c->link);
    return c;
}

static void call_free(struct http_call *c)
{
    struct http_client *cl = c->client;
    list_del(&c->link);
    list_del(&c->deferred_link);
    buf_done(&c->out);
    if (cl->n_spare < HTTP_MAX_FREE_CALLS && c->head.cap <= SPARE_HEAD_MAX && !cl->dead) {
        cl->n_spare++;
        c->next_spare = cl->spare;
        cl->spare = c;
        return;
    }
    buf_done(&c->head);
    free(c);
}

/* Lets go of everything the call holds but its own memory. */
static void release(struct http_call *c)
{
    c->ended = true;
    if (io_timer_armed(&c->timer)) {
        io_timer_stop(&c->timer);
    }
    if (c->dial) {
        io_dial_cancel(c->dial);
        c->dial = NULL;
    }
    if (c->tls_op) {
        io_tls_cancel(c->tls_op);
        c->tls_op = NULL;
    }
    if (c->conn) {
        client_conn_close(c->conn);
    }
    client_pool_unref(c->pool);
    list_del(&c->link); /* from here on it is not the client's any more */
    list_del(&c->deferred_link);
}

void client_call_finish(struct http_call *c, int error)
{
    release(c);
    if (c->ops.on_end) {
        c->ops.on_end(c, error, c->arg);
    }
    call_free(c);
}

struct http_call *http_call_start(struct http_client *cl, const struct http_target *t,
                                  const struct http_call_opts *o, const struct http_call_ops *ops,
                                  void *arg)
{
    struct http_call *c = call_new(cl);
    c->ops = *ops;
    c->arg = arg;
    c->addr = t->addr;
    c->has_alt = t->alt;
    if (t->alt) {
        c->alt = *t->alt;
    }
    c->netns_fd = t->netns_fd;
    c->tls = t->tls;
    c->server_name = t->server_name;
    c->head_timeout_ms = o->head_timeout_ms;
    c->idle_timeout_ms = o->idle_timeout_ms;
    c->has_body = o->body_len != 0;
    c->body_ended = !c->has_body;
    c->body_left = o->body_len;
    c->upgrade = o->upgrade;
    c->pool = client_pool_ref(cl, t->key);
    if (client_head_format(o, &c->head) < 0) {
        client_call_fail_later(c, -EINVAL);
        return c;
    }
    c->method = str_n(c->head.p, o->method.n);
    client_call_connect(c);
    return c;
}

void http_call_cancel(struct http_call *c)
{
    if (c->ended) {
        return; /* inside its own on_end */
    }
    release(c);
    call_free(c);
}

struct io_stream *http_call_take_stream(struct http_call *c, struct buf *early)
{
    must(c->conn && c->upgrade);
    (void)buf_add_str(early, c->early); /* the buffer's owner looks at buf_failed() */
    struct io_stream *s = client_conn_take_stream(c->conn);
    release(c);
    call_free(c);
    return s;
}
