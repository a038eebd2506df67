#pragma once
/* The packet rules around all sandboxes: one table of ours, replaced as a whole in one transaction.
 * Nothing in it depends on a single sandbox, so there is nothing to add or to leave behind when
 * sandboxes come and go. */

#include "base/buf.h"
#include "base/err.h"
#include "net/cidr.h"
#include "json/field.h"

struct nft_rules {
    const char *table;
    const char *bridge;
    struct cidr subnet;
    const struct cidr *subnet6;     /* NULL: no IPv6 */
    const struct str_list *blocked; /* beside the built-in ones; checked CIDRs */
    const struct str_list *allowed; /* exempt from all of them */
    const struct ip *resolvers;     /* reachable on port 53 wherever they are */
    size_t n_resolvers;
};

/* The transaction as text. Pure. */
int nft_rules_format(const struct nft_rules *r, struct buf *out, struct err *e);
int nft_apply(const char *text, struct err *e);
/* Removes the table; success when there is none. */
int nft_remove(const char *table, struct err *e);
