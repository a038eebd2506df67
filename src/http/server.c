/* The server object: listeners, accepted connections, TLS handshakes, draining. */

#include "http/server.h"

#include "base/must.h"
#include "http/internal.h"
#include "io/tls.h"

/* Weak, so that programs without TLS (execd) link neither it nor OpenSSL: who passes a context has
 * made it with the same object file. */
extern __typeof__(io_tls_accept) io_tls_accept __attribute__((weak));
extern __typeof__(io_tls_cancel) io_tls_cancel __attribute__((weak));

struct listener {
    struct list node;
    struct io_listener *io;
};

struct handshake {
    struct list node;
    struct http_server *server;
    struct io_tls_op *op;
    struct io_timer timer;
};

static uint64_t or_default(uint64_t v, uint64_t def)
{
    return v ? v : def;
}

struct http_server *http_server_new(struct io_loop *l, const struct http_server_opts *o)
{
    struct http_server *s = NEW(struct http_server);
    s->loop = l;
    s->opts = *o;
    s->opts.head_timeout_ms = or_default(o->head_timeout_ms, HTTP_HEAD_TIMEOUT_MS);
    s->opts.idle_timeout_ms = or_default(o->idle_timeout_ms, HTTP_IDLE_TIMEOUT_MS);
    s->opts.body_timeout_ms = or_default(o->body_timeout_ms, HTTP_BODY_TIMEOUT_MS);
    s->opts.write_timeout_ms = or_default(o->write_timeout_ms, HTTP_WRITE_TIMEOUT_MS);
    s->opts.max_connections = or_default(o->max_connections, HTTP_MAX_CONNECTIONS);
    s->router = http_router_new(o->routes);
    s->n_refs = 1;
    buf_init(&s->head, (size_t)2 * HTTP_MAX_HEAD);
    list_init(&s->conns);
    list_init(&s->listeners);
    list_init(&s->handshakes);
    list_init(&s->tunnels);
    return s;
}

void server_unref(struct http_server *s)
{
    if (--s->n_refs > 0) {
        return;
    }
    buf_done(&s->head);
    http_router_free(s->router);
    free(s);
}

size_t http_server_connections(const struct http_server *s)
{
    return s->n_conns;
}

/* ---- connections ---- */

static void start(struct http_server *s, struct io_stream *stream)
{
    if (s->n_conns < s->opts.max_connections) {
        conn_new(s, stream, false);
    } else if (s->n_extra < HTTP_MAX_REFUSING) {
        conn_new(s, stream, true);
    } else {
        io_stream_abort(stream);
    }
}

static void handshake_free(struct handshake *h)
{
    io_timer_stop(&h->timer);
    list_del(&h->node);
    free(h);
}

static void on_handshake(struct io_stream *stream, const struct err *e, void *arg)
{
    struct handshake *h = arg;
    struct http_server *s = h->server;
    handshake_free(h);
    if (stream) {
        start(s, stream);
    }
}

static void on_handshake_late(struct io_timer *t)
{
    struct handshake *h = container_of(t, struct handshake, timer);
    io_tls_cancel(h->op);
    handshake_free(h);
}

void http_server_serve(struct http_server *s, struct io_stream *take_s)
{
    if (s->draining) {
        io_stream_close(take_s);
        return;
    }
    if (!s->opts.tls) {
        start(s, take_s);
        return;
    }
    struct handshake *h = NEW(struct handshake);
    h->server = s;
    list_push_back(&s->handshakes, &h->node);
    io_timer_init(&h->timer, s->loop, on_handshake_late);
    io_timer_start(&h->timer, s->opts.head_timeout_ms);
    h->op = io_tls_accept(s->opts.tls, take_s, on_handshake, h);
}

static void on_accept(struct io_stream *take_s, void *arg)
{
    http_server_serve(arg, take_s);
}

int http_server_listen(struct http_server *s, const struct io_addr *a,
                       const struct io_listen_opts *o, struct io_addr *ret_bound, struct err *e)
{
    struct io_listener *io = io_listen(s->loop, a, o, on_accept, s, e);
    if (!io) {
        return -1;
    }
    if (ret_bound) {
        int r = io_listener_addr(io, ret_bound);
        if (r < 0) {
            io_listener_close(io);
            return err_sys(e, r, "address of listening socket");
        }
    }
    struct listener *l = NEW(struct listener);
    l->io = io;
    list_push_back(&s->listeners, &l->node);
    return 0;
}

/* ---- the end ---- */

static void stop_listening(struct http_server *s)
{
    list_each (it, &s->listeners) {
        struct listener *l = list_entry(it, struct listener, node);
        list_del(it);
        io_listener_close(l->io);
        free(l);
    }
    list_each (it, &s->handshakes) {
        struct handshake *h = list_entry(it, struct handshake, node);
        io_tls_cancel(h->op);
        handshake_free(h);
    }
}

static void tell_idle(void *arg)
{
    struct http_server *s = arg;
    io_fn *fn = s->on_idle;
    void *fn_arg = s->idle_arg;
    s->on_idle = NULL;
    if (fn && !s->closed) {
        fn(fn_arg);
    }
    server_unref(s);
}

static void check_idle(struct http_server *s)
{
    if (s->draining && s->n_conns == 0 && s->on_idle && !s->idle_told) {
        s->idle_told = true;
        s->n_refs++;
        io_defer(s->loop, tell_idle, s);
    }
}

void server_conn_closed(struct http_server *s, struct http_conn *c)
{
    *(c->is_extra ? &s->n_extra : &s->n_conns) -= 1;
    check_idle(s);
}

void http_server_drain(struct http_server *s, io_fn *on_idle, void *arg)
{
    s->draining = true;
    s->on_idle = on_idle;
    s->idle_arg = arg;
    stop_listening(s);
    list_each (it, &s->conns) {
        struct http_conn *c = list_entry(it, struct http_conn, node);
        if (c->state == CONN_HEAD && !c->req) {
            conn_close(c);
        }
    }
    check_idle(s);
}

void http_server_free(struct http_server *s)
{
    if (!s) {
        return;
    }
    s->draining = true;
    s->on_idle = NULL;
    stop_listening(s);
    while (!list_empty(&s->conns)) {
        conn_close(list_entry(list_first(&s->conns), struct http_conn, node));
    }
    while (!list_empty(&s->tunnels)) {
        struct server_tunnel *t = list_entry(list_first(&s->tunnels), struct server_tunnel, node);
        t->cut(t);
    }
    s->closed = true;
    while (s->free_reqs) {
        struct http_req *req = s->free_reqs;
        s->free_reqs = req->next_free;
        free(req);
    }
    server_unref(s);
}
