#pragma once
/* A byte stream on a loop: TCP, Unix socket, TLS over either, pipe or PTY.
 *
 * The surface is that of a non-blocking descriptor with events, so that the layer above decides
 * where bytes go and nothing is copied on the way:
 *
 *   - io_stream_want() says which events are wanted. Level-triggered: READABLE is reported as long
 *     as there is something to read and it is wanted. Not wanting READABLE *is* the backpressure.
 *   - The callback calls io_stream_read() / io_stream_writev() / io_stream_sendfile() until they
 * say -EAGAIN or it has had enough for this turn. Plaintext that TLS has read ahead counts as
 * something to read.
 *   - IO_HUP reports that the peer is gone (EPOLLRDHUP, EPOLLHUP, EPOLLERR), once
 *     each time io_stream_watch_hup() is switched on, also while nothing is wanted. Data may still
 *     be readable.
 *   - io_stream_close() may be called anywhere, also inside the callback. No callback comes after
 *     it and the pointer is dead at once; memory is freed when the loop is done with it. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "io/addr.h"
#include "io/loop.h"

struct io_stream;
struct io_tls;

enum io_event { IO_READABLE = 1, IO_WRITABLE = 2, IO_HUP = 4 };

typedef void io_stream_cb(struct io_stream *s, unsigned events, void *arg);

/* Takes over a non-blocking descriptor (socket, pipe, PTY master). NULL, and the descriptor closed,
 * when it cannot be watched (a regular file). */
struct io_stream *io_stream_from_fd(struct io_loop *l, int take_fd, io_stream_cb *cb, void *arg);
/* Changes who listens: used when a connection is handed from one owner to the next. */
void io_stream_set_cb(struct io_stream *s, io_stream_cb *cb, void *arg);
struct io_loop *io_stream_loop(struct io_stream *s);
void io_stream_want(struct io_stream *s, unsigned events);
unsigned io_stream_wanted(const struct io_stream *s);
void io_stream_watch_hup(struct io_stream *s, bool on);

/* Bytes, 0 at end of stream, -EAGAIN, or another negative errno (-EPROTO for a TLS failure). */
ssize_t io_stream_read(struct io_stream *s, void *p, size_t n);
/* After -EAGAIN the next write begins with the same bytes and is not shorter: TLS has sealed them.
 */
ssize_t io_stream_writev(struct io_stream *s, const struct iovec *iov, int n_iov);
ssize_t io_stream_write(struct io_stream *s, const void *p, size_t n);
/* From file `fd` at *offset (advanced); sendfile(2) on plain sockets, read+write through TLS. */
ssize_t io_stream_sendfile(struct io_stream *s, int fd, off_t *offset, size_t n);
/* Half-closes the write side (TLS: close_notify; pipe: its reader sees the end). 0; -EAGAIN (TLS
 * only: again when writable); -EOPNOTSUPP for a terminal; or another negative errno. */
int io_stream_shutdown(struct io_stream *s);
void io_stream_close(struct io_stream *s); /* NULL is fine */
/* Close with a reset, so that nothing lingers: for protocol violations and floods. */
void io_stream_abort(struct io_stream *s);

/* The descriptor, still owned by the stream (-1 for TLS: its bytes are not the stream's bytes). */
int io_stream_fd(const struct io_stream *s);
int io_stream_peer(const struct io_stream *s, struct io_addr *ret); /* 0 or -errno */
bool io_stream_is_tls(const struct io_stream *s);
/* Does TLS hold bytes in buffers of its own: part of a record, or records that did not fit? */
bool io_stream_is_holding(const struct io_stream *s);
/* Detaches and returns the descriptor of a plain stream; the stream is closed. */
int io_stream_take_fd(struct io_stream *s);
/* Open streams on all loops of this process, for leak tests and metrics. */
size_t io_stream_count(void);
