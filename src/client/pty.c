/* Terminals: execd's /pty, a session that is made with a request and used over a WebSocket.
 *
 * The connection lives on a loop of its own, which runs inside osb_pty_run(). Other threads only
 * post to that loop; what is posted before the connection stands waits in `pending`. */

#include <errno.h>
#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "client/internal.h"
#include "http/ws.h"
#include "io/loop.h"
#include "io/tls.h"
#include "model/pty.h"
#include "net/url.h"

#define MAX_PENDING (8u << 20) /* limit: input that the connection has not taken yet */
#define PTY_PING_MS 20000u     /* limit: silence after which the connection is checked */
#define MAX_HEADERS 30         /* limit: headers of an endpoint that are sent */
#define CLOSE_TAKEN_OVER 4001

struct osb_pty {
    struct osb_client *client; /* borrowed */
    struct osb_pty_ops ops;
    void *arg;
    char id[64];
    char *url; /* of execd */
    struct osb_pair *headers;
    bool with_key, takeover;
    int64_t since;
    uint16_t rows, cols;
    struct io_loop *loop;
    atomic_size_t queued; /* bytes posted and not sent */
    /* loop thread only */
    struct http_client *http;
    struct io_tls_ctx *tls;
    struct ws_connect *connecting;
    struct ws_conn *ws;
    struct buf pending;
    bool ended, exited;
    struct osb_error error;
};

/* ---- ending ---- */

static void finish(struct osb_pty *p)
{
    p->ended = true;
    io_loop_stop(p->loop);
}

static void on_close(struct ws_conn *ws, unsigned code, struct str reason, void *arg)
{
    struct osb_pty *p = arg;
    p->ws = NULL;
    if (!p->exited && p->error.code == OSB_OK) {
        (void)osb_fail(&p->error, code == CLOSE_TAKEN_OVER ? OSB_ECONFLICT : OSB_ENETWORK,
                       code == CLOSE_TAKEN_OVER ? "another client has taken over the terminal"
                                                : "the connection to the terminal broke (%u %.*s)",
                       code, STR_FMT(reason));
    }
    ws_abort(ws); /* both sides have said goodbye: the loop ends, so nothing may linger on it */
    finish(p);
}

/* ---- from the program ---- */

static void on_text(struct osb_pty *p, struct str data)
{
    cleanup_(json_free) struct json *j = json_parse(data, NULL);
    struct str type = json_str(json_get(j, "type"));
    if (str_eq(type, STR("exit"))) {
        p->exited = true;
        if (p->ops.on_exit) {
            p->ops.on_exit((int)json_int(json_get(j, "exit_code"), -1), p->arg);
        }
    } else if (str_eq(type, STR("error"))) {
        const char *why = json_cstr(json_get(j, "error")), *code = json_cstr(json_get(j, "code"));
        if (code && strcmp(code, "INVALID_FRAME") != 0 && strcmp(code, "STDIN_WRITE_FAILED") != 0) {
            (void)osb_fail(&p->error, OSB_ESERVER, "%s", why ? why : code);
        }
    }
}

static void on_message(struct ws_conn *ws, enum ws_opcode opcode, struct str data, void *arg)
{
    struct osb_pty *p = arg;
    if (opcode == WS_TEXT) {
        on_text(p, data);
        return;
    }
    size_t head = data.n && data.p[0] == PTY_REPLAY ? 9 : 1;
    if (data.n > head && p->ops.on_output) {
        p->ops.on_output(data.p + head, data.n - head, p->arg);
    }
}

static const struct ws_ops ws_ops = {.on_message = on_message, .on_close = on_close};

/* ---- to the program ---- */

static void send_input(struct osb_pty *p, struct str data)
{
    cleanup_(buf_done) struct buf frame = BUF_INIT(MAX_PENDING + 1);
    (void)buf_add_char(&frame, PTY_STDIN);
    (void)buf_add_str(&frame, data);
    (void)ws_send(p->ws, WS_BINARY, buf_str(&frame)); /* bounded by MAX_PENDING */
}

static void send_size(struct osb_pty *p)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(128);
    if (p->rows && p->cols) {
        (void)buf_printf(&b, "{\"type\":\"resize\",\"rows\":%u,\"cols\":%u}", p->rows, p->cols);
        (void)ws_send(p->ws, WS_TEXT, buf_str(&b));
    }
}

enum order_kind { ORDER_INPUT, ORDER_SIZE, ORDER_DETACH };

struct order {
    struct osb_pty *p;
    enum order_kind kind;
    uint16_t rows, cols;
    size_t n;
    char data[];
};

static void obey(struct osb_pty *p, const struct order *o)
{
    switch (o->kind) {
    case ORDER_INPUT:
        if (p->ws) {
            send_input(p, str_n(o->data, o->n));
        } else {
            (void)buf_add(&p->pending, o->data, o->n);
        }
        break;
    case ORDER_SIZE:
        p->rows = o->rows;
        p->cols = o->cols;
        if (p->ws) {
            send_size(p);
        }
        break;
    case ORDER_DETACH:
        p->exited = true; /* asked for: not an error */
        if (p->ws) {
            ws_close(p->ws, 1000, STR("detached")); /* on_close() follows */
            break;
        }
        if (p->connecting) {
            ws_connect_cancel(p->connecting);
            p->connecting = NULL;
        }
        finish(p);
        break;
    }
}

