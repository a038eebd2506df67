#pragma once
/* HTTP/1.1 between a client of the sandbox and the server it meant, without any I/O: bytes come
 * into `cin` and `uin`, bytes go out of `up` and `down`, exchange_run() does what can be done in
 * between.
 *
 * Every head is parsed strictly and written anew, and so is the framing of chunked bodies: whatever
 * the other side reads, it reads the same message that was judged here. One request at a time is
 * under way; the next one is not looked at before the answer to the last one is complete. Bodies
 * pass in pieces of at most INTERCEPT_BUFFER. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "egress/intercept/substitute.h"
#include "egress/vault/vault.h"
#include "http/h1.h"

enum exchange_state {
    EXCHANGE_OPEN,
    EXCHANGE_TUNNEL, /* 101: once `up` and `down` are written, bytes pass as they are */
    EXCHANGE_CLOSE,  /* write `down` out, then close both */
    EXCHANGE_ABORT,  /* close both at once: what was promised cannot be kept */
};

/* What the exchange asks its owner. */
struct exchange_hooks {
    struct vault_state *(*vault)(void *arg); /* of now, borrowed; may be NULL */
    /* Does policy allow a credential for `host` to go to the peer of this connection? */
    bool (*allows)(void *arg, struct str host);
    void (*refused)(void *arg, const char *kind, struct str host, const char *detail);
    void (*injected)(void *arg, const struct vault_state *s, const struct vault_binding *b,
                     struct str host, struct str method);
};

enum body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKED, BODY_TO_END };

struct body {
    enum body_kind kind;
    uint64_t left;
    struct h1_chunked chunks;
    struct buf framing; /* bytes between data: the trailers are in here at the end */
    bool out_chunked;
    bool is_request;
    struct subst_stream *subst; /* NULL: bytes pass as they are */
};

struct exchange {
    enum vault_scheme scheme;
    uint16_t port;           /* of the original destination */
    const char *server_name; /* that the certificate was verified for; "" on plain HTTP */
    const struct exchange_hooks *hooks;
    void *arg;

    enum exchange_state state;
    struct buf cin, uin, up, down;
    size_t up_at, down_at; /* written so far */
    bool up_is_secret;     /* wiped when it has been written */
    bool client_eof, upstream_eof;
    bool up_is_shut; /* the server takes nothing more; what it has said already still counts */

    enum { CLIENT_HEAD, CLIENT_BODY, CLIENT_WAIT } client;
    enum { SERVER_IDLE, SERVER_HEAD, SERVER_BODY } server;
    struct body request, response;
    char method[HTTP_MAX_METHOD + 1];
    bool keep_alive, is_websocket, told_continue, answered;
    struct vault_state *used; /* whose secrets this request carries, or NULL */
    struct subst_stream subst;
    uint64_t n_requests, n_injected;
};

void exchange_init(struct exchange *x, const struct exchange_hooks *hooks, void *arg);
void exchange_done(struct exchange *x);
/* Does what the bytes at hand allow. */
void exchange_run(struct exchange *x);
/* Room to read into, by the owner's rules of backpressure. */
bool exchange_wants_client(const struct exchange *x);
bool exchange_wants_upstream(const struct exchange *x);
/* No answer can come any more: 502 or 504 when nothing of one was passed on yet. */
void exchange_upstream_failed(struct exchange *x, int status, const char *why);
/* The server does not take what is in `up`: nothing more is sent to it, and its answer is awaited
 * until reading fails as well. */
void exchange_upstream_shut(struct exchange *x);
/* After bytes of `up` or `down` were written. */
void exchange_wrote_up(struct exchange *x, size_t n);
void exchange_wrote_down(struct exchange *x, size_t n);
static inline struct str exchange_up(const struct exchange *x)
{
    return str_sub(buf_str(&x->up), x->up_at, x->up.len);
}
static inline struct str exchange_down(const struct exchange *x)
{
    return str_sub(buf_str(&x->down), x->down_at, x->down.len);
}
/* Is nothing held of what is on its way? Then the buffers can be released, also under way. */
bool exchange_is_empty(const struct exchange *x);
void exchange_release(struct exchange *x);
/* Is a request under way, or the beginning of one there? */
bool exchange_is_busy(const struct exchange *x);

/* ---- between exchange.c, request.c and body.c ---- */
enum request_verdict { REQUEST_WAIT, REQUEST_GO, REQUEST_ANSWERED };
/* Judges the request at the front of `cin`, of which `head_len` bytes are the head, and writes what
 * goes on to `up`. REQUEST_WAIT: more of its body is needed first. */
enum request_verdict request_forward(struct exchange *x, const struct h1_head *h, size_t head_len);
void exchange_answer(struct exchange *x, int status, const char *text);

void body_init(struct body *b, const struct h1_head *h, bool is_request);
void body_done(struct body *b);
/* Moves what is there and fits. 1: the body is complete, 0: more needed (or room), -EPROTO. */
int body_relay(struct body *b, struct buf *in, struct buf *out, size_t out_at,
               const struct vault_state *redact);
bool header_is_hop(struct str name);
