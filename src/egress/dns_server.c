/* The proxy's listening sockets. Datagrams are taken and answered in batches; only what has to wait
 * for upstream costs memory. */

#include "egress/dns_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/must.h"
#include "egress/dns_client.h"
#include "egress/dns_upstream.h"
#include "egress/egress.h"
#include "egress/enforcer.h"
#include "egress/limits.h"
#include "egress/metrics.h"
#include "egress/resolver.h"
#include "egress/store.h"
#include "io/listener.h"
#include "net/dns.h"

#define CONTROL_LEN 64

/* Where a datagram came from and which of our addresses it went to. */
struct origin {
    struct io_addr peer;
    union {
        struct in_pktinfo v4;
        struct in6_pktinfo v6;
    } info;
    bool has_info;
};

struct dns_server {
    struct egress *g;
    struct resolver *resolver;
    struct dns_clients clients;
    struct io_stream *udp[2];
    struct io_listener *tcp[2];
    size_t n_waiting;
    struct list waiting; /* struct waiter */
};

/* A datagram whose answer comes later. */
struct waiter {
    struct list node;
    struct asker asker;
    struct dns_server *server;
    int sock; /* index in udp */
    struct origin from;
};

/* ---- what the resolver needs ---- */

static int on_send(void *arg, struct flight *f, const struct io_addr *to, bool tcp, struct str msg)
{
    struct dns_server *d = arg;
    uint32_t mark = d->g->cfg.inside ? 0 : egress_socket_mark(d->g);
    for (size_t i = 0; mark && i < d->g->cfg.n_exempt; i++) { /* as ordinary traffic */
        char text[IO_ADDR_TEXT_MAX];
        struct ip ip;
        if (ip_parse(str_from(io_addr_format_ip(to, text)), &ip) == 0 &&
            memcmp(&ip, &d->g->cfg.exempt[i], sizeof(ip)) == 0) {
            mark = 0;
        }
    }
    return upstream_send(d->g->loop, d->resolver, f, to, tcp, msg, mark);
}

static void on_cancel(void *arg, struct flight *f)
{
    upstream_cancel(f);
}

static int on_learn(void *arg, struct str name, const struct ip *ips, size_t n, uint32_t ttl_s)
{
    struct dns_server *d = arg;
    struct err e = {0};
    int r = enforcer_learn(d->g->enforcer, name, ips, n, ttl_s, &e);
    if (r < 0) {
        log_error("addresses could not be let through", LOG_STR("target.host", name), LOG_ERR(&e));
    }
    return r;
}

static void on_refused(void *arg, const char *kind, struct str name, struct str detail)
{
    struct dns_server *d = arg;
    egress_refused(d->g, kind, name, detail);
}

static void on_resolved(void *arg, struct str name, const struct ip *ips, size_t n)
{
    struct dns_server *d = arg;
    const struct policy *quiet = policy_store_quiet(d->g->policy);
    cleanup_(buf_done) struct buf list = BUF_INIT(1024);
    char text[IP_TEXT_MAX];
    if (!log_enabled(LOG_INFO) || (quiet && policy_find_name(quiet, name))) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        (void)buf_printf(&list, "%s%s", i ? "," : "", ip_format(&ips[i], text));
    }
    log_info("resolved", LOG_S("opensandbox.event", "egress.outbound"),
             LOG_STR("target.host", name), LOG_STR("target.ips", buf_str(&list)));
}

static void on_took(void *arg, uint64_t ms)
{
    struct dns_server *d = arg;
    metrics_lookup(d->g->metrics, ms);
}

static const struct resolver_ops resolver_ops = {on_send,    on_cancel,   on_learn,
                                                 on_refused, on_resolved, on_took};

/* ---- datagrams ---- */

struct batch {
    struct mmsghdr msg[DNS_BATCH];
    struct iovec iov[DNS_BATCH];
    struct origin from[DNS_BATCH];
    _Alignas(struct cmsghdr) char control[DNS_BATCH][CONTROL_LEN];
    char in[DNS_BATCH][DNS_MAX_QUERY + 1];
    struct buf out[DNS_BATCH];
};

static void origin_read(const struct msghdr *m, struct origin *o)
{
    o->has_info = false;
    o->peer.len = m->msg_namelen;
    union {
        const struct msghdr *in;
        struct msghdr *out;
    } u = {.in = m};
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(u.out, c)) {
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            memcpy(&o->info.v4, CMSG_DATA(c), sizeof(o->info.v4));
            o->has_info = true;
        } else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            memcpy(&o->info.v6, CMSG_DATA(c), sizeof(o->info.v6));
            o->has_info = true;
        }
    }
}

