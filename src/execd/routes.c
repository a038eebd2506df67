/* The one route table. */

#include "execd/routes.h"

const struct http_route execd_routes[] = {
    {"GET", "/ping", HTTP_STREAM, .stream = route_ping},

    {0},
};
