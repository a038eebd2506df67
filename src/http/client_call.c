/* A call of the client: connecting, sending the request, and trying once more. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "http/client_internal.h"
#include "io/dial.h"
#include "io/tls.h"

/* A program without TLS does not link io/tls.c; then no target has a TLS context either. */
#pragma weak io_tls_connect
#pragma weak io_tls_cancel

#define CHUNK_LINE_MAX 18 /* 16 hex digits, CR LF */

/* ---- deferred work ---- */

static void run_one(struct http_call *c)
{
    struct client_conn *conn = c->conn;
    if (c->error) {
        client_call_finish(c, c->error);
        return;
    }
    if (!conn) {
        return;
    }
    c->corked = false;
    client_call_flush(c);
    if (conn->closed || conn->call != c || c->paused) {
        return;
    }
    if (conn->in.len > 0 || c->recv == RECV_DONE) {
        client_conn_process_kept(conn);
    }
}

static void run_deferred(void *arg)
{
    struct http_client *cl = arg;
    struct list *n;
    struct list now;
    cl->defer_pending = false;
    /* What is deferred from here on waits for the next turn. */
    list_init(&now);
    list_push_back(&cl->deferred, &now);
    list_del(&cl->deferred);
    while ((n = list_pop_front(&now))) { /* a call that goes away takes itself out */
        run_one(list_entry(n, struct http_call, deferred_link));
    }
}

static void defer(struct http_call *c)
{
    struct http_client *cl = c->client;
    if (list_empty(&c->deferred_link)) {
        list_push_back(&cl->deferred, &c->deferred_link);
    }
    if (!cl->defer_pending) {
        cl->defer_pending = true;
        io_defer(cl->loop, run_deferred, cl);
    }
}

void client_call_fail_later(struct http_call *c, int error)
{
    c->error = error;
    defer(c);
}

/* ---- timers ---- */

void client_call_on_timer(struct io_timer *t)
{
    client_call_finish(container_of(t, struct http_call, timer), -ETIMEDOUT);
}

bool client_call_sent_all(const struct http_call *c)
{
    return c->body_ended && c->head_off == c->head.len && c->out_off == c->out.len &&
           !c->write_failed;
}

static bool has_unsent(const struct http_call *c)
{
    return c->head_off < c->head.len || c->out_off < c->out.len;
}

/* One timer for whatever the call waits for now. Nothing runs while it waits for its own user: for
 * more body, or for being resumed. */
void client_call_timer(struct http_call *c)
{
    bool sent_all = client_call_sent_all(c);
    uint64_t ms = 0;
    if (!c->conn) {
        return; /* connecting has its own */
    }
    if (c->recv == RECV_HEAD && sent_all && !c->paused) {
        if (c->head_timeout_ms && io_timer_armed(&c->timer) && c->got_bytes) {
            return; /* a head that trickles in does not extend its time */
        }
        ms = c->head_timeout_ms;
    } else if (!c->paused && (c->recv != RECV_HEAD || has_unsent(c))) {
        ms = c->idle_timeout_ms;
    }
    if (ms) {
        io_timer_start(&c->timer, ms);
    } else if (io_timer_armed(&c->timer)) {
        io_timer_stop(&c->timer);
    }
}

void client_call_want(struct http_call *c)
{
    io_stream_want(c->conn->stream, (c->paused ? 0 : IO_READABLE) | (c->blocked ? IO_WRITABLE : 0));
}

/* ---- sending ---- */

static void queue(struct http_call *c, const struct iovec *body, int n_body, size_t skip)
{
    for (int i = 0; i < n_body; i++) {
        size_t n = MIN(skip, body[i].iov_len);
        skip -= n;
        if (buf_add(&c->out, (const char *)body[i].iov_base + n, body[i].iov_len - n) < 0) {
            client_call_fail_later(c, -ENOBUFS);
            return;
        }
    }
}

/* What the socket took: head first, then the queue; returns how much of the new body. */
static size_t sent(struct http_call *c, size_t n)
{
    size_t head = MIN(n, c->head.len - c->head_off);
    c->head_off += head;
    n -= head;
    c->body_sent |= n > 0;
    size_t out = MIN(n, c->out.len - c->out_off);
    c->out_off += out;
    if (c->out.len > 0 && c->out_off == c->out.len) {
        buf_done(&c->out); /* an upload that once met a full socket does not keep the memory */
        c->out_off = 0;
    }
    return n - out;
}

/* Sends head, queue and `body` in one system call if the socket may take it now, and queues the
 * rest of `body`. */
static void send_out(struct http_call *c, const struct iovec *body, int n_body)
{
    struct iovec iov[8];
    int n = 0;
    if (!c->conn || c->corked || c->blocked || c->write_failed) {
        queue(c, body, n_body, 0);
        return;
    }
    if (c->head_off < c->head.len) {
        iov[n++] = (struct iovec){c->head.p + c->head_off, c->head.len - c->head_off};
    }
    if (c->out_off < c->out.len) {
        iov[n++] = (struct iovec){c->out.p + c->out_off, c->out.len - c->out_off};
    }
    for (int i = 0; i < n_body; i++) {
        iov[n++] = body[i];
    }
    if (n == 0) {
        return;
    }
    ssize_t r = io_stream_writev(c->conn->stream, iov, n);
    if (r < 0 && r != -EAGAIN) {
        /* The peer may have answered before it closed: what it said is still to be read, and the
         * end of the stream will come behind it. */
        c->write_failed = true;
    }
    queue(c, body, n_body, r > 0 ? sent(c, (size_t)r) : 0);
    if (has_unsent(c) && !c->write_failed) {
        c->blocked = true;
        client_call_want(c);
    }
}

