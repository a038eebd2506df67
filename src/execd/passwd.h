#pragma once
/* Users and groups out of /etc/passwd and /etc/group, read by ourselves: execd is linked statically
 * and must not need name service modules of whatever image it runs in. A missing file is an empty
 * one, malformed lines are skipped. A database is a snapshot; read it again for each request. */

#include <stddef.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/str.h"

/* Larger files are read up to here; the rest is ignored. */
#define PASSWD_MAX_FILE (1u << 20)

struct passwd_user {
    const char *name, *home, *shell;
    uid_t uid;
    gid_t gid;
};

struct passwd_group {
    const char *name;
    gid_t gid;
    struct str members; /* comma-separated */
};

struct passwd_db {
    struct arena arena;
    struct passwd_user *users;
    size_t n_users;
    struct passwd_group *groups;
    size_t n_groups;
};

/* From this process's own root. */
void passwd_load(struct passwd_db *db);
/* From text, for tests. */
void passwd_parse(struct passwd_db *db, struct str passwd, struct str group);
void passwd_done(struct passwd_db *db);
static inline void passwd_done_cleanup(struct passwd_db *db)
{
    passwd_done(db);
}

/* The first entry of that name or number, or NULL. */
const struct passwd_user *passwd_user_by_name(const struct passwd_db *db, struct str name);
const struct passwd_user *passwd_user_by_uid(const struct passwd_db *db, uid_t uid);
const struct passwd_group *passwd_group_by_name(const struct passwd_db *db, struct str name);
const struct passwd_group *passwd_group_by_gid(const struct passwd_db *db, gid_t gid);
/* The groups `user` is a member of, `primary` first and once. At most `max`. Returns the number. */
size_t passwd_groups_of(const struct passwd_db *db, const char *user, gid_t primary, gid_t *out,
                        size_t max);
