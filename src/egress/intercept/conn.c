/* One connection of the sandbox: a look at its first bytes, then either spliced to where it was
 * going, or opened.
 *
 * The look is taken with MSG_PEEK, so nothing is consumed before the decision: TLS and splice(2)
 * work on the untouched socket. SO_RCVLOWAT keeps the loop quiet until more has come than was seen.
 */

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "egress/intercept/ca.h"
#include "egress/intercept/exchange.h"
#include "egress/intercept/intercept.h"
#include "egress/intercept/limits.h"
#include "egress/vault/api.h"
#include "io/dial.h"
#include "io/relay.h"
#include "io/timer.h"
#include "io/tls.h"
#include "net/client_hello.h"
#include "net/url.h"

/* linux/netfilter_ipv4.h, which cannot be included beside netinet/in.h; the same for IPv6. */
#ifndef SO_ORIGINAL_DST
#define SO_ORIGINAL_DST 80
#endif

#define PEEK_MAX (64u << 10)
#define CONN_ROUNDS 4 /* fillings of the buffers before others get their turn */

struct conn {
    struct intercept *i;
    struct list node;
    struct io_timer timer;
    struct io_addr dst;
    struct ip dst_ip;
    struct io_stream *client, *upstream; /* NULL while a handshake or a dial owns it, or gone */
    struct io_tls_op *client_op, *upstream_op;
    struct io_dial *dial;
    struct io_relay *relay;
    bool is_open, lingering;  /* is_open: an exchange, not a tunnel */
    bool is_other;            /* dst is not where the client was going (dial_other()) */
    enum vault_scheme scheme; /* once it is to be opened */
    size_t paid;              /* of the budget */
    bool has_turn, is_waiting;
    struct list wait; /* of i->waiting */
    char name[DOMAIN_MAX + 1];
    struct exchange x;
};

/* ---- turns (budget.h) ---- */

static void turn_give(struct conn *c)
{
    struct intercept *i = c->i;
    if (c->has_turn) {
        c->has_turn = false;
        i->budget.n_taken--;
        if (!list_empty(&i->waiting)) {
            io_timer_start(&i->wake, 0);
        }
    }
}

/* Nothing is on its way that would need buffers. */
static bool is_empty(const struct conn *c)
{
    return !c->client_op && !c->upstream_op && !c->dial && exchange_is_empty(&c->x) &&
           !(c->client && io_stream_is_holding(c->client)) &&
           !(c->upstream && io_stream_is_holding(c->upstream));
}

/* A stream of events, say, has a turn and seldom anything in its buffers. */
static void turns_collect(struct intercept *i)
{
    list_each (it, &i->conns) {
        struct conn *c = list_entry(it, struct conn, node);
        if (c->has_turn && c->is_open && is_empty(c)) {
            exchange_release(&c->x);
            turn_give(c);
        }
    }
}

/* False: it waits, and conn_wake() goes on with it. */
static bool turn_take(struct conn *c)
{
    struct intercept *i = c->i;
    if (c->has_turn) {
        return true;
    }
    if (!c->is_waiting && list_empty(&i->waiting) && i->budget.n_taken < i->budget.n_turns) {
        c->has_turn = true;
        i->budget.n_taken++;
        return true;
    }
    if (!c->is_waiting) {
        bool is_first = list_empty(&i->waiting);
        c->is_waiting = true;
        list_push_back(&i->waiting, &c->wait);
        if (is_first) {
            turns_collect(i);
        }
    }
    return false;
}

static void conn_free(struct conn *c)
{
    io_timer_stop(&c->timer);
    io_tls_cancel(c->client_op);
    io_tls_cancel(c->upstream_op);
    io_dial_cancel(c->dial);
    io_stream_close(c->client);
    io_stream_close(c->upstream);
    if (c->is_open) {
        exchange_done(&c->x);
    }
    turn_give(c);
    if (c->is_waiting) {
        list_del(&c->wait);
    }
    must(budget_pay(&c->i->budget, &c->paid, 0));
    list_del(&c->node);
    c->i->n_conns--;
    free(c);
}

static void conn_abort(struct conn *c)
{
    if (c->client) {
        io_stream_abort(take_ptr(&c->client));
    }
    if (c->upstream) {
        io_stream_abort(take_ptr(&c->upstream));
    }
    conn_free(c);
}

