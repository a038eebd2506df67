/* The nftables table around all sandboxes. */

#include "server/runtime/oci/nft.h"

#include <nftables/libnftables.h>
#include <string.h>

#include "base/cleanup.h"

/* Link-local with the metadata services of most clouds, and those that live elsewhere: Alibaba,
 * Azure, Oracle; and "this network". */
static const char *const builtin_blocked[] = {
    "0.0.0.0/8",
    "169.254.0.0/16",
    "100.100.100.200/32",
    "168.63.129.16/32",
    "192.0.0.192/32",
    /* The same in IPv6: AWS and Google; what is mapped, and what a translator on the way would make
     * IPv4's link-local of. */
    "::/64",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
    "fd00:ec2::/32",
    "fd20:ce::/32",
    "64:ff9b::a9fe:0/112",
    "64:ff9b::6464:64c8/128",
    "64:ff9b::a83f:8110/128",
    "2002:a9fe::/32",
};

/* Those of one family. */
static int put_set(struct buf *out, const char *name, int family, const char *const *v, size_t n,
                   const struct str_list *more, struct err *e)
{
    size_t total = 0;
    (void)buf_printf(out, "  set %s%s {\n    type ipv%d_addr\n    flags interval\n    auto-merge\n",
                     name, family == 6 ? "6" : "", family);
    for (size_t i = 0; i < n + (more ? more->n : 0); i++) {
        const char *text = i < n ? v[i] : more->v[i - n];
        struct cidr c;
        char clean[IP_TEXT_MAX + 4];
        if (cidr_parse(str_from(text), &c) < 0) {
            return err_set(e, ERR_INVALID, "'%s' is not a network", text);
        }
        if (c.net.family == family) {
            (void)buf_printf(out, "%s%s", total++ ? ", " : "    elements = { ",
                             cidr_format(&c, clean));
        }
    }
    (void)buf_add_cstr(out, total ? " }\n  }\n" : "  }\n");
    return 0;
}

static int put_sets(struct buf *out, const struct nft_rules *r, int family, struct err *e)
{
    return put_set(out, "blocked", family, builtin_blocked,
                   sizeof(builtin_blocked) / sizeof(builtin_blocked[0]), r->blocked, e) < 0
               ? -1
               : put_set(out, "allowed", family, NULL, 0, r->allowed, e);
}

static void put_resolvers(struct buf *out, const struct nft_rules *r, int family)
{
    char text[IP_TEXT_MAX];
    const char *l3 = family == 4 ? "ip" : "ip6";
    for (size_t i = 0; i < r->n_resolvers; i++) {
        if (r->resolvers[i].family == family) {
            const char *ip = ip_format(&r->resolvers[i], text);
            (void)buf_printf(out,
                             "    %s daddr %s udp dport 53 accept\n"
                             "    %s daddr %s tcp dport 53 accept\n",
                             l3, ip, l3, ip);
        }
    }
}

/* IPv6 has rules of its own behind the first one of the chains, or ends there. */
static void put_outbound6(struct buf *out, const struct nft_rules *r)
{
    char net[IP_TEXT_MAX + 4];
    (void)buf_printf(out,
                     "  chain outbound6 {\n"
                     "    ip6 saddr != %s drop\n"
                     "    ip6 daddr @allowed6 accept\n",
                     cidr_format(r->subnet6, net));
    put_resolvers(out, r, 6);
    (void)buf_add_cstr(out, "    ip6 daddr @blocked6 reject with icmpx admin-prohibited\n"
                            "    accept\n"
                            "  }\n");
}

