#include "execd/fs_info.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "execd/fs_path.h"

void fs_names_load(struct fs_names *n)
{
    *n = (struct fs_names){0};
    passwd_load(&n->db);
}

void fs_names_done(struct fs_names *n)
{
    passwd_done(&n->db);
}

static const char *user_name(struct fs_names *n, uid_t uid)
{
    if (!n->user.has || n->user.id != uid) {
        const struct passwd_user *u = passwd_user_by_uid(&n->db, uid);
        if (u) {
            (void)snprintf(n->user.text, sizeof(n->user.text), "%s", u->name);
        } else {
            (void)snprintf(n->user.text, sizeof(n->user.text), "%u", uid);
        }
        n->user.has = true;
        n->user.id = uid;
    }
    return n->user.text;
}

static const char *group_name(struct fs_names *n, gid_t gid)
{
    if (!n->group.has || n->group.id != gid) {
        const struct passwd_group *g = passwd_group_by_gid(&n->db, gid);
        if (g) {
            (void)snprintf(n->group.text, sizeof(n->group.text), "%s", g->name);
        } else {
            (void)snprintf(n->group.text, sizeof(n->group.text), "%u", gid);
        }
        n->group.has = true;
        n->group.id = gid;
    }
    return n->group.text;
}

static enum file_type type_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFREG:
        return FILE_TYPE_FILE;
    case S_IFDIR:
        return FILE_TYPE_DIRECTORY;
    case S_IFLNK:
        return FILE_TYPE_SYMLINK;
    default:
        return FILE_TYPE_OTHER;
    }
}

static struct opt_int time_us(struct timespec t)
{
    return (struct opt_int){true, (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000};
}

void fs_info_fill(struct file_info *out, const char *path, const struct stat *st,
                  struct fs_names *n)
{
    *out = (struct file_info){
        .path = path,
        .type = file_type_names[type_of(st->st_mode)],
        .size = {true, st->st_size},
        .modified_at = time_us(st->st_mtim),
        .created_at = time_us(st->st_ctim), /* not the birth time: clients compare it with mtime */
        .owner = user_name(n, st->st_uid),
        .group = group_name(n, st->st_gid),
        .mode = {true, file_mode_digits(st->st_mode & 0777)},
    };
}

int fs_info_stat(const char *abs, struct stat *ret, struct err *e)
{
    const char *leaf;
    cleanup_close int dir = fs_open_parent(abs, &leaf);
    if (dir < 0) {
        return err_sys(e, dir, "%s", abs);
    }
    if (fstatat(dir, leaf, ret, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(e, errno, "%s", abs);
    }
    return 0;
}
