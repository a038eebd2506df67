/* osb port-forward: a port of a sandbox on this machine.
 *
 * The server names an endpoint for the port. "host:port" is reached directly and carries any
 * protocol; one with a path is an HTTP proxy, and so HTTP and WebSocket is what gets through. */

#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/limits.h"
#include "http/proxy.h"
#include "io/dial.h"
#include "io/listener.h"
#include "io/relay.h"
#include "io/tls.h"
#include "net/url.h"

#define CONNECT_TIMEOUT_MS 10000

struct forward {
    struct io_loop *loop;
    struct http_client *http;
    struct http_server *server;
    struct io_listener *listener;
    struct http_target target;
    struct osb_endpoint *endpoint;
    struct io_tls_ctx *tls;
    char *prefix, *host, *name;
    struct h1_header headers[16];
    size_t n_headers;
};

/* ---- HTTP ---- */

static void on_request(struct http_req *req)
{
    struct forward *f = http_req_app(req);
    cleanup_free char *target = xasprintf("%s%.*s", f->prefix, STR_FMT(http_req_target(req)));
    const struct http_proxy_opts o = {.target = str_from(target),
                                      .host = str_from(f->host),
                                      .add = f->headers,
                                      .n_add = f->n_headers};
    http_proxy_start(req, f->http, &f->target, &o);
}

static const struct http_route routes[] = {
    {.method = "*", .pattern = "/{rest...}", .kind = HTTP_STREAM, .stream = on_request},
    {.method = "*", .pattern = "/", .kind = HTTP_STREAM, .stream = on_request},
    {0},
};

/* ---- anything else ---- */

struct tunnel {
    struct io_stream *local;
};

static void on_tunnel_end(const struct io_relay_end *end, void *arg)
{
}

static void on_dialed(struct io_stream *s, int error, void *arg)
{
    struct tunnel *t = arg;
    if (s) {
        (void)io_relay_start(t->local, s, STR_NULL, STR_NULL, 0, on_tunnel_end, NULL);
    } else {
        io_stream_abort(t->local);
    }
    free(t);
}

static void on_accept(struct io_stream *s, void *arg)
{
    struct forward *f = arg;
    struct tunnel *t = NEW(struct tunnel);
    t->local = s;
    (void)io_dial_start(f->loop, &f->target.addr, -1, CONNECT_TIMEOUT_MS, on_dialed, t);
}

/* ---- setting up ---- */

