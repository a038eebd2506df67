#pragma once
/* opensandbox-egress: the outbound policy of one sandbox. This header is what the parts of the
 * program share: the application object, and how a part (the credential vault, the interceptor)
 * hooks into it. Everything runs on one loop. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "egress/config.h"
#include "egress/policy.h"
#include "http/server.h"
#include "io/loop.h"
#include "net/cidr.h"

struct dns_server;
struct egress;
struct enforcer;
struct events;
struct metrics;
struct policy_store;
struct webhook;

/* A part of the program beside policy and DNS. All callbacks run on the loop; each may be NULL. */
struct egress_part {
    const char *name;
    /* Ends with a method of NULL; handlers find `struct egress *` in http_req_app(). The token has
     * been checked before a handler is called, unless the route has EGRESS_ROUTE_OPEN. */
    const struct http_route *routes;
    int (*start)(struct egress *g, struct err *e); /* before the API listens */
    void (*stop)(struct egress *g);
    /* Whether /healthz may say ok; *ret_why is what it says otherwise. */
    bool (*is_ready)(struct egress *g, const char **ret_why);
    /* A new effective policy is about to be applied: -1 and the reason refuses it (400). */
    int (*check_policy)(struct egress *g, const struct policy *effective, struct err *e);
    /* It has been applied. */
    void (*on_policy)(struct egress *g, const struct policy *effective);
    void *state; /* the part's own */
};

#define EGRESS_ROUTE_OPEN 1u /* route flag: no token needed */

struct egress {
    struct io_loop *loop;
    struct egress_config cfg;
    struct policy_store *policy;
    struct enforcer *enforcer;
    struct dns_server *dns;
    struct events *events;
    struct webhook *webhook; /* NULL: none */
    struct metrics *metrics; /* NULL: none */
    struct http_server *api;
    struct http_route *routes;
    struct egress_part *const *parts; /* ends with NULL */
    uint16_t api_port;
    bool is_ready;
};

/* The parts that this build has (main.c), in the order of their start; ends with NULL. */
extern struct egress_part *const egress_parts[];

struct egress *egress_new(const struct egress_config *cfg, struct egress_part *const *parts,
                          struct err *e);
void egress_free(struct egress *g);
/* What /healthz says: started, and the rules are really in the kernel. */
bool egress_healthy(struct egress *g, const char **ret_why);

/* ---- for parts ---- */

/* The policy that counts, overlays included. Borrowed until the next change of policy. */
const struct policy *egress_policy(const struct egress *g);
bool egress_allows_name(const struct egress *g, struct str name);
/* As the packet rules decide now about a new connection: rules for addresses, addresses learned
 * from answers for allowed names, the fallback. */
bool egress_allows_ip(const struct egress *g, const struct ip *ip);
/* The same about a connection that is open already. */
bool egress_keeps_ip(const struct egress *g, const struct ip *ip);
/* The address was in an answer for `name` (not longer ago than its time to live and the grace). */
bool egress_ip_is_of(const struct egress *g, const struct ip *ip, struct str name);
/* An address of the other family for a connection to `ip` that cannot be made: one that an answer
 * gave for the same name, and to which the sandbox might connect itself. `name` is whom the client
 * means; empty: not known, then `ip` must have only one. Never an internal address. */
bool egress_other_ip(const struct egress *g, const struct ip *ip, struct str name, struct ip *ret);
/* From now on TCP connections of the sandbox to these ports, as far as policy allows them, arrive
 * at local port `listen_port` (original destination by SO_ORIGINAL_DST); n = 0 ends that. Replaces
 * what was set before. */
int egress_redirect(struct egress *g, const uint16_t *ports, size_t n, uint16_t listen_port,
                    struct err *e);
/* SO_MARK for sockets of our own whose traffic must not be taken for the sandbox's. */
uint32_t egress_socket_mark(const struct egress *g);
/* Something was refused: counted, logged, shown by GET /events. `kind` is a word ("name", "packet",
 * "host_mismatch", ...). Never pass a secret. */
void egress_refused(struct egress *g, const char *kind, struct str target, struct str detail);
