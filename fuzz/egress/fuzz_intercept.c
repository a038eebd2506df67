/* HTTP through the interceptor. The first byte chooses the connection; the rest is cut at each '\1'
 * into pieces that come in turn from the client and from the server, whole and in small steps.
 *
 * What must hold, whatever comes:
 *   - What goes to the server reads as one well-formed message after the other.
 *   - A secret is only in requests that its binding is for, judged here from what the server reads;
 *     on a connection to another server, or to one that policy denies, there is none at all.
 *   - No head and no trailer of an answer shows a secret, also when the server says it (a '\2' in
 *     what it sends becomes a secret), and no refusal that would be logged.
 *
 * Every secret has '~' around its letter, and the input has none: each '~' that comes out is from
 * the vault. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/must.h"
#include "egress/intercept/exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MATCH(host, path)                                                                          \
    "\"match\":{\"hosts\":[\"" host "\"],\"paths\":[\"" path                                       \
    "\"],\"schemes\":[\"http\",\"https\"],\"ports\":[80,443]"
#define VALUE(name, value) "{\"name\":\"" name "\",\"source\":{\"value\":\"" value "\"}}"
#define SUBST(credential, placeholder, in)                                                         \
    "\"auth\":{\"type\":\"passthrough\",\"substitutions\":[{\"credential\":\"" credential          \
    "\",\"placeholder\":\"" placeholder "\",\"in\":[" in "]}]}"

static const char vault_text[] =
    "{\"credentials\":[" VALUE("a", "~A~one") "," VALUE("b", "~B~two") "," VALUE(
        "c",
        "~C~"
        "three") "," VALUE("d",
                           "~D~\\\"/+ four") "],\"bindings\":["
                                             "{\"name\":\"a\"," MATCH(
                                                 "a.b",
                                                 "/v1/*") ",\"methods\":[\"GET\",\"POST\"]},"
                                                          "\"auth\":{\"type\":\"bearer\","
                                                          "\"credential\":\"a\"}},"
                                                          "{\"name\":\"b\"," MATCH("a.b", "/s/*") "}," SUBST(
                                                              "b", "__T__",
                                                              "\"path\",\"query\",\"header\","
                                                              "\"body\"") "},"
                                                                          "{\"name\":"
                                                                          "\"c\"," MATCH(
                                                                              "*.c.b",
                                                                              "/*") "},"
                                                                                    "\"auth\":{"
                                                                                    "\"type\":"
                                                                                    "\"apiKey\""
                                                                                    ",\"name\":"
                                                                                    "\"x-key\","
                                                                                    "\"credenti"
                                                                                    "al\":"
                                                                                    "\"c\"}},"
                                                                                    "{\"name\":"
                                                                                    "\"d\""
                                                                                    "," MATCH("a.b", "/d/*") "}," SUBST(
                                                                                        "d",
                                                                                        "__D__",
                                                                                        "\"body"
                                                                                        "\"") "}]}";

static const char policy_text[] = "{\"egress\":[{\"action\":\"allow\",\"target\":\"a.b\"},"
                                  "{\"action\":\"allow\",\"target\":\"*.c.b\"}]}";

#define METHODS_MAX 512

struct connection {
    bool https, denied;
    const char *server_name;
    struct buf up, down;
    struct str methods[METHODS_MAX]; /* of the requests that went on, views of `up` */
    size_t n_methods;
};

static struct vault_state *vault;

static struct vault_state *get_vault(void *arg)
{
    return vault;
}

static bool allows(void *arg, struct str host)
{
    const struct connection *c = arg;
    must(str_eq(host, STR("a.b")) || str_ends(host, STR(".c.b")));
    return !c->denied;
}

static void refused(void *arg, const char *kind, struct str host, const char *detail)
{
    must(kind && detail && !strchr(detail, '~') && str_find(host, '~') < 0);
}

static void injected(void *arg, const struct vault_state *s, const struct vault_binding *b,
                     struct str host, struct str method)
{
    const struct connection *c = arg;
    must(s == vault && b && method.n && !c->denied);
    must(!c->https || str_eq(host, str_from(c->server_name)));
}

