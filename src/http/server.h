#pragma once
/* The HTTP/1.1 server: connections, requests, responses.
 *
 * Life of a request. The head is parsed, `before` may answer it (authentication), the router picks
 * a route. A stream handler is called on the loop at once and then either answers, or registers for
 * the body, for writability, for the end. A work handler is called in the pool with the whole body.
 * The request object dies when its `on_end` callback has returned; that comes exactly once, after
 * the response is written out or after the client left, whichever is first.
 *
 * Backpressure. Request body: pieces are pushed; after http_req_pause() no more come until
 * http_req_resume(). Response body: http_resp_write() takes everything it is given, and returns
 * false once HTTP_OUT_HIGH is queued; then write nothing until `on_writable` is called. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"
#include "http/h1.h"
#include "http/router.h"
#include "io/addr.h"
#include "io/listener.h"
#include "io/loop.h"
#include "io/pool.h"

struct http_server;
struct http_req;
struct io_tls_ctx;

struct http_server_opts {
    const struct http_route *routes;
    void *app;              /* http_req_app() */
    struct io_pool *pool;   /* for HTTP_WORK routes */
    struct io_tls_ctx *tls; /* NULL: plain */
    /* Runs before routing on the loop. Returns false when it has answered. `route` may be NULL. */
    bool (*before)(struct http_req *req, const struct http_route *route);
    /* No route: answers 404 or 405. NULL: a JSON body {"code","message"}. */
    void (*not_found)(struct http_req *req, bool path_known);
    /* Body for errors the server itself answers (400, 408, 413, 414, 431, 501, 503, 505). NULL: the
     * same JSON. */
    void (*error_body)(int status, const char *reason, struct buf *out, const char **ret_ctype);
    /* After the last byte, for access log and metrics. status 0: the client left before a head. */
    void (*after)(struct http_req *req, int status, uint64_t bytes_out, uint64_t us);
    const char *server_header; /* NULL: none */
    /* 0: the defaults of http/limits.h */
    uint64_t head_timeout_ms, idle_timeout_ms, body_timeout_ms, write_timeout_ms;
    size_t max_connections; /* per loop; 0: 20000; over it: 503 and close */
};

/* One server object per loop; listeners of several loops share a port through SO_REUSEPORT. */
struct http_server *http_server_new(struct io_loop *l, const struct http_server_opts *o);
int http_server_listen(struct http_server *s, const struct io_addr *a,
                       const struct io_listen_opts *o, struct io_addr *ret_bound, struct err *e);
/* Serves one already connected stream (tests, inherited sockets). */
void http_server_serve(struct http_server *s, struct io_stream *take_s);
/* No new connections or requests; idle ones are closed; on_idle once the last has ended. */
void http_server_drain(struct http_server *s, io_fn *on_idle, void *arg);
/* Closes everything now, tunnels of the proxy too; what else took a stream keeps it. */
void http_server_free(struct http_server *s);
size_t http_server_connections(const struct http_server *s);

/* ---- the request ---- */
struct str http_req_method(const struct http_req *req);
struct str http_req_target(const struct http_req *req); /* as sent */
struct str http_req_path(const struct http_req *req);   /* raw, up to '?' */
struct str http_req_query(const struct http_req *req);  /* raw, after '?', or STR_NULL */
struct str http_req_host(const struct http_req *req);
int http_req_minor(const struct http_req *req);
struct str http_req_header(const struct http_req *req, struct str name);
const struct h1_header *http_req_headers(const struct http_req *req, size_t *ret_n);
int64_t http_req_content_length(const struct http_req *req); /* -1: chunked or none */
bool http_req_has_body(const struct http_req *req);
bool http_req_is_upgrade(const struct http_req *req, struct str protocol);
/* Path parameter, percent-decoded (arena; NUL-terminated at p[n]); STR_NULL when missing or
 * malformed. */
