#pragma once
/* Server-sent events on a response: headers that keep proxies from buffering, and frames. The
 * OpenSandbox protocol sends bare JSON frames ("{...}\n\n"); MCP sends standard ones ("data: ...").
 */

#include "http/server.h"

/* text/event-stream, Cache-Control: no-cache, X-Accel-Buffering: no; chunked. */
void sse_start(struct http_req *req, int status);
/* Writes `json` and two line feeds. As http_resp_write(). */
bool sse_send_bare(struct http_req *req, struct str json);
/* "event:", "id:", "data:" lines; event and id may be STR_NULL; data is split at line feeds. */
bool sse_send(struct http_req *req, struct str event, struct str id, struct str data);

/* Incremental parser of standard and bare streams, for clients. */
struct sse_parser;
struct sse_event {
    struct str event, id, data;
};
typedef void sse_event_cb(const struct sse_event *ev, void *arg);
struct sse_parser *sse_parser_new(size_t max_event, sse_event_cb *cb, void *arg);
void sse_parser_free(struct sse_parser *p);
int sse_parser_feed(struct sse_parser *p, struct str data); /* 0 or -EMSGSIZE */
int sse_parser_end(struct sse_parser *p); /* dispatches an unterminated last event */
