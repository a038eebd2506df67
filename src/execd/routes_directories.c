/* /directories: each handler runs in a worker and blocks. */

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/num.h"
#include "execd/file_request.h"
#include "execd/fs_list.h"
#include "execd/fs_path.h"
#include "execd/fs_perm.h"
#include "execd/fs_remove.h"
#include "execd/limits.h"
#include "execd/reply.h"
#include "execd/routes_files.h"

void directories_list(struct http_req *req, struct http_reply *reply)
{
    struct str given = file_request_path(req, reply);
    if (!given.p) {
        return;
    }
    struct str text = http_req_query_get(req, "depth", 0);
    uint64_t depth = 1;
    int r = text.n ? parse_u64(text, &depth) : 0;
    if (r == -EINVAL) {
        reply_work_error(reply, 400, CODE_INVALID_BODY, "invalid query parameter 'depth': %.*s",
                         STR_FMT(text));
        return;
    }
    struct err e = {0};
    const char *abs = fs_path_resolve(http_req_arena(req), given, &e);
    if (!abs) {
        reply_work_error(reply, 500, CODE_RUNTIME_ERROR,
                         "error converting path %.*s to absolute. %s", STR_FMT(given), e.msg);
        return;
    }
    reply->body.max = FS_LIST_MAX_RESULT;
    unsigned limit = r == -ERANGE || depth > UINT_MAX ? UINT_MAX : (unsigned)depth;
    r = fs_list(abs, limit, &reply->body, &e);
    if (r == FS_LIST_BROKE) {
        reply_work_error(reply, 500, CODE_RUNTIME_ERROR, "error listing directory %s. %s", abs,
                         e.msg);
    } else if (r < 0) {
        file_reply_error(reply, &e);
    } else {
        reply->status = 200;
        reply->ctype = JSON_CTYPE;
    }
}

static int create_one(const char *abs, const struct fs_owner_mode *om, struct err *e)
{
    bool created;
    int r = fs_make_dirs(abs, 0777, &created);
    if (r < 0) {
        return err_sys(e, r, "%s", abs);
    }
    return created ? fs_perm_apply(abs, om, e) : 0;
}

void directories_create(struct http_req *req, struct http_reply *reply)
{
    file_request_permissions(req, reply, NULL, create_one);
}

void directories_delete(struct http_req *req, struct http_reply *reply)
{
    file_request_remove(req, reply, "directory", fs_remove_tree);
}
