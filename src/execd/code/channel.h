#pragma once
/* One ZeroMQ connection to a kernel: dialled until somebody listens, then messages both ways.
 * Embedded in its owner; after channel_stop() no callback comes, and the owner frees its memory not
 * before the loop's turn has ended (io_defer). */

#include <stdbool.h>

#include "execd/code/zmtp.h"
#include "io/dial.h"
#include "io/timer.h"

struct channel {
    struct io_loop *loop;
    struct io_addr addr;
    enum zmtp_role role;
    struct io_dial *dial;
    struct io_stream *s;
    struct zmtp_reader reader;
    struct buf out;
    struct io_timer again; /* dial once more, or go on after a pause */
    bool open, paused, stopped;
    void *owner;
    void (*on_open)(struct channel *c);
    void (*on_message)(struct channel *c, const struct zmtp_message *m);
    void (*on_lost)(struct channel *c); /* was open; stopped already */
};

/* Fill loop, addr, role and the callbacks first. */
void channel_start(struct channel *c, size_t max_message);
/* Append frames to c->out, then flush. More than EXECD_KERNEL_SEND_MAX waiting ends the connection.
 */
void channel_flush(struct channel *c);
/* A paused channel reads nothing: the kernel's own buffers fill. */
void channel_pause(struct channel *c, bool on);
void channel_stop(struct channel *c);
