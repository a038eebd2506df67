#pragma once
/* Policy in the kernel: one nftables table, and what was learned from answers. In mode `dns` the
 * table only redirects lookups and hands connections to the interceptor. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "egress/policy.h"
#include "net/cidr.h"

struct egress;
struct enforcer;

struct enforcer *enforcer_new(struct egress *g, struct err *e);
/* The table stays: what outlives us must stay closed. */
void enforcer_free(struct enforcer *f);
/* Replaces all rules in one transaction; addresses learned for names that are still allowed stay,
 * connections that are no longer allowed are cut. On failure the old rules are in force. */
int enforcer_apply(struct enforcer *f, const struct policy *p, struct err *e);
/* Addresses out of an answer for `name`; comes before the answer is sent. 0; 1 when others had to
 * make room; -1. */
int enforcer_learn(struct enforcer *f, struct str name, const struct ip *ips, size_t n,
                   uint32_t ttl_s, struct err *e);
bool enforcer_knows(const struct enforcer *f, const struct ip *ip, struct str name);
/* Whether a new connection to the address is let through by p and what was learned. */
bool enforcer_allows(const struct enforcer *f, const struct policy *p, const struct ip *ip);
/* The same for a connection that is open: an address whose time is over will do. */
bool enforcer_keeps(const struct enforcer *f, const struct policy *p, const struct ip *ip);
/* egress_other_ip() */
bool enforcer_other(const struct enforcer *f, const struct policy *p, const struct ip *ip,
                    struct str name, struct ip *ret);
int enforcer_redirect(struct enforcer *f, const uint16_t *ports, size_t n, uint16_t listen_port,
                      struct err *e);
uint32_t enforcer_mark(const struct enforcer *f);
/* Lets go of what libnftables remembers; the next use makes it anew. */
void enforcer_rest(struct enforcer *f);
/* Reads the table back: it is there, with the generation that was applied last. */
int enforcer_verify(struct enforcer *f, struct err *e);
/* Transactions so far. */
uint64_t enforcer_updates(const struct enforcer *f);
/* Packets refused since the last call that the rules did not list one by one. */
uint64_t enforcer_take_untold(struct enforcer *f);