/* Says why, in the log and to who asks for events. */
static void conn_refuse(struct conn *c, const char *why)
{
    char text[IO_ADDR_TEXT_MAX];
    egress_refused(c->i->g, "limit",
                   str_from(c->name[0] ? c->name : io_addr_format_ip(&c->dst, text)),
                   str_from(why));
    conn_abort(c);
}

static void conn_cut(struct conn *c)
{
    if (c->relay) {
        io_relay_cancel(c->relay); /* calls on_relay_end() */
    } else {
        conn_abort(c);
    }
}

void conn_close_all(struct intercept *i)
{
    struct list *n;
    while ((n = list_first(&i->conns))) {
        conn_cut(list_entry(n, struct conn, node));
    }
}

void conn_check_policy(struct intercept *i)
{
    char text[IP_TEXT_MAX];
    list_each (it, &i->conns) {
        struct conn *c = list_entry(it, struct conn, node);
        if (c->is_other && !egress_keeps_ip(i->g, &c->dst_ip)) {
            egress_refused(i->g, "packet", str_from(ip_format(&c->dst_ip, text)),
                           STR("intercepted connection"));
            conn_cut(c);
        }
    }
}

/* ---- the way to the server ---- */

static void dial_for(struct conn *c, uint64_t timeout_ms, io_dial_cb *cb)
{
    c->dial = io_dial_start_marked(c->i->g->loop, &c->dst, egress_socket_mark(c->i->g), timeout_ms,
                                   cb, c);
}

static void dial(struct conn *c, io_dial_cb *cb)
{
    struct ip other;
    bool has = egress_other_ip(c->i->g, &c->dst_ip, str_from(c->name), &other);
    dial_for(c, has ? INTERCEPT_FIRST_MS : INTERCEPT_SETUP_MS, cb);
}

static bool hook_allows(void *arg, struct str host);

/* The client has a connection, to us, and takes the address for a good one: it does not try the
 * next, as it would without us. So we do, once. Everything that is asked about the peer from here
 * on is asked about that address, and what was put into a request before is asked again. */
static bool dial_other(struct conn *c, io_dial_cb *cb)
{
    struct io_addr dst;
    struct ip before = c->dst_ip, other;
    char text[IP_TEXT_MAX];
    if (c->is_other || !egress_other_ip(c->i->g, &before, str_from(c->name), &other) ||
        io_addr_ip(str_from(ip_format(&other, text)), io_addr_port(&c->dst), &dst) < 0) {
        return false;
    }
    c->dst_ip = other;
    if (c->is_open && !hook_allows(c, str_from(c->name))) {
        c->dst_ip = before;
        return false;
    }
    log_debug("another address of the server is tried", LOG_S("host", c->name),
              LOG_S("address", text));
    c->dst = dst;
    c->is_other = true;
    dial_for(c, INTERCEPT_SETUP_MS - INTERCEPT_FIRST_MS, cb);
    return true;
}

/* ---- as opaque bytes ---- */

static void on_relay_end(const struct io_relay_end *end, void *arg)
{
    struct conn *c = arg;
    c->relay = NULL;
    conn_free(c);
}

static void splice_both(struct conn *c, struct str early_client, struct str early_upstream)
{
    bool tls = io_stream_is_tls(c->client) || io_stream_is_tls(c->upstream);
    if (!budget_pay(&c->i->budget, &c->paid,
                    tls ? INTERCEPT_UPGRADED_BYTES : INTERCEPT_TUNNEL_BYTES)) {
        conn_refuse(c, "no memory for another upgraded connection");
        return;
    }
    turn_give(c);
    io_timer_stop(&c->timer);
    c->relay = io_relay_start(take_ptr(&c->client), take_ptr(&c->upstream), early_client,
                              early_upstream, INTERCEPT_STALL_MS, on_relay_end, c);
}

static void on_splice_dialed(struct io_stream *s, int error, void *arg)
{
    struct conn *c = arg;
    c->dial = NULL;
    if (!s) {
        if (!dial_other(c, on_splice_dialed)) {
            conn_abort(c); /* a reset is what the client would have seen without us */
        }
        return;
    }
    c->upstream = s;
    splice_both(c, STR_NULL, STR_NULL);
}

