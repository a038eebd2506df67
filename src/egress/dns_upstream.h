#pragma once
/* Sockets for questions that go upstream: one connected socket per question, with a port of its
 * own, so that only the asked server can answer. */

#include <stdint.h>

#include "egress/resolver.h"

/* As in struct resolver_ops. `mark` 0: none. */
int upstream_send(struct io_loop *l, struct resolver *r, struct flight *f, const struct io_addr *to,
                  bool tcp, struct str msg, uint32_t mark);
void upstream_cancel(struct flight *f);