static void make_vault(void)
{
    struct err e = {0};
    struct policy *p = policy_parse(str_from(policy_text), &e);
    must(p);
    vault = vault_create(str_from(vault_text), p, &e);
    must(vault);
    policy_free(p);
}

/* ---- what the server reads ---- */

/* The host of a head as a server would take it: lower case, no port, no final dot. */
static struct str host_of(const struct h1_head *h, char out[256])
{
    size_t n = 0;
    for (size_t i = 0; i < h->host.n && h->host.p[i] != ':' && n < 255; i++) {
        char c = h->host.p[i];
        out[n++] = c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
    }
    n -= n && out[n - 1] == '.';
    return str_n(out, n);
}

static bool may_carry(const struct connection *c, const struct h1_head *h, char secret)
{
    char text[256];
    struct str host = host_of(h, text), t = h->target;
    if (c->denied || (c->https && !str_eq(host, str_from(c->server_name)))) {
        return false;
    }
    switch (secret) {
    case 'A':
        return str_eq(host, STR("a.b")) && str_starts(t, STR("/v1/")) &&
               (str_eq(h->method, STR("GET")) || str_eq(h->method, STR("POST")));
    case 'B':
        return str_eq(host, STR("a.b")) && str_starts(t, STR("/s/"));
    case 'C':
        return host.n > 4 && str_ends(host, STR(".c.b"));
    case 'D':
        return str_eq(host, STR("a.b")) && str_starts(t, STR("/d/"));
    default:
        return true; /* the second of a pair */
    }
}

static void check_secrets(const struct connection *c, const struct h1_head *h, struct str message)
{
    for (size_t i = 0; i + 1 < message.n; i++) {
        if (message.p[i] == '~') {
            must(may_carry(c, h, message.p[i + 1]));
        }
    }
}

/* An incomplete message at the end is fine. */
static void check_up(struct connection *c)
{
    static struct h1_head h;
    struct str all = buf_str(&c->up);
    while (all.n) {
        size_t len;
        struct str message = all;
        enum h1_result r = h1_parse_request(all.p, all.n, &h, &len);
        must(r != H1_BAD);
        if (r == H1_NEED_MORE) {
            must(str_find(all, '~') < 0 || !c->denied);
            return;
        }
        must(!str_eq(h.method, STR("CONNECT")) && !str_eq(h.method, STR("TRACE")));
        if (c->n_methods < METHODS_MAX) {
            c->methods[c->n_methods++] = h.method;
        }
        all = str_sub(all, len, all.n);
        if (!h.chunked) {
            uint64_t want = h.content_length > 0 ? (uint64_t)h.content_length : 0;
            all = str_sub(all, want < all.n ? (size_t)want : all.n, all.n);
        } else {
            struct h1_chunked chunks = {0};
            struct str piece;
            int k;
            while ((k = h1_chunked_next(&chunks, &all, &piece)) == 1) {
            }
            must(k >= 0);
        }
        check_secrets(c, &h, str_sub(message, 0, message.n - all.n));
    }
}

/* ---- what the client reads ---- */

static void check_clean(struct str s)
{
    must(str_find(s, '~') < 0);
}

/* Everything between the data is framing and trailers. False: it does not end here. */
static bool check_chunks(struct str *all)
{
    struct h1_chunked chunks = {0};
    struct str data;
    for (;;) {
        const char *from = all->p;
        int k = h1_chunked_next(&chunks, all, &data);
        const char *until = k == 1 ? data.p : all->p;
        if (k >= 0 && until > from) {
            check_clean(str_n(from, (size_t)(until - from)));
        }
        if (k != 1) {
            return k == 2;
        }
    }
}

