/* How a policy reads in nftables' language.
 *
 * The order of the judging chain is the meaning: neighbour discovery, lookups (they go to our own
 * proxy whatever their destination), connections this policy has judged already, then what is never
 * allowed, denied networks, learned addresses, allowed networks, the fallback. A packet of an old
 * connection that carries the generation of an earlier policy is judged anew; that is how a change
 * cuts connections. For those only, `kept` holds addresses whose time is over but whose name is
 * still allowed. */

#include "egress/ruleset.h"

#include "base/cleanup.h"
#include "base/list.h"
#include "base/must.h"
#include "egress/limits.h"
#include "egress/packets.h"
#include "egress/restore.h"

/* Addresses and names of public resolvers that speak DNS over HTTPS. Under default deny they can
 * only be reached when named themselves: a wildcard that happens to cover one is no wish for it. */
static const char *const doh_nets[] = {
    "1.1.1.1",
    "1.0.0.1",
    "1.1.1.2",
    "1.0.0.2",
    "1.1.1.3",
    "1.0.0.3",
    "8.8.8.8",
    "8.8.4.4",
    "9.9.9.9",
    "149.112.112.112",
    "9.9.9.10",
    "149.112.112.10",
    "9.9.9.11",
    "149.112.112.11",
    "208.67.222.222",
    "208.67.220.220",
    "94.140.14.14",
    "94.140.15.15",
    "185.228.168.9",
    "185.228.169.9",
    "76.76.2.0/24",
    "76.76.10.0/24",
    "45.90.28.0/22",
    "194.242.2.0/24",
    "2606:4700:4700::/48",
    "2001:4860:4860::/48",
    "2620:fe::/48",
    "2620:119:35::/48",
    "2620:119:53::/48",
    "2a10:50c0::/32",
};
static const char *const doh_names[] = {
    "dns.google",
    "dns.google.com",
    "dns64.dns.google",
    "cloudflare-dns.com",
    "one.one.one.one",
    "chrome.cloudflare-dns.com",
    "mozilla.cloudflare-dns.com",
    "security.cloudflare-dns.com",
    "family.cloudflare-dns.com",
    "dns.quad9.net",
    "dns10.quad9.net",
    "dns11.quad9.net",
    "doh.opendns.com",
    "dns.opendns.com",
    "doh.familyshield.opendns.com",
    "dns.adguard.com",
    "dns.adguard-dns.com",
    "dns-family.adguard.com",
    "doh.cleanbrowsing.org",
    "dns.nextdns.io",
    "freedns.controld.com",
    "doh.dns.sb",
    "dns.alidns.com",
    "doh.pub",
    "doh.mullvad.net",
    "dns.mullvad.net",
    "use-application-dns.net",
};

bool ruleset_is_doh_name(struct str name)
{
    if (name.n && name.p[name.n - 1] == '.') {
        name.n--;
    }
    for (size_t i = 0; i < ARRAY_LEN(doh_names); i++) {
        if (str_eq_nocase(str_from(doh_names[i]), name)) {
            return true;
        }
    }
    return false;
}

bool ruleset_is_doh_ip(const struct egress_config *cfg, const struct ip *ip)
{
    struct cidr c;
    for (size_t i = 0; i < ARRAY_LEN(doh_nets); i++) {
        if (cidr_parse(str_from(doh_nets[i]), &c) == 0 && cidr_contains(&c, ip)) {
            return true;
        }
    }
    return cidr_set_contains(cfg->doh, cfg->n_doh, ip);
}

struct set_text {
    struct buf *out;
    int family;
    size_t n;
};

static void element(struct set_text *t, const char *text)
{
    (void)buf_printf(t->out, "%s%s", t->n++ ? ", " : "    elements = { ", text);
}

static void set_begin(struct set_text *t, const char *name, const char *flags)
{
    (void)buf_printf(t->out, "  set %s_v%d {\n    type ipv%d_addr\n%s", name, t->family, t->family,
                     flags);
}

static void set_end(struct set_text *t)
{
    (void)buf_add_cstr(t->out, t->n ? " }\n  }\n" : "  }\n");
}

#define INTERVAL "    flags interval\n    auto-merge\n"

static void put_policy_set(struct buf *out, const struct ruleset *r, const char *name, int family,
                           enum policy_action action)
{
    struct set_text t = {out, family, 0};
    char text[IP_TEXT_MAX + 4];
    set_begin(&t, name, INTERVAL);
    for (size_t i = 0; i < r->policy->n_rules; i++) {
        const struct policy_rule *rule = &r->policy->rules[i];
        if (rule->kind == POLICY_NET && rule->action == action && rule->cidr.net.family == family) {
            element(&t, cidr_format(&rule->cidr, text));
        }
    }
    set_end(&t);
}

