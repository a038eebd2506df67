/* Bridge, addresses, and the pool of network namespaces. */

#include "server/runtime/oci/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "server/runtime/oci/idrange.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/net6.h"
#include "server/runtime/oci/netns.h"
#include "server/runtime/oci/nft.h"
#include "server/runtime/oci/resolv.h"

struct spare {
    struct list node;
    struct net_lease lease;
    uint64_t ready_ms; /* monotonic: not before */
};

struct network {
    pthread_mutex_t lock;
    struct list ready, resting; /* struct spare; `resting` in the order of ready_ms */
    unsigned n_ready, n_resting, want_ready;
    bool off, recycle;
    pthread_mutex_t nl_lock;
    struct netlink host; /* speaks for the host's namespace */
    char bridge[LINK_NAME_MAX];
    int bridge_index;
    uint32_t mtu;
    uint32_t gateway; /* host byte order */
    uint8_t bits;
    struct net6 v6;
    struct idrange addrs; /* one "range" of one address each */
    struct idrange names; /* numbers in the names of the host's ends */
    struct ip resolvers[OCI_RESOLVERS_MAX];
    size_t n_resolvers;
};

void network_ip_format(uint32_t ip, char out[16])
{
    struct in_addr a = {.s_addr = htonl(ip)};
    if (!ip || !inet_ntop(AF_INET, &a, out, 16)) {
        out[0] = 0;
    }
}

bool network_is_off(const struct network *n)
{
    return n->off;
}

bool network_has_ipv6(const struct network *n)
{
    return !n->off && n->v6.on;
}

/* The device of the default route, for its MTU: packets must fit through the narrowest hop we know.
 */
static uint32_t uplink_mtu(void)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(256u << 10);
    if (file_read(AT_FDCWD, "/proc/net/route", &text) < 0) {
        return 0;
    }
    struct str rest = buf_str(&text);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        struct str dev = str_trim(str_cut(&line, '\t'));
        struct str dest = str_cut(&line, '\t');
        if (str_eq(dest, STR("00000000")) && dev.n < LINK_NAME_MAX) {
            char path[64];
            cleanup_(buf_done) struct buf value = BUF_INIT(64);
            uint32_t mtu = 0;
            (void)snprintf(path, sizeof(path), "/sys/class/net/%.*s/mtu", STR_FMT(dev));
            if (file_read(AT_FDCWD, path, &value) == 0) {
                struct str v = buf_str(&value);
                (void)parse_u32(str_cut(&v, '\n'), &mtu);
            }
            return mtu;
        }
    }
    return 0;
}

static int subnet_init(struct network *n, const struct config_oci *cfg, struct cidr *ret,
                       struct err *e)
{
    if (cidr_parse(str_from(cfg->subnet), ret) < 0 || ret->net.family != 4 || ret->bits > 29 ||
        ret->bits < 8) {
        return err_set(e, ERR_INVALID, "[oci].subnet '%s' is not an IPv4 network from /8 to /29",
                       cfg->subnet);
    }
    const uint8_t *b = ret->net.b;
    uint32_t first = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    n->bits = ret->bits;
    n->gateway = first + 1;
    /* Without network, gateway and broadcast address. */
    uint32_t usable = (1u << (32 - ret->bits)) - 3;
    if (idrange_init(&n->addrs, first + 2, 1, MIN(usable, 65533u), e) < 0) {
        return -1;
    }
    return idrange_init(&n->names, 1, 1, 65535, e);
}