struct str http_req_param(struct http_req *req, const char *name);
struct str http_req_param_raw(struct http_req *req, const char *name);
/* The i-th value of a query key, decoded ('+' is a space); STR_NULL when there is none. */
struct str http_req_query_get(struct http_req *req, const char *key, size_t i);
struct arena *http_req_arena(struct http_req *req);
struct io_loop *http_req_loop(const struct http_req *req);
struct http_server *http_req_server(const struct http_req *req);
void *http_req_app(const struct http_req *req);
int http_req_peer(const struct http_req *req, struct io_addr *ret);
const struct http_route *http_req_route(const struct http_req *req);
/* The handler's own state for this request. */
void http_req_set_data(struct http_req *req, void *data);
void *http_req_data(const struct http_req *req);
/* Set by `before` (authentication) or from X-Request-ID; at most 128 bytes. */
void http_req_set_id(struct http_req *req, struct str id);
struct str http_req_id(const struct http_req *req);
/* Routes the same request again under another target (path?query): a local dispatch. */
void http_req_redispatch(struct http_req *req, struct str new_target);

/* ---- its body (stream handlers) ---- */
/* cb gets each piece; the last call has is_last (len may be 0). */
typedef void http_body_cb(struct http_req *req, struct str data, bool is_last, void *arg);
void http_req_on_body(struct http_req *req, http_body_cb *cb, void *arg);
void http_req_pause(struct http_req *req);
void http_req_resume(struct http_req *req);
/* Collects the whole body, answers 413 by itself beyond max; cb gets it (valid until on_end). A
 * body that has been collected is there for the next one too: a handler may look into it and then
 * pass the request on with http_req_redispatch(). */
typedef void http_collect_cb(struct http_req *req, struct str body, void *arg);
void http_req_collect(struct http_req *req, size_t max, http_collect_cb *cb, void *arg);
/* Exactly once, when the request is over. `completed` is false when the client left first, or when
 * the server had to answer instead of the handler (a malformed, too large or missing body). A
 * client that closes its sending side counts as gone as long as the handler has not ended its
 * response; after that it gets all of it. */
typedef void http_end_cb(struct http_req *req, bool completed, void *arg);
void http_req_on_end(struct http_req *req, http_end_cb *cb, void *arg);

/* ---- the response (loop thread) ---- */
/* Headers to be sent; name and value are copied. Invalid ones are a bug and dropped. */
void http_resp_header(struct http_req *req, struct str name, struct str value);
/* The whole response: Content-Length, body (copied or written at once), end. */
void http_resp_send(struct http_req *req, int status, const char *ctype, struct str body);
/* Streaming: start (length -1: chunked, or close for HTTP/1.0), write, end. */
void http_resp_start(struct http_req *req, int status, const char *ctype, int64_t length);
bool http_resp_started(const struct http_req *req);
bool http_resp_write(struct http_req *req, struct str data);
void http_resp_on_writable(struct http_req *req, void (*cb)(struct http_req *req, void *arg),
                           void *arg);
size_t http_resp_queued(const struct http_req *req);
void http_resp_end(struct http_req *req);
/* Ends and closes the connection after the last byte: "Connection: close" if not yet started. */
void http_resp_close_after(struct http_req *req);
/* Cuts the connection, so that the client sees a truncated body. */
void http_resp_abort(struct http_req *req);
/* Sends file bytes [offset, offset+n) by sendfile after what is queued; started with a length of at
 * least n. The descriptor is taken. */
void http_resp_sendfile(struct http_req *req, int take_fd, off_t offset, uint64_t n);
/* Sends 100 Continue now (it is sent by itself when a body is first asked for). */
void http_resp_continue(struct http_req *req);
/* Takes the connection away from HTTP (WebSocket, tunnels). Bytes already read are appended to
 * `early`. on_end is called with completed = true. The 101 is the caller's to write. */
struct io_stream *http_req_take_stream(struct http_req *req, struct buf *early);

/* ---- work routes (pool thread) ---- */
struct http_reply {
    int status;        /* 0 when the handler returns: 500 */
    const char *ctype; /* NULL: application/json */
    struct buf body;   /* max 64 MB */
    struct http_reply_priv *priv;
};
struct str http_req_body(const struct http_req *req); /* collected */
void http_reply_header(struct http_reply *r, struct str name, struct str value);
/* A streamed answer from a worker: start, then write; each write blocks until the loop has room.
 * -EPIPE when the client has left. Returning from the handler ends the stream. */
int http_reply_stream(struct http_reply *r, int status, const char *ctype);
int http_reply_write(struct http_reply *r, struct str data);
/* Cuts the connection when the handler returns: the client sees that the stream is not whole. */
void http_reply_abort(struct http_reply *r);
bool http_req_client_gone(const struct http_req *req); /* any thread */
