/* A connection of the client: reading responses. */

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "http/client_internal.h"

#define READS_PER_EVENT 8 /* full buffers, before other connections get their turn */

static void on_event(struct io_stream *s, unsigned events, void *arg);

static void on_timer(struct io_timer *t)
{
    struct client_conn *conn = container_of(t, struct client_conn, timer);
    if (conn->idle) {
        client_conn_close(conn);
    }
}

struct client_conn *client_conn_new(struct client_pool *p, struct io_stream *take_s)
{
    struct client_conn *conn = NEW(struct client_conn);
    conn->client = p->client;
    conn->pool = p;
    conn->stream = take_s;
    p->n_refs++;
    list_init(&conn->link);
    buf_init(&conn->in, HTTP_MAX_HEAD + HTTP_READ_CHUNK);
    io_timer_init(&conn->timer, p->client->loop, on_timer);
    io_stream_set_cb(take_s, on_event, conn);
    return conn;
}

static void conn_free(void *arg)
{
    free(arg);
}

static void conn_drop(struct client_conn *conn)
{
    conn->closed = true;
    if (conn->idle) {
        conn->idle = false;
        conn->pool->n_idle--;
    }
    list_del(&conn->link);
    io_timer_stop(&conn->timer);
    buf_done(&conn->in);
    if (conn->call) {
        conn->call->conn = NULL;
        conn->call = NULL;
    }
    struct io_loop *loop = conn->client->loop;
    client_pool_unref(conn->pool);
    io_defer(loop, conn_free, conn);
}

void client_conn_close(struct client_conn *conn)
{
    io_stream_close(conn->stream);
    conn_drop(conn);
}

struct io_stream *client_conn_take_stream(struct client_conn *conn)
{
    struct io_stream *s = conn->stream;
    io_stream_want(s, 0);
    io_stream_set_cb(s, NULL, NULL);
    conn_drop(conn);
    return s;
}

/* ---- the response ---- */

static void advance(struct str *s, size_t n)
{
    *s = str_n(s->p + n, s->n - n);
}

static void begin_body(struct http_call *c, const struct h1_head *h)
{
    c->keep_alive = h->keep_alive;
    if (h->chunked) {
        c->recv = RECV_CHUNKED;
        c->chunked = (struct h1_chunked){0};
    } else if (h->content_length >= 0) {
        c->recv_left = (uint64_t)h->content_length;
        c->recv = c->recv_left > 0 ? RECV_LENGTH : RECV_DONE;
    } else {
        c->recv = RECV_EOF;
    }
}

/* 101: the connection speaks something else from here on, and on_head takes it. */
static void switch_protocols(struct http_call *c, const struct h1_head *h)
{
    if (!c->upgrade || !client_call_sent_all(c)) {
        client_call_finish(c, -EPROTO);
        return;
    }
    struct client_conn *conn = c->conn;
    c->ops.on_head(c, h, c->arg);
    if (!conn->closed) {
        client_call_finish(c, -EPROTO);
    }
}

/* Parses a head. False when there is nothing more to do with the input for now. */
static bool process_head(struct client_conn *conn, struct str *data)
{
    struct http_call *c = conn->call;
    struct h1_head h;
    size_t len = 0;
    if (data->n == 0) {
        return false;
    }
    enum h1_result r = h1_parse_response(data->p, data->n, c->method, &h, &len);
    if (r == H1_NEED_MORE) {
        return false;
    }
    if (r == H1_BAD) {
        client_call_finish(c, -EPROTO);
        return false;
    }
    advance(data, len);
    c->early = *data;
    if (h.status == 101) {
        switch_protocols(c, &h);
        return false;
    }
    if (h.status < 200) {
        return true; /* interim: the real one follows */
    }
    begin_body(c, &h);
    if (c->ops.on_head) {
        c->ops.on_head(c, &h, c->arg);
    }
    return true;
}

/* Takes the next piece of body off the input. 1: *ret_piece, 0: more input needed, -EPROTO. */
static int next_piece(struct http_call *c, struct str *data, struct str *ret_piece)
{
    if (c->recv == RECV_CHUNKED) {
        int r = h1_chunked_next(&c->chunked, data, ret_piece);
        if (r == 2) {
            c->recv = RECV_DONE;
        }
        return r == 2 ? 0 : r;
    }
    if (data->n == 0) {
        return 0;
    }
    size_t n = data->n;
    if (c->recv == RECV_LENGTH) {
        n = c->recv_left < n ? (size_t)c->recv_left : n;
        c->recv_left -= n;
        if (c->recv_left == 0) {
            c->recv = RECV_DONE;
        }
    }
    *ret_piece = str_n(data->p, n);
    advance(data, n);
    return 1;
}