static void start_splice(struct conn *c)
{
    io_stream_want(c->client, 0);
    io_timer_start(&c->timer, INTERCEPT_SETUP_MS);
    dial(c, on_splice_dialed);
}

/* ---- opened ---- */

static struct vault_state *hook_vault(void *arg)
{
    return vault_current();
}

static bool hook_allows(void *arg, struct str host)
{
    const struct conn *c = arg;
    /* As when the binding was made, a rule must say so and not the default: overlays may have
     * changed since. */
    const struct policy_rule *rule = policy_find_name(egress_policy(c->i->g), host);
    return rule && rule->action == POLICY_ALLOW && egress_allows_ip(c->i->g, &c->dst_ip);
}

static void hook_refused(void *arg, const char *kind, struct str host, const char *detail)
{
    const struct conn *c = arg;
    egress_refused(c->i->g, kind, host, str_from(detail));
}

static void hook_injected(void *arg, const struct vault_state *s, const struct vault_binding *b,
                          struct str host, struct str method)
{
    char names[512] = "";
    size_t n = 0;
    for (size_t i = 0; i < b->n_headers && n < sizeof(names); i++) {
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%s", i ? "," : "",
                              b->headers[i].name);
    }
    log_info("credential injected", LOG_S("binding", b->name), LOG_I("revision", s->revision),
             LOG_STR("host", host), LOG_STR("method", method), LOG_S("headers", names));
}

static const struct exchange_hooks hooks = {hook_vault, hook_allows, hook_refused, hook_injected};

/* Reads what is there into b, as much as is written at once on the other side. 1: something came,
 * 0: nothing, -1: error; *eof is set at the end. */
static int fill(struct io_stream *s, struct buf *b, bool *eof)
{
    size_t total = 0;
    do {
        if (buf_reserve(b, INTERCEPT_BUFFER / 4) < 0) {
            break;
        }
        ssize_t n = io_stream_read(s, b->p + b->len, MIN(b->cap - b->len, INTERCEPT_BUFFER));
        if (n == 0) {
            *eof = true;
            return 1;
        }
        if (n < 0) {
            return total ? 1 : n == -EAGAIN ? 0 : -1; /* a failed TLS stream says so again */
        }
        b->len += (size_t)n;
        total += (size_t)n;
    } while (io_stream_is_tls(s) && total <= INTERCEPT_BUFFER - INTERCEPT_BUFFER / 4);
    return total ? 1 : 0;
}

/* 1: progress, 0: none, -1: the peer is gone. */
static int flush(struct io_stream *s, struct exchange *x, struct str data,
                 void (*wrote)(struct exchange *x, size_t n))
{
    if (data.n == 0) {
        return 0;
    }
    ssize_t n = io_stream_write(s, data.p, data.n);
    if (n > 0) {
        wrote(x, (size_t)n);
        return 1;
    }
    return n == -EAGAIN ? 0 : -1;
}

/* Reads before it writes: a server that answers, closes and resets while the request is still on
 * its way has been heard, whatever becomes of the writing. */
static bool step_upstream(struct conn *c)
{
    struct exchange *x = &c->x;
    int r, w;

    if (!c->upstream) {
        return false;
    }
    r = exchange_wants_upstream(x) ? fill(c->upstream, &x->uin, &x->upstream_eof) : 0;
    if (r < 0) {
        exchange_run(x);
        exchange_upstream_failed(x, 502, "the connection to the server broke");
        return false;
    }
    w = flush(c->upstream, x, exchange_up(x), exchange_wrote_up);
    if (w < 0) {
        exchange_upstream_shut(x);
    }
    return r > 0 || w != 0;
}

static int step_client(struct conn *c)
{
    struct exchange *x = &c->x;
    int r = 0, w;

    if (!c->client) {
        return 0;
    }
    if (exchange_wants_client(x)) {
        r = fill(c->client, &x->cin, &x->client_eof);
    }
    w = r < 0 ? r : flush(c->client, x, exchange_down(x), exchange_wrote_down);
    return r < 0 || w < 0 ? -1 : r || w;
}

