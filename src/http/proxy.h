#pragma once
/* Streaming reverse proxy: one request on the server side becomes one call on the client side.
 *
 * Path and query bytes go out as they came in. Repeated headers stay repeated and in order. Hop-by-
 * hop headers and everything named in Connection are removed, framing is made anew. Bodies flow
 * both ways as they arrive, at most HTTP_OUT_HIGH buffered per direction. An Upgrade becomes a
 * tunnel. */

#include "http/client.h"
#include "http/server.h"

struct http_proxy_opts {
    struct str target;           /* path?query to send upstream */
    struct str host;             /* Host to send; STR_NULL: the client's own */
    const struct h1_header *add; /* set on the request, replacing the client's of the same name */
    size_t n_add;
    const struct str *drop; /* request headers removed (credentials for this server) */
    size_t n_drop;
    const struct h1_header *add_resp;
    size_t n_add_resp;
    bool forwarded; /* set X-Forwarded-For, -Proto, -Host */
    uint64_t head_timeout_ms, idle_timeout_ms;
    void (*on_traffic)(void *arg); /* any byte either way, for activity tracking */
    /* The upstream could not be reached or broke before its head: answer on `req` here (an HTTP
     * error of the application's shape). NULL: 502 / 504 JSON. */
    void (*on_error)(struct http_req *req, int error, void *arg);
    void (*on_done)(void *arg); /* once, when both sides are finished */
    void *arg;
};

/* Called from a stream handler; takes over the request. What the options point to is copied (but
 * for `arg`), of the target what client.h says. The client must outlive the requests: free the
 * server first. */
void http_proxy_start(struct http_req *req, struct http_client *c, const struct http_target *t,
                      const struct http_proxy_opts *o);
/* The headers to forward (pure, for tests and fuzzing): writes at most max entries. Returns the
 * number, or -EINVAL. Views point into the input. */
ssize_t http_proxy_request_headers(const struct h1_header *in, size_t n,
                                   const struct http_proxy_opts *o, bool upgrade,
                                   struct h1_header *out, size_t max);
ssize_t http_proxy_response_headers(const struct h1_header *in, size_t n,
                                    const struct http_proxy_opts *o, bool upgrade,
                                    struct h1_header *out, size_t max);
