#pragma once
/* HTTP heads that are still text, as libcurl hands them over: lines that end with LF or CRLF. */

#include "base/str.h"

/* The first value of a header, trimmed; STR_NULL when there is none. */
struct str http_head_get(struct str head, struct str name);
