#pragma once
/* HTTP/1.1 client on a loop, with kept-alive connections per target. For data paths: proxies and
 * streams. (Blocking work uses libcurl.) One client per loop. */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "http/h1.h"
#include "io/addr.h"
#include "io/loop.h"
#include "io/stream.h"

struct http_client;
struct http_call;
struct io_tls_ctx;
struct buf;

struct http_client_opts {
    uint64_t connect_timeout_ms, idle_pool_ms; /* 0: http/limits.h */
    size_t max_idle_per_target;
};

/* Where to connect. Equal `key` means equal target: connections are pooled by it. Copied when a
 * call starts, but for netns_fd, tls and server_name: those must stay valid until it has ended. */
struct http_target {
    struct str key; /* unique, e.g. "<sandbox id>:<port>" or "127.0.0.1:80" */
    struct io_addr addr;
    const struct io_addr
        *alt;     /* tried when addr refuses the connection (the other loopback), or NULL */
    int netns_fd; /* -1: this namespace */
    struct io_tls_ctx *tls;  /* NULL: plain */
    const char *server_name; /* SNI and verification */
};

struct http_client *http_client_new(struct io_loop *l, const struct http_client_opts *o);
void http_client_free(struct http_client *c); /* cancels calls, closes idle connections */
/* Closes idle connections whose key starts with prefix (a sandbox that went away). */
void http_client_forget(struct http_client *c, struct str key_prefix);

struct http_call_opts {
    struct str method, target; /* target: path and query, sent untouched */
    const struct h1_header
        *headers; /* sent as they are; framing and Connection headers are added here */
    size_t n_headers;
    int64_t body_len;               /* 0: none, -1: chunked, else Content-Length */
    bool upgrade;                   /* sends Connection: Upgrade; on 101 the stream can be taken */
    bool keep_body_framing_for_get; /* send Content-Length: 0 also for methods without a body */
    uint64_t head_timeout_ms;       /* waiting for the response head; 0: none */
    uint64_t idle_timeout_ms;       /* between pieces; 0: none */
};

struct http_call_ops {
    void (*on_writable)(struct http_call *c, void *arg); /* connected / drained: write more body */
    void (*on_head)(struct http_call *c, const struct h1_head *head,
                    void *arg); /* 1xx but 101 are skipped */
    void (*on_body)(struct http_call *c, struct str data, void *arg);
    /* Once, last. 0: complete. Else -ECONNREFUSED, -ETIMEDOUT, -EPROTO, -ECONNRESET, ... */
    void (*on_end)(struct http_call *c, int error, void *arg);
};

/* Method, target and headers are copied; no callback comes from inside any of these functions.
 * A request that failed on a reused connection before any response byte is retried once on a new
 * one, if nothing of its body was sent or the method is idempotent and has no body. */
struct http_call *http_call_start(struct http_client *c, const struct http_target *t,
                                  const struct http_call_opts *o, const struct http_call_ops *ops,
                                  void *arg);
bool http_call_write(struct http_call *c, struct str data); /* as http_resp_write() */
void http_call_end_body(struct http_call *c);
void http_call_pause(struct http_call *c);
void http_call_resume(struct http_call *c);
void http_call_cancel(struct http_call *c); /* no callback comes after it */
/* After on_head with 101: the connection and what was read beyond the head. on_end is not called.
 */
struct io_stream *http_call_take_stream(struct http_call *c, struct buf *early);
