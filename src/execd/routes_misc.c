/* Small routes. */

#include "execd/reply.h"
#include "execd/routes.h"

void route_ping(struct http_req *req)
{
    reply_empty(req);
}
