/* Reading nfnetlink_log. Every length comes from the kernel, but the packet inside comes from the
 * sandbox, and all of it may be cut short. */

#include "egress/nflog.h"

#include <errno.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_log.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"

#define EXTENSIONS_MAX 8 /* headers between IPv6's own and what it carries */

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)get16(p) << 16 | get16(p + 2);
}

/* ---- the packet ---- */

static void read_ports(struct nflog_packet *ret, const uint8_t *p, size_t n)
{
    switch (ret->proto) {
    case IPPROTO_TCP:
    case IPPROTO_UDP:
    case IPPROTO_UDPLITE:
    case IPPROTO_SCTP:
    case IPPROTO_DCCP:
        if (n >= 4) {
            ret->has_ports = true;
            ret->sport = get16(p);
            ret->dport = get16(p + 2);
        }
        break;
    default:
        break;
    }
}

static struct ip address(const uint8_t *p, uint8_t family)
{
    struct ip ip = {.family = family};
    memcpy(ip.b, p, family == 4 ? 4 : 16);
    return ip;
}

static bool read_v4(struct nflog_packet *ret, const uint8_t *p, size_t n)
{
    if (n < 20) {
        return false;
    }
    size_t head = (size_t)(p[0] & 15) * 4;
    bool first = (get16(p + 6) & 0x1fff) == 0;
    ret->proto = p[9];
    ret->src = address(p + 12, 4);
    ret->dst = address(p + 16, 4);
    if (head >= 20 && head < n && first) {
        read_ports(ret, p + head, n - head);
    }
    return true;
}

static bool read_v6(struct nflog_packet *ret, const uint8_t *p, size_t n)
{
    size_t at = 40;
    bool first = true;
    if (n < at) {
        return false;
    }
    ret->proto = p[6];
    ret->src = address(p + 8, 6);
    ret->dst = address(p + 24, 6);
    for (int i = 0; i < EXTENSIONS_MAX && n - at >= 8; i++) {
        size_t len = ((size_t)p[at + 1] + 1) * 8;
        if (ret->proto == IPPROTO_FRAGMENT) {
            first = first && (get16(p + at + 2) & 0xfff8) == 0;
            len = 8;
        } else if (ret->proto != IPPROTO_HOPOPTS && ret->proto != IPPROTO_ROUTING &&
                   ret->proto != IPPROTO_DSTOPTS) {
            break;
        }
        ret->proto = p[at];
        at = MIN(at + len, n);
    }
    if (first) {
        read_ports(ret, p + at, n - at);
    }
    return true;
}

static bool read_packet(struct nflog_packet *ret, const uint8_t *p, size_t n)
{
    return n && p[0] >> 4 == 4   ? read_v4(ret, p, n)
           : n && p[0] >> 4 == 6 ? read_v6(ret, p, n)
                                 : false;
}

/* ---- the message ---- */

static bool read_attr(struct nflog_packet *ret, uint16_t type, const uint8_t *p, size_t n)
{
    switch (type) {
    case NFULA_PAYLOAD:
        return read_packet(ret, p, n);
    case NFULA_PREFIX:
        ret->prefix = str_n((const char *)p, strnlen((const char *)p, n));
        return false;
    case NFULA_SEQ:
        ret->has_seq = n == 4;
        ret->seq = n == 4 ? get32(p) : 0;
        return false;
    default:
        return false;
    }
}

static bool read_message(struct nflog_packet *ret, const uint8_t *p, size_t n)
{
    bool found = false;
    size_t at = NLMSG_ALIGN(sizeof(struct nfgenmsg));
    *ret = (struct nflog_packet){0};
    while (at < n && n - at >= sizeof(struct nlattr)) {
        struct nlattr a;
        memcpy(&a, p + at, sizeof(a));
        if (a.nla_len < NLA_HDRLEN || a.nla_len > n - at) {
            break;
        }
        found = read_attr(ret, a.nla_type & NLA_TYPE_MASK, p + at + NLA_HDRLEN,
                          (size_t)a.nla_len - NLA_HDRLEN) ||
                found;
        at += MIN((size_t)NLA_ALIGN(a.nla_len), n - at);
    }
    return found;
}

/* The next message of a datagram; false at its end. */
static bool next(const uint8_t **p, size_t *n, struct nlmsghdr *ret_head, const uint8_t **ret_body,
                 size_t *ret_len)
{
    if (*n < NLMSG_HDRLEN) {
        return false;
    }
    memcpy(ret_head, *p, sizeof(*ret_head));
    if (ret_head->nlmsg_len < NLMSG_HDRLEN || ret_head->nlmsg_len > *n) {
        return false;
    }
    *ret_body = *p + NLMSG_HDRLEN;
    *ret_len = ret_head->nlmsg_len - NLMSG_HDRLEN;
    size_t step = MIN((size_t)NLMSG_ALIGN(ret_head->nlmsg_len), *n);
    *p += step;
    *n -= step;
    return true;
}

size_t nflog_parse(const void *data, size_t n, nflog_fn *fn, void *arg)
{
    const uint8_t *p = data, *body;
    struct nlmsghdr head;
    size_t len, bad = 0;
    while (next(&p, &n, &head, &body, &len)) {
        struct nflog_packet packet;
        if (head.nlmsg_type != (NFNL_SUBSYS_ULOG << 8 | NFULNL_MSG_PACKET)) {
            continue;
        }
        if (read_message(&packet, body, len)) {
            fn(&packet, arg);
        } else {
            bad++;
        }
    }
    return bad;
}

int nflog_answer(const void *data, size_t n)
{
    const uint8_t *p = data, *body;
    struct nlmsghdr head;
    size_t len;
    while (next(&p, &n, &head, &body, &len)) {
        struct nlmsgerr err;
        if (head.nlmsg_type == NLMSG_ERROR && len >= sizeof(err)) {
            memcpy(&err, body, sizeof(err));
            return err.error > 0 ? -EBADMSG : err.error;
        }
    }
    return -EBADMSG;
}

/* ---- text ---- */

static const char *format(const struct ip *ip, const struct nflog_packet *p, uint16_t port,
                          char out[NFLOG_TEXT_MAX])
{
    static const struct {
        uint8_t proto;
        const char *name;
    } known[] = {
        {IPPROTO_ICMP, "icmp"},       {IPPROTO_TCP, "tcp"},   {IPPROTO_UDP, "udp"},
        {IPPROTO_ICMPV6, "icmpv6"},   {IPPROTO_SCTP, "sctp"}, {IPPROTO_DCCP, "dccp"},
        {IPPROTO_UDPLITE, "udplite"},
    };
    char text[IP_TEXT_MAX], where[IP_TEXT_MAX + 8], number[8];
    const char *name = number;
    (void)snprintf(number, sizeof(number), "%u", p->proto);
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        name = known[i].proto == p->proto ? known[i].name : name;
    }
    (void)ip_format(ip, text);
    if (p->has_ports) {
        (void)snprintf(where, sizeof(where), ip->family == 6 ? "[%s]:%u" : "%s:%u", text, port);
    } else {
        (void)snprintf(where, sizeof(where), "%s", text);
    }
    (void)snprintf(out, NFLOG_TEXT_MAX, "%s/%s", where, name);
    return out;
}

const char *nflog_target(const struct nflog_packet *p, char out[NFLOG_TEXT_MAX])
{
    return format(&p->dst, p, p->dport, out);
}

const char *nflog_source(const struct nflog_packet *p, char out[NFLOG_TEXT_MAX])
{
    return format(&p->src, p, p->sport, out);
}