static void want(struct conn *c)
{
    struct exchange *x = &c->x;
    if (c->client) {
        io_stream_want(c->client, (exchange_wants_client(x) ? IO_READABLE : 0) |
                                      (exchange_down(x).n ? IO_WRITABLE : 0));
    }
    if (c->upstream) {
        io_stream_want(c->upstream, (exchange_wants_upstream(x) ? IO_READABLE : 0) |
                                        (exchange_up(x).n ? IO_WRITABLE : 0));
    }
    if (c->client && c->upstream) {
        io_timer_start(&c->timer, exchange_is_busy(x) ? INTERCEPT_STALL_MS : INTERCEPT_IDLE_MS);
    }
    if (is_empty(c) && (!exchange_is_busy(x) || !list_empty(&c->i->waiting))) {
        exchange_release(x);
        turn_give(c);
    }
}

/* Nothing is read or written until it is its turn. */
static void want_nothing(struct conn *c)
{
    if (c->client) {
        io_stream_want(c->client, 0);
    }
    if (c->upstream) {
        io_stream_want(c->upstream, 0);
    }
}

/* What the client still sends is read and thrown away: closing before it has been read would make
 * the kernel reset the connection, and the answer would be lost. */
static void on_linger(struct io_stream *s, unsigned events, void *arg)
{
    struct conn *c = arg;
    char waste[4096];
    ssize_t n = io_stream_read(s, waste, sizeof(waste));
    if (n == 0 || (n < 0 && n != -EAGAIN)) {
        conn_free(c);
    }
}

static void start_linger(struct conn *c)
{
    c->lingering = true;
    if (c->upstream) {
        io_stream_close(take_ptr(&c->upstream));
    }
    io_tls_cancel(take_ptr(&c->upstream_op));
    io_dial_cancel(take_ptr(&c->dial));
    if (io_stream_shutdown(c->client) < 0 || c->x.client_eof) {
        conn_free(c);
        return;
    }
    io_stream_set_cb(c->client, on_linger, c);
    io_stream_want(c->client, IO_READABLE);
    io_timer_start(&c->timer, INTERCEPT_LINGER_MS);
}

/* True: the connection is still ours. */
static bool settle(struct conn *c)
{
    struct exchange *x = &c->x;
    switch (x->state) {
    case EXCHANGE_ABORT:
        conn_abort(c);
        return false;
    case EXCHANGE_CLOSE:
        if (exchange_down(x).n) {
            return true;
        }
        if (!c->client) {
            conn_free(c);
        } else {
            start_linger(c);
        }
        return false;
    case EXCHANGE_TUNNEL:
        if (exchange_down(x).n || exchange_up(x).n || !c->client || !c->upstream) {
            return true;
        }
        splice_both(c, buf_str(&x->cin), buf_str(&x->uin));
        return false;
    case EXCHANGE_OPEN:
    default:
        return true;
    }
}

static void pump(struct conn *c)
{
    if (!turn_take(c)) {
        want_nothing(c);
        return;
    }
    for (int round = 0; round < CONN_ROUNDS; round++) {
        bool progress = step_upstream(c);
        int r = step_client(c);
        if (r < 0) {
            conn_abort(c);
            return;
        }
        exchange_run(&c->x);
        progress |= r > 0 || exchange_up(&c->x).n || exchange_down(&c->x).n;
        if (!settle(c)) {
            return;
        }
        if (!progress) {
            break;
        }
    }
    want(c);
}

static void on_event(struct io_stream *s, unsigned events, void *arg)
{
    pump(arg);
}

static void adopt(struct conn *c, struct io_stream **where, struct io_stream *s)
{
    *where = s;
    io_stream_set_cb(s, on_event, c);
    pump(c);
}

static void on_client_tls(struct io_stream *s, const struct err *e, void *arg)
{
    struct conn *c = arg;
    c->client_op = NULL;
    if (!s) {
        log_info("a client did not accept our certificate", LOG_S("host", c->name), LOG_ERR(e));
        conn_free(c);
        return;
    }
    adopt(c, &c->client, s);
}

static void upstream_failed(struct conn *c, int status, const char *why)
{
    egress_refused(c->i->g, "upstream", str_from(c->name), str_from(why));
    exchange_upstream_failed(&c->x, status, why);
    pump(c);
}

