#pragma once
/* Handler of /proxy/{port}/...: servers inside the sandbox, reached through execd. */

#include "http/server.h"

void proxy_any(struct http_req *req);
