/* /files but for upload and download: each handler runs in a worker and blocks. */

#include "execd/routes_files.h"

#include <errno.h>

#include "base/cleanup.h"
#include "execd/file_request.h"
#include "execd/fs_info.h"
#include "execd/fs_list.h"
#include "execd/fs_move.h"
#include "execd/fs_path.h"
#include "execd/fs_perm.h"
#include "execd/fs_remove.h"
#include "execd/fs_replace.h"
#include "execd/limits.h"
#include "execd/reply.h"

static bool is_repeated(struct http_req *req, struct str path, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (str_eq(http_req_query_get(req, "path", k), path)) {
            return true;
        }
    }
    return false;
}

void files_info(struct http_req *req, struct http_reply *reply)
{
    cleanup_(fs_names_done) struct fs_names names;
    fs_names_load(&names);
    struct json_out o;
    json_out_init(&o, &reply->body);
    json_obj_begin(&o);
    struct str given;
    for (size_t i = 0; (given = http_req_query_get(req, "path", i)).p; i++) {
        struct err e = {0};
        struct stat st;
        const char *abs = fs_path_resolve(http_req_arena(req), given, &e);
        if (!abs || fs_info_stat(abs, &st, &e) < 0) {
            file_reply_error(reply, &e);
            return;
        }
        if (is_repeated(req, given, i)) {
            continue;
        }
        struct file_info info;
        fs_info_fill(&info, abs, &st, &names);
        json_key(&o, arena_str(http_req_arena(req), given));
        json_encode(&o, &file_info_table, &info);
    }
    json_obj_end(&o);
    reply->status = 200;
    reply->ctype = JSON_CTYPE;
}

void files_delete(struct http_req *req, struct http_reply *reply)
{
    file_request_remove(req, reply, "file", fs_remove_file);
}

void files_permissions(struct http_req *req, struct http_reply *reply)
{
    file_request_permissions(req, reply, "changing permissions for", fs_perm_apply);
}

static int move_one(struct http_req *req, const struct file_move *m, struct err *e)
{
    struct arena *a = http_req_arena(req);
    const char *src = fs_path_resolve(a, str_from(m->src ? m->src : ""), e);
    const char *dest = src ? fs_path_resolve(a, str_from(m->dest ? m->dest : ""), e) : NULL;
    return dest ? fs_move(a, src, dest, e) : -1;
}

void files_move(struct http_req *req, struct http_reply *reply)
{
    size_t n;
    struct file_item *items = file_request_items(req, reply, false, &file_move_table, &n);
    if (!items) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct err e = {0};
        if (move_one(req, items[i].value, &e) < 0) {
            file_reply_error(reply, &e);
            return;
        }
    }
    reply_work_empty(reply);
}

void files_search(struct http_req *req, struct http_reply *reply)
{
    struct str given = file_request_path(req, reply);
    if (!given.p) {
        return;
    }
    struct str pattern = http_req_query_get(req, "pattern", 0);
    struct err e = {0};
    const char *abs = fs_path_resolve(http_req_arena(req), given, &e);
    if (!abs) {
        reply_work_error(reply, 500, CODE_RUNTIME_ERROR,
                         "error converting path %.*s to absolute. %s", STR_FMT(given), e.msg);
        return;
    }
    reply->body.max = FS_LIST_MAX_RESULT;
    int r = fs_search(abs, pattern.n ? pattern : STR("**"), &reply->body, &e);
    if (r == FS_LIST_BROKE) {
        reply_work_error(reply, 500, CODE_RUNTIME_ERROR, "error searching files. %s", e.msg);
    } else if (r < 0) {
        file_reply_error(reply, &e);
    } else {
        reply->status = 200;
        reply->ctype = JSON_CTYPE;
    }
}

static int replace_one(struct http_req *req, const char *path, const struct file_replace *r,
                       uint64_t *ret_count, struct err *e)
{
    struct arena *a = http_req_arena(req);
    const char *abs = fs_path_resolve(a, str_from(path), e);
    return abs ? fs_replace(a, abs, str_from(r->old_text), str_from(r->new_text), ret_count, e)
               : -1;
}

void files_replace(struct http_req *req, struct http_reply *reply)
{
    size_t n;
    struct file_item *items = file_request_items(req, reply, true, &file_replace_table, &n);
    if (!items) {
        return;
    }
    cleanup_(buf_done) struct buf result = BUF_INIT(FS_LIST_MAX_RESULT);
    struct json_out o;
    json_out_init(&o, &result);
    json_obj_begin(&o);
    for (size_t i = 0; i < n; i++) {
        struct err e = {0};
        uint64_t count = 0;
        if (replace_one(req, items[i].path, items[i].value, &count, &e) < 0) {
            file_reply_error(reply, &e);
            return;
        }
        const struct file_replaced done = {.count = {true, (int64_t)count}};
        json_key(&o, items[i].path);
        json_encode(&o, &file_replaced_table, &done);
    }
    json_obj_end(&o);
    reply_work_empty(reply);
    if (str_eq(http_req_query_get(req, "verbose", 0), STR("true"))) {
        reply->ctype = JSON_CTYPE;
        (void)buf_add_str(&reply->body, buf_str(&result));
    }
}