static void on_upstream_tls(struct io_stream *s, const struct err *e, void *arg)
{
    struct conn *c = arg;
    c->upstream_op = NULL;
    if (!s) {
        upstream_failed(c, 502, e->msg);
        return;
    }
    adopt(c, &c->upstream, s);
}

static void on_dialed(struct io_stream *s, int error, void *arg)
{
    struct conn *c = arg;
    c->dial = NULL;
    if (!s && dial_other(c, on_dialed)) {
        return;
    }
    if (!s) {
        upstream_failed(c, error == -ETIMEDOUT ? 504 : 502, "the server cannot be reached");
    } else if (c->x.scheme == VAULT_HTTPS) {
        c->upstream_op = io_tls_connect(c->i->upstream, s, c->name, on_upstream_tls, c);
    } else {
        adopt(c, &c->upstream, s);
    }
}

/* Both handshakes, or neither. */
static void open_exchange(struct conn *c)
{
    struct err e = {0};
    struct io_tls_ctx *leaf = NULL;

    if (c->scheme == VAULT_HTTPS) {
        leaf = ca_context(c->i->ca, c->name, &e);
        if (!leaf) {
            log_error("cannot make a certificate", LOG_S("host", c->name), LOG_ERR(&e));
            conn_abort(c);
            return;
        }
    }
    exchange_init(&c->x, &hooks, c);
    c->is_open = true;
    c->x.scheme = c->scheme;
    c->x.port = io_addr_port(&c->dst);
    c->x.server_name = leaf ? c->name : "";
    io_timer_start(&c->timer, INTERCEPT_SETUP_MS);
    dial(c, on_dialed);
    if (leaf) {
        c->client_op = io_tls_accept(leaf, take_ptr(&c->client), on_client_tls, c);
    } else {
        io_stream_set_cb(c->client, on_event, c);
        pump(c);
    }
}

static void start_exchange(struct conn *c, enum vault_scheme scheme)
{
    c->scheme = scheme;
    io_stream_want(c->client, 0);
    io_timer_start(&c->timer, INTERCEPT_SETUP_MS);
    if (!budget_pay(&c->i->budget, &c->paid, INTERCEPT_OPEN_BYTES)) {
        conn_refuse(c, "no memory for another opened connection");
    } else if (turn_take(c)) {
        open_exchange(c);
    }
}

void conn_wake(struct intercept *i)
{
    while (!list_empty(&i->waiting) && i->budget.n_taken < i->budget.n_turns) {
        struct conn *c = list_entry(list_pop_front(&i->waiting), struct conn, wait);
        c->is_waiting = false;
        c->has_turn = true;
        i->budget.n_taken++;
        if (c->is_open) {
            pump(c);
        } else {
            open_exchange(c);
        }
    }
}

/* ---- the first bytes ---- */

enum look { LOOK_MORE, LOOK_SPLICE, LOOK_OPEN };

static enum look look_at_tls(struct conn *c, struct str in)
{
    struct client_hello h;
    switch (client_hello_parse(in, &h)) {
    case HELLO_NEED_MORE:
        return LOOK_MORE;
    case HELLO_DONE:
        memcpy(c->name, h.server_name, sizeof(c->name));
        return c->name[0] && vault_has_host(vault_current(), VAULT_HTTPS, io_addr_port(&c->dst),
                                            str_from(c->name))
                   ? LOOK_OPEN
                   : LOOK_SPLICE;
    case HELLO_NOT_TLS:
    default:
        return LOOK_SPLICE;
    }
}

static enum look look_at_http(struct conn *c, struct str in)
{
    struct h1_head h;
    struct str host;
    uint16_t port;
    size_t len;

    switch (h1_parse_request(in.p, in.n, &h, &len)) {
    case H1_NEED_MORE:
        return LOOK_MORE;
    case H1_DONE:
        return authority_parse(h.host, &host, &port) == 0 && domain_normalize(host, c->name) == 0 &&
                       vault_has_host(vault_current(), VAULT_HTTP, io_addr_port(&c->dst),
                                      str_from(c->name))
                   ? LOOK_OPEN
                   : LOOK_SPLICE;
    case H1_BAD:
    default:
        return LOOK_SPLICE;
    }
}