static void check_down(struct connection *c)
{
    static struct h1_head h;
    struct str all = buf_str(&c->down);
    size_t i = 0, len;
    while (all.n) {
        struct str method = i < c->n_methods ? c->methods[i] : STR("GET");
        enum h1_result r = h1_parse_response(all.p, all.n, method, &h, &len);
        must(r != H1_BAD);
        check_clean(str_sub(all, 0, r == H1_DONE ? len : all.n));
        if (r != H1_DONE || h.status == 101) {
            return;
        }
        all = str_sub(all, len, all.n);
        i += h.status >= 200;
        if (h.chunked) {
            if (!check_chunks(&all)) {
                return;
            }
        } else if (h.content_length < 0 && h.status >= 200) {
            return; /* to the end */
        } else if (h.content_length > 0) {
            all = str_sub(all, MIN((uint64_t)h.content_length, all.n), all.n);
        }
    }
}

/* ---- the two of them ---- */

static void drain(struct exchange *x, struct connection *c)
{
    struct str u = exchange_up(x), d = exchange_down(x);
    (void)buf_add_str(&c->up, u);
    exchange_wrote_up(x, u.n);
    (void)buf_add_str(&c->down, d);
    exchange_wrote_down(x, d.n);
}

static void feed(struct exchange *x, struct str piece, size_t step, bool client)
{
    struct connection *c = x->arg;
    while (piece.n && x->state == EXCHANGE_OPEN) {
        if (!(client ? exchange_wants_client(x) : exchange_wants_upstream(x))) {
            return; /* backpressure: this peer is not read any more */
        }
        struct str part = str_sub(piece, 0, step);
        must(buf_add_str(client ? &x->cin : &x->uin, part) == 0);
        piece = str_sub(piece, part.n, piece.n);
        exchange_run(x);
        drain(x, c);
    }
}

/* The server has learned the secrets and says one wherever the input has a '\2'. */
static void feed_server(struct exchange *x, struct str piece, size_t step)
{
    static const char *const said[] = {"~A~one", "~B~two", "~C~three", "Bearer ~A~one"};
    struct buf text = BUF_INIT(4u << 20);
    for (size_t i = 0, k = 0; i < piece.n; i++) {
        if (piece.p[i] == 2) {
            (void)buf_add_cstr(&text, said[k++ % ARRAY_LEN(said)]);
        } else {
            (void)buf_add_char(&text, piece.p[i]);
        }
    }
    feed(x, buf_str(&text), step, false);
    buf_done(&text);
}

static void run(struct str in, size_t step, unsigned how)
{
    static const struct exchange_hooks hooks = {get_vault, allows, refused, injected};
    static const char *const names[] = {"a.b", "x.c.b", "other.test", "a.b"};
    static struct connection c;
    struct exchange x;
    c = (struct connection){.https = how & 1,
                            .denied = (how & 8) != 0,
                            .server_name = how & 1 ? names[how >> 1 & 3] : "",
                            .up = BUF_INIT(256u << 20),
                            .down = BUF_INIT(256u << 20)};
    exchange_init(&x, &hooks, &c);
    x.scheme = c.https ? VAULT_HTTPS : VAULT_HTTP;
    x.port = c.https ? 443 : 80;
    x.server_name = c.server_name;
    for (bool client = true; in.p && x.state == EXCHANGE_OPEN; client = !client) {
        struct str piece = str_cut(&in, 1);
        if (client) {
            feed(&x, piece, step, true);
        } else {
            feed_server(&x, piece, step);
        }
    }
    if (how & 16) {
        exchange_upstream_shut(&x);
    }
    x.client_eof = x.upstream_eof = true;
    if (x.state == EXCHANGE_OPEN) {
        exchange_run(&x);
        drain(&x, &c);
    }
    exchange_done(&x);
    check_up(&c);
    check_down(&c);
    buf_done(&c.up);
    buf_done(&c.down);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char input[200000];
    if (size < 2 || size > sizeof(input)) {
        return 0;
    }
    if (!vault) {
        make_vault();
    }
    for (size_t i = 1; i < size; i++) {
        input[i - 1] = data[i] == '~' ? '-' : (char)data[i];
    }
    struct str in = str_n(input, size - 1);
    run(in, SIZE_MAX, data[0]);
    run(in, 1 + (data[0] >> 5) * 9u, data[0]);
    return 0;
}
