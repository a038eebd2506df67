/* A server that shows every way to answer, for integration tests and benches.
 *
 *   httpd_demo [--port N] [--loops N] [--upstream IP:PORT [--forwarded]]
 *   httpd_demo --ws-client ws://IP:PORT/PATH [--ws-max N]
 *
 * Prints "listening on 127.0.0.1:PORT" when it does. Port 0 (the default) lets the kernel choose.
 */

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "http/file.h"
#include "http/server.h"
#include "http/sse.h"
#include "io/loop.h"
#include "io/pool.h"
#include "io/timer.h"
#include "io/tls.h"
#include "net/url.h"

#include "demo_peer.h"

#define MAX_LOOPS 16

struct app {
    struct io_group *group;
    struct io_pool *pool;
    struct http_server *servers[MAX_LOOPS];
    struct http_client *clients[MAX_LOOPS]; /* one per loop, for the proxy */
    unsigned n_loops;
    uint16_t port;
    struct demo_peer_opts peer;
    const char *ws_client;
    uint64_t ws_max;
    uint64_t head_ms, body_ms, idle_ms;
    struct io_tls_server_opts tls_opts;
    struct io_tls_ctx *tls;
};

/* ---- routes ---- */

static void get_hello(struct http_req *req)
{
    http_resp_send(req, 200, "text/plain", STR("Hello, World!"));
}

/* n bytes, written as fast as the client takes them. */
struct bytes {
    uint64_t left;
};

static void write_bytes(struct http_req *req, void *arg)
{
    static char zeros[64u << 10];
    struct bytes *b = arg;
    bool room = true;
    while (b->left > 0 && room) {
        size_t n = (size_t)MIN(b->left, sizeof(zeros));
        b->left -= n;
        room = http_resp_write(req, str_n(zeros, n));
    }
    if (b->left == 0) {
        http_resp_end(req);
    }
}

static void get_bytes(struct http_req *req)
{
    struct bytes *b = ARENA_NEW(http_req_arena(req), struct bytes);
    if (parse_u64(http_req_param(req, "n"), &b->left) < 0) {
        http_resp_send(req, 400, "text/plain", STR("not a number"));
        return;
    }
    bool chunked = http_req_query_get(req, "chunked", 0).p != NULL;
    http_resp_on_writable(req, write_bytes, b);
    http_resp_start(req, 200, "application/octet-stream", chunked ? -1 : (int64_t)b->left);
    write_bytes(req, b);
}

/* The body comes back as it arrives; a slow reader stops the sender. */
static void on_echo(struct http_req *req, struct str data, bool is_last, void *arg)
{
    if (!http_resp_write(req, data)) {
        http_req_pause(req);
    }
    if (is_last) {
        http_resp_end(req);
    }
}

static void on_echo_writable(struct http_req *req, void *arg)
{
    http_req_resume(req);
}

static void post_echo(struct http_req *req)
{
    http_resp_on_writable(req, on_echo_writable, NULL);
    http_req_on_body(req, on_echo, NULL);
    http_resp_start(req, 200, "application/octet-stream",
                    http_req_has_body(req) ? http_req_content_length(req) : 0);
}

static void on_sink(struct http_req *req, struct str data, bool is_last, void *arg)
{
    uint64_t *n = arg;
    *n += data.n;
    if (is_last) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)*n);
        http_resp_send(req, 200, "text/plain", str_from(text));
    }
}

static void post_sink(struct http_req *req)
{
    http_req_on_body(req, on_sink, ARENA_NEW(http_req_arena(req), uint64_t));
}

/* An event every 50 ms until the client leaves, or ?n= of them. */
struct ticker {
    struct io_timer timer;
    struct http_req *req;
    uint64_t n, max;
};

static void on_tick(struct io_timer *t)
{
    struct ticker *k = container_of(t, struct ticker, timer);
    char text[64];
    (void)snprintf(text, sizeof(text), "{\"n\":%llu}", (unsigned long long)k->n++);
    (void)sse_send(k->req, STR("tick"), STR_NULL,
                   str_from(text)); /* slow readers lose nothing but time */
    if (k->max && k->n >= k->max) {
        http_resp_end(k->req);
    } else {
        io_timer_start(&k->timer, 50);
    }
}

