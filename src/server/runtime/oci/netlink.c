/* rtnetlink by hand: building requests, reading answers. */

#include "server/runtime/oci/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/must.h"
#include "base/rand.h"

struct request {
    struct nlmsghdr h;
    char body[1024];
};

static void *request_tail(struct request *q)
{
    return (char *)q + NLMSG_ALIGN(q->h.nlmsg_len);
}

static void put_attr(struct request *q, uint16_t type, const void *data, size_t n)
{
    must(NLMSG_ALIGN(q->h.nlmsg_len) + RTA_SPACE(n) <= sizeof(*q));
    struct rtattr *a = request_tail(q);
    a->rta_type = type;
    a->rta_len = (unsigned short)RTA_LENGTH(n);
    if (n) {
        memcpy(RTA_DATA(a), data, n);
    }
    q->h.nlmsg_len = NLMSG_ALIGN(q->h.nlmsg_len) + (uint32_t)RTA_ALIGN(a->rta_len);
}

static void put_u32(struct request *q, uint16_t type, uint32_t v)
{
    put_attr(q, type, &v, sizeof(v));
}

static void put_text(struct request *q, uint16_t type, const char *s)
{
    put_attr(q, type, s, strlen(s) + 1);
}

static struct rtattr *nest_begin(struct request *q, uint16_t type)
{
    struct rtattr *a = request_tail(q);
    put_attr(q, type, NULL, 0);
    return a;
}

static void nest_end(struct request *q, struct rtattr *a)
{
    a->rta_len = (unsigned short)((char *)request_tail(q) - (char *)a);
}

/* Fixed part behind the header; returns it zeroed. */
static void *request_init(struct request *q, uint16_t type, uint16_t flags, size_t fixed)
{
    memset(q, 0, sizeof(*q));
    q->h.nlmsg_type = type;
    q->h.nlmsg_flags = NLM_F_REQUEST | flags;
    q->h.nlmsg_len = (uint32_t)NLMSG_LENGTH(fixed);
    return NLMSG_DATA(&q->h);
}

static int open_family(int family)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
    if (fd < 0) {
        return -errno;
    }
    struct timeval limit = {.tv_sec = 5};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    return fd;
}

int netlink_open(struct netlink *n)
{
    int fd = open_family(NETLINK_ROUTE);
    if (fd < 0) {
        return fd;
    }
    *n = (struct netlink){.fd = fd, .seq = 1};
    return 0;
}

void netlink_close(struct netlink *n)
{
    if (n->fd >= 0) {
        (void)close(n->fd);
    }
    n->fd = -1;
}

typedef int answer_fn(struct nlmsghdr *h, void *arg);

/* Sends the request and reads until its end; other answers go to fn (may be NULL). */
static int transact(struct netlink *n, struct request *q, answer_fn *fn, void *arg)
{
    bool dump = (q->h.nlmsg_flags & NLM_F_DUMP) == NLM_F_DUMP;
    q->h.nlmsg_seq = ++n->seq;
    q->h.nlmsg_flags |= dump ? 0 : NLM_F_ACK;
    if (send(n->fd, q, q->h.nlmsg_len, 0) < 0) {
        return -errno;
    }
    _Alignas(struct nlmsghdr) char in[32768];
    for (;;) {
        ssize_t len = recv(n->fd, in, sizeof(in), 0);
        if (len < 0) {
            if (errno == EINTR) {
                continue;
            }
            return errno == EAGAIN ? -ETIMEDOUT : -errno;
        }
        uint32_t left = (uint32_t)len;
        for (struct nlmsghdr *h = (void *)in; NLMSG_OK(h, left); h = NLMSG_NEXT(h, left)) {
            if (h->nlmsg_seq != n->seq) {
                continue; /* left over from a request that timed out */
            }
            if (h->nlmsg_type == NLMSG_ERROR) {
                return ((struct nlmsgerr *)NLMSG_DATA(h))->error;
            }
            if (h->nlmsg_type == NLMSG_DONE) {
                return 0;
            }
            int r = fn ? fn(h, arg) : 0;
            if (r < 0) {
                return r;
            }
        }
    }
}

