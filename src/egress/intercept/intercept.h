#pragma once
/* The interceptor as a part of the sidecar: connections of the sandbox to ports 80 and 443 arrive
 * here. Those for hosts with a binding are opened (HTTP, or TLS with a certificate of our own
 * authority), all others are passed on as the bytes they are. */

#include "base/list.h"
#include "egress/egress.h"
#include "egress/intercept/budget.h"
#include "io/listener.h"
#include "io/timer.h"

struct ca;
struct io_tls_ctx;

struct intercept {
    struct egress *g;
    struct ca *ca;
    struct io_tls_ctx *upstream; /* verifies servers */
    struct io_listener *listeners[2];
    uint16_t port;
    struct list conns;
    size_t n_conns;
    struct budget budget;
    struct list waiting;  /* connections that wait for a turn (budget.h), in order */
    struct io_timer wake; /* a turn is free and somebody waits */
    bool is_ready;
};

extern struct egress_part intercept_part;

/* Takes a connection as it was accepted. */
void conn_start(struct intercept *i, struct io_stream *take_client);
/* Gives free turns to those who wait. */
void conn_wake(struct intercept *i);
/* The packet rules cut connections that a new policy does not allow, but see only where the client
 * was going: cuts those that went to another address, which is the one to ask about. */
void conn_check_policy(struct intercept *i);
/* Closes every connection. */
void conn_close_all(struct intercept *i);
