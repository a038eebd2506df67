#pragma once
/* Between OpenSSL and the socket: what a write makes of several records leaves in one system call,
 * and one packet of the largest size instead of four. Private to tls.c.
 *
 * Plaintext counts as written when its record has left as a whole. What is sealed and does not fit
 * into the socket stays here, and the owner, who is told that it is not written, brings the same
 * bytes again: wire_sealed() says how many of them to pass over. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "io/limits.h"

struct bio_st;

struct tls_wire {
    int fd;
    bool is_socket;
    bool eof;       /* the peer has closed without a word of TLS */
    bool gathering; /* records go to the batch, else straight to the socket */
    char *out;      /* sealed bytes that did not fit, on the heap, or NULL */
    uint32_t out_len, out_at;
    uint32_t n_records;
    struct {
        uint32_t plain, end; /* not reported bytes, and where it ends in `out` (0: it has left) */
    } records[IO_TLS_BATCH];
};

void wire_init(struct tls_wire *w, int fd, bool is_socket);
void wire_done(struct tls_wire *w);
/* For SSL_set_bio(), once; goes with the SSL, and before the wire. */
struct bio_st *wire_bio(struct tls_wire *w);
/* 0: nothing is left; -EAGAIN or another negative errno. */
int wire_flush(struct tls_wire *w);
/* Between these two OpenSSL may write up to IO_TLS_BATCH records; `plain` is said after each. Only
 * when nothing is left from before. The end sends them, and has the results of wire_flush(). */
void wire_begin(struct tls_wire *w);
void wire_record(struct tls_wire *w, size_t plain);
int wire_end(struct tls_wire *w);
/* Plaintext that is sealed and was not reported. */
size_t wire_sealed(const struct tls_wire *w);
/* Reports at most `max` bytes of records that have left. */
size_t wire_report(struct tls_wire *w, size_t max);