static void put_doh_set(struct buf *out, const struct ruleset *r, int family)
{
    struct set_text t = {out, family, 0};
    char text[IP_TEXT_MAX + 4];
    struct cidr c;
    set_begin(&t, "doh", INTERVAL);
    for (size_t i = 0; i < ARRAY_LEN(doh_nets); i++) {
        if (cidr_parse(str_from(doh_nets[i]), &c) == 0 && c.net.family == family) {
            element(&t, cidr_format(&c, text));
        }
    }
    for (size_t i = 0; i < r->cfg->n_doh; i++) {
        if (r->cfg->doh[i].net.family == family) {
            element(&t, cidr_format(&r->cfg->doh[i], text));
        }
    }
    set_end(&t);
}

/* `alive`: with the time that is left; else those whose time is over. */
static void put_learned_set(struct buf *out, const struct ruleset *r, int family, bool alive)
{
    struct set_text t = {out, family, 0};
    char text[IP_TEXT_MAX];
    size_t it = 0;
    void *v;
    set_begin(&t, alive ? "learned" : "kept", alive ? "    flags timeout\n    size 65535\n" : "");
    while (r->learned && map_next(&r->learned->addrs, &it, NULL, &v)) {
        const struct learned_addr *a = v;
        if (a->ip.family != family || (a->expires_ms > r->now_ms) != alive) {
            continue;
        }
        element(&t, ip_format(&a->ip, text));
        if (alive) {
            (void)buf_printf(out, " timeout %llus",
                             (unsigned long long)(a->expires_ms - r->now_ms) / 1000 + 1);
        }
        restore_comment(out, a);
    }
    set_end(&t);
}

static void put_sets(struct buf *out, const struct ruleset *r)
{
    for (int family = 4; family <= 6; family += 2) {
        put_policy_set(out, r, "deny", family, POLICY_DENY);
        put_policy_set(out, r, "allow", family, POLICY_ALLOW);
        put_learned_set(out, r, family, true);
        put_learned_set(out, r, family, false);
        put_doh_set(out, r, family);
    }
}

/* "ip daddr @x_v4 <verdict>" and the same for IPv6. */
static void both(struct buf *out, const char *match, const char *set, const char *verdict)
{
    (void)buf_printf(out,
                     "    %sip daddr @%s_v4 %s\n"
                     "    %sip6 daddr @%s_v6 %s\n",
                     match, set, verdict, match, set, verdict);
}

static void put_exempt(struct buf *out, const struct ruleset *r, const char *verdict)
{
    char text[IP_TEXT_MAX];
    for (size_t i = 0; i < r->cfg->n_exempt; i++) {
        const struct ip *ip = &r->cfg->exempt[i];
        (void)buf_printf(out, "    %s daddr %s meta l4proto { tcp, udp } th dport 53 %s\n",
                         ip->family == 4 ? "ip" : "ip6", ip_format(ip, text), verdict);
    }
}

#define DISCOVERY                                                                                  \
    "icmpv6 type { nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit, "                   \
    "nd-router-advert, mld-listener-query, mld-listener-report, mld-listener-done, "               \
    "mld2-listener-report } accept\n"

/* Each refused packet is told, but no destination so often that others would be lost, and what is
 * left out is counted. With the set full the second limit holds alone. */
static void put_tell(struct buf *out, const struct ruleset *r)
{
    if (!r->can_log) {
        (void)buf_add_cstr(out, "  chain tell {\n  }\n");
        return;
    }
    (void)buf_add_cstr(out, "  counter untold {\n  }\n");
    for (int family = 4; family <= 6; family += 2) {
        (void)buf_printf(out,
                         "  set told_v%d {\n    type ipv%d_addr\n    flags dynamic,timeout\n"
                         "    timeout 5s\n    size %d\n  }\n",
                         family, family, EGRESS_PACKET_PLACES);
    }
    (void)buf_add_cstr(out, "  chain tell {\n");
    for (int family = 4; family <= 6; family += 2) {
        (void)buf_printf(out,
                         "    update @told_v%d { %s daddr limit rate over %d/second burst %d "
                         "packets } counter name untold return\n",
                         family, family == 4 ? "ip" : "ip6", EGRESS_PACKETS_PER_S,
                         EGRESS_PACKETS_PER_S);
    }
    (void)buf_printf(out,
                     "    limit rate over %d/second burst %d packets counter name untold return\n"
                     "    ct state invalid log prefix \"" PACKETS_INVALID "\" group %d return\n"
                     "    log group %d\n  }\n",
                     EGRESS_PACKETS_ALL_PER_S, EGRESS_PACKETS_ALL_PER_S, EGRESS_LOG_GROUP,
                     EGRESS_LOG_GROUP);
}

