#pragma once
/* The DNS proxy without its sockets: which queries are answered how, what is asked upstream, what
 * of an answer is believed, what is learned from it. Sockets are the operations; time is the
 * loop's, so that tests can replay whole conversations with a clock of their own. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/str.h"
#include "egress/policy.h"
#include "io/addr.h"
#include "io/loop.h"
#include "net/cidr.h"

struct flight; /* one question on its way upstream */
struct resolver;

/* Somebody who waits for an answer; embedded in the client. */
struct asker {
    void (*done)(struct asker *a,
                 struct str answer); /* once; the answer is valid during the call */
    struct flight *flight;           /* the resolver's */
    bool is_udp;
    bool is_ours; /* our own question: no policy, nothing learned */
};

struct resolver_ops {
    /* Sends `msg` for the flight, whose earlier socket (if any) is given up. The answer comes by
     * resolver_on_answer(), a failure by resolver_on_failure(), neither from inside. */
    int (*send)(void *arg, struct flight *f, const struct io_addr *to, bool tcp, struct str msg);
    void (*cancel)(void *arg, struct flight *f); /* nothing more is wanted for it */
    /* Before the answer with these addresses goes out. 1: learned, but others had to make room. */
    int (*learn)(void *arg, struct str name, const struct ip *ips, size_t n, uint32_t ttl_s);
    void (*refused)(void *arg, const char *kind, struct str name, struct str detail);
    void (*resolved)(void *arg, struct str name, const struct ip *ips, size_t n);
    void (*took)(void *arg, uint64_t ms); /* a lookup of the sandbox has ended; may be NULL */
};

struct resolver_opts {
    struct io_loop *loop;
    const struct io_addr *upstreams; /* borrowed */
    size_t n_upstreams;
    uint64_t timeout_ms, probe_ms; /* probe_ms 0: no probes */
    const char *probe_name;        /* NULL: the root's name servers */
    const struct resolver_ops *ops;
    void *arg;
};

struct resolver *resolver_new(const struct resolver_opts *o);
void resolver_free(struct resolver *r);
/* Borrowed until the next call. What is cached was judged by the old policy and is dropped. */
void resolver_set_policy(struct resolver *r, const struct policy *p);

/* 1: `out` is the answer. 0: say nothing. -EAGAIN: upstream has to be asked, by resolver_ask(). */
int resolver_try(struct resolver *r, struct str query, bool is_udp, struct buf *out);
void resolver_ask(struct resolver *r, struct str query, struct asker *a);
void resolver_forget(struct resolver *r, struct asker *a); /* the client has left */
/* Our own question: the addresses of a name, whatever policy says. */
void resolver_ask_name(struct resolver *r, struct str name, uint16_t type, struct asker *a);
/* The first address of the answer to it, with a port; false: there is none. */
bool resolver_first_addr(struct str answer, uint16_t port, struct io_addr *ret);

/* From the sockets. */
void resolver_on_answer(struct resolver *r, struct flight *f, struct str msg);
void resolver_on_failure(struct resolver *r, struct flight *f);
/* The sockets' own state of a flight. */
void flight_set_socket(struct flight *f, void *socket);
void *flight_socket(const struct flight *f);
/* For tests. */
uint16_t flight_id(const struct flight *f);