static int bridge_init(struct network *n, const struct config_oci *cfg, struct err *e)
{
    int r = netlink_open(&n->host);
    if (r < 0) {
        return err_sys(e, r, "rtnetlink");
    }
    n->bridge_index = link_index(&n->host, n->bridge);
    if (n->bridge_index == -ENODEV) {
        r = link_add_bridge(&n->host, n->bridge);
        if (r < 0) {
            return err_sys(e, r, "make the bridge %s", n->bridge);
        }
        n->bridge_index = link_index(&n->host, n->bridge);
    }
    if (n->bridge_index < 0) {
        return err_sys(e, n->bridge_index, "bridge %s", n->bridge);
    }
    r = addr_add(&n->host, n->bridge_index, htonl(n->gateway), n->bits);
    if (r < 0 && r != -EEXIST) {
        return err_sys(e, r, "address of the bridge %s", n->bridge);
    }
    if (net6_bridge(&n->v6, &n->host, n->bridge_index, n->gateway, e) < 0) {
        return -1;
    }
    r = link_up(&n->host, n->bridge_index);
    if (r < 0) {
        return err_sys(e, r, "bring up the bridge %s", n->bridge);
    }
    r = file_write(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", STR("1"));
    return r < 0 ? err_sys(e, r, "switch on IPv4 forwarding") : 0;
}

static int resolvers_init(struct network *n, const struct config_oci *cfg, struct err *e)
{
    for (size_t i = 0; i < cfg->dns.n && i < OCI_RESOLVERS_MAX; i++) {
        if (ip_parse(str_from(cfg->dns.v[i]), &n->resolvers[n->n_resolvers]) < 0) {
            return err_set(e, ERR_INVALID, "[oci].dns: '%s' is not an address", cfg->dns.v[i]);
        }
        n->n_resolvers++;
    }
    if (!cfg->dns.n) {
        n->n_resolvers = resolv_host(n->resolvers, OCI_RESOLVERS_MAX);
    }
    if (!n->n_resolvers) {
        log_warn("sandboxes will not resolve names: this host has no name server they could reach; "
                 "set [oci].dns");
    }
    return 0;
}

static int rules_init(struct network *n, const struct config_oci *cfg, const struct cidr *subnet,
                      struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(256u << 10);
    struct nft_rules rules = {
        .table = cfg->nft_table,
        .bridge = n->bridge,
        .subnet = *subnet,
        .subnet6 = n->v6.on ? &n->v6.prefix : NULL,
        .blocked = &cfg->blocked_networks,
        .allowed = &cfg->allowed_networks,
        .resolvers = n->resolvers,
        .n_resolvers = n->n_resolvers,
    };
    if (nft_rules_format(&rules, &text, e) < 0 || nft_apply(buf_cstr(&text), e) < 0) {
        return err_wrap(e, "sandbox network (set [oci].network = \"none\" to go without)");
    }
    return 0;
}

struct network *network_new(const struct config_oci *cfg, struct err *e)
{
    struct network *n = NEW(struct network);
    struct cidr subnet;
    (void)pthread_mutex_init(&n->lock, NULL);
    (void)pthread_mutex_init(&n->nl_lock, NULL);
    list_init(&n->ready);
    list_init(&n->resting);
    n->host.fd = -1;
    n->want_ready = (unsigned)cfg->netns_pool;
    n->off = strcmp(cfg->network, "none") == 0;
    /* With a user namespace nothing inside can have changed the network namespace. */
    n->recycle = cfg->user_namespace;
    (void)snprintf(n->bridge, sizeof(n->bridge), "%s", cfg->bridge);
    if (!n->off &&
        (strlen(cfg->bridge) > LINK_NAME_MAX - 1 - 6 || subnet_init(n, cfg, &subnet, e) < 0 ||
         resolvers_init(n, cfg, e) < 0 || net6_init(&n->v6, cfg, &subnet, e) < 0 ||
         rules_init(n, cfg, &subnet, e) < 0 || bridge_init(n, cfg, e) < 0)) {
        if (strlen(cfg->bridge) > LINK_NAME_MAX - 1 - 6) {
            (void)err_set(e, ERR_INVALID, "[oci].bridge: at most %d characters",
                          LINK_NAME_MAX - 1 - 6);
        }
        network_free(n);
        return NULL;
    }
    if (n->off) { /* there may have been a network before */
        forward6_init(&n->v6.forward, cfg->run_dir, cfg->bridge, false);
        net6_end(&n->v6);
    }
    n->mtu = n->off ? 0 : uplink_mtu();
    return n;
}

/* "<bridge>-<number in hex>" */
static int link_number(const struct network *n, const char *name)
{
    size_t len = strlen(n->bridge);
    uint64_t v;
    if (strncmp(name, n->bridge, len) != 0 || name[len] != '-' ||
        parse_u64_hex(str_from(name + len + 1), &v) < 0 || v < 1 || v > n->names.n) {
        return -1;
    }
    return (int)v - 1;
}

/* Forgets address and name; closing the namespace takes the veth pair with it. */
static void lease_drop(struct network *n, struct net_lease *l)
{
    if (l->ns_fd >= 0) {
        (void)close(l->ns_fd);
    }
    if (l->ip) {
        idrange_release(&n->addrs, l->ip - n->addrs.base);
    }
    int number = l->link[0] ? link_number(n, l->link) : -1;
    if (number >= 0) {
        idrange_release(&n->names, (uint32_t)number);
    }
    *l = NET_LEASE_NONE;
}

/* Takes the veth pair away now: what is left to the kernel's own clearing up keeps its port of the
 * bridge for seconds. Then name and address are free again. */
static void link_drop(struct network *n, const char *link, uint32_t ip)
{
    (void)pthread_mutex_lock(&n->nl_lock);
    int r = link_del(&n->host, link);
    (void)pthread_mutex_unlock(&n->nl_lock);
    if (r < 0 && r != -ENODEV) {
        log_warn("cannot remove a veth pair", LOG_S("link", link), LOG_I("errno", -r));
    }
    idrange_release(&n->addrs, ip - n->addrs.base);
    int number = link_number(n, link);
    if (number >= 0) {
        idrange_release(&n->names, (uint32_t)number);
    }
}

/* A bridge has no more than 1,023 ports, and a small subnet few addresses: where they run short,
 * what rests longest gives up both. Its namespace stays until it has rested. False: nothing rests.
 */
static bool resting_relieve(struct network *n)
{
    struct net_lease l = NET_LEASE_NONE;
    (void)pthread_mutex_lock(&n->lock);
    list_each (it, &n->resting) {
        struct spare *s = list_entry(it, struct spare, node);
        if (s->lease.link[0]) {
            l = s->lease;
            s->lease = (struct net_lease){.ns_fd = l.ns_fd};
            break;
        }
    }
    (void)pthread_mutex_unlock(&n->lock);
    if (!l.link[0]) {
        return false;
    }
    link_drop(n, l.link, l.ip);
    return true;
}

static void spare_free(struct network *n, struct spare *s)
{
    if (s->lease.link[0]) {
        link_drop(n, s->lease.link, s->lease.ip);
        s->lease = (struct net_lease){.ns_fd = s->lease.ns_fd};
    }
    lease_drop(n, &s->lease);
    free(s);
}

void network_end(struct network *n)
{
    net6_end(&n->v6);
}

void network_free(struct network *n)
{
    if (!n) {
        return;
    }
    struct list *node;
    while ((node = list_pop_front(&n->ready)) || (node = list_pop_front(&n->resting))) {
        struct spare *s = list_entry(node, struct spare, node);
        lease_drop(n, &s->lease);
        free(s);
    }
    netlink_close(&n->host);
    idrange_done(&n->addrs);
    idrange_done(&n->names);
    (void)pthread_mutex_destroy(&n->lock);
    (void)pthread_mutex_destroy(&n->nl_lock);
    free(n);
}

/* ---- one namespace ---- */

struct address_change {
    struct network *net;
    uint32_t old_ip, new_ip; /* 0: none */
};

/* Inside: gives eth0 its address and the way out. */
static int address_set(void *arg)
{
    struct address_change *c = arg;
    struct netlink nl = NETLINK_INIT;
    int r = netlink_open(&nl);
    if (r < 0) {
        return r;
    }
    int eth = link_index(&nl, "eth0");
    r = eth < 0 ? eth : 0;
    if (r == 0 && c->old_ip) {
        r = addr_del(&nl, eth, htonl(c->old_ip), c->net->bits);
    }
    if (r == 0) {
        r = addr_add(&nl, eth, htonl(c->new_ip), c->net->bits);
    }
    if (r == 0 && !c->old_ip) {
        r = link_up(&nl, eth);
    }
    if (r == 0) {
        r = route_add_default(&nl, eth, htonl(c->net->gateway));
    }
    if (r == 0 && c->net->v6.on) {
        const struct net6 *v6 = &c->net->v6;
        struct ip old = net6_addr(v6, c->old_ip), new = net6_addr(v6, c->new_ip),
                  via = net6_addr(v6, c->net->gateway);
        r = net6_link(&nl, "eth0", eth, c->old_ip ? &old : NULL, &new, &via);
    }
    netlink_close(&nl);
    return r;
}

static int host_end_make(struct network *n, struct net_lease *l)
{
    (void)pthread_mutex_lock(&n->nl_lock);
    int r = link_add_veth(&n->host, l->link, "eth0", l->ns_fd, n->mtu);
    if (r == -EEXIST) { /* of a namespace that is about to vanish: the number was free */
        (void)link_del(&n->host, l->link);
        r = link_add_veth(&n->host, l->link, "eth0", l->ns_fd, n->mtu);
    }
    int index = r < 0 ? r : link_index(&n->host, l->link);
    r = index < 0 ? index : link_enslave_isolated(&n->host, index, n->bridge_index);
    if (r == 0) {
        r = link_up(&n->host, index);
    }
    (void)pthread_mutex_unlock(&n->nl_lock);
    return r;
}

/* An address and a port of the bridge for the namespace. -ENOSPC: no address, -EXFULL: no port. */
static int lease_connect(struct network *n, struct net_lease *l)
{
    int addr = idrange_take(&n->addrs), number = idrange_take(&n->names);
    if (addr >= 0) {
        l->ip = idrange_first(&n->addrs, (uint32_t)addr);
    }
    if (number >= 0) {
        (void)snprintf(l->link, sizeof(l->link), "%.9s-%x", n->bridge,
                       ((unsigned)number + 1) & 0xffff);
    }
    int r = addr < 0 || number < 0 ? -ENOSPC : host_end_make(n, l);
    if (r == 0) {
        struct address_change c = {.net = n, .new_ip = l->ip};
        return netns_run(l->ns_fd, address_set, &c);
    }
    if (addr >= 0 && number >= 0) {
        link_drop(n, l->link, l->ip); /* the pair may be there, without a port */
    } else if (addr >= 0) {
        idrange_release(&n->addrs, (uint32_t)addr);
    } else if (number >= 0) {
        idrange_release(&n->names, (uint32_t)number);
    }
    *l = (struct net_lease){.ns_fd = l->ns_fd};
    return r;
}

static int lease_make(struct network *n, bool outbound, struct net_lease *ret, struct err *e)
{
    *ret = NET_LEASE_NONE;
    ret->ns_fd = netns_make(e);
    if (ret->ns_fd < 0 || !outbound) {
        return ret->ns_fd < 0 ? -1 : 0;
    }
    int r;
    do {
        r = lease_connect(n, ret);
    } while ((r == -ENOSPC || r == -EXFULL) && resting_relieve(n));
    if (r == 0) {
        return 0;
    }
    lease_drop(n, ret);
    if (r == -ENOSPC) {
        return err_set(e, ERR_LIMIT, "no free address in [oci].subnet");
    }
    if (r == -EXFULL) {
        return err_set(e, ERR_LIMIT, "the bridge %s has no free port: it takes 1,023 sandboxes",
                       n->bridge);
    }
    return err_sys(e, r, "connect a network namespace to %s", n->bridge);
}

int network_take(struct network *n, bool outbound, struct net_lease *ret, struct err *e)
{
    if (!outbound || n->off) {
        return lease_make(n, false, ret, e);
    }
    (void)pthread_mutex_lock(&n->lock);
    struct list *node = list_pop_front(&n->ready);
    n->n_ready -= node != NULL;
    (void)pthread_mutex_unlock(&n->lock);
    if (!node) {
        return lease_make(n, true, ret, e);
    }
    struct spare *s = list_entry(node, struct spare, node);
    *ret = s->lease;
    free(s);
    return 0;
}

void network_give_back(struct network *n, struct net_lease *l)
{
    if (l->ns_fd < 0) {
        return;
    }
    struct spare *s = NEW(struct spare);
    s->lease = *l;
    s->ready_ms = clock_mono_ms() + OCI_NETNS_QUARANTINE_MS;
    list_init(&s->node);
    *l = NET_LEASE_NONE;
    /* Even what is not used again rests: a connection attempt may hold its descriptor's number. */
    (void)pthread_mutex_lock(&n->lock);
    list_push_back(&n->resting, &s->node);
    n->n_resting++;
    (void)pthread_mutex_unlock(&n->lock);
}

int network_adopt(struct network *n, int pid, uint32_t ip, const char *link, struct net_lease *ret,
                  struct err *e)
{
    *ret = NET_LEASE_NONE;
    ret->ns_fd = netns_of_pid(pid, e);
    if (ret->ns_fd < 0) {
        return -1;
    }
    if (ip && !n->off && ip >= n->addrs.base && ip - n->addrs.base < n->addrs.n) {
        (void)idrange_reserve(&n->addrs, ip - n->addrs.base);
        ret->ip = ip;
        (void)snprintf(ret->link, sizeof(ret->link), "%s", link);
        int number = link_number(n, link);
        if (number >= 0) {
            (void)idrange_reserve(&n->names, (uint32_t)number);
        }
    }
    return 0;
}

int network_counters(struct network *n, const struct net_lease *l, struct link_counters *ret)
{
    *ret = (struct link_counters){0};
    if (!l->link[0]) {
        return 0;
    }
    struct link_counters c;
    (void)pthread_mutex_lock(&n->nl_lock);
    int r = link_counters(&n->host, l->link, &c);
    (void)pthread_mutex_unlock(&n->nl_lock);
    if (r < 0) {
        return r;
    }
    /* What the host's end received is what the sandbox sent. */
    ret->rx_bytes = c.tx_bytes - l->base.tx_bytes;
    ret->tx_bytes = c.rx_bytes - l->base.rx_bytes;
    return 0;
}

/* ---- the pool ---- */

static int sockets_gone(void *arg)
{
    (void)arg;
    return sockets_destroy();
}

/* A used namespace becomes one like new: no socket left, another address. False: not possible. */
static bool lease_renew(struct network *n, struct net_lease *l)
{
    if (!l->ip || netns_run(l->ns_fd, sockets_gone, NULL) != 0) {
        return false;
    }
    int addr = idrange_take(&n->addrs);
    if (addr < 0) {
        return false;
    }
    struct address_change c = {
        .net = n, .old_ip = l->ip, .new_ip = idrange_first(&n->addrs, (uint32_t)addr)};
    if (netns_run(l->ns_fd, address_set, &c) < 0) {
        idrange_release(&n->addrs, (uint32_t)addr);
        return false;
    }
    idrange_release(&n->addrs, l->ip - n->addrs.base);
    l->ip = c.new_ip;
    (void)pthread_mutex_lock(&n->nl_lock);
    int r = link_counters(&n->host, l->link, &l->base);
    (void)pthread_mutex_unlock(&n->nl_lock);
    return r == 0;
}

static struct spare *resting_due(struct network *n, bool *ret_keep)
{
    struct spare *s = NULL;
    (void)pthread_mutex_lock(&n->lock);
    struct list *node = list_first(&n->resting);
    if (node && list_entry(node, struct spare, node)->ready_ms <= clock_mono_ms()) {
        s = list_entry(list_pop_front(&n->resting), struct spare, node);
        n->n_resting--;
        *ret_keep = n->recycle && !s->lease.once && n->n_ready < OCI_NETNS_RECYCLE_MAX;
    }
    (void)pthread_mutex_unlock(&n->lock);
    return s;
}

static void ready_add(struct network *n, struct spare *s)
{
    (void)pthread_mutex_lock(&n->lock);
    list_push_back(&n->ready, &s->node);
    n->n_ready++;
    (void)pthread_mutex_unlock(&n->lock);
}

bool network_tend(struct network *n)
{
    bool keep = false;
    net6_tend(&n->v6);
    struct spare *s = resting_due(n, &keep);
    if (s) {
        if (keep && lease_renew(n, &s->lease)) {
            ready_add(n, s);
        } else {
            spare_free(n, s);
        }
        return true;
    }
    (void)pthread_mutex_lock(&n->lock);
    bool more = !n->off && n->n_ready < n->want_ready;
    (void)pthread_mutex_unlock(&n->lock);
    if (!more) {
        return false;
    }
    struct err e = {0};
    s = NEW(struct spare);
    list_init(&s->node);
    if (lease_make(n, true, &s->lease, &e) < 0) {
        log_debug("no network namespace for the pool", LOG_ERR(&e));
        free(s);
        return false; /* a create will meet the same reason and say it */
    }
    ready_add(n, s);
    return true;
}

struct port_sweep {
    struct network *net;
    char names[64][LINK_NAME_MAX];
    size_t n;
};

static void on_bridge_port(const char *name, void *arg)
{
    struct port_sweep *s = arg;
    int number = link_number(s->net, name);
    if (number >= 0 && s->n < ARRAY_LEN(s->names) &&
        idrange_reserve(&s->net->names, (uint32_t)number)) {
        (void)snprintf(s->names[s->n++], LINK_NAME_MAX, "%s", name);
    }
}

int network_sweep(struct network *n)
{
    if (n->off) {
        return 0;
    }
    struct port_sweep s = {.net = n};
    int removed = 0;
    (void)pthread_mutex_lock(&n->nl_lock);
    (void)link_each_port(&n->host, n->bridge_index, on_bridge_port, &s);
    for (size_t i = 0; i < s.n; i++) {
        removed += link_del(&n->host, s.names[i]) == 0;
        idrange_release(&n->names, (uint32_t)link_number(n, s.names[i]));
    }
    (void)pthread_mutex_unlock(&n->nl_lock);
    return removed;
}

void network_resolv_conf(const struct network *n, struct buf *out)
{
    char text[IP_TEXT_MAX];
    for (size_t i = 0; i < n->n_resolvers; i++) {
        (void)buf_printf(out, "nameserver %s\n", ip_format(&n->resolvers[i], text));
    }
    (void)buf_add_cstr(out, "options timeout:2 attempts:3\n");
}

void network_resolvers(const struct network *n, struct buf *out)
{
    char text[IP_TEXT_MAX];
    for (size_t i = 0; i < n->n_resolvers; i++) {
        (void)buf_printf(out, "%s%s", i ? "," : "", ip_format(&n->resolvers[i], text));
    }
}
