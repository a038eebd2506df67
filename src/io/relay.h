#pragma once
/* Bytes both ways between two streams until both directions have ended: WebSocket and TCP tunnels.
 * Half-close is passed on. Uses splice(2) through a pipe between plain descriptors once data flows
 * in bulk; never holds more than IO_RELAY_BUFFER a direction; idle relays hold no buffer. */

#include <stdint.h>

#include "base/str.h"
#include "io/limits.h"
#include "io/stream.h"

struct io_relay;
struct io_relay_end {
    uint64_t bytes_ab, bytes_ba;
    int error; /* 0: both sides closed in order; else the first negative errno */
};
typedef void io_relay_cb(const struct io_relay_end *end, void *arg);

/* Takes both streams. `early_a` and `early_b` are bytes already read from a and b, delivered first
 * (copied). idle_ms 0: none. cb is called once, after both streams are closed. */
struct io_relay *io_relay_start(struct io_stream *take_a, struct io_stream *take_b,
                                struct str early_a, struct str early_b, uint64_t idle_ms,
                                io_relay_cb *cb, void *arg);
/* Called on every transfer, for activity tracking (idle means no traffic). Must not end the relay.
 */
void io_relay_on_traffic(struct io_relay *r, void (*fn)(void *arg), void *arg);
/* Closes both; cb is called with -ECANCELED before this returns. */
void io_relay_cancel(struct io_relay *r);
