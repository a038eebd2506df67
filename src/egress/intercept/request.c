/* Judging one request: whom it is for, whether a binding applies, and what its head looks like when
 * it goes on. */

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "egress/intercept/exchange.h"
#include "egress/intercept/limits.h"
#include "egress/vault/secret.h"
#include "net/domain.h"
#include "net/url.h"

struct request {
    struct exchange *x;
    const struct h1_head *h;
    size_t head_len;
    char host[DOMAIN_MAX + 1]; /* lower case, no port, no final dot; "" when it is not a name */
    struct str path, query;    /* query with its '?', or empty */
    const struct vault_state *vault;
    const struct vault_binding *binding; /* NULL: none applies */
    bool subst_body;
    enum subst_encoding enc;
};

bool header_is_hop(struct str name)
{
    static const char *const hop[] = {
        "connection", "keep-alive", "proxy-connection", "proxy-authorization",
        "te",         "trailer",    "upgrade",          "http2-settings",
    };
    for (size_t i = 0; i < ARRAY_LEN(hop); i++) {
        if (str_eq_nocase(name, str_from(hop[i]))) {
            return true;
        }
    }
    return false;
}

static enum request_verdict answer(struct request *q, int status, const char *text)
{
    exchange_answer(q->x, status, text);
    return REQUEST_ANSWERED;
}

static enum request_verdict refuse(struct request *q, int status, const char *kind,
                                   const char *text)
{
    struct exchange *x = q->x;
    x->hooks->refused(x->arg, kind, str_from(q->host[0] ? q->host : x->server_name), text);
    return answer(q, status, text);
}

/* ---- whom it is for ---- */

/* False: what the request names is not what the connection was verified for. */
static bool read_host(struct request *q)
{
    struct exchange *x = q->x;
    struct str host = STR_NULL;
    uint16_t port = 0;

    if (q->h->host.n == 0 || authority_parse(q->h->host, &host, &port) < 0 ||
        domain_normalize(host, q->host) < 0) {
        q->host[0] = 0;
    }
    if (x->scheme != VAULT_HTTPS) {
        return true;
    }
    return strcmp(q->host, x->server_name) == 0 && (port == 0 || port == x->port);
}

/* The path and query of an origin-form or absolute-form target. False: neither. */
static bool read_target(struct request *q)
{
    struct str t = q->h->target;
    bool https = str_starts_nocase(t, STR("https://"));
    if (https || str_starts_nocase(t, STR("http://"))) {
        if (https != (q->x->scheme == VAULT_HTTPS)) {
            return false;
        }
        t = str_sub(t, https ? 8 : 7, t.n);
        size_t n = 0;
        while (n < t.n && t.p[n] != '/' && t.p[n] != '?') {
            n++;
        }
        t = str_sub(t, n, t.n); /* the parser has compared the authority with Host */
    }
    ptrdiff_t mark = str_find(t, '?');
    q->path = mark < 0 ? t : str_sub(t, 0, (size_t)mark);
    q->query = mark < 0 ? STR("") : str_sub(t, (size_t)mark, t.n);
    if (q->path.n == 0) {
        q->path = STR("/");
    }
    return true;
}

static bool escape_is(struct str s, size_t at, const char *hex)
{
    return at + 2 < s.n && s.p[at] == '%' &&
           str_eq_nocase(str_sub(s, at + 1, at + 3), str_from(hex));
}

/* "." and ".." in any spelling, and separators in disguise: servers that clean up paths would see
 * another one than the binding was made for. */
static bool path_is_confusing(struct str path)
{
    size_t n_dots = 0;
    bool only_dots = false;

    for (size_t i = 0; i <= path.n; i++) {
        if (i == path.n || path.p[i] == '/' || path.p[i] == ';') {
            if (only_dots && (n_dots == 1 || n_dots == 2)) {
                return true;
            }
            only_dots = i < path.n && path.p[i] == '/';
            n_dots = 0;
        } else if (path.p[i] == '\\' || escape_is(path, i, "2f") || escape_is(path, i, "5c")) {
            return true;
        } else if (path.p[i] == '.') {
            n_dots++;
        } else if (escape_is(path, i, "2e")) {
            n_dots++;
            i += 2;
        } else {
            only_dots = false;
        }
    }
    return false;
}

/* ---- the head that goes on ---- */

static bool is_set_by_binding(const struct request *q, struct str name)
{
    for (size_t i = 0; q->binding && i < q->binding->n_headers; i++) {
        if (str_eq_nocase(name, str_from(q->binding->headers[i].name))) {
            return true;
        }
    }
    return false;
}

