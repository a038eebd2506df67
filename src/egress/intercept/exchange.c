/* The two directions of an exchange and how they depend on each other. */

#include "egress/intercept/exchange.h"

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "egress/intercept/limits.h"
#include "egress/vault/secret.h"

/* A head with everything that a binding may add, and a piece of body behind it. */
#define EXCHANGE_OUT_MAX (2u << 20)
#define EXCHANGE_IN_MAX (HTTP_MAX_HEAD + INTERCEPT_SUBST_COLLECT + INTERCEPT_BUFFER)

void exchange_init(struct exchange *x, const struct exchange_hooks *hooks, void *arg)
{
    *x = (struct exchange){
        .hooks = hooks,
        .arg = arg,
        .server_name = "",
        .cin = BUF_INIT(EXCHANGE_IN_MAX),
        .uin = BUF_INIT(EXCHANGE_IN_MAX),
        .up = BUF_INIT(EXCHANGE_OUT_MAX),
        .down = BUF_INIT(EXCHANGE_OUT_MAX),
    };
}

static void end_request(struct exchange *x)
{
    vault_state_unref(x->used);
    x->used = NULL;
    body_done(&x->request);
    body_done(&x->response);
    if (x->request.subst) {
        subst_stream_done(&x->subst);
    }
    x->request = x->response = (struct body){0};
}

void exchange_done(struct exchange *x)
{
    end_request(x);
    if (x->up_is_secret && x->up.p) {
        explicit_bzero(x->up.p, x->up.cap);
    }
    buf_done(&x->cin);
    buf_done(&x->uin);
    buf_done(&x->up);
    buf_done(&x->down);
}

/* Takes what is written off the front, all of it or a good part: who always leaves a little must
 * not make the buffer grow. Secrets do not stay behind. */
static void take_off(struct buf *b, size_t *at, bool is_secret)
{
    size_t before = b->len;
    if (*at < b->len && *at < INTERCEPT_BUFFER / 2) {
        return;
    }
    buf_consume(b, *at);
    *at = 0;
    if (is_secret && before > b->len) {
        explicit_bzero(b->p + b->len, before - b->len);
    }
}

void exchange_wrote_up(struct exchange *x, size_t n)
{
    x->up_at += n;
    take_off(&x->up, &x->up_at, x->up_is_secret);
    if (x->up.len == 0) {
        x->up_is_secret = x->request.subst != NULL; /* more of them may follow */
    }
}

static void drop_up(struct exchange *x)
{
    if (x->up.len) {
        exchange_wrote_up(x, x->up.len - x->up_at);
    }
}

void exchange_upstream_shut(struct exchange *x)
{
    x->up_is_shut = true;
    drop_up(x);
}

void exchange_wrote_down(struct exchange *x, size_t n)
{
    x->down_at += n;
    take_off(&x->down, &x->down_at, false);
}

static const char *reason_of(int status)
{
    switch (status) {
    case 400:
        return "Bad Request";
    case 403:
        return "Forbidden";
    case 405:
        return "Method Not Allowed";
    case 413:
        return "Content Too Large";
    case 421:
        return "Misdirected Request";
    case 431:
        return "Request Header Fields Too Large";
    case 504:
        return "Gateway Timeout";
    default:
        return status < 500 ? "Bad Request" : "Bad Gateway";
    }
}

void exchange_answer(struct exchange *x, int status, const char *text)
{
    bool is_head = strcmp(x->method, "HEAD") == 0;
    (void)buf_printf(&x->down,
                     "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                     "X-Content-Type-Options: nosniff\r\nContent-Length: %zu\r\n"
                     "Connection: close\r\n\r\n%s%s",
                     status, reason_of(status), strlen(text) + 1, is_head ? "" : text,
                     is_head ? "" : "\n");
    x->state = EXCHANGE_CLOSE;
}

void exchange_upstream_failed(struct exchange *x, int status, const char *why)
{
    if (x->state != EXCHANGE_OPEN) {
        return;
    }
    if (x->answered) {
        x->state = EXCHANGE_ABORT; /* the client must see that the answer is cut off */
        return;
    }
    exchange_answer(x, status, why);
}

/* ---- client to server ---- */

