#pragma once
/* The text of our nftables table. Pure: values in, text out.
 *
 * Two layouts. In the gateway layout the sandbox is behind an interface of ours (`inside`), and its
 * packets are judged in prerouting, before any address is rewritten. In the shared layout the
 * sandbox lives in our network namespace, and packets are judged in output; ours carry a mark and
 * our user id. */

#include "base/buf.h"
#include "base/err.h"
#include "egress/config.h"
#include "egress/learned.h"
#include "egress/policy.h"

#define EGRESS_TABLE "opensandbox"
#define EGRESS_LOG_GROUP 18080 /* of nfnetlink_log: packets that were refused */

struct ruleset {
    const struct egress_config *cfg;
    const struct policy *policy;
    const struct learned *learned;
    uint64_t now_ms;
    uint32_t generation; /* connections judged by this very policy carry it */
    const char *digest;  /* of what decides, or NULL: written beside the generation */
    uint32_t mark, uid;  /* ours, in the shared layout */
    uint16_t dns_port, listen_port;
    const uint16_t *ports; /* handed to the interceptor at listen_port */
    size_t n_ports;
    bool can_log;
    bool is_there; /* the table stands, made of the same parts: only their contents change */
};

int ruleset_format(const struct ruleset *r, struct buf *out, struct err *e);
/* The commands that let an address in for so long, whatever it had before; or that take it out. */
void ruleset_learn(struct buf *out, const struct learned_addr *a, uint32_t timeout_s);
void ruleset_forget(struct buf *out, const struct ip *ip);
/* Well-known name servers over HTTPS, and those of the configuration. */
bool ruleset_is_doh_name(struct str name);
bool ruleset_is_doh_ip(const struct egress_config *cfg, const struct ip *ip);