static void put_to_host(struct buf *out, const struct nft_rules *r)
{
    (void)buf_add_cstr(out, "  chain to_host {\n");
    if (r->subnet6) { /* how the bridge is found */
        (void)buf_add_cstr(out, "    ip6 hoplimit 255 icmpv6 type { nd-neighbor-solicit, "
                                "nd-neighbor-advert } accept\n");
    }
    (void)buf_add_cstr(out, "    ct state established,related accept\n");
    put_resolvers(out, r, 4);
    if (r->subnet6) {
        put_resolvers(out, r, 6);
    }
    (void)buf_printf(out,
                     "    reject with icmpx admin-prohibited\n"
                     "  }\n"
                     "  chain input {\n"
                     "    type filter hook input priority filter; policy accept;\n"
                     "    iifname \"%s\" goto to_host\n"
                     "  }\n",
                     r->bridge);
}

static void put_postrouting(struct buf *out, const struct nft_rules *r)
{
    char net[IP_TEXT_MAX + 4];
    (void)buf_printf(out,
                     "  chain postrouting {\n"
                     "    type nat hook postrouting priority srcnat; policy accept;\n"
                     "    ip saddr %s oifname != \"%s\" masquerade\n",
                     cidr_format(&r->subnet, net), r->bridge);
    if (r->subnet6) {
        (void)buf_printf(out, "    ip6 saddr %s oifname != \"%s\" masquerade\n",
                         cidr_format(r->subnet6, net), r->bridge);
    }
    (void)buf_add_cstr(out, "  }\n");
}

int nft_rules_format(const struct nft_rules *r, struct buf *out, struct err *e)
{
    char net[IP_TEXT_MAX + 4];
    (void)cidr_format(&r->subnet, net);
    /* An empty declaration first, so that the deletion finds something the first time too. */
    (void)buf_printf(out, "table inet %s {}\ndelete table inet %s\ntable inet %s {\n", r->table,
                     r->table, r->table);
    if (put_sets(out, r, 4, e) < 0 || (r->subnet6 && put_sets(out, r, 6, e) < 0)) {
        return -1;
    }
    if (r->subnet6) {
        put_outbound6(out, r);
    }
    (void)buf_printf(out,
                     "  chain outbound {\n"
                     "    oifname \"%s\" drop\n"
                     "    meta nfproto %s\n"
                     "    ip saddr != %s drop\n"
                     "    ip daddr @allowed accept\n",
                     r->bridge, r->subnet6 ? "ipv6 goto outbound6" : "!= ipv4 drop", net);
    put_resolvers(out, r, 4);
    (void)buf_printf(out,
                     "    ip daddr @blocked reject with icmpx admin-prohibited\n"
                     "    accept\n"
                     "  }\n"
                     "  chain forward {\n"
                     "    type filter hook forward priority filter; policy accept;\n"
                     "    iifname \"%s\" goto outbound\n"
                     "    oifname \"%s\" ct state established,related accept\n"
                     "    oifname \"%s\" drop\n"
                     "  }\n",
                     r->bridge, r->bridge, r->bridge);
    put_to_host(out, r);
    put_postrouting(out, r);
    (void)buf_add_cstr(out, "}\n");
    return buf_failed(out) ? err_set(e, ERR_LIMIT, "the packet rules are too long") : 0;
}

int nft_apply(const char *text, struct err *e)
{
    struct nft_ctx *ctx = nft_ctx_new(NFT_CTX_DEFAULT);
    if (!ctx) {
        return err_set(e, ERR_UNSUPPORTED, "nftables: no context (is the kernel built with it?)");
    }
    (void)nft_ctx_buffer_output(ctx);
    (void)nft_ctx_buffer_error(ctx);
    int r = nft_run_cmd_from_buffer(ctx, text);
    if (r != 0) {
        const char *why = nft_ctx_get_error_buffer(ctx);
        size_t n = why ? strcspn(why, "\n") : 0;
        (void)err_set(e, ERR_UNSUPPORTED, "nftables: %.*s", (int)n, n ? why : "refused");
    }
    nft_ctx_free(ctx);
    return r == 0 ? 0 : -1;
}

int nft_remove(const char *table, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(512);
    (void)buf_printf(&text, "table inet %s {}\ndelete table inet %s\n", table, table);
    return nft_apply(buf_cstr(&text), e);
}
