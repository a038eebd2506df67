/* The streaming reverse proxy.
 *
 * One object ties a request of the server to a call of the client. Each side pushes what it has to
 * the other and is paused when the other is full, so at most HTTP_OUT_HIGH lies between them in
 * each direction. The object goes when the request has ended (the server tells exactly once) and,
 * for a tunnel, the relay too. */

#include "http/proxy.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "base/num.h"
#include "http/client_internal.h"
#include "http/internal.h"
#include "io/relay.h"

struct http_proxy {
    struct http_req *req;   /* NULL once it has ended */
    struct http_call *call; /* NULL once it has ended */
    struct io_relay *relay;
    struct server_tunnel tunnel; /* in the server's list while there is a relay */
    struct http_proxy_opts opts; /* of these only callbacks, add_resp and idle_timeout_ms */
    bool whole; /* the response lies in one piece: it is sent with its head in one go */
    int status;
};

static void proxy_release(struct http_proxy *p)
{
    if (p->req || p->call || p->relay) {
        return;
    }
    if (p->opts.on_done) {
        p->opts.on_done(p->opts.arg);
    }
    free(p);
}

static void traffic(struct http_proxy *p)
{
    if (p->opts.on_traffic) {
        p->opts.on_traffic(p->opts.arg);
    }
}

/* The upstream gave no response: the application answers, or we do. */
static void answer_error(struct http_proxy *p, int error)
{
    p->req->on_body =
        NULL; /* nobody wants the rest: the answer says so where it is too long to be read */
    if (p->opts.on_error) {
        p->opts.on_error(p->req, error, p->opts.arg);
        return;
    }
    int status = error == -ETIMEDOUT ? 504 : 502;
    struct buf body = BUF_INIT(1024);
    resp_default_error(status,
                       status == 504 ? "the upstream did not answer in time"
                                     : "the upstream could not be reached",
                       &body);
    http_resp_send(p->req, status, "application/json", buf_str(&body));
    buf_done(&body);
}

/* ---- from the client to the upstream ---- */

static void on_request_body(struct http_req *req, struct str data, bool is_last, void *arg)
{
    struct http_proxy *p = arg;
    if (!p->call) {
        return; /* answered already; the server decides what becomes of the rest */
    }
    traffic(p);
    if (data.n > 0 && !http_call_write(p->call, data)) {
        http_req_pause(req);
    }
    if (is_last) {
        http_call_end_body(p->call);
    }
}

static void on_upstream_writable(struct http_call *c, void *arg)
{
    struct http_proxy *p = arg;
    if (p->req) {
        http_req_resume(p->req);
    }
}

static void on_request_end(struct http_req *req, bool completed, void *arg)
{
    struct http_proxy *p = arg;
    p->req = NULL;
    if (p->call) {
        http_call_cancel(take_ptr(&p->call));
    }
    proxy_release(p);
}

/* ---- from the upstream to the client ---- */

static void on_client_writable(struct http_req *req, void *arg)
{
    struct http_proxy *p = arg;
    if (p->call) {
        http_call_resume(p->call);
    }
}

/* Length to announce: what the upstream said, also where no body follows (HEAD). */
static int64_t announced_length(const struct h1_head *h, struct str method)
{
    if (str_eq(method, STR("HEAD"))) {
        uint64_t v = 0;
        struct str s = h1_header_get(h->headers, h->n_headers, STR("content-length"));
        return s.p && parse_u64(s, &v) == 0 && v <= INT64_MAX ? (int64_t)v : -1;
    }
    return h->chunked ? -1 : h->content_length;
}

static void tunnel_end(const struct io_relay_end *end, void *arg)
{
    struct http_proxy *p = arg;
    p->relay = NULL;
    list_del(&p->tunnel.node);
    proxy_release(p);
}

static void cut_tunnel(struct server_tunnel *t)
{
    io_relay_cancel(container_of(t, struct http_proxy, tunnel)->relay); /* calls tunnel_end() */
}

