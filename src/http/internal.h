#pragma once
/* What the files of the server share: connection, request and how they move on.
 *
 * A connection is a small object that lives as long as its socket. A request is a large one (head,
 * read buffer) that exists only while bytes of a request are there: between requests a connection
 * holds none, and the server recycles them.
 *
 * Nothing that the application calls makes a state change by itself: it queues bytes and sets
 * flags, and conn_run() does what follows from them, at once when it is further up the stack, else
 * at the end of this turn. So no callback is called out of an http_req_*() or http_resp_*() call,
 * and a request never dies under the hands of its handler. */

#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "http/outq.h"
#include "http/server.h"
#include "io/timer.h"

enum conn_state {
    CONN_HEAD,    /* between requests (req is NULL) or reading a head */
    CONN_REQUEST, /* a request is being answered, or what is left of its body is thrown away */
    CONN_LINGER,  /* answered and shut down; reading on so that the client sees the answer */
    CONN_CLOSED,  /* the stream is gone */
};

/* What the connection's timer is for. */
enum conn_wait { WAIT_NONE, WAIT_IDLE, WAIT_HEAD, WAIT_BODY, WAIT_WRITE, WAIT_LINGER };

struct http_conn {
    struct list node; /* of the server */
    struct http_server *server;
    struct io_stream *stream; /* NULL once closed or taken */
    struct http_req *req;     /* NULL while idle */
    struct outq out;
    struct io_timer timer;
    uint32_t n_refs; /* itself, and each conn_run() that is under way to it */
    uint8_t state, wait;
    bool running, scheduled;
    bool watching; /* for a hang-up, because nothing is read now */
    bool blocked;  /* the socket is full: wait for WRITABLE */
    bool broken;   /* a write failed, or the handler asked for an abort: close without ceremony */
    bool reset;    /* and with a reset */
    bool is_extra; /* over max_connections: only told so */
};

/* How the body of a request is framed. */
enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED };

struct http_reply_priv;

#define REQ_INLINE (4u << 10) /* read buffer inside the request: most heads fit */
#define REQ_ID_MAX 128

struct http_req {
    struct http_conn *conn; /* NULL once the connection is gone while a worker still runs */
    struct http_server *server;
    /* input */
    char *in; /* head, and what came with it; inline_in or heap */
    size_t in_len, in_cap;
    size_t scan_len; /* bytes of an unfinished head that have been looked at */
    struct str
        pending; /* read, but not used yet: in `in`, in `stash`, or in the server's scratch */
    char *stash;
    /* routing */
    struct str target, path, query;
    uint8_t n_dispatch;
    /* body */
    uint8_t body;
    bool body_end;  /* all of it has been read off the connection */
    bool last_told; /* the handler has had its is_last */
    bool paused, draining, continue_sent, body_used;
    uint64_t body_left;
    uint64_t drained;
    struct h1_chunked chunked;
    http_body_cb *on_body;
    void *body_arg;
    http_collect_cb *on_collect;
    void *collect_arg;
    struct buf collected;
    size_t collect_max;
    bool replay; /* asked for again after it was complete (passed on to another route) */
    /* response */
    bool begun; /* there is something to answer: a head, or why it is none */
    bool started, ended;
    bool ending, over; /* inside on_end; after it */
    bool failed;       /* the server answered instead of the handler */
    bool no_body, out_chunked, close_after, has_date, has_server, want_writable, taken;
    int status;
    int64_t length_left; /* of a response with a length; -1: none */
    struct buf headers;  /* lines set by the handler */
    void (*on_writable)(struct http_req *req, void *arg);
    void *writable_arg;
    http_end_cb *on_end;
    void *end_arg;
    /* the rest */
    void *data;
    struct arena arena;
    struct http_reply_priv *work;
    uint64_t start_us, sent_before;
    struct http_req *next_free;
    atomic_bool gone;
    uint8_t id_len;
    /* Not cleared between requests: */
    char id[REQ_ID_MAX];
    struct io_addr peer; /* valid for work requests */
    struct http_match match;
    struct h1_head head;
    char inline_in[REQ_INLINE];
};

/* A connection that was taken from the server, but works for its application, and therefore must
 * not outlive the server: cut() ends it at once and takes it out of the list. */
struct server_tunnel {
    struct list node;
    void (*cut)(struct server_tunnel *t);
};

struct http_server {
    struct io_loop *loop;
    struct http_server_opts opts;
    struct http_router *router;
    struct list conns;
    struct list listeners;
    struct list handshakes;
    struct list tunnels; /* struct server_tunnel */
    size_t n_conns, n_extra;
    size_t n_refs; /* itself and requests in the pool */
    bool draining, closed, idle_told;
    io_fn *on_idle;
    void *idle_arg;
    struct http_req *free_reqs;
    size_t n_free_reqs;
    struct buf head; /* response heads are put together here */
    uint64_t date_until_ms;
    char date[64]; /* "Date: ...\r\n" */
    size_t date_len;
    char scratch[HTTP_READ_CHUNK]; /* body bytes pass through here */
};

/* conn.c */
void conn_new(struct http_server *s, struct io_stream *take_s, bool is_extra);
/* Lets the connection go on: now if nobody is at it, else when they are done. */
void conn_schedule(struct http_conn *c);
/* Closes now. The request, if any, ends as not completed. */
void conn_close(struct http_conn *c);
void conn_wait(struct http_conn *c, enum conn_wait wait);

/* body.c */
/* The handler (or the drain) gets what there is. Sets flags, may end the request. */
void body_pump(struct http_req *req);
bool body_wanted(const struct http_req *req);
/* Decides after the response whether the rest of the body can be thrown away. */
bool body_can_drain(const struct http_req *req);
void body_stash(struct http_req *req);

/* req.c */
struct http_req *req_new(struct http_conn *c);
/* Makes the same object ready for the next request on its connection; pending bytes move along. */
void req_next(struct http_req *req);
void req_free(struct http_req *req);
bool req_grow(struct http_req *req);
void req_set_target(struct http_req *req, struct str target);
/* Calls on_end and `after`, once. */
void req_end(struct http_req *req, bool completed);

/* dispatch.c */
void req_dispatch(struct http_req *req);

/* resp.c */
/* The server's own answer; the connection closes after it. Aborts if a response has begun. */
void resp_error(struct http_req *req, int status, const char *reason);
void resp_default_error(int status, const char *reason, struct buf *out);
/* Sends without copying: the body stays valid until the request ends. */
void resp_send_ref(struct http_req *req, int status, const char *ctype, struct str body);
const char *http_status_reason(int status);

/* work.c */
void work_start(struct http_req *req);
bool work_is_running(const struct http_req *req);
void work_client_gone(struct http_req *req);
void work_free(struct http_req *req);

/* server.c */
void server_conn_closed(struct http_server *s, struct http_conn *c);
void server_unref(struct http_server *s);
