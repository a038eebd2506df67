#pragma once
/* Listening sockets. Each loop that serves opens its own listener with SO_REUSEPORT, so that the
 * kernel spreads connections and no connection ever changes its loop. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "io/addr.h"
#include "io/stream.h"

struct io_listener;

struct io_listen_opts {
    bool reuse_port;
    int backlog;      /* 0: 1024 */
    mode_t unix_mode; /* permissions of a Unix socket; 0: 0600 */
    int fd;           /* > 0: take this already listening descriptor (activation, inheritance) */
};

/* cb owns the new stream (nothing wanted, no callback yet). When descriptors run out the listener
 * pauses for 100 ms, logs once, and goes on. */
typedef void io_accept_cb(struct io_stream *take_s, void *arg);
struct io_listener *io_listen(struct io_loop *l, const struct io_addr *a,
                              const struct io_listen_opts *o, io_accept_cb *cb, void *arg,
                              struct err *e);
int io_listener_addr(struct io_listener *l, struct io_addr *ret); /* the port the kernel chose */
void io_listener_close(struct io_listener *l);
