#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "execd/fs_glob.h"
#include "execd/fs_info.h"
#include "execd/fs_list.h"
#include "execd/fs_path.h"
#include "execd/fs_walk.h"
#include "execd/limits.h"

struct search {
    struct json_out out;
    struct fs_names names;
    struct str pattern;
    bool by_path; /* the pattern has a slash */
    dev_t dev;    /* file system it began in */
    struct err *e;
};

static int bad_pattern(struct search *s, int error)
{
    if (error == -E2BIG) {
        return err_set(s->e, ERR_IO, "invalid pattern %.*s: too long or too complex",
                       STR_FMT(s->pattern));
    }
    return err_set(s->e, ERR_IO, "invalid pattern %.*s: syntax error in pattern",
                   STR_FMT(s->pattern));
}

static int consider(struct search *s, struct str subject, const char *path, const struct stat *st)
{
    int r = glob_match(s->pattern, subject);
    if (r < 0) {
        return bad_pattern(s, r);
    }
    if (r == 1) {
        struct file_info info;
        fs_info_fill(&info, path, st, &s->names);
        json_encode(&s->out, &file_info_table, &info);
        if (buf_failed(s->out.buf)) {
            return err_set(s->e, ERR_LIMIT, "more than %u MB of matches: narrow the pattern",
                           FS_LIST_MAX_RESULT >> 20);
        }
    }
    return 0;
}

/* The kernel's own file systems, met on the way through others: endless, full of what may not be
 * read, and not what anybody looks for. Whoever does begins inside of them. */
static bool is_kernel_fs(const struct search *s, const struct fs_entry *entry)
{
    struct statfs fs;
    if (entry->st.st_dev == s->dev) {
        return false;
    }
    cleanup_close int fd = fs_openat(entry->dir_fd, entry->name, O_PATH | O_NOFOLLOW, 0);
    if (fd < 0 || fstatfs(fd, &fs) < 0) {
        return false;
    }
    return fs.f_type == PROC_SUPER_MAGIC || fs.f_type == SYSFS_MAGIC ||
           fs.f_type == CGROUP_SUPER_MAGIC || fs.f_type == CGROUP2_SUPER_MAGIC;
}

static int search_visit(const struct fs_entry *entry, void *arg)
{
    struct search *s = arg;
    if (S_ISDIR(entry->st.st_mode)) {
        return !is_kernel_fs(s, entry);
    }
    return consider(s, s->by_path ? entry->rel : str_from(entry->name), entry->path, &entry->st);
}

static int search_unreadable(const char *path, int error, void *arg)
{
    const struct search *s = arg;
    return err_sys(s->e, error, "error accessing path %s", path);
}

static int search_tree(struct search *s, const char *abs)
{
    int fd = fs_open(abs, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd == -ENOENT) { /* vanished since it was looked at */
        return 0;
    }
    if (fd < 0) {
        return search_unreadable(abs, fd, s);
    }
    static const struct fs_walk_ops ops = {search_visit, search_unreadable};
    int r = fs_walk(fd, abs, &ops, s);
    return r < 0 && s->e->code == ERR_NONE ? err_sys(s->e, r, "%s", abs) : r;
}

int fs_search(const char *abs, struct str pattern, struct buf *out, struct err *e)
{
    struct stat st;
    if (fs_info_stat(abs, &st, e) < 0) {
        return -1;
    }
    cleanup_close int there = fs_open(abs, O_PATH, 0); /* a link must lead somewhere */
    if (there < 0) {
        return err_sys(e, there, "%s", abs);
    }
    struct search s = {
        .pattern = pattern, .by_path = str_find(pattern, '/') >= 0, .dev = st.st_dev, .e = e};
    int r = glob_check(pattern);
    if (r < 0) {
        (void)bad_pattern(&s, r);
        return FS_LIST_BROKE;
    }
    json_out_init(&s.out, out);
    json_arr_begin(&s.out);
    fs_names_load(&s.names);
    if (S_ISDIR(st.st_mode)) {
        r = search_tree(&s, abs);
    } else {
        r = consider(&s, str_from(strrchr(abs, '/') + 1), abs, &st);
    }
    fs_names_done(&s.names);
    json_arr_end(&s.out);
    return r < 0 ? FS_LIST_BROKE : 0;
}
