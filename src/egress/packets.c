/* The socket of nfnetlink_log. */

#include "egress/packets.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/must.h"
#include "egress/egress.h"
#include "egress/enforcer.h"
#include "egress/events.h"
#include "egress/limits.h"
#include "egress/nflog.h"
#include "egress/ruleset.h"
#include "io/stream.h"
#include "io/timer.h"

struct packets {
    struct egress *g;
    struct io_stream *sock;
    struct io_timer settle; /* a while after the first of some packets */
    uint32_t next_seq;
    uint64_t n_lost, n_seen; /* since then */
};

struct request {
    struct nlmsghdr h;
    struct nfgenmsg g;
    char body[128];
};

static void request_init(struct request *q)
{
    *q = (struct request){
        .h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)),
              .nlmsg_type = NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_CONFIG,
              .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        .g = {.nfgen_family = AF_UNSPEC, .res_id = htons(EGRESS_LOG_GROUP)},
    };
}

static void put(struct request *q, uint16_t type, const void *data, size_t n)
{
    struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + n), .nla_type = type};
    must(q->h.nlmsg_len + NLA_HDRLEN + NLA_ALIGN(n) <= sizeof(*q));
    char *at = (char *)q + q->h.nlmsg_len;
    memcpy(at, &a, sizeof(a));
    memcpy(at + NLA_HDRLEN, data, n);
    q->h.nlmsg_len += (uint32_t)(NLA_HDRLEN + NLA_ALIGN(n));
}

static int ask(int fd, const struct request *q)
{
    char in[4096];
    if (send(fd, q, q->h.nlmsg_len, 0) < 0) {
        return -errno;
    }
    ssize_t n = recv(fd, in, sizeof(in), 0);
    return n < 0 ? -errno : nflog_answer(in, (size_t)n);
}

/* Joins the group; then how much of a packet, and when: heads only, in batches, soon. */
static int configure(int fd)
{
    const struct nfulnl_msg_config_cmd bind_it = {.command = NFULNL_CFG_CMD_BIND};
    const struct nfulnl_msg_config_mode mode = {.copy_range = htonl(EGRESS_PACKET_HEAD),
                                                .copy_mode = NFULNL_COPY_PACKET};
    const uint32_t batch = htonl(EGRESS_PACKET_BATCH), wait = htonl(EGRESS_PACKET_WAIT_CS);
    const uint16_t flags = htons(NFULNL_CFG_F_SEQ);
    struct request q;
    request_init(&q);
    put(&q, NFULA_CFG_CMD, &bind_it, sizeof(bind_it));
    int r = ask(fd, &q);
    if (r < 0) {
        return r;
    }
    request_init(&q);
    put(&q, NFULA_CFG_MODE, &mode, sizeof(mode));
    put(&q, NFULA_CFG_TIMEOUT, &wait, sizeof(wait));
    put(&q, NFULA_CFG_QTHRESH, &batch, sizeof(batch));
    put(&q, NFULA_CFG_FLAGS, &flags, sizeof(flags));
    return ask(fd, &q);
}

static void on_packet(const struct nflog_packet *p, void *arg)
{
    struct packets *k = arg;
    char to[NFLOG_TEXT_MAX], from[NFLOG_TEXT_MAX], detail[NFLOG_TEXT_MAX + 8];
    if (p->has_seq) {
        k->n_lost += p->seq - k->next_seq;
        k->next_seq = p->seq + 1;
    }
    k->n_seen++;
    if (!io_timer_armed(&k->settle)) {
        io_timer_start(&k->settle, EGRESS_PACKET_SETTLE_MS);
    }
    (void)snprintf(detail, sizeof(detail), "from %s", nflog_source(p, from));
    egress_refused(k->g, str_eq(p->prefix, STR(PACKETS_INVALID)) ? "invalid" : "packet",
                   str_from(nflog_target(p, to)), str_from(detail));
}

/* Nothing is hidden behind a flood: what was not listed is at least counted. The rules leave
 * packets out only when there were that many before. */
static void on_settle(struct io_timer *t)
{
    struct packets *k = container_of(t, struct packets, settle);
    uint64_t n = k->n_lost;
    if (k->n_seen >= EGRESS_PACKETS_PER_S) {
        n += enforcer_take_untold(k->g->enforcer);
    }
    if (n) {
        events_untold(k->g->events, n);
    }
    k->n_lost = k->n_seen = 0;
}

static void on_readable(struct io_stream *s, unsigned events, void *arg)
{
    struct packets *k = arg;
    _Alignas(struct nlmsghdr) char in[EGRESS_PACKET_BUFFER];
    for (int i = 0; i < EGRESS_PACKET_READS; i++) { /* the sandbox must not keep us from others */
        struct sockaddr_nl from = {0};
        socklen_t len = sizeof(from);
        ssize_t n = recvfrom(io_stream_fd(s), in, sizeof(in), 0, (struct sockaddr *)&from, &len);
        if (n < 0 && errno == ENOBUFS) { /* what is missing shows in the numbers of the next ones */
            continue;
        }
        if (n < 0) {
            return;
        }
        if (from.nl_pid == 0) { /* the kernel, nobody else */
            (void)nflog_parse(in, (size_t)n, on_packet, k);
        }
    }
}

struct packets *packets_new(struct egress *g, struct err *e)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    const struct timeval limit = {.tv_sec = 5};
    const int room = EGRESS_PACKET_SOCKET;
    if (fd < 0) {
        (void)err_sys(e, errno, "netlink");
        return NULL;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)); /* else the default */
    int r = configure(fd);
    r = r < 0 ? r : fd_set_nonblock(fd, true);
    if (r < 0) {
        (void)close(fd);
        (void)err_sys(e, r, "join the kernel's log of packets");
        return NULL;
    }
    struct packets *k = NEW(struct packets);
    k->g = g;
    io_timer_init(&k->settle, g->loop, on_settle);
    k->sock = io_stream_from_fd(g->loop, fd, on_readable, k);
    must(k->sock);
    io_stream_want(k->sock, IO_READABLE);
    return k;
}

void packets_free(struct packets *k)
{
    if (k) {
        io_timer_stop(&k->settle);
        io_stream_close(k->sock);
        free(k);
    }
}
