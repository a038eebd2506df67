#pragma once
/* libnftables: one context, text transactions, all or nothing. */

#include "base/buf.h"
#include "base/err.h"

struct nft;

struct nft *nft_new(struct err *e);
void nft_free(struct nft *n);
/* Frees the context with its caches until it is used again. */
void nft_rest(struct nft *n);
int nft_run(struct nft *n, const char *text, struct err *e);
/* The same, and what the command prints. */
int nft_ask(struct nft *n, const char *text, struct buf *out, struct err *e);
