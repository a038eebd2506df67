/* A connection: reading, the order of requests, timeouts, and its end.
 *
 * Theory of operation. Events read bytes and then call conn_run(), which takes one step after the
 * other until nothing moves: parse a head, dispatch it, feed its body, flush the response, finish,
 * next head. At the end of a run the wanted events and the timer are set to what is waited for. In
 * the common case (a whole request in one read, answered at once) neither changes: one read, one
 * write, no epoll_ctl, no timer operation but a new due time.
 *
 * A client that has left. While a handler still produces its answer the connection is read on if
 * the body is complete: end of file then means that the client is gone (as nginx sees it), and the
 * request ends at once. So does a hang-up while reading is paused. Once the handler has ended its
 * response, end of file no longer matters: a client that closed only its sending side gets all of
 * it. */

#include <errno.h>

#include "base/must.h"
#include "http/internal.h"

#define READS_PER_EVENT 4

static void on_event(struct io_stream *s, unsigned events, void *arg);
static void on_timer(struct io_timer *t);
static void conn_run(struct http_conn *c);

/* ---- life ---- */

/* Over the limit of connections: says so without looking at the request. */
static void tell_overload(struct http_conn *c)
{
    static const char text[] = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
                               "Retry-After: 1\r\nConnection: close\r\n\r\n";
    (void)io_stream_write(c->stream, text, sizeof(text) - 1); /* best effort into an empty socket */
    (void)io_stream_shutdown(c->stream);
    c->state = CONN_LINGER;
    conn_wait(c, WAIT_LINGER);
}

void conn_new(struct http_server *s, struct io_stream *take_s, bool is_extra)
{
    struct http_conn *c = NEW(struct http_conn);
    c->server = s;
    c->stream = take_s;
    c->n_refs = 1;
    c->is_extra = is_extra;
    io_timer_init(&c->timer, s->loop, on_timer);
    list_push_back(&s->conns, &c->node);
    *(is_extra ? &s->n_extra : &s->n_conns) += 1;
    io_stream_set_cb(take_s, on_event, c);
    io_stream_want(take_s, IO_READABLE);
    conn_wait(c, WAIT_IDLE);
    if (is_extra) {
        tell_overload(c);
    }
}

static void conn_unref(void *arg)
{
    struct http_conn *c = arg;
    if (--c->n_refs == 0) {
        free(c);
    }
}

static void bury_request(struct http_req *req, bool completed)
{
    if (!completed) {
        atomic_store(&req->gone, true);
    }
    if (work_is_running(req)) {
        work_client_gone(req); /* it ends when the worker has returned */
        req->conn = NULL;
    } else if (req->ending) {
        req->conn = NULL; /* closed out of its own on_end: finish() frees it */
    } else {
        req_end(req, completed);
        req->conn = NULL;
        req_free(req);
    }
}

/* The stream is closed or taken: everything but the memory goes. */
static void conn_bury(struct http_conn *c, bool completed)
{
    struct http_server *s = c->server;
    struct http_req *req = take_ptr(&c->req);
    c->state = CONN_CLOSED;
    io_timer_stop(&c->timer);
    outq_done(&c->out);
    if (req) {
        bury_request(req, completed);
    }
    list_del(&c->node);
    server_conn_closed(s, c);
    /* Callers up the stack still look at it. */
    io_defer(s->loop, conn_unref, c);
}

void conn_close(struct http_conn *c)
{
    struct io_stream *s = take_ptr(&c->stream);
    if (!s) {
        if (c->state != CONN_CLOSED) {
            conn_bury(c, true); /* taken just now */
        }
        return;
    }
    if (c->reset) {
        io_stream_abort(s);
    } else {
        io_stream_close(s);
    }
    conn_bury(c, false);
}

static void run_scheduled(void *arg)
{
    struct http_conn *c = arg;
    c->scheduled = false;
    conn_run(c);
    conn_unref(c);
}

void conn_schedule(struct http_conn *c)
{
    if (!c->running && !c->scheduled && c->state != CONN_CLOSED) {
        c->scheduled = true;
        c->n_refs++;
        io_defer(c->server->loop, run_scheduled, c);
    }
}

/* ---- timeouts ---- */

void conn_wait(struct http_conn *c, enum conn_wait wait)
{
    const struct http_server_opts *o = &c->server->opts;
    uint64_t ms = 0;
    c->wait = (uint8_t)wait;
    switch (wait) {
    case WAIT_NONE:
        return; /* the timer may run on; what it finds then is nothing to do */
    case WAIT_IDLE:
        ms = o->idle_timeout_ms;
        break;
    case WAIT_HEAD:
        ms = o->head_timeout_ms;
        break;
    case WAIT_BODY:
        ms = o->body_timeout_ms;
        break;
    case WAIT_WRITE:
        ms = o->write_timeout_ms;
        break;
    case WAIT_LINGER:
        ms = HTTP_LINGER_MS;
        break;
    }
    io_timer_start(&c->timer, ms);
}