static void on_order(void *arg)
{
    struct order *o = arg;
    if (!o->p->ended) {
        obey(o->p, o);
    }
    (void)atomic_fetch_sub(&o->p->queued, o->n);
    free(o);
}

static int post(struct osb_pty *p, const struct order *what, const void *data, size_t n)
{
    if (n > MAX_PENDING || atomic_load(&p->queued) + n > MAX_PENDING) {
        return -1;
    }
    struct order *o = xmalloc(sizeof(*o) + n);
    *o = *what;
    o->p = p;
    o->n = n;
    if (n) {
        memcpy(o->data, data, n);
    }
    (void)atomic_fetch_add(&p->queued, n);
    io_post(p->loop, on_order, o);
    return 0;
}

int osb_pty_write(struct osb_pty *p, const void *data, size_t n)
{
    return n ? post(p, &(struct order){.kind = ORDER_INPUT}, data, n) : 0;
}

int osb_pty_resize(struct osb_pty *p, uint16_t rows, uint16_t cols)
{
    return post(p, &(struct order){.kind = ORDER_SIZE, .rows = rows, .cols = cols}, NULL, 0);
}

void osb_pty_detach(struct osb_pty *p)
{
    (void)post(p, &(struct order){.kind = ORDER_DETACH}, NULL, 0);
}

/* ---- connecting ---- */

static void on_connected(struct ws_conn *ws, int error, int status, void *arg)
{
    struct osb_pty *p = arg;
    p->connecting = NULL;
    p->ws = ws;
    if (!ws) {
        p->error.http_status = status;
        (void)osb_fail(&p->error, status ? osb_code_from_status(status) : OSB_ENETWORK,
                       status == 409   ? "another client is connected to terminal %s"
                       : status == 404 ? "there is no terminal %s"
                                       : "no connection to terminal %s (%d)",
                       p->id, status ? status : error);
        finish(p);
        return;
    }
    send_size(p);
    if (p->pending.len) {
        send_input(p, buf_str(&p->pending));
        buf_clear(&p->pending);
    }
}

