#pragma once
/* Shared by the two halves of the resolver: questions (resolver.c) and answers (answer.c). */

#include "base/list.h"
#include "egress/config.h"
#include "egress/dns_cache.h"
#include "egress/resolver.h"
#include "io/timer.h"
#include "net/dns.h"

struct resolver {
    struct resolver_opts o;
    const struct policy *policy;
    struct dns_cache cache;
    struct list flights;
    size_t n_flights;
    struct dns_query parsed; /* scratch of resolver_try() */
    bool is_sick[EGRESS_MAX_UPSTREAMS];
    struct io_timer probe;
    unsigned tokens;
    uint64_t tokens_ms;
};

struct flight {
    struct list node;
    struct resolver *resolver;
    struct asker *asker; /* NULL: a probe, or nobody waits any more */
    char *query;
    size_t query_len;
    struct dns_query q;
    struct io_timer timer;
    void *socket;
    size_t upstream;
    uint32_t tried; /* bit per upstream */
    uint16_t id;
    uint64_t start_ms; /* 0: never sent */
    bool is_tcp, is_probe;
};

/* Each of these ends the flight or sends it on: it may be gone afterwards. */
void flight_end(struct flight *f, struct str answer);
void flight_fail(struct flight *f, enum dns_rcode rcode);
void flight_next(struct flight *f);
/* A well-formed answer to our question: judged, learned from, cached, delivered. */
void answer_take(struct flight *f, struct str msg);

void answer_fit(const struct dns_query *q, struct str query, bool is_udp, struct buf *out,
                size_t start);