static void on_timer(struct io_timer *t)
{
    struct http_conn *c = container_of(t, struct http_conn, timer);
    switch ((enum conn_wait)c->wait) {
    case WAIT_NONE:
        return;
    case WAIT_IDLE:
    case WAIT_LINGER:
        conn_close(c);
        return;
    case WAIT_HEAD:
        c->state = CONN_REQUEST;
        resp_error(c->req, 408, "the request head did not arrive in time");
        break;
    case WAIT_BODY:
        if (c->req->over) {
            c->broken = true; /* answered long ago; this was only the rest of its body */
        } else {
            resp_error(c->req, 408, "the request body did not arrive in time");
        }
        break;
    case WAIT_WRITE:
        c->broken = c->reset = true;
        break;
    }
    c->wait = WAIT_NONE;
    conn_run(c);
}

/* ---- reading ---- */

/* 1: bytes, 0: nothing now, -1: the connection is over. */
static int read_head(struct http_conn *c)
{
    struct http_req *req = c->req;
    if (!req) {
        req = c->req = req_new(c);
    }
    if (req->in_len == req->in_cap && !req_grow(req)) {
        return 0; /* the parser has its limit's worth and must decide */
    }
    ssize_t n = io_stream_read(c->stream, req->in + req->in_len, req->in_cap - req->in_len);
    if (n > 0) {
        req->in_len += (size_t)n;
        return 1;
    }
    if (n == -EAGAIN) {
        if (req->in_len == 0) {
            c->req = NULL;
            req_free(req);
        }
        return 0;
    }
    return -1;
}

/* Reads the body, or what a client sends ahead while its request is being answered. */
static int read_body(struct http_conn *c)
{
    struct http_req *req = c->req;
    size_t max = sizeof(c->server->scratch);
    if (req->pending.n > 0) {
        return 0; /* first things first */
    }
    if (req->body == BODY_LENGTH && !req->body_end) {
        max = (size_t)MIN(req->body_left, max);
    }
    ssize_t n = io_stream_read(c->stream, c->server->scratch, max);
    if (n > 0) {
        req->pending = str_n(c->server->scratch, (size_t)n);
        return (size_t)n == max ? 2 : 1;
    }
    return n == -EAGAIN ? 0 : -1;
}

static int read_and_drop(struct http_conn *c)
{
    ssize_t n = io_stream_read(c->stream, c->server->scratch, sizeof(c->server->scratch));
    return n > 0 ? 1 : n == -EAGAIN ? 0 : -1;
}

static void on_body_readable(struct http_conn *c)
{
    for (int i = 0; i < READS_PER_EVENT; i++) {
        int r = read_body(c);
        if (r < 0) {
            if (!c->req->ended || !c->req->body_end) {
                conn_close(c);
            }
            return;
        }
        if (r > 0 && body_wanted(c->req)) {
            c->wait = WAIT_NONE; /* the next wait counts from here */
        }
        conn_run(c);
        if (r < 2 || c->state != CONN_REQUEST || !(io_stream_wanted(c->stream) & IO_READABLE)) {
            return;
        }
    }
}

static void on_readable(struct http_conn *c)
{
    switch ((enum conn_state)c->state) {
    case CONN_HEAD:
        if (read_head(c) < 0) {
            conn_close(c);
        }
        return;
    case CONN_REQUEST:
        on_body_readable(c);
        return;
    case CONN_LINGER:
        if (read_and_drop(c) < 0) {
            conn_close(c);
        }
        return;
    case CONN_CLOSED:
        return;
    }
}

static void on_event(struct io_stream *s, unsigned events, void *arg)
{
    struct http_conn *c = arg;
    if (events & IO_WRITABLE) {
        c->blocked = false;
    }
    if (events & IO_READABLE) {
        on_readable(c);
    } else if ((events & IO_HUP) && c->state == CONN_REQUEST && !c->req->ended) {
        conn_close(c);
    }
    conn_run(c);
}

/* ---- steps ---- */

/* Flushes; false when the connection broke. */
static bool flush(struct http_conn *c)
{
    if (outq_empty(&c->out) || c->blocked) {
        return true;
    }
    uint64_t before = c->out.sent;
    int r = outq_flush(&c->out, c->stream);
    if (c->out.sent != before) {
        c->wait = c->wait == WAIT_WRITE ? WAIT_NONE : c->wait;
    }
    if (r == -EAGAIN) {
        c->blocked = true;
    } else if (r < 0) {
        c->broken = true;
    }
    return !c->broken;
}

/* Re-parsing costs the length of the head, so it is done when a line was completed or the input has
 * doubled, not for each byte of a slow sender. */
static bool worth_parsing(struct http_req *req)
{
    size_t seen = req->scan_len;
    req->scan_len = req->in_len;
    if (seen == 0 || req->in_len >= HTTP_MAX_HEAD ||
        memchr(req->in + seen, '\n', req->in_len - seen)) {
        return true;
    }
    bool doubled = (seen ^ req->in_len) > seen; /* the highest bit moved */
    return doubled;
}

