#pragma once
/* TLS 1.2+ with OpenSSL 3 as a layer on a stream. execd does not link this file. */

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "io/stream.h"

struct io_tls_ctx;
struct evp_pkey_st;
struct x509_st;

struct io_tls_server_opts {
    const char *cert_file, *key_file; /* PEM */
    const char *alpn;                 /* offered protocol, usually "http/1.1"; NULL for none */
    /* Instead of files: objects of OpenSSL, each referenced as long as the context lives. */
    struct x509_st *cert, *issuer; /* issuer is sent along; may be NULL */
    struct evp_pkey_st *key;
};

struct io_tls_client_opts {
    const char *ca_file; /* both NULL: the system's */
    const char *cert_file, *key_file;
    bool insecure; /* do not verify: only on an explicit user option */
    const char *alpn;
    const char *ca_dir; /* hashed names as c_rehash makes them; files are read when needed */
};

struct io_tls_ctx *io_tls_server_new(const struct io_tls_server_opts *o, struct err *e);
struct io_tls_ctx *io_tls_client_new(const struct io_tls_client_opts *o, struct err *e);
void io_tls_ctx_unref(struct io_tls_ctx *c);

/* Starts a handshake on `take_s`. cb gets the TLS stream, or NULL with an error; a deadline is the
 * caller's (io_tls_cancel). The TLS stream begins with no callback and nothing wanted. */
typedef void io_tls_cb(struct io_stream *s, const struct err *e, void *arg);
struct io_tls_op;
struct io_tls_op *io_tls_accept(struct io_tls_ctx *c, struct io_stream *take_s, io_tls_cb *cb,
                                void *arg);
struct io_tls_op *io_tls_connect(struct io_tls_ctx *c, struct io_stream *take_s,
                                 const char *server_name, io_tls_cb *cb, void *arg);
void io_tls_cancel(struct io_tls_op *op); /* closes; cb is not called */