static void on_ticker_end(struct http_req *req, bool completed, void *arg)
{
    struct ticker *k = arg;
    io_timer_stop(&k->timer);
    if (!completed) {
        log_info("the event stream was left by its client", LOG_I("events", k->n));
    }
}

static void get_sse(struct http_req *req)
{
    struct ticker *k = ARENA_NEW(http_req_arena(req), struct ticker);
    k->req = req;
    struct str max = http_req_query_get(req, "n", 0);
    if (max.p && parse_u64(max, &k->max) < 0) {
        http_resp_send(req, 400, "text/plain", STR("not a number"));
        return;
    }
    io_timer_init(&k->timer, http_req_loop(req), on_tick);
    http_req_on_end(req, on_ticker_end, k);
    sse_start(req, 200);
    io_timer_start(&k->timer, 0);
}

static void do_work(struct http_req *req, struct http_reply *reply)
{
    reply->status = 200;
    reply->ctype = "text/plain";
    (void)buf_add_str(&reply->body, http_req_body(req)); /* as large as the limit of the body */
}

/* ?n= bytes, streamed by a worker. */
static void do_work_stream(struct http_req *req, struct http_reply *reply)
{
    static char zeros[64u << 10];
    uint64_t left = 0;
    if (parse_u64(http_req_query_get(req, "n", 0), &left) < 0) {
        reply->status = 400;
        return;
    }
    int r = http_reply_stream(reply, 200, "application/octet-stream");
    while (r == 0 && left > 0) {
        size_t n = (size_t)MIN(left, sizeof(zeros));
        r = http_reply_write(reply, str_n(zeros, n));
        left -= n;
    }
}

static void get_file(struct http_req *req)
{
    struct str path = http_req_query_get(req, "path", 0);
    int fd = path.p ? open(path.p, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0) {
        http_resp_send(req, 404, "text/plain", STR("no such file"));
        return;
    }
    http_resp_file(req, fd, "application/octet-stream");
}

static void any_proxy(struct http_req *req)
{
    struct app *app = http_req_app(req);
    unsigned i = 0;
    while (io_group_loop(app->group, i) != http_req_loop(req)) {
        i++;
    }
    demo_proxy(req, app->clients[i], &app->peer);
}

static const struct http_route routes[] = {
    {"*", "/proxy/{rest...}", HTTP_STREAM, .stream = any_proxy},
    {"GET", "/ws", HTTP_STREAM, .stream = demo_ws},
    {"GET", "/hello", HTTP_STREAM, .stream = get_hello},
    {"GET", "/bytes/{n}", HTTP_STREAM, .stream = get_bytes},
    {"POST", "/echo", HTTP_STREAM, .stream = post_echo},
    {"*", "/sink", HTTP_STREAM, .stream = post_sink},
    {"GET", "/sse", HTTP_STREAM, .stream = get_sse},
    {"*", "/work", HTTP_WORK, .work = do_work},
    {"GET", "/work-stream", HTTP_WORK, .work = do_work_stream},
    {"GET", "/file", HTTP_STREAM, .stream = get_file},
    {0},
};

/* ---- life ---- */

static void usage(void)
{
    (void)fputs(
        "usage: httpd_demo [--port N] [--loops N] [--upstream IP:PORT [--forwarded]]\n"
        "                  [--head-ms N] [--body-ms N] [--idle-ms N] [--cert PEM --key PEM]\n"
        "       httpd_demo --ws-client ws://IP:PORT/PATH [--ws-max N]\n",
        stderr);
    exit(2);
}

static uint64_t number(const char *text)
{
    uint64_t v = 0;
    if (parse_u64(str_from(text), &v) < 0) {
        usage();
    }
    return v;
}

static void set_upstream(struct app *app, const char *text)
{
    struct str host;
    uint16_t port = 0;
    if (authority_parse(str_from(text), &host, &port) < 0 ||
        io_addr_ip(host, port, &app->peer.upstream) < 0) {
        usage();
    }
    app->peer.has_upstream = true;
}

