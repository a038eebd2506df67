/* The identity of what an image runs. */

#include "execd/run_as.h"

#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <unistd.h>

#include "base/log.h"
#include "base/num.h"
#include "execd/passwd.h"

static int parse_group(const struct passwd_db *db, struct str text, gid_t *ret, struct err *e)
{
    const struct passwd_group *g = passwd_group_by_name(db, text);
    uint32_t n;
    if (!g && parse_u32(text, &n) < 0) {
        return err_set(e, ERR_NOT_FOUND, "the image has no group '%.*s'", STR_FMT(text));
    }
    *ret = g ? g->gid : (gid_t)n;
    return 0;
}

int run_as_parse(struct run_as *r, const struct passwd_db *db, const char *text, struct err *e)
{
    struct str rest = str_from(text), name = str_cut(&rest, ':');
    const struct passwd_user *u = passwd_user_by_name(db, name);
    uint32_t n = 0;
    *r = (struct run_as){.is_set = true};
    if (!u) {
        if (parse_u32(name, &n) < 0) {
            return err_set(e, ERR_NOT_FOUND, "the image has no user '%.*s'", STR_FMT(name));
        }
        u = passwd_user_by_uid(db, (uid_t)n);
    }
    r->uid = u ? u->uid : (uid_t)n;
    r->gid = u ? u->gid : 0;
    if (rest.n && parse_group(db, rest, &r->gid, e) < 0) {
        return -1;
    }
    r->groups[0] = r->gid;
    r->n_groups = 1;
    if (u && !rest.n) {
        r->n_groups = passwd_groups_of(db, u->name, r->gid, r->groups, RUN_AS_GROUPS);
    }
    const char *home = u && u->home && u->home[0] == '/' ? u->home : "/";
    (void)str_to_cstr(str_from(strlen(home) < sizeof(r->home) ? home : "/"), r->home,
                      sizeof(r->home));
    return 0;
}

void run_as_begin(const struct run_as *r)
{
    if (!r->is_set) {
        return;
    }
    if (!getenv("HOME")) {
        (void)setenv("HOME", r->home, 1); /* a valid name */
    }
    if (geteuid() != 0) {
        return; /* started as somebody: then there is nothing to change */
    }
    if (setgroups(r->n_groups, r->groups) < 0) {
        log_warn("groups of the image's user not taken");
    }
    (void)setfsgid(r->gid);
    (void)setfsuid(r->uid);
    if ((uid_t)setfsuid((uid_t)-1) != r->uid) {
        log_warn("files are handled as root: this kernel knows no other way");
    }
}

void run_as_apply(const struct run_as *r, struct io_child_opts *o)
{
    if (!r->is_set || o->set_ids || geteuid() != 0) {
        return;
    }
    o->set_ids = true;
    o->uid = r->uid;
    o->gid = r->gid;
    o->groups = r->groups;
    o->n_groups = r->n_groups;
}