/* The answer leaves from the address that was asked. */
static void reply_prepare(struct msghdr *m, struct origin *o, struct iovec *iov, char *control)
{
    *m = (struct msghdr){
        .msg_name = &o->peer.ss, .msg_namelen = o->peer.len, .msg_iov = iov, .msg_iovlen = 1};
    if (!o->has_info) {
        return;
    }
    bool v4 = o->peer.sa.sa_family == AF_INET;
    size_t len = v4 ? sizeof(o->info.v4) : sizeof(o->info.v6);
    m->msg_control = control;
    m->msg_controllen = CMSG_SPACE(len);
    struct cmsghdr *c = CMSG_FIRSTHDR(m);
    c->cmsg_level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    c->cmsg_type = v4 ? IP_PKTINFO : IPV6_PKTINFO;
    c->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(c), &o->info, len);
}

static void waiter_free(struct waiter *w)
{
    list_del(&w->node);
    w->server->n_waiting--;
    free(w);
}

static void on_waited(struct asker *a, struct str answer)
{
    struct waiter *w = container_of(a, struct waiter, asker);
    _Alignas(struct cmsghdr) char control[CONTROL_LEN] = {0};
    union {
        const char *in;
        void *out;
    } base = {.in = answer.p};
    struct iovec iov = {base.out, answer.n};
    struct msghdr m;
    reply_prepare(&m, &w->from, &iov, control);
    /* A full socket buffer is a lost datagram, which is what UDP is about. */
    (void)sendmsg(io_stream_fd(w->server->udp[w->sock]), &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    waiter_free(w);
}

static void wait_upstream(struct dns_server *d, int sock, struct str query,
                          const struct origin *from)
{
    struct waiter *w = NEW(struct waiter);
    w->server = d;
    w->sock = sock;
    w->from = *from;
    w->asker = (struct asker){.done = on_waited, .is_udp = true};
    list_init(&w->node);
    list_push_back(&d->waiting, &w->node);
    d->n_waiting++;
    resolver_ask(d->resolver, query, &w->asker);
}

static void batch_answer(struct dns_server *d, int sock, struct batch *b, int n)
{
    struct mmsghdr out[DNS_BATCH];
    struct iovec iov[DNS_BATCH];
    unsigned n_out = 0;
    for (int i = 0; i < n; i++) {
        struct str query = str_n(b->in[i], b->msg[i].msg_len);
        buf_clear(&b->out[i]);
        origin_read(&b->msg[i].msg_hdr, &b->from[i]);
        int r = resolver_try(d->resolver, query, true, &b->out[i]);
        if (r > 0) {
            iov[n_out] = (struct iovec){b->out[i].p, b->out[i].len};
            memset(b->control[i], 0, CONTROL_LEN);
            reply_prepare(&out[n_out].msg_hdr, &b->from[i], &iov[n_out], b->control[i]);
            n_out++;
        } else if (r < 0) {
            wait_upstream(d, sock, query, &b->from[i]);
        }
    }
    int fd = io_stream_fd(d->udp[sock]);
    for (unsigned sent = 0; sent < n_out;) {
        int r = sendmmsg(fd, out + sent, n_out - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        sent += r > 0 ? (unsigned)r : 1; /* one that cannot be sent is skipped */
    }
}

static void on_datagrams(struct io_stream *s, unsigned events, void *arg)
{
    static struct batch b;
    struct dns_server *d = arg;
    int sock = s == d->udp[1] ? 1 : 0;
    for (int i = 0; i < DNS_BATCH; i++) {
        b.iov[i] = (struct iovec){b.in[i], sizeof(b.in[i])};
        b.out[i].max = 2u * DNS_MESSAGE_MAX;
        b.msg[i].msg_hdr = (struct msghdr){.msg_name = &b.from[i].peer.ss,
                                           .msg_namelen = sizeof(b.from[i].peer.ss),
                                           .msg_iov = &b.iov[i],
                                           .msg_iovlen = 1,
                                           .msg_control = b.control[i],
                                           .msg_controllen = CONTROL_LEN};
    }
    int n = recvmmsg(io_stream_fd(s), b.msg, DNS_BATCH, MSG_DONTWAIT, NULL);
    if (n > 0) {
        batch_answer(d, sock, &b, n);
    }
}

static void on_connection(struct io_stream *take_s, void *arg)
{
    struct dns_server *d = arg;
    dns_clients_add(&d->clients, take_s);
}

/* ---- life ---- */

/* A bound socket; a listening one for TCP. IPv6 is IPv6 only: the two families have their own. */
static int bound_open(const struct io_addr *a, int type)
{
    int one = 1;
    bool v6 = a->sa.sa_family == AF_INET6, tcp = type == SOCK_STREAM;
    int fd = socket(a->sa.sa_family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    if ((v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one)) < 0) ||
        (!tcp && setsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_RECVPKTINFO : IP_PKTINFO,
                            &one, sizeof(one)) < 0) ||
        (tcp && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0) ||
        bind(fd, &a->sa, a->len) < 0 || (tcp && listen(fd, DNS_MAX_CLIENTS) < 0)) {
        int error = errno;
        (void)close(fd);
        return -error;
    }
    return fd;
}

