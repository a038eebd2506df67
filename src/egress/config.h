#pragma once
/* What the sidecar is told at its start: all of it comes from the environment. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "io/addr.h"
#include "net/cidr.h"

#define EGRESS_AUTH_HEADER "OPENSANDBOX-EGRESS-AUTH"
#define EGRESS_API_PORT 18080
#define EGRESS_DNS_PORT 15353
#define EGRESS_INTERCEPT_PORT 18081
#define EGRESS_MAX_UPSTREAMS 10 /* limit: name servers that are asked */
#define EGRESS_MAX_EXEMPT 32    /* limit: OPENSANDBOX_EGRESS_NAMESERVER_EXEMPT */
#define EGRESS_MAX_DOH 256      /* limit: OPENSANDBOX_EGRESS_DOH_BLOCKLIST */

struct egress_config {
    bool nft;           /* mode dns+nft; else dns */
    struct io_addr api; /* OPENSANDBOX_EGRESS_HTTP_ADDR */
    const char *token;  /* "": no authentication */
    const char *rules;  /* OPENSANDBOX_EGRESS_RULES or NULL */
    const char *policy_file;
    const char *rules_dir; /* overlays: deny.always, allow.always, log_skip.always */
    const char *sandbox_id;
    const char *webhook;
    const char *inside;    /* the interface to the sandbox: gateway layout; NULL: the sandbox
                              shares our network namespace */
    const char *ca_dir;    /* where the interceptor's CA certificate is handed over */
    const char *state_dir; /* OPENSANDBOX_EGRESS_STATE_DIR or NULL: nothing is kept */
    uint64_t max_rules;    /* 0: no limit */
    uint64_t memory;       /* bytes to reckon with; 0: what the control group allows */
    bool block_doh;
    struct cidr *doh; /* the blocklist */
    size_t n_doh;
    struct io_addr upstreams[EGRESS_MAX_UPSTREAMS];
    size_t n_upstreams;
    uint64_t upstream_timeout_ms, probe_ms;
    const char *probe_name;              /* NULL: the root's name servers */
    struct ip exempt[EGRESS_MAX_EXEMPT]; /* name servers the sandbox may ask directly */
    size_t n_exempt;
    bool intercept; /* OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT */
    uint16_t intercept_port;
    bool upstream_insecure; /* ..._SSL_INSECURE */
    const char *upstream_ca_dir;
    uint32_t uid, gid; /* after the start; 0: stay */
    enum log_level log_level;
};

/* Reads getenv(). Strings are borrowed from the environment. -1: a value nobody should ignore. */
int egress_config_load(struct egress_config *ret, struct err *e);
void egress_config_done(struct egress_config *c);
/* "1 true yes y on", any case, trimmed. */
bool egress_truthy(const char *text);
