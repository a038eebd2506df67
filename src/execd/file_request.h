#pragma once
/* What the file routes share: errors in their common shape, bodies that map paths to objects. */

#include "base/arena.h"
#include "base/err.h"
#include "execd/fs_perm.h"
#include "http/server.h"
#include "json/field.h"

/* 404 FILE_NOT_FOUND "file not found. ..." for a missing file, 400 for what the client got wrong,
 * else 500 RUNTIME_ERROR "error accessing file: ...". */
void file_reply_error(struct http_reply *reply, const struct err *e);
/* 400 INVALID_REQUEST_BODY "error parsing request, MAYBE invalid body format. ..." */
void file_reply_bad_body(struct http_reply *reply, const struct err *e);

/* One entry of a body: {"<path>": {...}} or [{...}]. */
struct file_item {
    const char *path; /* NULL in an array */
    void *value;      /* decoded by the table; null is an empty object */
};
/* The entries of the first JSON value of the body, an object when is_map, else an array; null is an
 * empty one. All are decoded before the first is acted on. In the request's arena. NULL when the
 * 400 is set. */
struct file_item *file_request_items(struct http_req *req, struct http_reply *reply, bool is_map,
                                     const struct json_table *t, size_t *ret_n);
/* Every path of the query, one after the other, up to the first that cannot be removed: 500. `what`
 * is for the message. */
void file_request_remove(struct http_req *req, struct http_reply *reply, const char *what,
                         int (*remove)(const char *abs, struct err *e));
/* Owner, group and mode of every path of the body, by `apply`, up to the first that fails: 500
 * "error <doing> <path>. ...", or what file_reply_error() says when `doing` is NULL. */
void file_request_permissions(struct http_req *req, struct http_reply *reply, const char *doing,
                              int (*apply)(const char *abs, const struct fs_owner_mode *om,
                                           struct err *e));
/* The query's path, or STR_NULL when it is missing or empty; then the 400 is set. */
struct str file_request_path(struct http_req *req, struct http_reply *reply);