static void format_switch(const struct h1_header *h, size_t n, struct buf *out)
{
    (void)buf_add_cstr(out, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n");
    for (size_t i = 0; i < n; i++) {
        (void)buf_add_str(out, h[i].name);
        (void)buf_add(out, ": ", 2);
        (void)buf_add_str(out, h[i].value);
        (void)buf_add(out, "\r\n", 2);
    }
    (void)buf_add(out, "\r\n", 2);
}

/* The upstream changed protocols: from here on both connections belong to a relay. The 101 goes
 * ahead of what the upstream says. */
static void tunnel(struct http_proxy *p, const struct h1_header *h, size_t n)
{
    struct buf from_client = BUF_INIT((size_t)2 * HTTP_READ_CHUNK);
    struct buf from_upstream = BUF_INIT((size_t)2 * HTTP_MAX_HEAD + HTTP_READ_CHUNK);
    format_switch(h, n, &from_upstream);
    struct io_stream *client = http_req_take_stream(p->req, &from_client);
    if (client) {
        struct io_stream *up = http_call_take_stream(take_ptr(&p->call), &from_upstream);
        if (buf_failed(&from_client) || buf_failed(&from_upstream)) {
            io_stream_abort(client);
            io_stream_abort(up);
        } else {
            p->relay = io_relay_start(client, up, buf_str(&from_client), buf_str(&from_upstream),
                                      p->opts.idle_timeout_ms, tunnel_end, p);
            p->tunnel.cut = cut_tunnel;
            list_push_back(&p->req->server->tunnels, &p->tunnel.node);
            if (p->opts.on_traffic) {
                io_relay_on_traffic(p->relay, p->opts.on_traffic, p->opts.arg);
            }
        }
    } else {
        http_call_cancel(take_ptr(&p->call)); /* the client is gone: its end is on the way */
    }
    buf_done(&from_client);
    buf_done(&from_upstream);
}

static void on_head(struct http_call *c, const struct h1_head *h, void *arg)
{
    struct http_proxy *p = arg;
    struct h1_header out[HTTP_MAX_HEADERS + HTTP_PROXY_MAX_ADD];
    bool upgraded = h->status == 101;
    ssize_t n = http_proxy_response_headers(h->headers, h->n_headers, &p->opts, upgraded, out,
                                            ARRAY_LEN(out));
    must(n >= 0); /* checked when the proxy started */
    traffic(p);
    if (upgraded) {
        tunnel(p, out, (size_t)n);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        http_resp_header(p->req, out[i].name, out[i].value);
    }
    int64_t length = announced_length(h, http_req_method(p->req));
    p->status = h->status;
    p->whole = length >= 0 && h->content_length == length && c->early.n >= (size_t)length;
    if (!p->whole) {
        http_resp_start(p->req, h->status, NULL, length);
    }
}

static void on_response_body(struct http_call *c, struct str data, void *arg)
{
    struct http_proxy *p = arg;
    traffic(p);
    if (p->whole) {
        http_resp_send(p->req, p->status, NULL, data);
    } else if (!http_resp_write(p->req, data)) {
        http_call_pause(c);
    }
}

static void on_call_end(struct http_call *c, int error, void *arg)
{
    struct http_proxy *p = arg;
    p->call = NULL;
    if (!p->req) {
        proxy_release(p);
    } else if (error == 0 && p->whole) {
        if (!http_resp_started(p->req)) {
            http_resp_send(p->req, p->status, NULL, STR("")); /* no body at all */
        }
    } else if (error == 0) {
        http_resp_end(p->req);
    } else if (http_resp_started(p->req)) {
        http_resp_abort(p->req); /* the client must see that it is not complete */
    } else {
        answer_error(p, error);
    }
}

static const struct http_call_ops call_ops = {
    .on_writable = on_upstream_writable,
    .on_head = on_head,
    .on_body = on_response_body,
    .on_end = on_call_end,
};

/* ---- start ---- */

/* X-Forwarded-For continues the chain that the client sent; the others say what we saw. */
static size_t add_forwarded(struct http_req *req, struct h1_header *add, size_t n)
{
    struct arena *a = http_req_arena(req);
    struct io_addr peer;
    char ip[IO_ADDR_TEXT_MAX] = "unknown";
    if (http_req_peer(req, &peer) == 0 && peer.sa.sa_family != AF_UNIX) {
        (void)io_addr_format_ip(&peer, ip);
    }
    size_t n_in = 0;
    const struct h1_header *in = http_req_headers(req, &n_in);
    char *chain = NULL;
    for (size_t i = 0; i < n_in; i++) {
        if (str_eq_nocase(in[i].name, STR("X-Forwarded-For")) && in[i].value.n > 0) {
            chain = arena_printf(a, "%s%s%.*s", chain ? chain : "", chain ? ", " : "",
                                 STR_FMT(in[i].value));
        }
    }
    chain = arena_printf(a, "%s%s%s", chain ? chain : "", chain ? ", " : "", ip);
    add[n++] = (struct h1_header){STR("X-Forwarded-For"), str_from(chain)};
    add[n++] = (struct h1_header){STR("X-Forwarded-Proto"),
                                  req->server->opts.tls ? STR("https") : STR("http")};
    if (http_req_host(req).p) {
        add[n++] = (struct h1_header){STR("X-Forwarded-Host"), http_req_host(req)};
    }
    return n;
}

/* Protocols that we pass on blindly. Not h2c: its first request would come twice, and the rest
 * would pass whatever this server checks. A request with a body is not upgraded (it may be
 * ignored). */
static bool wants_upgrade(const struct http_req *req)
{
    return req->head.has_upgrade && !http_req_has_body(req) &&
           !http_req_is_upgrade(req, STR("h2c"));
}

static struct h1_header *copy_headers(struct arena *a, const struct h1_header *h, size_t n)
{
    struct h1_header *copy = arena_array(a, n ? n : 1, sizeof(*copy));
    for (size_t i = 0; i < n; i++) {
        copy[i].name = str_n(arena_str(a, h[i].name), h[i].name.n);
        copy[i].value = str_n(arena_str(a, h[i].value), h[i].value.n);
    }
    return copy;
}

static struct http_proxy *proxy_new(struct http_req *req, const struct http_proxy_opts *o)
{
    struct http_proxy *p = NEW(struct http_proxy);
    p->req = req;
    p->opts = *o;
    p->opts.add = NULL;
    p->opts.n_add = 0;
    if (o->n_add_resp > 0) {
        p->opts.add_resp = copy_headers(http_req_arena(req), o->add_resp, o->n_add_resp);
    }
    http_req_on_end(req, on_request_end, p);
    http_resp_on_writable(req, on_client_writable, p);
    return p;
}

static ssize_t request_headers(struct http_req *req, const struct http_proxy_opts *o, bool upgrade,
                               struct h1_header *out, size_t max)
{
    struct h1_header add[HTTP_PROXY_MAX_ADD];
    struct http_proxy_opts oo = *o;
    size_t n_in = 0;
    const struct h1_header *in = http_req_headers(req, &n_in);
    /* What is added to the response is checked here too, while the request can still be refused. */
    if (o->n_add > HTTP_PROXY_MAX_ADD - 3 || o->n_add_resp > HTTP_PROXY_MAX_ADD ||
        http_proxy_response_headers(NULL, 0, o, false, out, max) < 0) {
        return -EINVAL;
    }
    if (!oo.host.p) {
        oo.host = http_req_host(req); /* of an absolute-form target too */
    }
    if (o->forwarded) {
        if (o->n_add > 0) {
            memcpy(add, o->add, o->n_add * sizeof(*add));
        }
        oo.add = add;
        oo.n_add = add_forwarded(req, add, o->n_add);
    }
    return http_proxy_request_headers(in, n_in, &oo, upgrade, out, max);
}

void http_proxy_start(struct http_req *req, struct http_client *c, const struct http_target *t,
                      const struct http_proxy_opts *o)
{
    struct h1_header headers[HTTP_MAX_HEADERS + HTTP_PROXY_MAX_ADD + 1];
    struct http_proxy *p = proxy_new(req, o);
    bool upgrade = wants_upgrade(req);
    ssize_t n = request_headers(req, o, upgrade, headers, ARRAY_LEN(headers));
    if (bug_if(n < 0)) {
        answer_error(p, -EINVAL);
        return;
    }
    int64_t length = http_req_content_length(req);
    struct http_call_opts call = {
        .method = http_req_method(req),
        .target = o->target,
        .headers = headers,
        .n_headers = (size_t)n,
        .body_len = http_req_has_body(req) ? length : 0,
        .upgrade = upgrade,
        .keep_body_framing_for_get = length == 0,
        .head_timeout_ms = o->head_timeout_ms,
        .idle_timeout_ms = o->idle_timeout_ms,
    };
    p->call = http_call_start(c, t, &call, &call_ops, p);
    if (call.body_len != 0) {
        http_req_on_body(req, on_request_body, p);
    }
}