static int resolve(const char *host, uint16_t port, struct io_addr *ret, struct osb_error *e)
{
    char service[8];
    struct addrinfo want = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    (void)snprintf(service, sizeof(service), "%u", port);
    int r = getaddrinfo(host, service, &want, &found);
    if (r != 0) {
        return osb_fail(e, OSB_ENETWORK, "%s: %s", host, gai_strerror(r));
    }
    ret->len = found->ai_addrlen;
    memcpy(&ret->ss, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

static size_t make_headers(const struct osb_pty *p, struct str host, struct h1_header *h)
{
    size_t n = 0;
    h[n++] = (struct h1_header){STR("Host"), host};
    for (const struct osb_pair *q = p->headers; q && q->key && n < MAX_HEADERS; q++) {
        h[n++] = (struct h1_header){str_from(q->key), str_from(q->value)};
    }
    if (p->with_key && p->client->api_key) {
        h[n++] = (struct h1_header){STR("OPEN-SANDBOX-API-KEY"), str_from(p->client->api_key)};
    }
    return n;
}

static int start(struct osb_pty *p, struct osb_error *e)
{
    struct url u;
    struct err why = {0};
    if (url_parse(str_from(p->url), &u) < 0) {
        return osb_fail(e, OSB_EPROTOCOL, "'%s' is not an address", p->url);
    }
    bool tls = str_eq(u.scheme, STR("https"));
    cleanup_free char *name = str_dup(u.host);
    uint16_t port = u.port ? u.port : tls ? 443 : 80;
    struct http_target t = {.key = str_from(p->url), .netns_fd = -1, .server_name = name};
    if (resolve(name, port, &t.addr, e) < 0) {
        return -1;
    }
    if (tls) {
        p->tls = io_tls_client_new(&(struct io_tls_client_opts){.ca_file = p->client->ca_file,
                                                                .insecure = p->client->insecure},
                                   &why);
        if (!p->tls) {
            return osb_fail(e, OSB_ENETWORK, "%s", why.msg);
        }
        t.tls = p->tls;
    }
    cleanup_(buf_done) struct buf path = BUF_INIT(8192), host = BUF_INIT(512);
    (void)buf_printf(&host, strchr(name, ':') ? "[%s]:%u" : "%s:%u", name, port);
    (void)buf_printf(&path, "%.*s/pty/%s/ws?since=%lld%s", STR_FMT(u.path), p->id,
                     (long long)MAX(p->since, (int64_t)0), p->takeover ? "&takeover=1" : "");
    struct h1_header h[MAX_HEADERS + 2];
    size_t n = make_headers(p, buf_str(&host), h);
    p->http = http_client_new(p->loop, NULL);
    p->connecting = ws_connect(p->http, &t, buf_str(&path), h, n,
                               &(struct ws_opts){.max_message = 2u << 20, .ping_ms = PTY_PING_MS},
                               &ws_ops, on_connected, p);
    return 0;
}

int osb_pty_run(struct osb_pty *p, struct osb_error *e)
{
    if (p->ended || p->http) {
        return osb_fail(e, OSB_EINVALID, "the terminal was run already: open it again by its id");
    }
    if (e) {
        *e = (struct osb_error){0};
    }
    if (start(p, e) < 0) {
        p->ended = true;
        return -1;
    }
    io_loop_run(p->loop);
    if (p->error.code != OSB_OK && !p->exited) {
        if (e) {
            *e = p->error;
        }
        return -1;
    }
    return 0;
}

/* ---- making and ending ---- */

static int make_session(struct osb_sandbox *s, const struct osb_pty_opts *o, char ret_id[64],
                        struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(1u << 20);
    struct json_out out;
    json_out_init(&out, &body);
    json_obj_begin(&out);
    if (o->cwd) {
        json_key(&out, "cwd");
        json_put_cstr(&out, o->cwd);
    }
    if (o->command) {
        json_key(&out, "command");
        json_put_cstr(&out, o->command);
    }
    json_obj_end(&out);
    struct transfer t = {.method = "POST", .body = buf_str(&body), .has_body = true};
    int r = sandbox_transfer(s, OSB_EXECD, "/pty", &t, e);
    if (r == 0) {
        cleanup_(json_free) struct json *j = json_parse(buf_str(&t.answer), NULL);
        struct str id = json_str(json_get(j, "session_id"));
        r = id.n && str_to_cstr(id, ret_id, 64) == 0
                ? 0
                : osb_fail(e, OSB_EPROTOCOL, "the answer has no session_id");
    }
    transfer_done(&t);
    return r;
}

static struct osb_pair *copy_pairs(const struct osb_pair *from)
{
    size_t n = 0;
    while (from && from[n].key) {
        n++;
    }
    struct osb_pair *out = xcalloc(n + 1, sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        out[i] = (struct osb_pair){xstrdup(from[i].key), xstrdup(from[i].value)};
    }
    return out;
}

struct osb_pty *osb_pty_open(struct osb_sandbox *s, const struct osb_pty_opts *o,
                             const struct osb_pty_ops *ops, void *arg, struct osb_error *e)
{
    static const struct osb_pty_opts none;
    char id[64];
    o = o ? o : &none;
    const struct osb_endpoint *ep = sandbox_service(s, OSB_EXECD, e);
    if (!ep) {
        return NULL;
    }
    /* An id goes into a path: only what execd hands out. */
    if (o->id && (strlen(o->id) >= sizeof(id) ||
                  strspn(o->id, "0123456789abcdefABCDEF-") != strlen(o->id))) {
        (void)osb_fail(e, OSB_EINVALID, "'%s' is not the id of a terminal", o->id);
        return NULL;
    }
    if (o->id) {
        (void)snprintf(id, sizeof(id), "%s", o->id);
    } else if (make_session(s, o, id, e) < 0) {
        return NULL;
    }
    struct osb_pty *p = NEW(struct osb_pty);
    size_t base = strlen(s->client->base) - strlen("/v1");
    p->client = s->client;
    p->ops = ops ? *ops : (struct osb_pty_ops){0};
    p->arg = arg;
    memcpy(p->id, id, sizeof(id));
    p->url = xstrdup(ep->url);
    p->headers = copy_pairs(ep->headers);
    p->with_key =
        strncmp(ep->url, s->client->base, base) == 0 && (ep->url[base] == '/' || !ep->url[base]);
    p->takeover = o->takeover;
    p->since = o->since;
    p->rows = o->rows;
    p->cols = o->cols;
    p->pending = BUF_INIT(MAX_PENDING);
    p->loop = io_loop_new();
    return p;
}

const char *osb_pty_id(const struct osb_pty *p)
{
    return p->id;
}

void osb_pty_free(struct osb_pty *p)
{
    if (!p) {
        return;
    }
    p->ended = true;
    http_client_free(p->http);
    io_loop_free(p->loop);
    if (p->tls) {
        io_tls_ctx_unref(p->tls);
    }
    for (struct osb_pair *q = p->headers; q->key; q++) {
        free((void *)(uintptr_t)q->key);
        free((void *)(uintptr_t)q->value);
    }
    free(p->headers);
    free(p->url);
    buf_done(&p->pending);
    free(p);
}

int osb_pty_delete(struct osb_sandbox *s, const char *pty_id, struct osb_error *e)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(4096);
    (void)buf_add_cstr(&path, "/pty/");
    (void)percent_encode(&path, str_from(pty_id), false);
    struct transfer t = {.method = "DELETE"};
    int r = sandbox_transfer(s, OSB_EXECD, buf_cstr(&path), &t, e);
    transfer_done(&t);
    return r;
}
