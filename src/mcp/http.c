/* The streamable HTTP transport. One path, /mcp: POST carries messages and is answered with JSON or
 * with a stream of events, GET opens a stream for what the server may want to say, DELETE ends a
 * session. Requests of the newest protocol have no session: each stands for itself.
 *
 * Everything here runs on one loop. Tool calls run on threads of their own; what they send comes
 * over with io_post(). */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/must.h"
#include "base/rand.h"
#include "http/server.h"
#include "http/sse.h"
#include "io/timer.h"
#include "mcp/http_guard.h"
#include "mcp/mcp.h"

struct http {
    struct mcp *app;
    const struct http_opts *opts;
    struct io_loop *loop;
    struct http_server *server;
    struct map sessions;
    struct io_timer sweep;
    struct list exchanges; /* of requests that are open */
};

struct http_session {
    struct session *session;
    char id[ID_HEX_LEN + 1];
    uint64_t used_ms;
    unsigned n_streams;
};

/* A request that is being answered, or a GET stream. */
struct exchange {
    struct sink base;
    struct list node;
    struct http *http;
    struct http_req *req; /* NULL once it is over */
    struct session *session;
    char session_id[ID_HEX_LEN + 1]; /* "" without a session */
    bool sse, is_stream, stateless;
    size_t waiting; /* requests without an answer */
    struct buf reply;
    struct io_timer keepalive;
};

#define JSON_TYPE "application/json"

/* ---- short answers ---- */

static void answer_error(struct http_req *req, int status, enum rpc_code code, const char *message)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(8192);
    rpc_error(&b, NULL, code, message);
    http_resp_send(req, status, JSON_TYPE, buf_str(&b));
}

/* ---- exchanges ---- */

static void keepalive(struct io_timer *t)
{
    struct exchange *x = container_of(t, struct exchange, keepalive);
    if (x->req) {
        (void)http_resp_write(x->req, STR(": still here\n\n"));
        io_timer_start(&x->keepalive, MCP_KEEPALIVE_MS);
    }
}

static void put_message(struct exchange *x, struct str message, bool is_reply)
{
    if (!x->req) {
        return;
    }
    if (x->sse) {
        (void)sse_send(x->req, STR("message"), STR_NULL, message);
    } else if (is_reply) {
        buf_clear(&x->reply);
        (void)buf_add_str(&x->reply, message);
    }
}

static void one_done(struct exchange *x)
{
    if (x->waiting == 0 || --x->waiting > 0 || !x->req) {
        return;
    }
    if (x->sse) {
        http_resp_end(x->req);
    } else if (x->reply.len > 0) {
        http_resp_send(x->req, 200, JSON_TYPE, buf_str(&x->reply));
    } else {
        http_resp_send(x->req, 204, NULL, STR_NULL); /* canceled */
    }
}

struct posted {
    struct exchange *x;
    struct buf message;
    bool is_reply, is_done;
};

static void on_posted(void *arg)
{
    struct posted *p = arg;
    if (p->is_done) {
        one_done(p->x);
    } else {
        put_message(p->x, buf_str(&p->message), p->is_reply);
    }
    buf_done(&p->message);
    sink_unref(&p->x->base);
    free(p);
}

static void post(struct exchange *x, struct str message, bool is_reply, bool is_done)
{
    struct posted *p = NEW(struct posted);
    (void)sink_ref(&x->base);
    p->x = x;
    p->is_reply = is_reply;
    p->is_done = is_done;
    p->message = BUF_INIT(MCP_MAX_REPLY);
    (void)buf_add_str(&p->message, message);
    io_post(x->http->loop, on_posted, p);
}

static void exchange_send(struct sink *s, struct str message, bool is_reply)
{
    struct exchange *x = container_of(s, struct exchange, base);
    if (io_loop_current() == x->http->loop) {
        put_message(x, message, is_reply);
    } else {
        post(x, message, is_reply, false);
    }
}

static void exchange_done(struct sink *s)
{
    struct exchange *x = container_of(s, struct exchange, base);
    if (io_loop_current() == x->http->loop) {
        one_done(x);
    } else {
        post(x, STR_NULL, false, true);
    }
}

static void exchange_free(struct sink *s)
{
    struct exchange *x = container_of(s, struct exchange, base);
    session_unref(x->session);
    buf_done(&x->reply);
    free(x);
}