static void tell_writable(struct http_call *c)
{
    c->was_full = c->tell_writable = false;
    if (c->ops.on_writable) {
        c->ops.on_writable(c, c->arg);
    }
}

/* The socket can take more, or a corked head has waited long enough. May call on_writable. */
void client_call_flush(struct http_call *c)
{
    if (c->blocked) {
        c->blocked = false;
        send_out(c, NULL, 0);
        client_call_want(c);
    } else {
        send_out(c, NULL, 0);
    }
    client_call_timer(c);
    size_t queued = c->out.len - c->out_off;
    if (c->tell_writable || (c->was_full && queued <= HTTP_OUT_LOW)) {
        tell_writable(c);
    }
}

bool http_call_write(struct http_call *c, struct str data)
{
    char line[CHUNK_LINE_MAX + 1];
    struct iovec iov[3];
    int n = 0;
    if (bug_if(c->body_ended || !c->has_body)) {
        return true;
    }
    if (data.n > 0) {
        if (c->body_left < 0) {
            int len = snprintf(line, sizeof(line), "%zx\r\n", data.n);
            iov[n++] = (struct iovec){line, (size_t)len};
        } else if (bug_if(data.n > (uint64_t)c->body_left)) {
            data.n = (size_t)c->body_left; /* more would be read as the next request */
        }
        iov[n++] = (struct iovec){(void *)(uintptr_t)data.p, data.n};
        if (c->body_left < 0) {
            iov[n++] = (struct iovec){(void *)(uintptr_t) "\r\n", 2};
        } else {
            c->body_left -= (int64_t)data.n;
        }
        c->corked = c->corked && !c->conn;
        send_out(c, iov, n);
        client_call_timer(c);
    }
    c->was_full = c->out.len - c->out_off >= HTTP_OUT_HIGH;
    return !c->was_full;
}

void http_call_end_body(struct http_call *c)
{
    if (c->body_ended) {
        return;
    }
    if (bug_if(c->body_left > 0)) {
        client_call_fail_later(c, -EPROTO); /* the peer would wait for the rest */
        return;
    }
    c->body_ended = true;
    c->corked = c->corked && !c->conn;
    struct iovec last = {(void *)(uintptr_t) "0\r\n\r\n", 5};
    send_out(c, &last, c->body_left < 0 ? 1 : 0);
    client_call_timer(c);
}

void http_call_pause(struct http_call *c)
{
    c->paused = true;
    if (c->conn) {
        client_call_want(c);
        client_call_timer(c);
    }
}

void http_call_resume(struct http_call *c)
{
    if (!c->paused) {
        return;
    }
    c->paused = false;
    if (!c->conn) {
        return;
    }
    client_call_want(c);
    client_call_timer(c);
    if (c->conn->in.len > 0 || c->recv == RECV_DONE) {
        defer(c);
    }
}

/* ---- connecting ---- */

/* Called with a connection that is ready. What there is to send goes out at once; the head of a
 * request whose body is still to come waits for its first piece until this turn ends, so that both
 * go out together. */
void client_call_attach(struct http_call *c, struct client_conn *conn)
{
    c->conn = conn;
    conn->call = c;
    c->blocked = false;
    c->corked = !c->body_ended && c->out.len == 0;
    io_stream_want(conn->stream, c->paused ? 0 : IO_READABLE);
    send_out(c, NULL, 0);
    client_call_timer(c);
    if (!c->body_ended) {
        c->tell_writable = true;
        defer(c);
    }
}

static void on_connected(struct http_call *c, struct io_stream *s)
{
    client_call_attach(c, client_conn_new(c->pool, s));
}

static void on_tls(struct io_stream *s, const struct err *e, void *arg)
{
    struct http_call *c = arg;
    c->tls_op = NULL;
    io_timer_stop(&c->timer);
    if (!s) {
        client_call_finish(c, e && e->sys ? -e->sys : -EPROTO);
        return;
    }
    on_connected(c, s);
}

static void on_dialed(struct io_stream *s, int error, void *arg)
{
    struct http_call *c = arg;
    c->dial = NULL;
    if (error == -ECONNREFUSED && c->has_alt) {
        c->has_alt = false;
        c->addr = c->alt;
        client_call_dial(c);
        return;
    }
    if (!s) {
        client_call_finish(c, error);
        return;
    }
    if (!c->tls) {
        on_connected(c, s);
        return;
    }
    io_timer_start(&c->timer, c->client->opts.connect_timeout_ms);
    c->tls_op = io_tls_connect(c->tls, s, c->server_name, on_tls, c);
}

void client_call_dial(struct http_call *c)
{
    c->reused = false;
    c->dial = io_dial_start(c->client->loop, &c->addr, c->netns_fd,
                            c->client->opts.connect_timeout_ms, on_dialed, c);
}

void client_call_connect(struct http_call *c)
{
    /* A request that cannot be repeated must not meet a connection that is known to be dead. */
    bool careful = c->has_body || !client_method_idempotent(c->method);
    struct client_conn *conn = client_pool_take(c->pool, careful);
    if (conn) {
        c->reused = true;
        client_call_attach(c, conn);
    } else {
        client_call_dial(c);
    }
}

static bool may_retry(const struct http_call *c)
{
    if (!c->reused || c->retried || c->got_bytes || c->body_sent) {
        return false;
    }
    return c->has_body || client_method_idempotent(c->method);
}

void client_call_broken(struct http_call *c, int error)
{
    if (!may_retry(c)) {
        client_call_finish(c, error);
        return;
    }
    client_conn_close(c->conn);
    io_timer_stop(&c->timer);
    c->retried = true;
    c->write_failed = false;
    c->head_off = 0;
    client_call_dial(c);
}
