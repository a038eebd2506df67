#pragma once
/* The way of a document to its collector: one POST at a time, nothing waits for it, and what fails
 * is dropped. It logs, once when exports begin to fail and once when they work again. On the loop;
 * who owns it resolves the collector's name. */

#include <stdbool.h>

#include "base/buf.h"
#include "http/client.h"
#include "otlp/document.h"

struct otlp_post {
    struct http_client *client;
    const char *authority;  /* for the Host header and the log */
    struct str target;      /* path and query */
    struct io_tls_ctx *tls; /* NULL: plain http */
    const char *server_name;
    const struct otlp_pair *headers; /* at most OTLP_MAX_PAIRS; what is no header is left out */
    size_t n_headers;
    uint64_t timeout_ms;

    bool is_busy; /* set by the owner when it begins an export; cleared when that has ended */
    bool is_failing;
    int status;
    struct http_call *call;
};

/* Ends with -EMSGSIZE when the body did not fit its buffer. */
void otlp_post_start(struct otlp_post *p, const struct io_addr *to, const struct buf *body);
/* An export that failed before anything could be posted. */
void otlp_post_failed(struct otlp_post *p, int error);
/* Forgets the one under way, if any. */
void otlp_post_cancel(struct otlp_post *p);