static void on_end(struct http_req *req, bool completed, void *arg)
{
    struct exchange *x = arg;
    x->req = NULL;
    io_timer_stop(&x->keepalive);
    list_del(&x->node);
    if (x->is_stream) {
        struct http_session *s = map_get(&x->http->sessions, str_from(x->session_id));
        if (s) {
            s->n_streams--;
        }
    }
    if (x->stateless && !completed) {
        session_cancel(x->session); /* hanging up is how such a request is canceled */
    }
    sink_unref(&x->base);
}

static struct exchange *exchange_new(struct http *h, struct http_req *req, struct session *s)
{
    struct exchange *x = NEW(struct exchange);
    x->base = (struct sink){.send = exchange_send, .done = exchange_done, .free = exchange_free};
    atomic_init(&x->base.refs, 1); /* of the request; given up in on_end */
    x->http = h;
    x->req = req;
    x->session = session_ref(s);
    x->reply = BUF_INIT(MCP_MAX_REPLY);
    io_timer_init(&x->keepalive, h->loop, keepalive);
    list_init(&x->node);
    list_push_back(&h->exchanges, &x->node);
    http_req_on_end(req, on_end, x);
    return x;
}

static void exchange_stream(struct exchange *x)
{
    x->sse = true;
    sse_start(x->req, 200);
    io_timer_start(&x->keepalive, MCP_KEEPALIVE_MS);
}

/* ---- sessions ---- */

static struct http_session *http_session_new(struct http *h)
{
    if (map_len(&h->sessions) >= MCP_MAX_SESSIONS) {
        return NULL;
    }
    struct http_session *s = NEW(struct http_session);
    rand_id_hex(s->id);
    s->session = session_new(h->app);
    (void)map_put(&h->sessions, str_from(s->id), s);
    return s;
}

static void http_session_end(struct http *h, struct http_session *s)
{
    list_each (n, &h->exchanges) {
        struct exchange *x = list_entry(n, struct exchange, node);
        if (x->is_stream && x->session == s->session && x->req) {
            http_resp_end(x->req);
        }
    }
    session_cancel(s->session);
    (void)map_del(&h->sessions, str_from(s->id));
    session_unref(s->session);
    free(s);
}

static void on_sweep(struct io_timer *t)
{
    struct http *h = container_of(t, struct http, sweep);
    uint64_t now = io_now_ms(h->loop);
    size_t it = 0;
    void *v;
    while (map_next(&h->sessions, &it, NULL, &v)) {
        struct http_session *s = v;
        if (s->n_streams == 0 && now - s->used_ms > MCP_SESSION_IDLE_MS &&
            !session_busy(s->session)) {
            http_session_end(h, s);
        }
    }
    io_timer_start(&h->sweep, MCP_SESSION_IDLE_MS / 60);
}

/* The session a request names; NULL after the answer was sent. */
static struct http_session *session_of(struct http *h, struct http_req *req)
{
    struct str id = http_req_header(req, STR("Mcp-Session-Id"));
    if (!id.p) {
        answer_error(req, 400, RPC_INVALID, "the Mcp-Session-Id header is missing");
        return NULL;
    }
    struct http_session *s = map_get(&h->sessions, id);
    if (!s) {
        answer_error(req, 404, RPC_INVALID, "there is no such session; initialize again");
        return NULL;
    }
    s->used_ms = io_now_ms(h->loop);
    return s;
}

/* ---- POST ---- */

static void refuse_version(struct http_req *req)
{
    answer_error(req, 400, RPC_BAD_VERSION,
                 "MCP-Protocol-Version: this version is not spoken here");
}

/* A message that wants no answer. */
static void run_quietly(struct http *h, struct http_req *req, struct session *s,
                        const struct rpc_in *in)
{
    struct exchange *x = exchange_new(h, req, s);
    (void)sink_ref(&x->base);
    rpc_run(s, in, &x->base);
    if (x->reply.len > 0) {
        http_resp_send(req, 400, JSON_TYPE, buf_str(&x->reply));
    } else {
        http_resp_send(req, 202, NULL, STR_NULL);
    }
    sink_unref(&x->base);
}

