#pragma once
/* A TCP connection of the sandbox to the DNS proxy: one question at a time. */

#include <stddef.h>

#include "base/list.h"
#include "egress/resolver.h"
#include "io/stream.h"

struct dns_clients {
    struct resolver *resolver;
    struct list all;
    size_t n;
};

void dns_clients_init(struct dns_clients *c, struct resolver *r);
void dns_clients_done(struct dns_clients *c);
void dns_clients_add(struct dns_clients *c, struct io_stream *take_s);
