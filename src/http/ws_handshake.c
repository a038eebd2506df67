/* The opening handshake of a WebSocket, from both sides (RFC 6455 section 4). */

#include <errno.h>

#include "base/codec.h"
#include "base/must.h"
#include "base/rand.h"
#include "http/internal.h"
#include "http/ws_internal.h"

/* ---- server ---- */

static void refuse(struct http_req *req, int status, const char *reason)
{
    struct buf body = BUF_INIT(512);
    if (status == 426) {
        http_resp_header(req, STR("Upgrade"), STR("websocket"));
        http_resp_header(req, STR("Sec-WebSocket-Version"), STR("13"));
    }
    resp_default_error(status, reason, &body);
    http_resp_send(req, status, "application/json", buf_str(&body));
    buf_done(&body);
}

/* 16 bytes in base64; they mean nothing, but a request without them is no WebSocket handshake. */
static bool key_ok(struct str key)
{
    char raw[16];
    return key.n == 24 && base64_decode(key, raw, sizeof(raw)) == (ssize_t)sizeof(raw);
}

/* NULL when the request is a proper handshake, else the complaint and its status. */
static const char *check_request(struct http_req *req, int *ret_status)
{
    *ret_status = 400;
    if (!str_eq(http_req_method(req), STR("GET")) || http_req_has_body(req)) {
        return "a WebSocket handshake is a GET without a body";
    }
    if (!http_req_is_upgrade(req, STR("websocket"))) {
        *ret_status = 426;
        return "this resource speaks WebSocket only";
    }
    if (!key_ok(http_req_header(req, STR("Sec-WebSocket-Key")))) {
        return "Sec-WebSocket-Key is missing or malformed";
    }
    if (!str_eq(http_req_header(req, STR("Sec-WebSocket-Version")), STR("13"))) {
        *ret_status = 426;
        return "only version 13 of the WebSocket protocol is supported";
    }
    return NULL;
}

static void format_accept(struct http_req *req, const char *subprotocol, struct buf *out)
{
    char accept[29];
    size_t n = 0;
    const struct h1_header *h = http_req_headers(req, &n);
    ws_accept_key(http_req_header(req, STR("Sec-WebSocket-Key")), accept);
    (void)buf_printf(out,
                     "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                     "Connection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n",
                     accept);
    if (subprotocol &&
        h1_header_has_token(h, n, STR("Sec-WebSocket-Protocol"), str_from(subprotocol))) {
        (void)buf_printf(out, "Sec-WebSocket-Protocol: %s\r\n", subprotocol);
    }
    (void)buf_add_str(out, buf_str(&req->headers)); /* what http_resp_header() was given */
    (void)buf_add(out, "\r\n", 2);
}

struct ws_conn *ws_accept(struct http_req *req, const struct ws_opts *o, const struct ws_ops *ops,
                          void *arg)
{
    int status = 0;
    const char *complaint = check_request(req, &status);
    if (complaint) {
        refuse(req, status, complaint);
        return NULL;
    }
    struct buf head = BUF_INIT((size_t)2 * HTTP_MAX_HEAD), early = BUF_INIT(HTTP_WS_MAX_EARLY);
    struct ws_conn *ws = NULL;
    format_accept(req, o ? o->subprotocol : NULL, &head);
    struct io_stream *s = http_req_take_stream(req, &early);
    if (s && (buf_failed(&early) || buf_failed(&head))) {
        io_stream_abort(s);
    } else if (s) {
        ws = ws_conn_new(s, true, o, ops, arg, buf_str(&early));
        ws_conn_send_raw(ws, buf_str(&head));
    }
    buf_done(&head);
    buf_done(&early);
    return ws;
}

/* ---- client ---- */

struct ws_connect {
    struct http_call *call;
    struct ws_opts opts;
    struct ws_ops ops;
    ws_connect_cb *cb;
    void *arg;
    char *subprotocol;
    char key[25];
};

static void connect_free(struct ws_connect *w)
{
    free(w->subprotocol);
    free(w);
}

static void connect_end(struct ws_connect *w, struct ws_conn *ws, int error, int status)
{
    ws_connect_cb *cb = w->cb;
    void *arg = w->arg;
    connect_free(w);
    cb(ws, error, status, arg);
}

