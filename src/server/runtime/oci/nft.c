/* The nftables table around all sandboxes. */

#include "server/runtime/oci/nft.h"

#include <nftables/libnftables.h>
#include <string.h>

#include "base/cleanup.h"

/* Link-local with the metadata services of most clouds, and those that live elsewhere: Alibaba,
 * Azure, Oracle; and "this network". */
static const char *const builtin_blocked[] = {
    "0.0.0.0/8", "169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32",
};

static int put_set(struct buf *out, const char *name, const char *const *v, size_t n,
                   const struct str_list *more, struct err *e)
{
    size_t total = 0;
    (void)buf_printf(out, "  set %s {\n    type ipv4_addr\n    flags interval\n    auto-merge\n",
                     name);
    for (size_t i = 0; i < n + (more ? more->n : 0); i++) {
        const char *text = i < n ? v[i] : more->v[i - n];
        struct cidr c;
        char clean[IP_TEXT_MAX + 4];
        if (cidr_parse(str_from(text), &c) < 0) {
            return err_set(e, ERR_INVALID, "'%s' is not a network", text);
        }
        if (c.net.family == 4) { /* sandboxes have no IPv6 beyond their loopback */
            (void)buf_printf(out, "%s%s", total++ ? ", " : "    elements = { ",
                             cidr_format(&c, clean));
        }
    }
    (void)buf_add_cstr(out, total ? " }\n  }\n" : "  }\n");
    return 0;
}

static void put_resolvers(struct buf *out, const struct nft_rules *r)
{
    char text[IP_TEXT_MAX];
    for (size_t i = 0; i < r->n_resolvers; i++) {
        if (r->resolvers[i].family == 4) {
            const char *ip = ip_format(&r->resolvers[i], text);
            (void)buf_printf(out,
                             "    ip daddr %s udp dport 53 accept\n"
                             "    ip daddr %s tcp dport 53 accept\n",
                             ip, ip);
        }
    }
}

int nft_rules_format(const struct nft_rules *r, struct buf *out, struct err *e)
{
    char net[IP_TEXT_MAX + 4];
    (void)cidr_format(&r->subnet, net);
    /* An empty declaration first, so that the deletion finds something the first time too. */
    (void)buf_printf(out, "table inet %s {}\ndelete table inet %s\ntable inet %s {\n", r->table,
                     r->table, r->table);
    if (put_set(out, "blocked", builtin_blocked,
                sizeof(builtin_blocked) / sizeof(builtin_blocked[0]), r->blocked, e) < 0 ||
        put_set(out, "allowed", NULL, 0, r->allowed, e) < 0) {
        return -1;
    }
    (void)buf_printf(out,
                     "  chain outbound {\n"
                     "    oifname \"%s\" drop\n"
                     "    meta nfproto != ipv4 drop\n"
                     "    ip saddr != %s drop\n"
                     "    ip daddr @allowed accept\n",
                     r->bridge, net);
    put_resolvers(out, r);
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
    (void)buf_printf(out, "  chain to_host {\n"
                          "    ct state established,related accept\n");
    put_resolvers(out, r);
    (void)buf_printf(out,
                     "    reject with icmpx admin-prohibited\n"
                     "  }\n"
                     "  chain input {\n"
                     "    type filter hook input priority filter; policy accept;\n"
                     "    iifname \"%s\" goto to_host\n"
                     "  }\n"
                     "  chain postrouting {\n"
                     "    type nat hook postrouting priority srcnat; policy accept;\n"
                     "    ip saddr %s oifname != \"%s\" masquerade\n"
                     "  }\n"
                     "}\n",
                     r->bridge, net, r->bridge);
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