static bool step_head(struct http_conn *c)
{
    struct http_req *req = c->req;
    if (!req || req->in_len == 0 || req->in_len == req->scan_len || !worth_parsing(req)) {
        return false;
    }
    size_t len;
    switch (h1_parse_request(req->in, req->in_len, &req->head, &len)) {
    case H1_NEED_MORE:
        return false;
    case H1_BAD:
        c->state = CONN_REQUEST;
        req_set_target(req, req->head.target);
        resp_error(req, req->head.bad_status, req->head.bad_reason);
        return true;
    case H1_DONE:
        break;
    }
    c->state = CONN_REQUEST;
    c->wait = WAIT_NONE;
    req->pending = str_n(req->in + len, req->in_len - len);
    req_dispatch(req);
    return true;
}

/* After the last byte of the response. False: nothing more to do now. */
static bool finish(struct http_conn *c)
{
    struct http_req *req = c->req;
    bool polite = !req->head.keep_alive && req->body_end && req->pending.n == 0;
    if (!req->over) {
        req_end(req, !req->failed);
        if (c->state == CONN_CLOSED) {
            req_free(req);
            return false;
        }
        if (!req->body_end && !req->close_after) {
            req->draining = body_can_drain(req);
            req->close_after = !req->draining;
            return true;
        }
    }
    if (req->close_after || c->server->draining) {
        if (polite || io_stream_shutdown(c->stream) < 0) {
            conn_close(c);
            return false;
        }
        c->req = NULL;
        req_free(req);
        c->state = CONN_LINGER;
        conn_wait(c, WAIT_LINGER);
        return false;
    }
    c->state = CONN_HEAD;
    c->wait = WAIT_NONE;
    if (req->pending.n > 0) {
        req_next(req);
    } else {
        c->req = NULL;
        req_free(req);
    }
    return true;
}

static bool step_request(struct http_conn *c)
{
    struct http_req *req = c->req;
    must(req); /* in this state there is one */
    if (body_wanted(req) && !c->broken) {
        body_pump(req);
        if (c->state == CONN_CLOSED || req->taken) {
            return false;
        }
    }
    if (c->broken || !flush(c)) {
        c->broken = true;
        conn_close(c);
        return false;
    }
    if (req->over) {
        return (req->body_end || req->close_after) ? finish(c) : false;
    }
    if (req->ended) {
        return outq_empty(&c->out) ? finish(c) : false;
    }
    if (req->want_writable && c->out.queued <= HTTP_OUT_LOW) {
        req->want_writable = false;
        if (req->on_writable) {
            req->on_writable(req, req->writable_arg);
            return true;
        }
    }
    return req->replay && body_wanted(req);
}

/* What is waited for now: events of the stream, and the timer. */
static void settle(struct http_conn *c)
{
    struct http_req *req = c->req;
    unsigned want = outq_empty(&c->out) ? 0 : IO_WRITABLE;
    enum conn_wait wait = WAIT_NONE;
    bool watch_hup = false;
    must(req || c->state != CONN_REQUEST);
    if (c->state != CONN_REQUEST) {
        want |= IO_READABLE;
        wait = c->state == CONN_LINGER ? WAIT_LINGER : req ? WAIT_HEAD : WAIT_IDLE;
    } else if (!req->body_end) {
        if (body_wanted(req)) {
            want |= IO_READABLE;
            wait = WAIT_BODY;
        }
        watch_hup = !(want & IO_READABLE) && !req->ended;
    } else if (!req->ended) {
        want |= req->pending.n == 0 ? IO_READABLE : 0;
        watch_hup = req->pending.n > 0;
    }
    if (want & IO_WRITABLE) {
        wait = WAIT_WRITE;
    }
    if (io_stream_wanted(c->stream) != want) {
        io_stream_want(c->stream, want);
    }
    if (c->watching != watch_hup) {
        c->watching = watch_hup;
        io_stream_watch_hup(c->stream, watch_hup);
    }
    if (c->wait != wait) {
        conn_wait(c, wait);
    }
}

/* The handler took the stream away. */
static void on_taken(struct http_conn *c)
{
    conn_bury(c, true);
}

static void conn_run(struct http_conn *c)
{
    if (c->running || c->state == CONN_CLOSED) {
        return;
    }
    c->running = true;
    int budget = HTTP_MAX_PIPELINE;
    bool go_on = true;
    while (go_on && c->state != CONN_CLOSED) {
        if (c->req && c->req->taken) {
            on_taken(c);
        } else if (c->state == CONN_HEAD) {
            go_on = budget > 0 ? step_head(c) : false;
            budget -= go_on;
        } else if (c->state == CONN_REQUEST) {
            go_on = step_request(c) || (c->req && c->req->taken);
        } else {
            go_on = false;
        }
    }
    c->running = false;
    if (c->state == CONN_CLOSED) {
        return;
    }
    if (c->req && c->req->pending.n > 0) {
        body_stash(c->req);
    }
    if (c->state == CONN_HEAD && c->req && budget == 0) {
        conn_schedule(c); /* others first */
    }
    if (c->state == CONN_HEAD && !c->req && c->server->draining) {
        conn_close(c);
        return;
    }
    settle(c);
}
