#pragma once
/* The parts of httpd_demo that talk to others: the proxy and WebSockets. */

#include "http/client.h"
#include "http/server.h"

struct demo_peer_opts {
    struct io_addr upstream;
    bool has_upstream, forwarded;
};

/* Sends the request, without the leading "/proxy", to the upstream. */
void demo_proxy(struct http_req *req, struct http_client *c, const struct demo_peer_opts *o);
/* Echoes messages. ?max= limits them, ?ping= sets the ping interval; the text "close:CODE:REASON"
 * closes. */
void demo_ws(struct http_req *req);
/* Connects to ws://HOST:PORT/PATH, echoes until it ends, prints "closed CODE REASON" or
 * "refused STATUS ERROR". Returns the exit code. */
int demo_ws_client(const char *url, uint64_t max_message);