static struct rtattr *find_attr(struct rtattr *a, int len, uint16_t type)
{
    for (; RTA_OK(a, len); a = RTA_NEXT(a, len)) {
        if ((a->rta_type & NLA_TYPE_MASK) == type) {
            return a;
        }
    }
    return NULL;
}

static struct rtattr *link_attr(struct nlmsghdr *h, uint16_t type)
{
    if (h->nlmsg_type != RTM_NEWLINK) {
        return NULL;
    }
    return find_attr(IFLA_RTA(NLMSG_DATA(h)), (int)IFLA_PAYLOAD(h), type);
}

static int on_link_index(struct nlmsghdr *h, void *arg)
{
    if (h->nlmsg_type == RTM_NEWLINK) {
        *(int *)arg = ((struct ifinfomsg *)NLMSG_DATA(h))->ifi_index;
    }
    return 0;
}

int link_index(struct netlink *n, const char *name)
{
    struct request q;
    int index = 0;
    request_init(&q, RTM_GETLINK, 0, sizeof(struct ifinfomsg));
    put_text(&q, IFLA_IFNAME, name);
    int r = transact(n, &q, on_link_index, &index);
    return r < 0 ? r : index > 0 ? index : -ENODEV;
}

int link_add_bridge(struct netlink *n, const char *name)
{
    struct request q;
    request_init(&q, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct ifinfomsg));
    put_text(&q, IFLA_IFNAME, name);
    /* An address of its own: else it has that of one of its ports, and changes it under everybody's
     * neighbour tables when that one leaves. */
    uint8_t mac[6];
    rand_bytes(mac, sizeof(mac));
    mac[0] = 0x02; /* locally administered, unicast */
    put_attr(&q, IFLA_ADDRESS, mac, sizeof(mac));
    struct rtattr *info = nest_begin(&q, IFLA_LINKINFO);
    put_text(&q, IFLA_INFO_KIND, "bridge");
    nest_end(&q, info);
    return transact(n, &q, NULL, NULL);
}

int link_add_veth(struct netlink *n, const char *name, const char *peer, int peer_ns_fd,
                  uint32_t mtu)
{
    struct request q;
    request_init(&q, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL, sizeof(struct ifinfomsg));
    put_text(&q, IFLA_IFNAME, name);
    if (mtu) {
        put_u32(&q, IFLA_MTU, mtu);
    }
    struct rtattr *info = nest_begin(&q, IFLA_LINKINFO);
    put_text(&q, IFLA_INFO_KIND, "veth");
    struct rtattr *data = nest_begin(&q, IFLA_INFO_DATA);
    struct rtattr *other = nest_begin(&q, VETH_INFO_PEER);
    /* The peer begins with an ifinfomsg of its own. */
    q.h.nlmsg_len += NLMSG_ALIGN(sizeof(struct ifinfomsg));
    put_text(&q, IFLA_IFNAME, peer);
    put_u32(&q, IFLA_NET_NS_FD, (uint32_t)peer_ns_fd);
    if (mtu) {
        put_u32(&q, IFLA_MTU, mtu);
    }
    nest_end(&q, other);
    nest_end(&q, data);
    nest_end(&q, info);
    return transact(n, &q, NULL, NULL);
}

int link_del(struct netlink *n, const char *name)
{
    struct request q;
    request_init(&q, RTM_DELLINK, 0, sizeof(struct ifinfomsg));
    put_text(&q, IFLA_IFNAME, name);
    return transact(n, &q, NULL, NULL);
}

int link_up(struct netlink *n, int index)
{
    struct request q;
    struct ifinfomsg *m = request_init(&q, RTM_NEWLINK, 0, sizeof(*m));
    m->ifi_index = index;
    m->ifi_flags = IFF_UP;
    m->ifi_change = IFF_UP;
    return transact(n, &q, NULL, NULL);
}

