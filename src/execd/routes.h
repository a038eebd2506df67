#pragma once
/* All handlers of execd, by the file that holds them. The table is in routes.c. */

#include "http/server.h"

extern const struct http_route execd_routes[];

/* routes_misc.c */
void route_ping(struct http_req *req);