static void set_lowat(struct conn *c, size_t n)
{
    int v = (int)n;
    /* Without it we would only be woken up too often. */
    (void)setsockopt(io_stream_fd(c->client), SOL_SOCKET, SO_RCVLOWAT, &v, sizeof(v));
}

static void on_first_bytes(struct io_stream *s, unsigned events, void *arg)
{
    struct conn *c = arg;
    static char seen[PEEK_MAX]; /* one loop, and nothing of it is kept */
    ssize_t n = recv(io_stream_fd(s), seen, sizeof(seen), MSG_PEEK | MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        conn_free(c);
        return;
    }
    struct str in = str_n(seen, (size_t)n);
    bool tls = in.p[0] == 0x16;
    enum look look = in.n == PEEK_MAX ? LOOK_SPLICE
                     : tls            ? look_at_tls(c, in)
                                      : look_at_http(c, in);
    if (look == LOOK_MORE) {
        set_lowat(c, in.n + 1);
        return;
    }
    set_lowat(c, 1);
    if (look == LOOK_OPEN) {
        start_exchange(c, tls ? VAULT_HTTPS : VAULT_HTTP);
    } else {
        start_splice(c);
    }
}

static void on_timer(struct io_timer *t)
{
    struct conn *c = container_of(t, struct conn, timer);
    if (c->is_waiting && !c->is_open) {
        conn_refuse(c, "too many connections are under way");
    } else if (!c->is_open && c->client && !c->dial) {
        set_lowat(c, 1);
        start_splice(c); /* a protocol whose server speaks first */
    } else if (c->lingering) {
        conn_free(c);
    } else {
        conn_abort(c);
    }
}

/* ---- where it was going ---- */

static int original_dst(const struct io_stream *s, struct io_addr *ret)
{
    struct io_addr local = {.len = sizeof(local.ss)};
    int fd = io_stream_fd(s);

    if (getsockname(fd, &local.sa, &local.len) < 0) {
        return -errno;
    }
    *ret = (struct io_addr){.len = sizeof(ret->ss)};
    bool v6 = local.sa.sa_family == AF_INET6;
    if (getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, SO_ORIGINAL_DST, &ret->sa, &ret->len) < 0) {
        return -errno;
    }
    /* Not redirected: somebody talks to our port directly, and would make us talk to ourselves. */
    return io_addr_eq(&local, ret) || io_addr_is_loopback(ret) ? -ELOOP : 0;
}

void conn_start(struct intercept *i, struct io_stream *take_client)
{
    struct conn *c;
    struct io_addr dst;
    struct ip ip;
    char text[IO_ADDR_TEXT_MAX];

    size_t paid = 0;

    if (original_dst(take_client, &dst) < 0 ||
        ip_parse(str_from(io_addr_format_ip(&dst, text)), &ip) < 0) {
        io_stream_abort(take_client);
        return;
    }
    /* The packet rules let only allowed connections come here; policy may have changed since. */
    if (!egress_allows_ip(i->g, &ip)) {
        egress_refused(i->g, "packet", str_from(text), STR("intercepted connection"));
        io_stream_abort(take_client);
        return;
    }
    bool is_full = i->n_conns >= INTERCEPT_MAX_CONNECTIONS;
    if (is_full || !budget_pay(&i->budget, &paid, INTERCEPT_TUNNEL_BYTES)) {
        egress_refused(i->g, "limit", str_from(text),
                       is_full ? STR("too many connections at once")
                               : STR("no memory for another connection"));
        io_stream_abort(take_client);
        return;
    }
    c = NEW(struct conn);
    c->i = i;
    c->paid = paid;
    c->dst = dst;
    c->dst_ip = ip;
    c->client = take_client;
    io_timer_init(&c->timer, i->g->loop, on_timer);
    list_push_back(&i->conns, &c->node);
    i->n_conns++;
    uint16_t port = io_addr_port(&dst);
    if (!vault_has_port(vault_current(), VAULT_HTTPS, port) &&
        !vault_has_port(vault_current(), VAULT_HTTP, port)) {
        start_splice(c);
        return;
    }
    io_stream_set_cb(c->client, on_first_bytes, c);
    io_stream_want(c->client, IO_READABLE);
    io_timer_start(&c->timer, INTERCEPT_PEEK_MS);
}
