#pragma once
/* The access token: one header, on every path. */

#include <stdbool.h>

#include "http/server.h"

#define AUTH_HEADER "X-EXECD-ACCESS-TOKEN"

/* True when no token is configured or the request carries it; else the 401 has been sent. */
bool auth_check(struct http_req *req, struct str token);
