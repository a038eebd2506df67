#pragma once
/* Host names to addresses with getaddrinfo(3), in a worker of the pool. Not linked by execd. */

#include "io/addr.h"
#include "io/limits.h"
#include "io/pool.h"

typedef void io_resolve_cb(const struct io_addr *addrs, int n, int error, void *arg);
/* cb comes on `l`, once. 0, or -EAGAIN when the pool is full. */
int io_resolve(struct io_loop *l, struct io_pool *p, const char *host, uint16_t port,
               io_resolve_cb *cb, void *arg);
