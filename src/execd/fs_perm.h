#pragma once
/* Owner, group and mode of files. Blocking: for workers. */

#include <sys/stat.h>

#include "base/err.h"
#include "execd/passwd.h"
#include "model/file.h"

/* What a client asked for, with names looked up. Numbers are accepted where names are. */
struct fs_owner_mode {
    bool set_mode;
    mode_t mode;
    uid_t uid; /* -1: leave */
    gid_t gid;
};

/* `p` out of a request. -1 with `e` for a mode that is not octal and for unknown names. */
int fs_perm_parse(const struct passwd_db *db, const struct file_permission *p,
                  struct fs_owner_mode *ret, struct err *e);
/* Applies it to an open file: owner first, because changing it clears setuid and setgid. */
int fs_perm_apply_fd(int fd, const struct fs_owner_mode *om, struct err *e);
/* To a path; a link is followed. */
int fs_perm_apply(const char *abs, const struct fs_owner_mode *om, struct err *e);