/* True: something was done and more may be possible. */
static bool run_head(struct exchange *x)
{
    struct h1_head h;
    size_t len = 0;

    if (x->cin.len == 0) {
        if (x->client_eof) {
            x->state = EXCHANGE_CLOSE;
        }
        return false;
    }
    enum h1_result r = h1_parse_request(x->cin.p, x->cin.len, &h, &len);
    if (r == H1_NEED_MORE) {
        if (x->client_eof) {
            x->state = EXCHANGE_CLOSE;
        }
        return false;
    }
    x->method[0] = 0;
    if (r == H1_BAD) {
        x->hooks->refused(x->arg, "malformed", str_from(x->server_name), h.bad_reason);
        exchange_answer(x, h.bad_status, h.bad_reason);
        return false;
    }
    enum request_verdict v = request_forward(x, &h, len);
    if (v == REQUEST_WAIT && x->client_eof) {
        x->state = EXCHANGE_CLOSE;
    }
    if (v != REQUEST_GO) {
        return false;
    }
    if (buf_failed(&x->up)) {
        x->state = EXCHANGE_ABORT;
        return false;
    }
    x->server = SERVER_HEAD;
    return true;
}

static bool run_request_body(struct exchange *x)
{
    size_t before = x->cin.len;
    int r = body_relay(&x->request, &x->cin, &x->up, x->up_at, NULL);
    if (r < 0) {
        x->hooks->refused(x->arg, "malformed", str_from(x->server_name), "malformed body");
        x->state = EXCHANGE_ABORT; /* half a request is on its way: nothing may follow it */
        return false;
    }
    if (r == 1) {
        x->client = CLIENT_WAIT;
        return true;
    }
    if (x->client_eof && x->cin.len == 0) {
        x->state = EXCHANGE_ABORT;
    }
    return x->cin.len != before;
}

/* ---- server to client ---- */

/* Whose secrets an answer must not show: those that went with the request, and otherwise those of
 * now, because a server may remember them from a request before. */
static const struct vault_state *redactor(const struct exchange *x)
{
    return x->used ? x->used : x->hooks->vault(x->arg);
}

static void put_redacted(const struct vault_state *v, struct str text, struct buf *out)
{
    if (v) {
        vault_redact(v, text, out);
    } else {
        (void)buf_add_str(out, text);
    }
}

/* What the client reads the answer by. Both have been parsed, so they hold nothing else, and a
 * secret that looks like a number must not change them. */
static bool is_framing(struct str name)
{
    return str_eq_nocase(name, STR("content-length")) ||
           str_eq_nocase(name, STR("transfer-encoding"));
}

static void put_response_head(struct exchange *x, const struct h1_head *h)
{
    const struct vault_state *v = redactor(x);
    struct buf *out = &x->down;
    (void)buf_printf(out, "HTTP/1.%d %d ", h->minor, h->status);
    put_redacted(v, h->reason, out);
    (void)buf_add_cstr(out, "\r\n");
    for (size_t i = 0; i < h->n_headers; i++) {
        const struct h1_header *l = &h->headers[i];
        bool plain = is_framing(l->name);
        /* Alt-Svc is an invitation to QUIC, where nobody could look. */
        if (str_eq_nocase(l->name, STR("alt-svc")) || (v && !plain && vault_shows(v, l->name))) {
            continue;
        }
        (void)buf_add_str(out, l->name);
        (void)buf_add_cstr(out, ": ");
        put_redacted(plain ? NULL : v, l->value, out);
        (void)buf_add_cstr(out, "\r\n");
    }
    (void)buf_add_cstr(out, "\r\n");
}

static bool run_response_head(struct exchange *x)
{
    struct h1_head h;
    size_t len = 0;

    if (x->uin.len == 0) {
        return false;
    }
    enum h1_result r = h1_parse_response(x->uin.p, x->uin.len, str_from(x->method), &h, &len);
    if (r == H1_NEED_MORE) {
        return false;
    }
    bool is_switch = r == H1_DONE && h.status == 101;
    if (r == H1_BAD || (is_switch && (!x->is_websocket || x->client != CLIENT_WAIT))) {
        exchange_upstream_failed(x, 502, "the server's answer is malformed");
        return false;
    }
    put_response_head(x, &h);
    if (h.status < 200 && !is_switch) {
        buf_consume(&x->uin, len);
        return true;
    }
    x->answered = true;
    x->keep_alive &= h.keep_alive;
    body_init(&x->response, &h, false);
    buf_consume(&x->uin, len);
    if (is_switch) {
        x->state = EXCHANGE_TUNNEL;
        return false;
    }
    x->server = SERVER_BODY;
    return true;
}