static bool is_dropped(const struct request *q, struct str name)
{
    return header_is_hop(name) || is_set_by_binding(q, name) ||
           str_eq_nocase(name, STR("content-length")) ||
           str_eq_nocase(name, STR("transfer-encoding")) ||
           (q->subst_body && str_eq_nocase(name, STR("expect"))) ||
           h1_header_has_token(q->h->headers, q->h->n_headers, STR("connection"), name);
}

static void put_target(const struct request *q, struct buf *out)
{
    if (q->binding && subst_wanted(q->binding, VAULT_PATH)) {
        (void)subst_text(q->binding, VAULT_PATH, SUBST_PERCENT, q->path, out);
    } else {
        (void)buf_add_str(out, q->path);
    }
    if (q->binding && subst_wanted(q->binding, VAULT_QUERY)) {
        (void)subst_text(q->binding, VAULT_QUERY, SUBST_PERCENT, q->query, out);
    } else {
        (void)buf_add_str(out, q->query);
    }
}

static void put_headers(const struct request *q, struct buf *out)
{
    bool has_host = false;
    for (size_t i = 0; i < q->h->n_headers; i++) {
        const struct h1_header *h = &q->h->headers[i];
        bool is_host = str_eq_nocase(h->name, STR("host"));
        has_host = has_host || is_host;
        if (!is_host && is_dropped(q, h->name)) {
            continue;
        }
        (void)buf_add_str(out, h->name);
        (void)buf_add_cstr(out, ": ");
        if (!is_host && q->binding && subst_wanted(q->binding, VAULT_HEADER)) {
            (void)subst_text(q->binding, VAULT_HEADER, SUBST_RAW, h->value, out);
        } else {
            (void)buf_add_str(out, h->value);
        }
        (void)buf_add_cstr(out, "\r\n");
    }
    if (!has_host && q->h->host.n) { /* HTTP/1.0 may say it in the target only, which lost it */
        (void)buf_printf(out, "Host: %.*s\r\n", STR_FMT(q->h->host));
    }
    for (size_t i = 0; q->binding && i < q->binding->n_headers; i++) {
        const struct vault_header *h = &q->binding->headers[i];
        (void)buf_add_cstr(out, h->name);
        (void)buf_add_cstr(out, ": ");
        (void)buf_add_str(out, vault_auth_prefix(q->binding->auth));
        (void)buf_add_str(out, h->value->value);
        (void)buf_add_cstr(out, "\r\n");
    }
}

/* body_len < 0: chunked when there is a body at all. */
static void put_head(const struct request *q, int64_t body_len, bool chunked, struct buf *out)
{
    const struct h1_head *h = q->h;
    (void)buf_add_str(out, h->method);
    (void)buf_add_char(out, ' ');
    put_target(q, out);
    (void)buf_printf(out, " HTTP/1.%d\r\n", h->minor);
    put_headers(q, out);
    if (chunked) {
        (void)buf_add_cstr(out, "Transfer-Encoding: chunked\r\n");
    } else if (body_len >= 0) {
        (void)buf_printf(out, "Content-Length: %lld\r\n", (long long)body_len);
    }
    if (q->x->is_websocket) {
        (void)buf_add_cstr(out, "Connection: Upgrade\r\nUpgrade: websocket\r\n");
    } else if (!h->keep_alive) {
        (void)buf_add_cstr(out, "Connection: close\r\n");
    } else if (h->minor == 0) {
        (void)buf_add_cstr(out, "Connection: keep-alive\r\n");
    }
    (void)buf_add_cstr(out, "\r\n");
}

/* ---- sending it on ---- */

/* The whole body is in `cin`: placeholders are replaced before its new length is told. */
static enum request_verdict forward_collected(struct request *q)
{
    struct exchange *x = q->x;
    size_t n = (size_t)q->h->content_length;
    struct buf body = BUF_INIT(x->up.max / 2);

    (void)buf_reserve(&body, MIN(n * 2 + 4096, body.max));
    (void)subst_text(q->binding, VAULT_BODY, q->enc, str_n(x->cin.p + q->head_len, n), &body);
    bool ok = !buf_failed(&body);
    if (ok) {
        put_head(q, (int64_t)body.len, false, &x->up);
        (void)buf_add_str(&x->up, buf_str(&body));
    }
    secret_wipe(buf_str(&body));
    buf_done(&body);
    if (!ok) {
        return answer(q, 413, "the body is too large once its placeholders are replaced");
    }
    buf_consume(&x->cin, q->head_len + n);
    x->client = CLIENT_WAIT;
    return REQUEST_GO;
}

