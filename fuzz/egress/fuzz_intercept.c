/* HTTP through the interceptor. The input is cut at each '\1' into pieces that come in turn from
 * the client and from the server, whole and in small steps. Whatever goes to the server must read
 * as one well-formed message after the other. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "egress/intercept/exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SECRET "S3CRETVALUE"

static struct vault_state *vault;

static struct vault_state *get_vault(void *arg)
{
    return vault;
}

static bool allows(void *arg, struct str host)
{
    must(str_eq(host, STR("a.b")) || str_eq(host, STR("x.c.b")));
    return true;
}

static void refused(void *arg, const char *kind, struct str host, const char *detail)
{
    must(kind && detail);
}

static void injected(void *arg, const struct vault_state *s, const struct vault_binding *b,
                     struct str host, struct str method)
{
    must(s == vault && b && method.n);
}

static void make_vault(void)
{
    struct err e = {0};
    struct policy *p = policy_parse(STR("{\"egress\":[{\"action\":\"allow\",\"target\":\"a.b\"},"
                                        "{\"action\":\"allow\",\"target\":\"*.c.b\"}]}"),
                                    &e);
    vault = vault_create(
        STR("{\"credentials\":[{\"name\":\"t\",\"source\":{\"value\":\"" SECRET
            "\"}}],\"bindings\":["
            "{\"name\":\"h\",\"match\":{\"hosts\":[\"a.b\"],\"paths\":[\"/v1/"
            "*\"],\"schemes\":[\"http\","
            "\"https\"],\"ports\":[80,443]},\"auth\":{\"type\":\"bearer\",\"credential\":\"t\"}},"
            "{\"name\":\"s\",\"match\":{\"hosts\":[\"a.b\"],\"paths\":[\"/s/"
            "*\"],\"schemes\":[\"http\","
            "\"https\"],\"ports\":[80,443]},\"auth\":{\"type\":\"passthrough\",\"substitutions\":["
            "{\"credential\":\"t\",\"placeholder\":\"__T__\",\"in\":[\"path\",\"query\",\"header\","
            "\"body\"]}]}}]}"),
        p, &e);
    must(vault);
    policy_free(p);
}

/* The messages that a server would read. An incomplete one at the end is fine. */
static void check_up(struct str all)
{
    static struct h1_head h;
    while (all.n) {
        size_t len;
        enum h1_result r = h1_parse_request(all.p, all.n, &h, &len);
        must(r != H1_BAD);
        if (r == H1_NEED_MORE) {
            return;
        }
        must(!str_eq(h.method, STR("CONNECT")) && !str_eq(h.method, STR("TRACE")));
        all = str_sub(all, len, all.n);
        if (!h.chunked) {
            uint64_t want = h.content_length > 0 ? (uint64_t)h.content_length : 0;
            all = str_sub(all, want < all.n ? (size_t)want : all.n, all.n);
            continue;
        }
        struct h1_chunked c = {0};
        struct str piece;
        int k;
        while ((k = h1_chunked_next(&c, &all, &piece)) == 1) {
        }
        must(k >= 0);
    }
}

static void drain(struct exchange *x, struct buf *up, struct buf *down)
{
    struct str u = exchange_up(x), d = exchange_down(x);
    (void)buf_add_str(up, u);
    exchange_wrote_up(x, u.n);
    (void)buf_add_str(down, d);
    exchange_wrote_down(x, d.n);
}

static void feed(struct exchange *x, struct buf *in, struct str piece, size_t step, struct buf *up,
                 struct buf *down, bool client)
{
    while (piece.n && x->state == EXCHANGE_OPEN) {
        if (!(client ? exchange_wants_client(x) : exchange_wants_upstream(x))) {
            return; /* backpressure: this peer is not read any more */
        }
        struct str part = str_sub(piece, 0, step);
        must(buf_add_str(in, part) == 0);
        piece = str_sub(piece, part.n, piece.n);
        exchange_run(x);
        drain(x, up, down);
    }
}

static void run(struct str in, size_t step, bool https, struct buf *up, struct buf *down)
{
    static const struct exchange_hooks hooks = {get_vault, allows, refused, injected};
    struct exchange x;
    exchange_init(&x, &hooks, NULL);
    x.scheme = https ? VAULT_HTTPS : VAULT_HTTP;
    x.port = https ? 443 : 80;
    x.server_name = https ? "a.b" : "";
    for (bool client = true; in.p && x.state == EXCHANGE_OPEN; client = !client) {
        struct str piece = str_cut(&in, 1);
        feed(&x, client ? &x.cin : &x.uin, piece, step, up, down, client);
    }
    x.client_eof = x.upstream_eof = true;
    if (x.state == EXCHANGE_OPEN) {
        exchange_run(&x);
        drain(&x, up, down);
    }
    exchange_done(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 200000) {
        return 0;
    }
    if (!vault) {
        make_vault();
    }
    struct str in = str_n((const char *)data + 1, size - 1);
    struct buf up = BUF_INIT(256u << 20), down = BUF_INIT(256u << 20), up2 = BUF_INIT(256u << 20),
               down2 = BUF_INIT(256u << 20);
    bool https = data[0] & 1;
    run(in, SIZE_MAX, https, &up, &down);
    check_up(buf_str(&up));
    run(in, 1 + (data[0] >> 1) % 64, https, &up2, &down2);
    check_up(buf_str(&up2));
    buf_done(&up);
    buf_done(&down);
    buf_done(&up2);
    buf_done(&down2);
    return 0;
}
