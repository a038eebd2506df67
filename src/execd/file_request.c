#include "execd/file_request.h"

#include <errno.h>

#include "base/cleanup.h"
#include "execd/fs_path.h"
#include "execd/reply.h"

void file_reply_error(struct http_reply *reply, const struct err *e)
{
    if (e->sys == ENOENT) {
        reply_work_error(reply, 404, CODE_FILE_NOT_FOUND, "file not found. %s", e->msg);
    } else if (e->code == ERR_INVALID && e->sys == 0) {
        reply_work_error(reply, 400, CODE_INVALID_BODY, "%s", e->msg);
    } else {
        reply_work_error(reply, 500, CODE_RUNTIME_ERROR, "error accessing file: %s", e->msg);
    }
}

void file_reply_bad_body(struct http_reply *reply, const struct err *e)
{
    reply_work_error(reply, 400, CODE_INVALID_BODY,
                     "error parsing request, MAYBE invalid body format. %s", e->msg);
}

static struct json *parse_body(const struct http_req *req, bool is_map, struct err *e)
{
    struct json *tree = json_parse_first(http_req_body(req), e);
    if (tree && json_is_null(tree)) {
        json_free(tree);
        return is_map ? json_object_new() : json_array_new();
    }
    if (tree && (is_map ? !json_is_object(tree) : !json_is_array(tree))) {
        (void)err_set(e, ERR_INVALID, "expected %s, got %s", is_map ? "an object" : "an array",
                      json_type_name(tree));
        json_free(tree);
        return NULL;
    }
    return tree;
}

struct file_item *file_request_items(struct http_req *req, struct http_reply *reply, bool is_map,
                                     const struct json_table *t, size_t *ret_n)
{
    struct err e = {0};
    struct arena *a = http_req_arena(req);
    cleanup_(json_free) struct json *tree = parse_body(req, is_map, &e);
    if (!tree) {
        file_reply_bad_body(reply, &e);
        return NULL;
    }
    size_t n = json_len(tree);
    struct file_item *items = arena_array(a, n + 1, sizeof(*items));
    void *it = NULL;
    for (size_t i = 0; i < n; i++) {
        struct json *value = NULL;
        if (is_map) {
            const char *path = NULL;
            (void)json_next(tree, &it, &path, &value);
            items[i].path = arena_strdup(a, path);
        } else {
            value = json_item(tree, i);
        }
        items[i].value = arena_alloc(a, t->size);
        if (!json_is_null(value) && json_decode(a, t, value, items[i].value, NULL, &e) < 0) {
            file_reply_bad_body(reply, &e);
            return NULL;
        }
    }
    *ret_n = n;
    return items;
}

struct str file_request_path(struct http_req *req, struct http_reply *reply)
{
    struct str path = http_req_query_get(req, "path", 0);
    if (path.n == 0) {
        reply_work_error(reply, 400, CODE_MISSING_QUERY, "missing query parameter 'path'");
        return STR_NULL;
    }
    return path;
}

void file_request_remove(struct http_req *req, struct http_reply *reply, const char *what,
                         int (*remove)(const char *abs, struct err *e))
{
    struct str given;
    for (size_t i = 0; (given = http_req_query_get(req, "path", i)).p; i++) {
        struct err e = {0};
        const char *abs = fs_path_resolve(http_req_arena(req), given, &e);
        if (!abs || remove(abs, &e) < 0) {
            reply_work_error(reply, 500, CODE_RUNTIME_ERROR, "error removing %s %.*s. %s", what,
                             STR_FMT(given), e.msg);
            return;
        }
    }
    reply_work_empty(reply);
}

void file_request_permissions(struct http_req *req, struct http_reply *reply, const char *doing,
                              int (*apply)(const char *abs, const struct fs_owner_mode *om,
                                           struct err *e))
{
    size_t n;
    struct file_item *items = file_request_items(req, reply, true, &file_permission_table, &n);
    if (!items) {
        return;
    }
    cleanup_(passwd_done) struct passwd_db db;
    passwd_load(&db);
    for (size_t i = 0; i < n; i++) {
        struct err e = {0};
        struct fs_owner_mode om;
        const char *abs = fs_path_resolve(http_req_arena(req), str_from(items[i].path), &e);
        if (abs && fs_perm_parse(&db, items[i].value, &om, &e) == 0 && apply(abs, &om, &e) == 0) {
            continue;
        }
        if (doing) {
            reply_work_error(reply, 500, CODE_RUNTIME_ERROR, "error %s %s. %s", doing,
                             items[i].path, e.msg);
        } else {
            file_reply_error(reply, &e);
        }
        return;
    }
    reply_work_empty(reply);
}
