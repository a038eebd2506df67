#pragma once
/* ZMTP 3.0, the wire protocol of ZeroMQ (rfc.zeromq.org/spec/23), as far as a client of code
 * kernels needs it: the NULL mechanism, and the roles DEALER and SUB. Bytes in, views out; no I/O.
 *
 * A message is a list of parts. One that is larger than the reader's maximum is read to its end all
 * the same: the parts that did not fit are empty and the message is marked, so that a huge output
 * costs its reader that output and not the connection. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

#define ZMTP_GREETING_LEN 64
#define ZMTP_MAX_PARTS 64 /* limit: parts of one ZeroMQ message; more end the connection */
#define ZMTP_MAX_COMMAND                                                                           \
    (8u << 10) /* limit: bytes of a ZeroMQ command; more end the connection                        \
                */

/* ---- frames ---- */
struct zmtp_frame {
    bool more, command;
    uint64_t len;
};
#define ZMTP_FRAME_MAX 9
/* Length of the frame's header, 0 when more input is needed, -EPROTO for reserved bits, commands
 * with MORE, and lengths beyond 2^63. */
int zmtp_frame_parse(struct str in, struct zmtp_frame *ret);
void zmtp_add_frame(struct buf *out, struct str body, bool more);

/* ---- handshake ---- */
enum zmtp_role { ZMTP_DEALER, ZMTP_SUB };
/* Our greeting and READY command. */
void zmtp_add_hello(struct buf *out, enum zmtp_role role);
/* A SUB asks for everything: not before the peer is ready, or libzmq takes it for a violation. */
void zmtp_add_subscribe(struct buf *out);

/* ---- reading ---- */
struct zmtp_reader {
    struct buf in;                  /* bytes not yet delivered */
    size_t max;                     /* bytes of one message that are kept */
    size_t start;                   /* of the message in `in` that is being read */
    size_t at;                      /* how far `in` has been looked at */
    bool greeted, ready, delivered; /* delivered: `at` is the end of a message that was told */
    uint64_t skip;                  /* bytes of a part that did not fit, still to come */
    struct {
        size_t from, n;
    } part[ZMTP_MAX_PARTS];
    size_t n_parts;
    bool truncated;
};

enum zmtp_result {
    ZMTP_MORE,    /* read more */
    ZMTP_READY,   /* the handshake is over */
    ZMTP_MESSAGE, /* parts[] are valid until the next call */
    ZMTP_PING,    /* answer with zmtp_add_pong(); parts[0] is its context */
    ZMTP_BAD,     /* not ZMTP 3 with NULL, or an ERROR from the peer: close */
};

struct zmtp_message {
    struct str parts[ZMTP_MAX_PARTS];
    size_t n;
    bool truncated;
};

void zmtp_reader_init(struct zmtp_reader *r, size_t max);
void zmtp_reader_done(struct zmtp_reader *r);
/* Room for the next read; *ret_n is at least 1. The caller then says how much came. */
char *zmtp_reader_space(struct zmtp_reader *r, size_t *ret_n);
void zmtp_reader_fill(struct zmtp_reader *r, size_t n);
/* The next thing among the bytes that are there. Call again until ZMTP_MORE or ZMTP_BAD. */
enum zmtp_result zmtp_reader_next(struct zmtp_reader *r, struct zmtp_message *ret);
void zmtp_add_pong(struct buf *out, struct str context);
