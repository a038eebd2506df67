#pragma once
/* The route table: for each method and path pattern one handler, and which of the two ways to write
 * code it uses. Patterns: "/sandboxes/{id}", "/proxy/{port}/{rest...}" (the rest, raw, may be
 * empty). A literal segment wins over a parameter, a parameter over a rest. A trailing slash is
 * accepted. HEAD finds the GET route unless it has its own. */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct buf;
struct http_req;
struct http_reply;

enum http_kind {
    HTTP_STREAM, /* callback on the loop; must not block */
    HTTP_WORK,   /* body collected first, handler runs blocking in the worker pool */
};

struct http_route {
    const char *method; /* "GET", ...; "*" for any */
    const char *pattern;
    enum http_kind kind;
    void (*stream)(struct http_req *req);
    void (*work)(struct http_req *req, struct http_reply *reply);
    size_t max_body; /* HTTP_WORK: 0 is HTTP_MAX_WORK_BODY */
    unsigned flags;  /* the application's own: ROUTE_NO_AUTH, ... */
};

#define HTTP_MAX_PARAMS 8

struct http_match {
    const struct http_route *route;
    bool path_known; /* some route has this path, but not this method */
    size_t n_params;
    struct {
        struct str name, raw; /* raw: as in the path, still percent-encoded */
    } params[HTTP_MAX_PARAMS];
};

struct http_router;
/* `routes` ends with an entry whose method is NULL and outlives the router. Aborts on a malformed
 * or ambiguous pattern: it is a programming error. */
struct http_router *http_router_new(const struct http_route *routes);
void http_router_free(struct http_router *r);
bool http_router_match(const struct http_router *r, struct str method, struct str path,
                       struct http_match *ret);
/* The methods that this path has, as for an Allow header ("GET, HEAD, POST"). */
void http_router_allow(const struct http_router *r, struct str path, struct buf *out);