static void put_helpers(struct buf *out, const struct ruleset *r)
{
    (void)buf_printf(out, "  chain pass {\n    ct mark set 0x%08x accept", r->generation);
    if (r->digest) {
        (void)buf_printf(out, " comment \"" RESTORE_POLICY " %s\"", r->digest);
    }
    (void)buf_add_cstr(out, "\n  }\n");
    put_tell(out, r);
    (void)buf_add_cstr(out, "  chain refuse {\n    counter\n    jump tell\n"
                            "    meta l4proto tcp reject with tcp reset\n"
                            "    reject with icmpx admin-prohibited\n  }\n"
                            "  chain invalid {\n    counter\n    jump tell\n    drop\n  }\n");
}

/* What is refused before any list is asked. */
static void put_never(struct buf *out, const struct ruleset *r)
{
    bool closed = r->policy->fallback == POLICY_DENY;
    (void)buf_add_cstr(out, "    meta l4proto { tcp, udp } th dport 853 goto refuse\n");
    if (closed || r->n_ports) { /* QUIC hides names, and would pass the interceptor by */
        (void)buf_add_cstr(out, "    udp dport { 80, 443 } goto refuse\n");
    }
    if (r->cfg->block_doh && !r->cfg->n_doh) {
        (void)buf_add_cstr(out, "    tcp dport 443 goto refuse\n");
    } else if (closed || r->cfg->block_doh) {
        /* An address that is allowed by itself was meant. */
        (void)buf_add_cstr(out,
                           "    tcp dport 443 ip daddr @doh_v4 ip daddr != @allow_v4 goto doh\n"
                           "    tcp dport 443 ip6 daddr @doh_v6 ip6 daddr != @allow_v6 goto doh\n");
    }
}

static void put_judge(struct buf *out, const struct ruleset *r)
{
    bool closed = r->policy->fallback == POLICY_DENY;
    bool gateway = r->cfg->inside != NULL;
    /* Learned for a name that was allowed word by word: reachable although it is a resolver. */
    (void)buf_add_cstr(out, "  chain doh {\n");
    if (!r->cfg->block_doh) {
        both(out, "", "learned", "goto pass");
    }
    (void)buf_add_cstr(out, "    goto refuse\n  }\n");
    if (gateway) {
        (void)buf_printf(out,
                         "  chain egress {\n"
                         "    type filter hook prerouting priority -150; policy drop;\n"
                         "    iifname != \"%s\" accept\n",
                         r->cfg->inside);
    } else {
        (void)buf_printf(out,
                         "  chain egress {\n"
                         "    type filter hook output priority -150; policy drop;\n"
                         "    meta mark 0x%08x meta skuid %u accept\n"
                         "    ct direction reply ct state established,related accept\n",
                         r->mark, r->uid);
    }
    (void)buf_add_cstr(out, "    ip6 hoplimit 255 " DISCOVERY);
    (void)buf_add_cstr(out, "    ip6 hoplimit 1 " DISCOVERY);
    (void)buf_add_cstr(out, "    ct state invalid goto invalid\n");
    (void)buf_add_cstr(out, "    meta l4proto { tcp, udp } th dport 53 accept\n");
    (void)buf_add_cstr(out, gateway ? "    fib daddr type local goto refuse\n"
                                    : "    oifname \"lo\" accept\n");
    (void)buf_printf(out, "    ct state established,related ct mark 0x%08x accept\n",
                     r->generation);
    put_never(out, r);
    both(out, "", "deny", "goto refuse");
    both(out, "", "learned", "goto pass");
    both(out, "", "allow", "goto pass");
    both(out, "ct state established,related ", "kept", "goto pass");
    (void)buf_printf(out, "    goto %s\n  }\n", closed ? "refuse" : "pass");
}

static void put_redirects(struct buf *out, const struct ruleset *r)
{
    put_exempt(out, r, "accept");
    (void)buf_printf(out, "    meta l4proto { tcp, udp } th dport 53 redirect to :%u\n",
                     r->dns_port);
    if (!r->cfg->inside) {
        (void)buf_add_cstr(out, "    oifname \"lo\" accept\n");
    }
    for (size_t i = 0; i < r->n_ports; i++) {
        (void)buf_printf(out, "    tcp dport %u redirect to :%u\n", r->ports[i], r->listen_port);
    }
    (void)buf_add_cstr(out, "  }\n");
}