static void run_message(struct http *h, struct http_req *req, struct session *s,
                        const struct rpc_in *in, bool stateless)
{
    struct str accept = http_req_header(req, STR("Accept"));
    bool json = guard_accepts(accept, STR(JSON_TYPE)),
         sse = guard_accepts(accept, STR("text/event-stream"));
    if (!json && !sse) {
        answer_error(req, 406, RPC_INVALID, "accept application/json and text/event-stream");
        return;
    }
    if (in->n_requests == 0) {
        run_quietly(h, req, s, in);
        return;
    }
    bool slow = in->is_batch || str_eq(str_from(in->method), STR("tools/call"));
    struct exchange *x = exchange_new(h, req, s);
    (void)sink_ref(&x->base);
    x->stateless = stateless;
    x->waiting = in->is_batch ? 1 : in->n_requests;
    if (sse && (slow || !json)) {
        exchange_stream(x);
    }
    rpc_run(s, in, &x->base);
    sink_unref(&x->base);
}

/* A request of the newest protocol: headers repeat what the body says, and must not differ. */
static void run_stateless(struct http *h, struct http_req *req, const struct rpc_in *in)
{
    struct str version = http_req_header(req, STR("MCP-Protocol-Version")),
               method = http_req_header(req, STR("Mcp-Method"));
    if (in->n_requests > 0 && (!str_eq(version, str_from(in->version)) ||
                               (method.p && !str_eq(method, str_from(in->method))))) {
        answer_error(req, 400, RPC_HEADER_MISMATCH,
                     "the MCP-Protocol-Version and Mcp-Method headers differ from the message");
        return;
    }
    struct session *s = session_new(h->app);
    s->version = MCP_2026_07_28;
    run_message(h, req, s, in, true);
    session_unref(s);
}

static void run_post(struct http *h, struct http_req *req, const struct rpc_in *in)
{
    struct str version = http_req_header(req, STR("MCP-Protocol-Version"));
    enum mcp_version v = MCP_2025_03_26;
    if (version.p && !mcp_version_find(version, &v)) {
        refuse_version(req);
        return;
    }
    if (v >= MCP_2026_07_28 || in->version) {
        run_stateless(h, req, in);
        return;
    }
    struct http_session *s;
    if (!in->is_initialize) {
        s = session_of(h, req);
    } else if (!(s = http_session_new(h))) {
        answer_error(req, 503, RPC_BUSY, "too many sessions; end one with DELETE");
    }
    if (!s) {
        return;
    }
    if (in->is_initialize) {
        s->used_ms = io_now_ms(h->loop);
        http_resp_header(req, STR("Mcp-Session-Id"), str_from(s->id));
    }
    run_message(h, req, s->session, in, false);
    if (in->is_initialize && !s->session->initialized) {
        http_session_end(h, s);
    }
}

static void on_body(struct http_req *req, struct str body, void *arg)
{
    struct rpc_in in;
    struct err e = {0};
    if (rpc_read(body, &in, &e) < 0) {
        answer_error(req, 400, RPC_PARSE, e.msg);
        return;
    }
    run_post(arg, req, &in);
    rpc_in_done(&in);
}

static void on_post(struct http_req *req)
{
    struct str type = http_req_header(req, STR("Content-Type"));
    if (!str_eq_nocase(str_trim(str_cut(&type, ';')), STR(JSON_TYPE))) {
        answer_error(req, 415, RPC_INVALID, "Content-Type: expected application/json");
        return;
    }
    http_req_collect(req, MCP_MAX_MESSAGE, on_body, http_req_app(req));
}

/* ---- GET, DELETE ---- */

static void on_get(struct http_req *req)
{
    struct http *h = http_req_app(req);
    if (!guard_accepts(http_req_header(req, STR("Accept")), STR("text/event-stream"))) {
        answer_error(req, 406, RPC_INVALID, "accept text/event-stream");
        return;
    }
    struct http_session *s = session_of(h, req);
    if (!s) {
        return;
    }
    if (s->n_streams >= MCP_MAX_STREAMS) {
        answer_error(req, 409, RPC_INVALID, "too many open streams of one session");
        return;
    }
    s->n_streams++;
    struct exchange *x = exchange_new(h, req, s->session);
    x->is_stream = true;
    (void)snprintf(x->session_id, sizeof(x->session_id), "%s", s->id);
    exchange_stream(x);
}

static void on_delete(struct http_req *req)
{
    struct http *h = http_req_app(req);
    struct http_session *s = session_of(h, req);
    if (s) {
        http_session_end(h, s);
        http_resp_send(req, 204, NULL, STR_NULL);
    }
}

