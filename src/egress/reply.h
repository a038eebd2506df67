#pragma once
/* Answers in the form that this API has: JSON with a final newline, errors as plain text. */

#include "base/err.h"
#include "base/str.h"
#include "http/server.h"

void reply_json(struct http_req *req, int status, struct str json);
void reply_text(struct http_req *req, int status, const char *text);
/* Status by the code of the error: ERR_INVALID is 400, ERR_LIMIT 413, ... */
void reply_err(struct http_req *req, const struct err *e);
