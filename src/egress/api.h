#pragma once
/* The routes of policy, health and events, and the doorkeeper of all routes. */

#include "http/server.h"

extern const struct http_route api_routes[];
/* The token, before anything is routed. */
bool api_before(struct http_req *req, const struct http_route *route);
void api_not_found(struct http_req *req, bool path_known);
void api_error_body(int status, const char *reason, struct buf *out, const char **ret_ctype);
