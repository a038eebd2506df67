#pragma once
/* Bytes on their way out of a stream: copied, borrowed, or still in a file. Private to the room;
 * used by the server, the client and WebSocket connections. Zero is the empty queue. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/str.h"
#include "io/stream.h"

struct outq_node;

struct outq {
    struct outq_node *head, *tail;
    size_t queued; /* bytes in memory that are not sent yet; files do not count */
    uint64_t sent; /* bytes sent since the beginning */
};

static inline bool outq_empty(const struct outq *q)
{
    return !q->head;
}
void outq_add(struct outq *q, struct str data);     /* copied */
void outq_add_ref(struct outq *q, struct str data); /* must stay valid until the queue is empty */
void outq_add_file(struct outq *q, int take_fd, off_t offset, uint64_t n);
/* Sends in order: 0 when the queue is empty, -EAGAIN when the stream is full (or had enough for one
 * turn), another negative errno when it is broken. A file that is shorter than promised is -EIO. */
int outq_flush(struct outq *q, struct io_stream *s);
/* Sends the queue and then `iov` with as few calls as possible; what does not go out is copied into
 * the queue. At most OUTQ_IOV_MAX pieces. 0, or a negative errno when the stream is broken. */
#define OUTQ_IOV_MAX 4
int outq_writev(struct outq *q, struct io_stream *s, const struct iovec *iov, int n_iov);
void outq_done(struct outq *q); /* drops what is left; `sent` stays */