static int resolve(struct cli *x, const char *host, uint16_t port, struct io_addr *ret)
{
    char service[8];
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    (void)snprintf(service, sizeof(service), "%u", port);
    int r = getaddrinfo(host, service, &want, &found);
    if (r != 0) {
        return cli_fail(x, "%s: %s", host, gai_strerror(r));
    }
    ret->len = found->ai_addrlen;
    memcpy(&ret->ss, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

static int find_target(struct cli *x, struct forward *f, bool *ret_http)
{
    struct url u;
    struct err e = {0};
    const char *url = osb_endpoint_url(f->endpoint);
    if (url_parse(str_from(url), &u) < 0) {
        return cli_fail(x, "'%s' is not an address.", url);
    }
    bool tls = str_eq(u.scheme, STR("https"));
    uint16_t port = u.port ? u.port : tls ? 443 : 80;
    f->name = str_dup(u.host);
    f->host = xasprintf(strchr(f->name, ':') ? "[%s]:%u" : "%s:%u", f->name, port);
    f->prefix = str_dup(u.path);
    f->target =
        (struct http_target){.key = str_from(f->host), .netns_fd = -1, .server_name = f->name};
    if (tls) {
        f->tls = io_tls_client_new(&(struct io_tls_client_opts){0}, &e);
        if (!f->tls) {
            return cli_fail(x, "%s", e.msg);
        }
        f->target.tls = f->tls;
    }
    for (const struct osb_pair *p = osb_endpoint_headers(f->endpoint);
         p->key && f->n_headers + 1 < ARRAY_LEN(f->headers); p++) {
        f->headers[f->n_headers++] = (struct h1_header){str_from(p->key), str_from(p->value)};
    }
    *ret_http = tls || u.path.n > 0 || f->n_headers > 0;
    /* The key goes to the server itself and to nobody else. */
    struct str domain = str_from(x->set.domain);
    ptrdiff_t scheme = str_find_str(domain, STR("://"));
    domain = scheme < 0 ? domain : str_sub(domain, (size_t)scheme + 3, domain.n);
    ptrdiff_t slash = str_find(domain, '/');
    domain = slash < 0 ? domain : str_sub(domain, 0, (size_t)slash);
    if (*ret_http && x->set.api_key && str_eq(domain, str_from(f->host))) {
        f->headers[f->n_headers++] =
            (struct h1_header){STR("OPEN-SANDBOX-API-KEY"), str_from(x->set.api_key)};
    }
    return resolve(x, f->name, port, &f->target.addr);
}

static int listen_on(struct cli *x, struct forward *f, const struct io_addr *at, bool http,
                     struct io_addr *ret_bound)
{
    struct err e = {0};
    if (http) {
        f->http = http_client_new(f->loop, NULL);
        f->server =
            http_server_new(f->loop, &(struct http_server_opts){.routes = routes, .app = f});
        return http_server_listen(f->server, at, NULL, ret_bound, &e) < 0 ? cli_fail(x, "%s", e.msg)
                                                                          : 0;
    }
    f->listener = io_listen(f->loop, at, &(struct io_listen_opts){0}, on_accept, f, &e);
    if (!f->listener) {
        return cli_fail(x, "%s", e.msg);
    }
    (void)io_listener_addr(f->listener, ret_bound);
    return 0;
}

/* "8080" or "9000:8080"; local 0 lets the kernel choose. */
static int add_forward(struct cli *x, struct forward *f, const char *spec)
{
    struct osb_error e = {0};
    struct str rest = str_from(spec), first = str_cut(&rest, ':');
    struct io_addr at, bound;
    uint16_t local = 0, remote = 0;
    char text[IO_ADDR_TEXT_MAX];
    bool http = true;
    bool ok = parse_port(rest.p ? rest : first, &remote) == 0 &&
              (!rest.p || str_eq(first, STR("0")) || parse_port(first, &local) == 0);
    if (!ok) {
        return cli_usage(x, "'%s' is not PORT or LOCAL:PORT.", spec);
    }
    if (!rest.p) {
        local = remote;
    }
    const char *address = arg_get(&x->args, "address");
    if (io_addr_ip(str_from(address ? address : "127.0.0.1"), local, &at) < 0) {
        return cli_usage(x, "'%s' is not an address.", address);
    }
    f->endpoint = osb_endpoint_get(x->client, x->args.pos[0], remote, 0, &e);
    if (!f->endpoint) {
        return cli_error(x, &e, "Get endpoint for sandbox %s port %u", x->args.pos[0], remote);
    }
    int r = find_target(x, f, &http);
    r = r ? r : listen_on(x, f, &at, http, &bound);
    if (r == 0) {
        out_line(&x->out, "Forwarding %s%s → %s port %u", http ? "http://" : "",
                 io_addr_format(&bound, text), x->args.pos[0], remote);
    }
    return r;
}

static void forward_done(struct forward *f)
{
    http_server_free(f->server);
    if (f->listener) {
        io_listener_close(f->listener);
    }
    http_client_free(f->http);
    if (f->tls) {
        io_tls_ctx_unref(f->tls);
    }
    osb_endpoint_free(f->endpoint);
    free(f->prefix);
    free(f->host);
    free(f->name);
}

static void on_stop(int signo, void *arg)
{
    io_loop_stop(arg);
}

static int run_forward(struct cli *x)
{
    struct forward f[CLI_MAX_FORWARDS] = {0};
    size_t n = 0;
    int r = 0;
    if (!cli_client(x)) {
        return 1;
    }
    struct io_loop *loop = io_loop_new();
    io_signal_watch(loop, SIGINT, on_stop, loop);
    io_signal_watch(loop, SIGTERM, on_stop, loop);
    for (const char **spec = x->args.pos + 1; *spec && r == 0 && n < CLI_MAX_FORWARDS; spec++) {
        f[n].loop = loop;
        r = add_forward(x, &f[n++], *spec);
    }
    if (r == 0) {
        io_loop_run(loop);
    }
    for (size_t i = 0; i < n; i++) {
        forward_done(&f[i]);
    }
    io_loop_free(loop);
    return r;
}

static const struct cli_opt opts[] = {
    {.name = "address", .type = ARG_TEXT, .fallback = "127.0.0.1", .help = "Where to listen."},
    {0},
};
const struct cli_cmd cmd_forward = {.name = "port-forward",
                                    .help = "Reach ports of a sandbox on this machine.\n"
                                            "PORTS are PORT or LOCAL:PORT; Ctrl-C ends it.",
                                    .opts = opts,
                                    .args = {"SANDBOX_ID", "PORTS..."},
                                    .run = run_forward};
