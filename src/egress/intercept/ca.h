#pragma once
/* The certificate authority of one sandbox, and the certificates it signs: P-256, in memory only.
 * The private keys never leave the process but for ca_format(), which is for the memory that
 * outlives a crash. */

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct ca;
struct io_tls_ctx;

struct ca *ca_new(struct err *e);
/* A private key and a certificate in PEM, in any order. */
struct ca *ca_parse(struct str pem, struct err *e);
void ca_free(struct ca *c);
int ca_format(const struct ca *c, struct buf *out);      /* key and certificate */
int ca_format_cert(const struct ca *c, struct buf *out); /* what the sandbox is to trust */
/* A server context for that name, made now or taken from the cache. Borrowed until the next call.
 */
struct io_tls_ctx *ca_context(struct ca *c, const char *name, struct err *e);
size_t ca_n_cached(const struct ca *c);