/* RFC 6455 4.1: what the client must find in the response. */
static bool check_response(const struct ws_connect *w, const struct h1_head *h)
{
    char want[29];
    ws_accept_key(str_n(w->key, 24), want);
    struct str proto = h1_header_get(h->headers, h->n_headers, STR("Sec-WebSocket-Protocol"));
    if (proto.p && !(w->subprotocol && str_eq(proto, str_from(w->subprotocol)))) {
        return false;
    }
    return h->has_upgrade &&
           str_eq_nocase(h1_header_get(h->headers, h->n_headers, STR("Upgrade")),
                         STR("websocket")) &&
           str_eq(h1_header_get(h->headers, h->n_headers, STR("Sec-WebSocket-Accept")),
                  str_n(want, 28)) &&
           !h1_header_get(h->headers, h->n_headers, STR("Sec-WebSocket-Extensions")).p;
}

static void on_head(struct http_call *c, const struct h1_head *h, void *arg)
{
    struct ws_connect *w = arg;
    struct ws_conn *ws = NULL;
    int status = h->status;
    if (status != 101 || !check_response(w, h)) {
        http_call_cancel(c);
        connect_end(w, NULL, -EPROTO, status);
        return;
    }
    struct buf early = BUF_INIT(HTTP_WS_MAX_EARLY);
    struct io_stream *s = http_call_take_stream(c, &early);
    if (buf_failed(&early)) {
        io_stream_abort(s);
    } else {
        ws = ws_conn_new(s, false, &w->opts, &w->ops, w->arg, buf_str(&early));
    }
    buf_done(&early);
    connect_end(w, ws, ws ? 0 : -EPROTO, status);
}

static void on_end(struct http_call *c, int error, void *arg)
{
    connect_end(arg, NULL, error ? error : -EPROTO, 0);
}

static const struct http_call_ops call_ops = {.on_head = on_head, .on_end = on_end};

static void make_key(struct ws_connect *w)
{
    char raw[16];
    struct buf b = BUF_INIT(24);
    rand_bytes(raw, sizeof(raw));
    must(base64_encode(&b, raw, sizeof(raw)) == 0 && b.len == 24);
    memcpy(w->key, b.p, 24);
    buf_done(&b);
}

struct ws_connect *ws_connect(struct http_client *c, const struct http_target *t, struct str target,
                              const struct h1_header *headers, size_t n_headers,
                              const struct ws_opts *o, const struct ws_ops *ops, ws_connect_cb *cb,
                              void *arg)
{
    struct h1_header h[HTTP_WS_MAX_HEADERS + 5];
    char host[IO_ADDR_TEXT_MAX];
    size_t n = 0;
    struct ws_connect *w = NEW(struct ws_connect);
    w->opts = o ? *o : (struct ws_opts){0};
    w->ops = *ops;
    w->cb = cb;
    w->arg = arg;
    must(n_headers <= HTTP_WS_MAX_HEADERS);
    make_key(w);
    if (!h1_header_get(headers, n_headers, STR("Host")).p) {
        bool is_unix = t->addr.sa.sa_family == AF_UNIX;
        h[n++] = (struct h1_header){
            STR("Host"), is_unix ? STR("localhost") : str_from(io_addr_format(&t->addr, host))};
    }
    for (size_t i = 0; i < n_headers; i++) {
        h[n++] = headers[i];
    }
    h[n++] = (struct h1_header){STR("Upgrade"), STR("websocket")};
    h[n++] = (struct h1_header){STR("Sec-WebSocket-Version"), STR("13")};
    h[n++] = (struct h1_header){STR("Sec-WebSocket-Key"), str_n(w->key, 24)};
    if (w->opts.subprotocol) {
        w->subprotocol = xstrdup(w->opts.subprotocol);
        h[n++] = (struct h1_header){STR("Sec-WebSocket-Protocol"), str_from(w->subprotocol)};
    }
    struct http_call_opts call = {.method = STR("GET"),
                                  .target = target,
                                  .headers = h,
                                  .n_headers = n,
                                  .upgrade = true,
                                  .head_timeout_ms = HTTP_HEAD_TIMEOUT_MS};
    w->call = http_call_start(c, t, &call, &call_ops, w);
    return w;
}

void ws_connect_cancel(struct ws_connect *w)
{
    http_call_cancel(w->call);
    connect_free(w);
}