static void put_gateway(struct buf *out, const struct ruleset *r)
{
    const char *in = r->cfg->inside;
    (void)buf_printf(out,
                     "  chain nat_in {\n"
                     "    type nat hook prerouting priority dstnat; policy accept;\n"
                     "    iifname != \"%s\" accept\n",
                     in);
    put_redirects(out, r);
    (void)buf_printf(out,
                     "  chain nat_post {\n"
                     "    type nat hook postrouting priority srcnat; policy accept;\n"
                     "    iifname \"%s\" oifname != \"%s\" masquerade\n"
                     "  }\n"
                     "  chain input {\n"
                     "    type filter hook input priority filter; policy drop;\n"
                     "    iifname \"lo\" accept\n"
                     "    ct state established,related accept\n"
                     "    " DISCOVERY "    iifname \"%s\" ct status dnat accept\n"
                     "  }\n"
                     "  chain forward {\n"
                     "    type filter hook forward priority filter; policy drop;\n"
                     "    iifname \"%s\" oifname != \"%s\" accept\n"
                     "    oifname \"%s\" ct state established,related accept\n"
                     "  }\n",
                     in, in, in, in, in, in);
}

static void put_shared(struct buf *out, const struct ruleset *r)
{
    (void)buf_printf(out,
                     "  chain nat_out {\n"
                     "    type nat hook output priority -100; policy accept;\n"
                     "    meta mark 0x%08x meta skuid %u accept\n",
                     r->mark, r->uid);
    put_redirects(out, r);
}

/* The kernel takes rules and sets of a new generation together, but a packet that is just on its
 * way through the old rules already finds the new contents of a set: in a set that was deleted it
 * finds nothing, and would be refused although it is allowed before and after. So a table that
 * stands keeps its sets. */
static void put_before(struct buf *out, const struct ruleset *r)
{
    static const char *const sets[] = {"deny", "allow", "learned", "kept", "doh"};
    if (!r->is_there) {
        /* An empty declaration, so that the deletion finds something the first time too. */
        (void)buf_add_cstr(out, "table inet " EGRESS_TABLE " {}\n"
                                "delete table inet " EGRESS_TABLE "\n");
        return;
    }
    (void)buf_add_cstr(out, "flush table inet " EGRESS_TABLE "\n");
    for (size_t i = 0; r->cfg->nft && i < ARRAY_LEN(sets); i++) {
        (void)buf_printf(out,
                         "flush set inet " EGRESS_TABLE " %s_v4\n"
                         "flush set inet " EGRESS_TABLE " %s_v6\n",
                         sets[i], sets[i]);
    }
}

int ruleset_format(const struct ruleset *r, struct buf *out, struct err *e)
{
    put_before(out, r);
    (void)buf_add_cstr(out, "table inet " EGRESS_TABLE " {\n");
    if (r->cfg->nft) {
        put_sets(out, r);
        put_helpers(out, r);
        put_judge(out, r);
    }
    if (r->cfg->inside) {
        put_gateway(out, r);
    } else {
        put_shared(out, r);
    }
    (void)buf_add_cstr(out, "}\n");
    return buf_failed(out) ? err_set(e, ERR_LIMIT, "the packet rules are too long") : 0;
}

/* Adding what is there does not refresh its time, and deleting what has just expired would fail:
 * so it is made sure to be there, deleted, and added, in one transaction. */
void ruleset_learn(struct buf *out, const struct learned_addr *a, uint32_t timeout_s)
{
    char text[IP_TEXT_MAX];
    int f = a->ip.family;
    (void)ip_format(&a->ip, text);
    (void)buf_printf(out,
                     "add element inet " EGRESS_TABLE " learned_v%d { %s timeout %us }\n"
                     "delete element inet " EGRESS_TABLE " learned_v%d { %s }\n"
                     "add element inet " EGRESS_TABLE " learned_v%d { %s timeout %us",
                     f, text, timeout_s, f, text, f, text, timeout_s);
    restore_comment(out, a);
    (void)buf_add_cstr(out, " }\n");
}

void ruleset_forget(struct buf *out, const struct ip *ip)
{
    char text[IP_TEXT_MAX];
    int f = ip->family;
    (void)ip_format(ip, text);
    (void)buf_printf(out,
                     "add element inet " EGRESS_TABLE " learned_v%d { %s timeout 1s }\n"
                     "delete element inet " EGRESS_TABLE " learned_v%d { %s }\n",
                     f, text, f, text);
}