static void on_options(struct http_req *req)
{
    http_resp_header(req, STR("Access-Control-Allow-Methods"), STR("GET, POST, DELETE"));
    http_resp_header(
        req, STR("Access-Control-Allow-Headers"),
        STR("Accept, Authorization, Content-Type, Last-Event-ID, Mcp-Method, Mcp-Name, "
            "Mcp-Protocol-Version, Mcp-Session-Id"));
    http_resp_header(req, STR("Access-Control-Max-Age"), STR("600"));
    http_resp_send(req, 204, NULL, STR_NULL);
}

static const struct http_route routes[] = {
    {.method = "POST", .pattern = "/mcp", .kind = HTTP_STREAM, .stream = on_post},
    {.method = "GET", .pattern = "/mcp", .kind = HTTP_STREAM, .stream = on_get},
    {.method = "DELETE", .pattern = "/mcp", .kind = HTTP_STREAM, .stream = on_delete},
    {.method = "OPTIONS", .pattern = "/mcp", .kind = HTTP_STREAM, .stream = on_options},
    {0},
};

/* ---- who may ---- */

static bool before(struct http_req *req, const struct http_route *route)
{
    const struct http_opts *o = ((struct http *)http_req_app(req))->opts;
    struct str origin = http_req_header(req, STR("Origin"));
    if (!guard_host(o, http_req_host(req))) {
        answer_error(req, 403, RPC_INVALID, "Host: not a name of this server; see --allow-host");
        return false;
    }
    if (!guard_origin(o, origin)) {
        answer_error(req, 403, RPC_INVALID, "Origin: not allowed; see --allow-origin");
        return false;
    }
    if (origin.p) {
        http_resp_header(req, STR("Access-Control-Allow-Origin"), origin);
        http_resp_header(req, STR("Access-Control-Expose-Headers"), STR("Mcp-Session-Id"));
        http_resp_header(req, STR("Vary"), STR("Origin"));
    }
    bool preflight = str_eq(http_req_method(req), STR("OPTIONS"));
    if (!preflight && !guard_token(o, http_req_header(req, STR("Authorization")))) {
        http_resp_header(req, STR("WWW-Authenticate"), STR("Bearer"));
        answer_error(req, 401, RPC_INVALID, "Authorization: the bearer token is missing or wrong");
        return false;
    }
    return true;
}

/* ---- running ---- */

static void on_signal(int signo, void *arg)
{
    (void)signo;
    io_loop_stop(arg);
}

static void end_sessions(struct http *h)
{
    size_t it = 0;
    void *v;
    while (map_next(&h->sessions, &it, NULL, &v)) {
        http_session_end(h, v);
    }
    list_each (n, &h->exchanges) {
        struct exchange *x = list_entry(n, struct exchange, node);
        session_cancel(x->session);
    }
}

int http_serve(struct mcp *m, const struct http_opts *o, struct err *e)
{
    struct http h = {.app = m, .opts = o, .loop = io_loop_new()};
    struct io_addr a, bound;
    char text[IO_ADDR_TEXT_MAX];
    list_init(&h.exchanges);
    if (io_addr_ip(str_from(o->host), o->port, &a) < 0) {
        return err_set(e, ERR_INVALID, "'%s' is not an address", o->host);
    }
    h.server = http_server_new(
        h.loop, &(struct http_server_opts){.routes = routes, .app = &h, .before = before});
    if (http_server_listen(h.server, &a, NULL, &bound, e) < 0) {
        return -1;
    }
    io_timer_init(&h.sweep, h.loop, on_sweep);
    io_timer_start(&h.sweep, MCP_SESSION_IDLE_MS / 60);
    io_signal_watch(h.loop, SIGTERM, on_signal, h.loop);
    io_signal_watch(h.loop, SIGINT, on_signal, h.loop);
    (void)fprintf(stderr, "listening on http://%s/mcp\n", io_addr_format(&bound, text));
    io_loop_run(h.loop);

    io_timer_stop(&h.sweep);
    end_sessions(&h);
    http_server_free(h.server);
    map_done(&h.sessions);
    if (mcp_wait_idle(m, 2 * MCP_END_GRACE_MS)) {
        io_loop_free(h.loop); /* no thread posts to it any more */
    }
    return 0;
}
