#pragma once
/* Handlers of /metrics. */

#include "http/server.h"

void metrics_get(struct http_req *req);
void metrics_watch(struct http_req *req);