static bool end_response(struct exchange *x)
{
    /* An answer before the end of the request: the rest of it is nobody's any more. */
    if (x->client != CLIENT_WAIT || !x->keep_alive) {
        x->state = EXCHANGE_CLOSE;
        return false;
    }
    end_request(x);
    x->client = CLIENT_HEAD;
    x->server = SERVER_IDLE;
    x->answered = false;
    return true;
}

static bool run_response_body(struct exchange *x)
{
    size_t before = x->uin.len;
    int r = body_relay(&x->response, &x->uin, &x->down, x->down_at, redactor(x));
    if (r < 0) {
        x->state = EXCHANGE_ABORT;
        return false;
    }
    if (r == 1) {
        return end_response(x);
    }
    return x->uin.len != before;
}

/* The server is gone: complete for a body without a length, an accident everywhere else. */
static void run_upstream_eof(struct exchange *x)
{
    if (x->uin.len > 0 && x->server == SERVER_BODY) {
        return; /* waits for room in `down` */
    }
    if (x->server == SERVER_BODY && x->response.kind == BODY_TO_END) {
        x->state = EXCHANGE_CLOSE;
    } else if (x->server == SERVER_IDLE) {
        x->state = EXCHANGE_CLOSE;
    } else {
        exchange_upstream_failed(x, 502, "the server closed the connection without an answer");
    }
}

static bool run_server(struct exchange *x)
{
    switch (x->server) {
    case SERVER_HEAD:
        return run_response_head(x);
    case SERVER_BODY:
        return run_response_body(x);
    case SERVER_IDLE:
    default:
        if (x->uin.len) {
            x->state = EXCHANGE_ABORT; /* an answer nobody asked for must not meet a question */
        }
        return false;
    }
}

static bool run_client(struct exchange *x)
{
    switch (x->client) {
    case CLIENT_HEAD:
        return run_head(x);
    case CLIENT_BODY:
        return run_request_body(x);
    case CLIENT_WAIT:
    default:
        return false;
    }
}

bool exchange_is_empty(const struct exchange *x)
{
    return !x->cin.len && !x->uin.len && !x->up.len && !x->down.len && !x->request.subst;
}

void exchange_release(struct exchange *x)
{
    struct buf *all[] = {&x->cin, &x->uin, &x->up, &x->down};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        if (all[i]->len == 0) {
            buf_done(all[i]);
        }
    }
}

void exchange_run(struct exchange *x)
{
    bool more = true;
    while (more && x->state == EXCHANGE_OPEN) {
        more = run_server(x);
        if (x->state == EXCHANGE_OPEN) {
            more |= run_client(x);
        }
    }
    if (x->up_is_shut) {
        drop_up(x);
    }
    if (x->state == EXCHANGE_OPEN && x->upstream_eof) {
        run_upstream_eof(x);
    }
    if (buf_failed(&x->up) || buf_failed(&x->down)) {
        x->state = EXCHANGE_ABORT;
    }
    if (!exchange_is_busy(x)) {
        exchange_release(x); /* it waits for its next request */
    }
}

bool exchange_is_busy(const struct exchange *x)
{
    return x->client != CLIENT_HEAD || x->server != SERVER_IDLE || x->cin.len || x->up.len ||
           x->down.len;
}

bool exchange_wants_client(const struct exchange *x)
{
    if (x->state != EXCHANGE_OPEN || x->client_eof || x->up_is_shut) {
        return false;
    }
    switch (x->client) {
    case CLIENT_HEAD:
        return x->cin.len < HTTP_MAX_HEAD + INTERCEPT_SUBST_COLLECT;
    case CLIENT_BODY:
        return x->cin.len < INTERCEPT_BUFFER && x->up.len - x->up_at < INTERCEPT_BUFFER;
    case CLIENT_WAIT:
    default:
        return x->cin.len < INTERCEPT_BUFFER / 4; /* to see that the client leaves */
    }
}

bool exchange_wants_upstream(const struct exchange *x)
{
    return x->state == EXCHANGE_OPEN && !x->upstream_eof &&
           x->uin.len < HTTP_MAX_HEAD + INTERCEPT_BUFFER / 4 &&
           x->down.len - x->down_at < INTERCEPT_BUFFER;
}
