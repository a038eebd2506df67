#include "execd/fs_list.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "execd/fs_info.h"
#include "execd/fs_path.h"
#include "execd/fs_walk.h"
#include "execd/limits.h"

struct listing {
    struct json_out out;
    struct fs_names names;
    unsigned depth;
    struct err *e;
};

static int list_visit(const struct fs_entry *entry, void *arg)
{
    struct listing *l = arg;
    struct file_info info;
    fs_info_fill(&info, entry->path, &entry->st, &l->names);
    json_encode(&l->out, &file_info_table, &info);
    if (buf_failed(l->out.buf)) {
        return err_set(l->e, ERR_LIMIT, "more than %u MB of entries: ask for a smaller depth",
                       FS_LIST_MAX_RESULT >> 20);
    }
    return entry->depth + 1 < l->depth;
}

static int list_unreadable(const char *path, int error, void *arg)
{
    const struct listing *l = arg;
    return err_sys(l->e, error, "%s", path);
}

static int list_open(const char *abs, struct err *e)
{
    struct stat st;
    if (fs_info_stat(abs, &st, e) < 0) {
        return -1;
    }
    if (S_ISLNK(st.st_mode)) {
        return err_set(e, ERR_INVALID, "path is a symbolic link, refusing to traverse: %s", abs);
    }
    if (!S_ISDIR(st.st_mode)) {
        return err_set(e, ERR_INVALID, "path is not a directory: %s", abs);
    }
    int fd = fs_open(abs, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd < 0) {
        (void)err_sys(e, fd, "%s", abs);
        return FS_LIST_BROKE;
    }
    return fd;
}

int fs_list(const char *abs, unsigned depth, struct buf *out, struct err *e)
{
    int fd = list_open(abs, e);
    if (fd < 0) {
        return fd;
    }
    struct listing l = {.depth = depth, .e = e};
    json_out_init(&l.out, out);
    json_arr_begin(&l.out);
    if (depth == 0) {
        (void)close(fd);
        json_arr_end(&l.out);
        return 0;
    }
    fs_names_load(&l.names);
    static const struct fs_walk_ops ops = {list_visit, list_unreadable};
    int r = fs_walk(fd, abs, &ops, &l);
    fs_names_done(&l.names);
    json_arr_end(&l.out);
    if (r < 0 && e->code == ERR_NONE) {
        (void)err_sys(e, r, "%s", abs);
    }
    return r < 0 ? FS_LIST_BROKE : 0;
}
