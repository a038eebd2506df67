#pragma once
/* Who may talk to the HTTP transport. A web page must not reach a server on the user's machine
 * through the user's browser: neither by calling it (Origin), nor by a name that was pointed here
 * (Host). */

#include <stdbool.h>

#include "base/str.h"
#include "mcp/mcp.h"

/* "localhost", "127.x.y.z", "::1", with or without brackets and port. */
bool guard_is_loopback(struct str host);
/* `host` is a Host header. */
bool guard_host(const struct http_opts *o, struct str host);
/* `origin` is an Origin header, or STR_NULL when there is none. */
bool guard_origin(const struct http_opts *o, struct str origin);
/* `header` is an Authorization header. */
bool guard_token(const struct http_opts *o, struct str header);
/* Whether an Accept header has room for a media type. */
bool guard_accepts(struct str accept, struct str type);
