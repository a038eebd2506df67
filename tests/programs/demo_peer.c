/* Proxy, WebSocket echo server and WebSocket echo client for the tests. */

#include "demo_peer.h"

#include <stdio.h>

#include "base/must.h"
#include "base/num.h"
#include "http/proxy.h"
#include "http/ws.h"
#include "net/url.h"

/* ---- proxy ---- */

void demo_proxy(struct http_req *req, struct http_client *c, const struct demo_peer_opts *o)
{
    static const struct str drop[] = {{"X-Drop-Me", 9}};
    static const struct h1_header added[] = {{{"X-Proxied", 9}, {"yes", 3}}};
    struct str target = http_req_target(req);
    if (!o->has_upstream) {
        http_resp_send(req, 503, "text/plain", STR("no --upstream"));
        return;
    }
    struct http_target t = {.key = STR("upstream"), .addr = o->upstream, .netns_fd = -1};
    target = str_sub(target, strlen("/proxy"), target.n);
    if (target.n == 0 || target.p[0] != '/') {
        target = str_from(arena_printf(http_req_arena(req), "/%.*s", STR_FMT(target)));
    }
    struct http_proxy_opts po = {
        .target = target,
        .drop = drop,
        .n_drop = 1,
        .add_resp = added,
        .n_add_resp = 1,
        .forwarded = o->forwarded,
        .head_timeout_ms = 30000,
        .idle_timeout_ms = 30000,
    };
    http_proxy_start(req, c, &t, &po);
}

/* ---- WebSocket echo, both roles ---- */

/* "close:CODE:REASON" */
static bool asks_to_close(struct ws_conn *ws, struct str data)
{
    uint32_t code = 0;
    if (!str_starts(data, STR("close:"))) {
        return false;
    }
    struct str rest = str_sub(data, 6, data.n);
    if (parse_u32(str_cut(&rest, ':'), &code) < 0 || !ws_close_code_valid(code)) {
        return false;
    }
    ws_close(ws, code, rest);
    return true;
}

static void on_message(struct ws_conn *ws, enum ws_opcode op, struct str data, void *arg)
{
    if (op == WS_TEXT && asks_to_close(ws, data)) {
        return;
    }
    if (!ws_send(ws, op, data)) {
        ws_pause(ws);
    }
}

static void on_writable(struct ws_conn *ws, void *arg)
{
    ws_resume(ws);
}

static const struct ws_ops echo_ops = {.on_message = on_message, .on_writable = on_writable};

void demo_ws(struct http_req *req)
{
    struct ws_opts o = {.subprotocol = "echo"};
    uint64_t max = 0;
    struct str s = http_req_query_get(req, "max", 0);
    if (s.p && parse_u64(s, &max) == 0) {
        o.max_message = (size_t)max;
    }
    s = http_req_query_get(req, "ping", 0);
    if (s.p && parse_u64(s, &o.ping_ms) < 0) {
        o.ping_ms = 0;
    }
    (void)ws_accept(req, &o, &echo_ops, NULL); /* refusals are answered */
}

/* ---- client ---- */

struct session {
    struct io_loop *loop;
    int rc;
};

static void on_close(struct ws_conn *ws, unsigned code, struct str reason, void *arg)
{
    struct session *s = arg;
    printf("closed %u %.*s\n", code, STR_FMT(reason));
    io_loop_stop(s->loop);
}

static const struct ws_ops client_ops = {
    .on_message = on_message, .on_writable = on_writable, .on_close = on_close};

static void on_connected(struct ws_conn *ws, int error, int status, void *arg)
{
    struct session *s = arg;
    if (!ws) {
        printf("refused %d %s\n", status, strerrorname_np(-error));
        s->rc = 1;
        io_loop_stop(s->loop);
    }
}

int demo_ws_client(const char *url, uint64_t max_message)
{
    struct url u;
    struct http_target t = {.key = STR("peer"), .netns_fd = -1};
    if (url_parse(str_from(url), &u) < 0 || io_addr_ip(u.host, u.port, &t.addr) < 0) {
        (void)fprintf(stderr, "httpd_demo: not a URL with a numeric host: %s\n", url);
        return 2;
    }
    struct session s = {.loop = io_loop_new()};
    struct http_client *c = http_client_new(s.loop, NULL);
    const struct ws_opts o = {.max_message = (size_t)max_message, .subprotocol = "echo"};
    struct str target =
        str_n(u.path.p, u.query.p ? (size_t)(u.query.p + u.query.n - u.path.p) : u.path.n);
    (void)ws_connect(c, &t, target.n ? target : STR("/"), NULL, 0, &o, &client_ops, on_connected,
                     &s);
    io_loop_run(s.loop);
    while (io_stream_count() > 0) { /* the Close frame is still under way */
        io_loop_turn(s.loop, true);
    }
    http_client_free(c);
    io_loop_free(s.loop);
    return s.rc;
}