int link_enslave_isolated(struct netlink *n, int index, int bridge_index)
{
    struct request q;
    struct ifinfomsg *m = request_init(&q, RTM_NEWLINK, 0, sizeof(*m));
    m->ifi_index = index;
    put_u32(&q, IFLA_MASTER, (uint32_t)bridge_index);
    int r = transact(n, &q, NULL, NULL);
    if (r < 0) {
        return r;
    }
    m = request_init(&q, RTM_SETLINK, 0, sizeof(*m));
    m->ifi_family = AF_BRIDGE;
    m->ifi_index = index;
    uint8_t on = 1;
    struct rtattr *port = nest_begin(&q, IFLA_PROTINFO | NLA_F_NESTED);
    put_attr(&q, IFLA_BRPORT_ISOLATED, &on, sizeof(on));
    nest_end(&q, port);
    return transact(n, &q, NULL, NULL);
}

static int on_link_counters(struct nlmsghdr *h, void *arg)
{
    struct link_counters *ret = arg;
    struct rtattr *a = link_attr(h, IFLA_STATS64);
    if (a && RTA_PAYLOAD(a) >= offsetof(struct rtnl_link_stats64, rx_errors)) {
        struct rtnl_link_stats64 s = {0};
        memcpy(&s, RTA_DATA(a), MIN(sizeof(s), (size_t)RTA_PAYLOAD(a)));
        *ret = (struct link_counters){.rx_bytes = s.rx_bytes, .tx_bytes = s.tx_bytes};
    }
    return 0;
}

int link_counters(struct netlink *n, const char *name, struct link_counters *ret)
{
    struct request q;
    *ret = (struct link_counters){0};
    request_init(&q, RTM_GETLINK, 0, sizeof(struct ifinfomsg));
    put_text(&q, IFLA_IFNAME, name);
    return transact(n, &q, on_link_counters, ret);
}

static int addr_change(struct netlink *n, uint16_t type, uint16_t flags, int index, uint32_t ip_be,
                       uint8_t prefix_len)
{
    struct request q;
    struct ifaddrmsg *m = request_init(&q, type, flags, sizeof(*m));
    m->ifa_family = AF_INET;
    m->ifa_prefixlen = prefix_len;
    m->ifa_index = (uint32_t)index;
    put_u32(&q, IFA_LOCAL, ip_be);
    put_u32(&q, IFA_ADDRESS, ip_be);
    return transact(n, &q, NULL, NULL);
}

int addr_add(struct netlink *n, int index, uint32_t ip_be, uint8_t prefix_len)
{
    return addr_change(n, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, index, ip_be, prefix_len);
}

int addr_del(struct netlink *n, int index, uint32_t ip_be, uint8_t prefix_len)
{
    return addr_change(n, RTM_DELADDR, 0, index, ip_be, prefix_len);
}

static int route_default(struct netlink *n, int index, uint8_t family, const void *gateway,
                         size_t len)
{
    struct request q;
    struct rtmsg *m = request_init(&q, RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL, sizeof(*m));
    m->rtm_family = family;
    m->rtm_table = RT_TABLE_MAIN;
    m->rtm_protocol = RTPROT_BOOT;
    m->rtm_scope = RT_SCOPE_UNIVERSE;
    m->rtm_type = RTN_UNICAST;
    put_attr(&q, RTA_GATEWAY, gateway, len);
    put_u32(&q, RTA_OIF, (uint32_t)index);
    return transact(n, &q, NULL, NULL);
}

int route_add_default(struct netlink *n, int index, uint32_t gateway_be)
{
    return route_default(n, index, AF_INET, &gateway_be, sizeof(gateway_be));
}

