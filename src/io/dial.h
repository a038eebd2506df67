#pragma once
/* Outgoing connections: to an address, to a Unix socket, or from inside another network namespace.
 */

#include <stdint.h>

#include "io/addr.h"
#include "io/stream.h"

struct io_dial;

/* s is a connected stream (owned by cb), or NULL with a negative errno (-ETIMEDOUT for the
 * deadline). Never called from inside io_dial_start(). */
typedef void io_dial_cb(struct io_stream *s, int error, void *arg);

/* netns_fd >= 0: the socket is created inside that network namespace (setns around socket(2) only,
 * on the loop's thread, which is back in its own before this returns). */
struct io_dial *io_dial_start(struct io_loop *l, const struct io_addr *a, int netns_fd,
                              uint64_t timeout_ms, io_dial_cb *cb, void *arg);
/* The same, with SO_MARK set on the socket before it connects (0: none). Needs CAP_NET_ADMIN; a
 * mark that cannot be set is an error, because packets would go where they must not. */
struct io_dial *io_dial_start_marked(struct io_loop *l, const struct io_addr *a, uint32_t mark,
                                     uint64_t timeout_ms, io_dial_cb *cb, void *arg);
void io_dial_cancel(struct io_dial *d); /* cb is not called */
/* A non-blocking socket created inside the namespace; for callers that block in workers too. */
int io_socket_in_netns(int netns_fd, int family, int type);
