#pragma once
/* Insides of the HTTP client, shared by its files.
 *
 * A call owns what it has to send; a connection owns the stream and what was read but not yet
 * understood. A call has no connection while it dials; a connection has no call while it is idle in
 * its pool.
 *
 * Callbacks come from events, timers and deferred work only, never from inside a function that the
 * user called. So every function here that calls back may find, when the callback returns, that
 * the call is gone and its connection closed: `conn->closed` is what it looks at. A closed
 * connection stays allocated until the turn is over. */

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "http/client.h"
#include "io/timer.h"

struct io_dial;
struct io_tls_op;

struct http_client {
    struct io_loop *loop;
    struct http_client_opts opts;
    struct map pools;        /* key -> struct client_pool */
    struct list calls;       /* http_call.link */
    struct list deferred;    /* http_call.deferred_link */
    struct http_call *spare; /* finished ones, for the next call */
    size_t n_spare;
    bool defer_pending, dead;
    char *read_buf; /* HTTP_READ_CHUNK, shared: nothing stays in it between two events */
};

/* Connections with one key. Lives as long as a connection or a call refers to it. */
struct client_pool {
    struct http_client *client;
    struct list idle; /* client_conn.link, last used first */
    size_t n_idle, n_refs;
    bool forgotten; /* not in the map any more; what comes back is closed */
    size_t key_len;
    char key[];
};

struct client_conn {
    struct http_client *client;
    struct client_pool *pool;
    struct io_stream *stream;
    struct http_call *call; /* NULL: idle */
    struct list link;
    struct io_timer timer; /* idle in the pool; ignored when it fires during a call */
    struct buf in;         /* read but not yet used: part of a head, or what came while paused */
    bool idle, closed;
};

enum call_recv { RECV_HEAD, RECV_LENGTH, RECV_CHUNKED, RECV_EOF, RECV_DONE };

struct http_call {
    struct list link, deferred_link;
    struct http_call *next_spare;
    struct http_client *client;
    struct client_pool *pool;
    struct client_conn *conn;
    struct io_dial *dial;
    struct io_tls_op *tls_op;
    struct io_timer timer; /* TLS handshake, response head, idle */
    struct http_call_ops ops;
    void *arg;

    /* where to, in case it has to be dialled once more */
    struct io_addr addr, alt;
    bool has_alt;
    int netns_fd;
    struct io_tls_ctx *tls;
    const char *server_name;

    /* the request */
    struct str method; /* in `head` */
    struct buf head;
    size_t head_off;
    struct buf out; /* body, framed, that the socket has not taken yet */
    size_t out_off;
    int64_t body_left; /* of a body with a length; -1: chunked */
    uint64_t head_timeout_ms, idle_timeout_ms;
    bool has_body, body_ended;
    bool corked; /* the head waits for the first piece of body, at most to the end of this turn */
    bool upgrade;

    /* the response */
    enum call_recv recv;
    uint64_t recv_left;
    struct h1_chunked chunked;
    struct str early; /* during on_head: what came behind the head */

    int error; /* to be reported by deferred work */
    bool reused, retried, body_sent, got_bytes;
    bool blocked;      /* the socket is full; what is to be sent waits for it */
    bool write_failed; /* nothing more is sent; the response may still come */
    bool paused, was_full, keep_alive, tell_writable, ended;
};

/* client_head.c: the request head. -EINVAL when something in it cannot be sent. */
int client_head_format(const struct http_call_opts *o, struct buf *out);
bool client_method_idempotent(struct str method);

/* client_pool.c */
struct client_pool *client_pool_ref(struct http_client *c, struct str key);
void client_pool_unref(struct client_pool *p);
/* An idle connection that looks alive, or NULL. */
struct client_conn *client_pool_take(struct client_pool *p, bool check);
/* Keeps the connection for the next call, or closes it. */
void client_pool_put(struct client_conn *conn);
void client_pool_close_idle(struct client_pool *p);

/* client_conn.c */
struct client_conn *client_conn_new(struct client_pool *p, struct io_stream *take_s);
void client_conn_close(struct client_conn *conn);
/* Lets go of the stream without closing it. */
struct io_stream *client_conn_take_stream(struct client_conn *conn);
/* Reads what has come, and hands it to the call. */
void client_conn_read(struct client_conn *conn);
/* Handles what was kept while the call was paused. */
void client_conn_process_kept(struct client_conn *conn);

/* client_call.c */
void client_call_connect(struct http_call *c); /* a kept connection, or a new one */
void client_call_dial(struct http_call *c);
void client_call_attach(struct http_call *c, struct client_conn *conn);
void client_call_flush(struct http_call *c);
void client_call_want(struct http_call *c);
void client_call_timer(struct http_call *c);
void client_call_on_timer(struct io_timer *t);
bool client_call_sent_all(const struct http_call *c);
void client_call_fail_later(struct http_call *c, int error);
/* The connection broke: tries again on a new one, or reports. */
void client_call_broken(struct http_call *c, int error);

/* client.c: reports the end and forgets the call. */
void client_call_finish(struct http_call *c, int error);