static int addr6_change(struct netlink *n, uint16_t type, uint16_t flags, int index,
                        const uint8_t ip[16], uint8_t prefix_len)
{
    struct request q;
    struct ifaddrmsg *m = request_init(&q, type, flags, sizeof(*m));
    m->ifa_family = AF_INET6;
    m->ifa_prefixlen = prefix_len;
    m->ifa_flags = IFA_F_NODAD;
    m->ifa_index = (uint32_t)index;
    put_attr(&q, IFA_LOCAL, ip, 16);
    put_attr(&q, IFA_ADDRESS, ip, 16);
    return transact(n, &q, NULL, NULL);
}

int addr6_add(struct netlink *n, int index, const uint8_t ip[16], uint8_t prefix_len)
{
    return addr6_change(n, RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL, index, ip, prefix_len);
}

int addr6_del(struct netlink *n, int index, const uint8_t ip[16], uint8_t prefix_len)
{
    return addr6_change(n, RTM_DELADDR, 0, index, ip, prefix_len);
}

int route6_add_default(struct netlink *n, int index, const uint8_t gateway[16])
{
    return route_default(n, index, AF_INET6, gateway, 16);
}

struct port_walk {
    int bridge_index;
    void (*fn)(const char *name, void *arg);
    void *arg;
};

static int on_port(struct nlmsghdr *h, void *arg)
{
    const struct port_walk *w = arg;
    struct rtattr *master = link_attr(h, IFLA_MASTER);
    struct rtattr *name = link_attr(h, IFLA_IFNAME);
    int index = 0;
    if (master && name && RTA_PAYLOAD(master) == sizeof(index)) {
        memcpy(&index, RTA_DATA(master), sizeof(index));
        if (index == w->bridge_index) {
            w->fn(RTA_DATA(name), w->arg);
        }
    }
    return 0;
}

int link_each_port(struct netlink *n, int bridge_index, void (*fn)(const char *name, void *arg),
                   void *arg)
{
    struct request q;
    struct port_walk w = {bridge_index, fn, arg};
    request_init(&q, RTM_GETLINK, NLM_F_DUMP, sizeof(struct ifinfomsg));
    return transact(n, &q, on_port, &w);
}

/* ---- sockets that outlived their process ---- */

#define LEFTOVERS_MAX 256

struct leftovers {
    struct inet_diag_sockid id[LEFTOVERS_MAX];
    uint8_t family[LEFTOVERS_MAX];
    int n, total;
};

static int on_socket(struct nlmsghdr *h, void *arg)
{
    struct leftovers *l = arg;
    const struct inet_diag_msg *m = NLMSG_DATA(h);
    if (l->n < LEFTOVERS_MAX) {
        l->id[l->n] = m->id;
        l->family[l->n++] = m->idiag_family;
    }
    l->total++;
    return 0;
}

static int sockets_dump(struct netlink *n, uint8_t family, struct leftovers *l)
{
    struct request q;
    struct inet_diag_req_v2 *m =
        request_init(&q, SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, sizeof(struct inet_diag_req_v2));
    m->sdiag_family = family;
    m->sdiag_protocol = IPPROTO_TCP;
    m->idiag_states = 0xffffffff;
    return transact(n, &q, on_socket, l);
}

int sockets_destroy(void)
{
    struct netlink n = NETLINK_INIT;
    struct leftovers l = {0};
    n.fd = open_family(NETLINK_SOCK_DIAG);
    if (n.fd < 0) {
        return n.fd;
    }
    int r = sockets_dump(&n, AF_INET, &l);
    r = r < 0 ? r : sockets_dump(&n, AF_INET6, &l);
    int left = l.total;
    for (int i = 0; r == 0 && i < l.n; i++) {
        struct request q;
        struct inet_diag_req_v2 *m =
            request_init(&q, SOCK_DESTROY, 0, sizeof(struct inet_diag_req_v2));
        m->sdiag_family = l.family[i];
        m->sdiag_protocol = IPPROTO_TCP;
        m->id = l.id[i];
        int d = transact(&n, &q, NULL, NULL);
        left -= d == 0 || d == -ENOENT;
    }
    netlink_close(&n);
    return r < 0 ? r : left;
}
