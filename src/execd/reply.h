#pragma once
/* The shapes of execd's answers. An empty success has Content-Length: 0, an error always a body:
 * clients depend on both. */

#include "base/buf.h"
#include "base/err.h"
#include "http/server.h"
#include "json/field.h"

#define CODE_INVALID_BODY "INVALID_REQUEST_BODY"
#define CODE_MISSING_QUERY "MISSING_QUERY"
#define CODE_RUNTIME_ERROR "RUNTIME_ERROR"
#define CODE_INVALID_FILE "INVALID_FILE"
#define CODE_INVALID_FILE_CONTENT "INVALID_FILE_CONTENT"
#define CODE_INVALID_FILE_METADATA "INVALID_FILE_METADATA"
#define CODE_FILE_NOT_FOUND "FILE_NOT_FOUND"
#define CODE_UNKNOWN "UNKNOWN"
#define CODE_CONTEXT_NOT_FOUND "CONTEXT_NOT_FOUND"
#define CODE_NOT_SUPPORTED "NOT_SUPPORTED"
#define CODE_ALREADY_CONNECTED "ALREADY_CONNECTED"
#define CODE_LIMIT_EXCEEDED "LIMIT_EXCEEDED"
#define CODE_SHUTTING_DOWN "SHUTTING_DOWN"

#define JSON_CTYPE "application/json; charset=utf-8"
#define TEXT_CTYPE "text/plain; charset=utf-8"

/* 200 with an empty body. */
void reply_empty(struct http_req *req);
void reply_json(struct http_req *req, int status, struct str body);
/* {"code":...,"message":...}; an empty format leaves the message out. */
void reply_error(struct http_req *req, int status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* 400 MISSING_QUERY "missing query parameter 'name'". */
void reply_missing_query(struct http_req *req, const char *name);

/* The same for handlers that run in a worker. */
void reply_work_empty(struct http_reply *r);
void reply_work_error(struct http_reply *r, int status, const char *code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Just the error body, for the server's own errors. */
void reply_error_body(struct buf *out, const char *code, struct str message);

/* Decodes the first JSON value of a body as lenient clients need it: keys in any case, unknown keys
 * ignored, null is absent, a null body is {}. An empty body is {} when allowed, else an error.
 * Strings live in the request's arena, the tree until the request ends. -1 with ERR_INVALID; then
 * `*ret_parse_failed` tells a malformed or ill-typed body from a failed validation. */
int request_decode(struct arena *a, struct str body, bool empty_ok, const struct json_table *t,
                   void *out, bool *ret_parse_failed, struct err *e);