static int listen_on(struct dns_server *d, int i, const char *ip, struct err *e)
{
    struct io_addr a;
    (void)io_addr_ip(str_from(ip), EGRESS_DNS_PORT, &a);
    int udp = bound_open(&a, SOCK_DGRAM);
    if (udp < 0 && i == 1) {
        return 0; /* a host without IPv6 */
    }
    if (udp < 0) {
        return err_sys(e, udp, "DNS on %s port %d", ip, EGRESS_DNS_PORT);
    }
    d->udp[i] = io_stream_from_fd(d->g->loop, udp, on_datagrams, d);
    int tcp = bound_open(&a, SOCK_STREAM);
    if (tcp < 0) {
        return err_sys(e, tcp, "DNS over TCP on %s port %d", ip, EGRESS_DNS_PORT);
    }
    struct io_listen_opts o = {.fd = tcp};
    d->tcp[i] = io_listen(d->g->loop, &a, &o, on_connection, d, e);
    if (!d->udp[i] || !d->tcp[i]) {
        return err_wrap(e, "DNS over TCP");
    }
    io_stream_want(d->udp[i], IO_READABLE);
    return 0;
}

struct dns_server *dns_server_new(struct egress *g, struct err *e)
{
    struct dns_server *d = NEW(struct dns_server);
    d->g = g;
    list_init(&d->waiting);
    struct resolver_opts o = {
        .loop = g->loop,
        .upstreams = g->cfg.upstreams,
        .n_upstreams = g->cfg.n_upstreams,
        .timeout_ms = g->cfg.upstream_timeout_ms,
        .probe_ms = g->cfg.probe_ms,
        .probe_name = g->cfg.probe_name,
        .ops = &resolver_ops,
        .arg = d,
    };
    d->resolver = resolver_new(&o);
    dns_clients_init(&d->clients, d->resolver);
    resolver_set_policy(d->resolver, egress_policy(g));
    if (!g->cfg.n_upstreams) {
        log_warn("no upstream name server is known: every lookup will fail");
    }
    if (listen_on(d, 0, g->cfg.inside ? "0.0.0.0" : "127.0.0.1", e) < 0 ||
        listen_on(d, 1, g->cfg.inside ? "::" : "::1", e) < 0) {
        dns_server_free(d);
        return NULL;
    }
    return d;
}

void dns_server_free(struct dns_server *d)
{
    if (!d) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        io_stream_close(d->udp[i]);
        if (d->tcp[i]) {
            io_listener_close(d->tcp[i]);
        }
    }
    dns_clients_done(&d->clients);
    while (!list_empty(&d->waiting)) {
        struct waiter *w = list_entry(list_first(&d->waiting), struct waiter, node);
        resolver_forget(d->resolver, &w->asker);
        waiter_free(w);
    }
    resolver_free(d->resolver);
    free(d);
}

struct resolver *dns_server_resolver(struct dns_server *d)
{
    return d->resolver;
}

/* Class CH is answered here with REFUSED, whatever the policy, and never leaves. */
int dns_server_check(struct dns_server *d, struct err *e)
{
    static const char query[] = "\x5a\xa5\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"
                                "\x08selftest\x00\x00\x10\x00\x03";
    struct io_addr a;
    char answer[512];
    (void)io_addr_ip(STR("127.0.0.1"), EGRESS_DNS_PORT, &a);
    cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, &a.sa, a.len) < 0 ||
        send(fd, query, sizeof(query) - 1, MSG_NOSIGNAL) < 0) {
        return err_sys(e, errno, "DNS self-test");
    }
    on_datagrams(d->udp[0], IO_READABLE, d);
    struct pollfd p = {fd, POLLIN, 0};
    ssize_t n = poll(&p, 1, 1000) == 1 ? recv(fd, answer, sizeof(answer), MSG_DONTWAIT) : -1;
    if (n < DNS_HEADER_LEN || memcmp(answer, query, 2) != 0 ||
        (dns_u16(str_n(answer, (size_t)n), 2) & (DNS_QR | DNS_RCODE)) != (DNS_QR | DNS_REFUSED)) {
        return err_set(e, ERR_IO, "DNS self-test: no answer from our own port");
    }
    return 0;
}
