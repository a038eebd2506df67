#include "execd/passwd.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"

static size_t count_lines(struct str s)
{
    size_t n = 1;
    for (size_t i = 0; i < s.n; i++) {
        n += s.p[i] == '\n';
    }
    return n;
}

static void parse_users(struct passwd_db *db, struct str text)
{
    db->users = arena_array(&db->arena, count_lines(text), sizeof(db->users[0]));
    struct str rest = text;
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        struct str name = str_cut(&line, ':');
        (void)str_cut(&line, ':'); /* password */
        struct str uid = str_cut(&line, ':');
        struct str gid = str_cut(&line, ':');
        (void)str_cut(&line, ':'); /* comment */
        struct str home = str_cut(&line, ':');
        struct passwd_user u = {0};
        if (name.n == 0 || name.p[0] == '#' || parse_u32(uid, &u.uid) < 0 ||
            parse_u32(gid, &u.gid) < 0) {
            continue;
        }
        u.name = arena_str(&db->arena, name);
        u.home = arena_str(&db->arena, home);
        u.shell = arena_str(&db->arena, line);
        db->users[db->n_users++] = u;
    }
}

static void parse_groups(struct passwd_db *db, struct str text)
{
    db->groups = arena_array(&db->arena, count_lines(text), sizeof(db->groups[0]));
    struct str rest = text;
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        struct str name = str_cut(&line, ':');
        (void)str_cut(&line, ':'); /* password */
        struct str gid = str_cut(&line, ':');
        struct passwd_group g = {0};
        if (name.n == 0 || name.p[0] == '#' || parse_u32(gid, &g.gid) < 0) {
            continue;
        }
        g.name = arena_str(&db->arena, name);
        g.members = str_n(arena_str(&db->arena, line), line.n);
        db->groups[db->n_groups++] = g;
    }
}

void passwd_parse(struct passwd_db *db, struct str passwd, struct str group)
{
    *db = (struct passwd_db){0};
    parse_users(db, passwd);
    parse_groups(db, group);
}

void passwd_load(struct passwd_db *db)
{
    cleanup_(buf_done) struct buf passwd = BUF_INIT(PASSWD_MAX_FILE);
    cleanup_(buf_done) struct buf group = BUF_INIT(PASSWD_MAX_FILE);
    (void)file_read_regular(AT_FDCWD, "/etc/passwd", &passwd); /* what could be read is used */
    (void)file_read_regular(AT_FDCWD, "/etc/group", &group);
    passwd_parse(db, buf_str(&passwd), buf_str(&group));
}

void passwd_done(struct passwd_db *db)
{
    arena_done(&db->arena);
    *db = (struct passwd_db){0};
}

const struct passwd_user *passwd_user_by_name(const struct passwd_db *db, struct str name)
{
    for (size_t i = 0; i < db->n_users; i++) {
        if (str_eq(str_from(db->users[i].name), name)) {
            return &db->users[i];
        }
    }
    return NULL;
}

const struct passwd_user *passwd_user_by_uid(const struct passwd_db *db, uid_t uid)
{
    for (size_t i = 0; i < db->n_users; i++) {
        if (db->users[i].uid == uid) {
            return &db->users[i];
        }
    }
    return NULL;
}

const struct passwd_group *passwd_group_by_name(const struct passwd_db *db, struct str name)
{
    for (size_t i = 0; i < db->n_groups; i++) {
        if (str_eq(str_from(db->groups[i].name), name)) {
            return &db->groups[i];
        }
    }
    return NULL;
}

const struct passwd_group *passwd_group_by_gid(const struct passwd_db *db, gid_t gid)
{
    for (size_t i = 0; i < db->n_groups; i++) {
        if (db->groups[i].gid == gid) {
            return &db->groups[i];
        }
    }
    return NULL;
}

static bool has_member(struct str members, struct str user)
{
    while (members.p) {
        if (str_eq(str_cut(&members, ','), user)) {
            return true;
        }
    }
    return false;
}

size_t passwd_groups_of(const struct passwd_db *db, const char *user, gid_t primary, gid_t *out,
                        size_t max)
{
    size_t n = 0;
    if (max > 0) {
        out[n++] = primary;
    }
    for (size_t i = 0; i < db->n_groups && n < max; i++) {
        if (db->groups[i].gid != primary && has_member(db->groups[i].members, str_from(user))) {
            out[n++] = db->groups[i].gid;
        }
    }
    return n;
}