static void complete(struct client_conn *conn, struct str rest)
{
    struct http_call *c = conn->call;
    bool reusable = c->keep_alive && rest.n == 0 && client_call_sent_all(c);
    conn->call = NULL;
    c->conn = NULL;
    if (reusable) {
        client_pool_put(conn);
    } else {
        client_conn_close(conn);
    }
    client_call_finish(c, 0);
}

/* Works through the input until it is used up, or the call pauses, ends, or goes away. */
static void process(struct client_conn *conn, struct str *data)
{
    struct http_call *c = conn->call;
    while (!conn->closed && !c->paused) {
        if (c->recv == RECV_HEAD) {
            if (!process_head(conn, data)) {
                return;
            }
            continue;
        }
        if (c->recv == RECV_DONE) {
            complete(conn, *data);
            return;
        }
        struct str piece;
        int r = next_piece(c, data, &piece);
        if (r < 0) {
            client_call_finish(c, r);
            return;
        }
        if (r > 0) {
            if (c->ops.on_body) {
                c->ops.on_body(c, piece, c->arg);
            }
        } else if (c->recv != RECV_DONE) {
            return;
        }
    }
}

/* A head that comes in many small pieces is not parsed again for each of them. */
static bool head_may_be_complete(const struct buf *in, size_t old_len)
{
    size_t from = old_len > 3 ? old_len - 3 : 0;
    return in->len >= HTTP_MAX_HEAD || memmem(in->p + from, in->len - from, "\r\n\r\n", 4);
}

/* Input in front of which nothing is kept: used where it was read, and only the rest is copied. */
static void input_fresh(struct client_conn *conn, struct str data)
{
    struct http_call *c = conn->call;
    process(conn, &data);
    if (!conn->closed && conn->call == c && data.n > 0) {
        must(buf_add_str(&conn->in, data) == 0); /* at most one read */
    }
}

static void input_kept(struct client_conn *conn)
{
    struct http_call *c = conn->call;
    struct str data = buf_str(&conn->in);
    process(conn, &data);
    if (conn->closed || conn->call != c) {
        return;
    }
    buf_consume(&conn->in, conn->in.len - data.n);
    if (data.n == 0) {
        buf_done(&conn->in);
    }
}

static void input(struct client_conn *conn, struct str data)
{
    if (conn->in.len == 0) {
        input_fresh(conn, data);
        return;
    }
    size_t old_len = conn->in.len;
    if (buf_add_str(&conn->in, data) < 0) {
        client_call_finish(conn->call, -EPROTO);
        return;
    }
    if (conn->call->recv != RECV_HEAD || head_may_be_complete(&conn->in, old_len)) {
        input_kept(conn);
    }
}

void client_conn_process_kept(struct client_conn *conn)
{
    struct http_call *c = conn->call;
    input_kept(conn);
    if (!conn->closed && conn->call == c) {
        client_call_timer(c);
    }
}

/* ---- events ---- */

static void on_eof(struct client_conn *conn, int error)
{
    struct http_call *c = conn->call;
    if (c->recv == RECV_EOF && error == 0) {
        conn->call = NULL;
        c->conn = NULL;
        client_conn_close(conn);
        client_call_finish(c, 0);
        return;
    }
    client_call_broken(c, error ? error : -ECONNRESET);
}

void client_conn_read(struct client_conn *conn)
{
    struct http_call *c = conn->call;
    char *p = conn->client->read_buf;
    for (int i = 0; i < READS_PER_EVENT; i++) {
        ssize_t n = io_stream_read(conn->stream, p, HTTP_READ_CHUNK);
        if (n == -EAGAIN) {
            return;
        }
        if (n <= 0) {
            on_eof(conn, (int)n);
            return;
        }
        c->got_bytes = true;
        input(conn, str_n(p, (size_t)n));
        if (conn->closed || conn->call != c) {
            return;
        }
        client_call_timer(c);
        if (c->paused || (size_t)n < HTTP_READ_CHUNK) {
            return;
        }
    }
}

/* Nobody asked: the peer has closed, or it talks out of turn. A TLS record may carry nothing. */
static void idle_readable(struct client_conn *conn)
{
    char byte;
    if (io_stream_read(conn->stream, &byte, 1) != -EAGAIN) {
        client_conn_close(conn);
    }
}

static void on_event(struct io_stream *s, unsigned events, void *arg)
{
    struct client_conn *conn = arg;
    struct http_call *c = conn->call;
    if (!c) {
        idle_readable(conn);
        return;
    }
    if (events & IO_WRITABLE) {
        client_call_flush(c);
        if (conn->closed || conn->call != c) {
            return;
        }
    }
    if ((events & IO_READABLE) && !c->paused) {
        client_conn_read(conn);
    }
}