static void parse_options(struct app *app, int argc, char **argv)
{
    enum {
        PORT = 1,
        LOOPS,
        UPSTREAM,
        FORWARDED,
        HEAD_MS,
        BODY_MS,
        IDLE_MS,
        WS_CLIENT,
        WS_MAX,
        CERT,
        KEY
    };
    static const struct option options[] = {
        {"port", required_argument, NULL, PORT},
        {"loops", required_argument, NULL, LOOPS},
        {"upstream", required_argument, NULL, UPSTREAM},
        {"forwarded", no_argument, NULL, FORWARDED},
        {"ws-client", required_argument, NULL, WS_CLIENT},
        {"ws-max", required_argument, NULL, WS_MAX},
        {"head-ms", required_argument, NULL, HEAD_MS},
        {"body-ms", required_argument, NULL, BODY_MS},
        {"idle-ms", required_argument, NULL, IDLE_MS},
        {"cert", required_argument, NULL, CERT},
        {"key", required_argument, NULL, KEY},
        {0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (c) {
        case PORT:
            app->port = (uint16_t)number(optarg);
            break;
        case LOOPS:
            app->n_loops = (unsigned)number(optarg);
            break;
        case UPSTREAM:
            set_upstream(app, optarg);
            break;
        case FORWARDED:
            app->peer.forwarded = true;
            break;
        case WS_CLIENT:
            app->ws_client = optarg;
            break;
        case WS_MAX:
            app->ws_max = number(optarg);
            break;
        case HEAD_MS:
            app->head_ms = number(optarg);
            break;
        case BODY_MS:
            app->body_ms = number(optarg);
            break;
        case IDLE_MS:
            app->idle_ms = number(optarg);
            break;
        case CERT:
            app->tls_opts.cert_file = optarg;
            break;
        case KEY:
            app->tls_opts.key_file = optarg;
            break;
        default:
            usage();
        }
    }
}

static int listen_all(struct app *app)
{
    struct io_addr addr, bound;
    struct err e = {0};
    const struct io_listen_opts lo = {.reuse_port = true};
    const struct http_server_opts so = {.routes = routes,
                                        .app = app,
                                        .pool = app->pool,
                                        .tls = app->tls,
                                        .head_timeout_ms = app->head_ms,
                                        .body_timeout_ms = app->body_ms,
                                        .idle_timeout_ms = app->idle_ms};
    for (unsigned i = 0; i < app->n_loops; i++) {
        must(io_addr_ip(STR("127.0.0.1"), app->port, &addr) == 0);
        app->servers[i] = http_server_new(io_group_loop(app->group, i), &so);
        app->clients[i] = http_client_new(io_group_loop(app->group, i), NULL);
        if (http_server_listen(app->servers[i], &addr, &lo, &bound, &e) < 0) {
            (void)fprintf(stderr, "httpd_demo: %s\n", e.msg);
            return -1;
        }
        app->port = io_addr_port(&bound);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct app app = {.n_loops = 1};
    sigset_t set;
    int signo;
    parse_options(&app, argc, argv);
    if (app.n_loops < 1 || app.n_loops > MAX_LOOPS) {
        usage();
    }
    log_init(LOG_INFO, LOG_HUMAN, STDERR_FILENO);
    if (app.ws_client) {
        return demo_ws_client(app.ws_client, app.ws_max);
    }
    /* Blocked before any thread starts, so that all of them leave it to sigwait(). */
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    must(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    struct err e = {0};
    if (app.tls_opts.cert_file) {
        app.tls_opts.alpn = "http/1.1";
        app.tls = io_tls_server_new(&app.tls_opts, &e);
        if (!app.tls) {
            (void)fprintf(stderr, "httpd_demo: %s\n", e.msg);
            return 1;
        }
    }
    app.group = io_group_new(app.n_loops);
    app.pool = io_pool_new("demo", 4, 64);
    if (listen_all(&app) < 0) {
        return 1;
    }
    io_group_start(app.group);
    printf("listening on 127.0.0.1:%u\n", app.port);
    (void)fflush(stdout);
    must(sigwait(&set, &signo) == 0);
    io_group_stop(app.group);
    for (unsigned i = 0; i < app.n_loops; i++) {
        http_server_free(app.servers[i]);
        http_client_free(app.clients[i]);
    }
    io_pool_free(app.pool);
    io_group_free(app.group);
    if (app.tls) {
        io_tls_ctx_unref(app.tls);
    }
    return 0;
}
