#include "execd/fs_perm.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "execd/fs_path.h"

int fs_perm_parse(const struct passwd_db *db, const struct file_permission *p,
                  struct fs_owner_mode *ret, struct err *e)
{
    *ret = (struct fs_owner_mode){.uid = (uid_t)-1, .gid = (gid_t)-1};
    if (p->mode.has && p->mode.v != 0) {
        int bits = file_mode_parse(p->mode.v);
        if (bits < 0) {
            return err_set(e, ERR_IO, "invalid mode %lld: expected octal digits up to 7777",
                           (long long)p->mode.v);
        }
        ret->set_mode = true;
        ret->mode = (mode_t)bits;
    }
    if (p->owner && *p->owner) {
        const struct passwd_user *u = passwd_user_by_name(db, str_from(p->owner));
        if (u) {
            ret->uid = u->uid;
        } else if (parse_u32(str_from(p->owner), &ret->uid) < 0 || ret->uid == (uid_t)-1) {
            return err_set(e, ERR_IO, "unknown user %s", p->owner);
        }
    }
    if (p->group && *p->group) {
        const struct passwd_group *g = passwd_group_by_name(db, str_from(p->group));
        if (g) {
            ret->gid = g->gid;
        } else if (parse_u32(str_from(p->group), &ret->gid) < 0 || ret->gid == (gid_t)-1) {
            return err_set(e, ERR_IO, "unknown group %s", p->group);
        }
    }
    return 0;
}

/* An O_PATH descriptor (no permission to read is needed to change a mode) cannot be given to
 * fchmod; fchmodat2 can, but only since Linux 6.6. So the file is named once more, below the
 * descriptor of its directory. */
static int apply_at(int dir, const char *leaf, const struct fs_owner_mode *om, struct err *e)
{
    if ((om->uid != (uid_t)-1 || om->gid != (gid_t)-1) &&
        fchownat(dir, leaf, om->uid, om->gid, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(e, errno, "changing the owner");
    }
    if (om->set_mode && fchmodat(dir, leaf, om->mode, 0) < 0) {
        return err_sys(e, errno, "changing the mode");
    }
    return 0;
}

int fs_perm_apply_fd(int fd, const struct fs_owner_mode *om, struct err *e)
{
    if ((om->uid != (uid_t)-1 || om->gid != (gid_t)-1) && fchown(fd, om->uid, om->gid) < 0) {
        return err_sys(e, errno, "changing the owner");
    }
    if (om->set_mode && fchmod(fd, om->mode) < 0) {
        return err_sys(e, errno, "changing the mode");
    }
    return 0;
}

int fs_perm_apply(const char *abs, const struct fs_owner_mode *om, struct err *e)
{
    cleanup_(arena_done) struct arena a = {0};
    const char *leaf;
    cleanup_close int dir = fs_open_target(&a, abs, &leaf);
    if (dir < 0) {
        return err_sys(e, dir, "%s", abs);
    }
    struct stat st;
    if (fstatat(dir, leaf, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(e, errno, "%s", abs);
    }
    return apply_at(dir, leaf, om, e);
}