static enum request_verdict forward(struct request *q)
{
    struct exchange *x = q->x;
    const struct h1_head *h = q->h;

    if (q->binding) {
        x->used = vault_state_ref((struct vault_state *)(uintptr_t)q->vault);
        x->up_is_secret = true;
        x->n_injected++;
        (void)buf_reserve(&x->up, MIN(x->up.max - x->up.len, INTERCEPT_BUFFER * 4));
        x->hooks->injected(x->arg, q->vault, q->binding, str_from(q->host), h->method);
    }
    if (q->subst_body && h->content_length >= 0 && !h->chunked &&
        h->content_length <= INTERCEPT_SUBST_COLLECT) {
        return forward_collected(q);
    }
    body_init(&x->request, h, true);
    if (q->subst_body) {
        subst_stream_init(&x->subst, q->binding, q->enc);
        x->request.subst = &x->subst;
        x->request.out_chunked = true;
    }
    put_head(q, h->content_length, x->request.out_chunked, &x->up);
    buf_consume(&x->cin, q->head_len); /* the head's views are dead from here on */
    x->client = x->request.kind == BODY_NONE ? CLIENT_WAIT : CLIENT_BODY;
    return REQUEST_GO;
}

static enum request_verdict judge_binding(struct request *q)
{
    struct exchange *x = q->x;
    struct vault_request v = {x->scheme, x->port, str_from(q->host), q->h->method, q->path};

    q->vault = q->host[0] ? x->hooks->vault(x->arg) : NULL;
    enum vault_match m = q->vault ? vault_find(q->vault, &v, &q->binding) : VAULT_NO_MATCH;
    if (m == VAULT_NO_MATCH) {
        q->binding = NULL;
        return REQUEST_GO;
    }
    if (m == VAULT_AMBIGUOUS) {
        return refuse(q, 403, "ambiguous", "credential binding ambiguous");
    }
    if (path_is_confusing(q->path)) {
        return refuse(q, 400, "path", "the path has dot segments or encoded separators");
    }
    if (!x->hooks->allows(x->arg, str_from(q->host))) {
        return refuse(q, 403, "policy", "egress policy does not allow this peer");
    }
    struct str type = h1_header_get(q->h->headers, q->h->n_headers, STR("content-type"));
    struct str coding = h1_header_get(q->h->headers, q->h->n_headers, STR("content-encoding"));
    q->subst_body = (q->h->chunked || q->h->content_length > 0) &&
                    subst_wanted(q->binding, VAULT_BODY) &&
                    subst_body_encoding(type, coding, &q->enc);
    return REQUEST_GO;
}

/* Must the whole body be here before its head can be written? */
static bool must_wait(struct request *q)
{
    struct exchange *x = q->x;
    if (!q->subst_body || q->h->chunked || q->h->content_length > INTERCEPT_SUBST_COLLECT ||
        x->cin.len - q->head_len >= (size_t)q->h->content_length) {
        return false;
    }
    if (q->h->expect_continue && !x->told_continue) {
        (void)buf_add_cstr(&x->down, "HTTP/1.1 100 Continue\r\n\r\n");
        x->told_continue = true;
    }
    return true;
}

enum request_verdict request_forward(struct exchange *x, const struct h1_head *h, size_t head_len)
{
    struct request q = {.x = x, .h = h, .head_len = head_len};

    must(str_to_cstr(h->method, x->method, sizeof(x->method)) == 0);
    if (str_eq(h->method, STR("CONNECT")) || str_eq(h->method, STR("TRACE"))) {
        return refuse(&q, 405, "method", "method not allowed");
    }
    if (!read_host(&q)) {
        return refuse(&q, 421, "host_mismatch", "Host is not the server of this connection");
    }
    if (!read_target(&q)) {
        return refuse(&q, 400, "host_mismatch", "the request target has another scheme");
    }
    enum request_verdict r = judge_binding(&q);
    if (r != REQUEST_GO) {
        return r;
    }
    if (must_wait(&q)) {
        return REQUEST_WAIT;
    }
    x->is_websocket = h->has_upgrade && h1_header_has_token(h->headers, h->n_headers,
                                                            STR("upgrade"), STR("websocket"));
    x->keep_alive = h->keep_alive;
    x->told_continue = false;
    x->answered = false;
    x->n_requests++;
    return forward(&q);
}
