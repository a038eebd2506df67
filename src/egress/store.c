/* Policy in force: loading, committing, overlays. */

#include "egress/store.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "egress/dns_server.h"
#include "egress/egress.h"
#include "egress/enforcer.h"
#include "egress/limits.h"
#include "egress/resolver.h"
#include "egress/watch.h"
#include "io/timer.h"

#define DENY_NAME "deny.always"
#define ALLOW_NAME "allow.always"

/* What tells that a file has changed. */
struct stamp {
    bool exists;
    int64_t mtime_ns;
    off_t size;
    ino_t ino;
};

struct overlay {
    char *path;
    enum policy_action action;
    struct stamp stamp;
    bool is_stale;        /* read it whatever the stamp says */
    struct policy *rules; /* NULL: no file */
};

struct policy_store {
    struct egress *g;
    struct policy *user, *effective, *quiet;
    struct overlay deny, allow;
    struct watch *watch; /* of the overlays' directory; NULL: only looked at now and then */
    struct io_timer look;
};

/* ---- files ---- */

static struct stamp stamp_of(const char *path)
{
    struct stat st;
    if (stat(path, &st) < 0) {
        return (struct stamp){0};
    }
    return (struct stamp){true, (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                          st.st_size, st.st_ino};
}

static bool stamp_eq(const struct stamp *a, const struct stamp *b)
{
    return a->exists == b->exists && a->mtime_ns == b->mtime_ns && a->size == b->size &&
           a->ino == b->ino;
}

/* A missing file is an empty overlay: *ret is NULL then. */
static int overlay_read(const char *path, enum policy_action action, struct policy **ret,
                        struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(EGRESS_MAX_OVERLAY);
    int r = file_read(AT_FDCWD, path, &text);
    *ret = NULL;
    if (r == -ENOENT || r == -ENOTDIR) {
        return 0;
    }
    if (r < 0) {
        return err_sys(e, r, "%s", path);
    }
    *ret = policy_parse_lines(buf_str(&text), action, e);
    return *ret ? 0 : err_wrap(e, "%s", path);
}

static int quiet_load(struct policy_store *s, struct err *e)
{
    cleanup_free char *path = xasprintf("%s/log_skip.always", s->g->cfg.rules_dir);
    if (overlay_read(path, POLICY_ALLOW, &s->quiet, e) < 0) {
        return -1;
    }
    for (size_t i = 0; s->quiet && i < s->quiet->n_rules; i++) {
        if (s->quiet->rules[i].kind == POLICY_NET) {
            return err_set(e, ERR_INVALID, "%s: names only, not '%s'", path,
                           s->quiet->rules[i].target);
        }
    }
    return 0;
}

static int overlay_init(struct overlay *o, const char *dir, const char *name,
                        enum policy_action action, struct err *e)
{
    o->path = xasprintf("%s/%s", dir, name);
    o->action = action;
    o->stamp = stamp_of(o->path);
    return overlay_read(o->path, action, &o->rules, e);
}

static struct policy *load_file(const char *path, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(2u * EGRESS_MAX_BODY);
    struct err why = {0};
    int r = file_read(AT_FDCWD, path, &text);
    if (r == -ENOENT) {
        return NULL;
    }
    if (r < 0) {
        (void)err_sys(e, r, "%s", path);
        return NULL;
    }
    struct policy *p = str_trim(buf_str(&text)).n ? policy_parse(buf_str(&text), &why) : NULL;
    if (!p) {
        log_warn("the policy file holds no policy, using the environment's", LOG_S("path", path),
                 LOG_ERR(&why));
    }
    return p;
}

static int initial_load(struct policy_store *s, struct err *e)
{
    const struct egress_config *c = &s->g->cfg;
    if (c->policy_file) {
        s->user = load_file(c->policy_file, e);
        if (!s->user && e->code) {
            return -1;
        }
    }
    if (!s->user) {
        s->user = policy_parse(str_from(c->rules), e);
    }
    return s->user ? 0 : err_wrap(e, "OPENSANDBOX_EGRESS_RULES");
}

static int save(const char *path, const struct policy *p, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(8u * EGRESS_MAX_BODY);
    struct stat st;
    mode_t mode = stat(path, &st) == 0 ? st.st_mode & 0777 : 0600;
    if (policy_format(p, &text, 2) < 0 || buf_add_char(&text, '\n') < 0) {
        return err_set(e, ERR_IO, "the policy is too large to be written");
    }
    int r = file_write_atomic(AT_FDCWD, path, buf_str(&text), mode);
    if (r < 0) {
        (void)err_sys(e, r, "write %s", path);
        e->code = ERR_IO;
        return -1;
    }
    return 0;
}

/* ---- life ---- */

static void on_look(struct io_timer *t);
static void on_change(struct str name, void *arg);

struct policy_store *policy_store_new(struct egress *g, struct err *e)
{
    struct policy_store *s = NEW(struct policy_store);
    s->g = g;
    io_timer_init(&s->look, g->loop, on_look);
    /* Before the files are read, so that no change falls in between. */
    s->watch = watch_new(g->loop, g->cfg.rules_dir, on_change, s);
    if (initial_load(s, e) < 0 ||
        overlay_init(&s->deny, g->cfg.rules_dir, DENY_NAME, POLICY_DENY, e) < 0 ||
        overlay_init(&s->allow, g->cfg.rules_dir, ALLOW_NAME, POLICY_ALLOW, e) < 0 ||
        quiet_load(s, e) < 0) {
        policy_store_free(s);
        return NULL;
    }
    s->effective = policy_overlay(s->user, s->deny.rules, s->allow.rules);
    return s;
}

void policy_store_free(struct policy_store *s)
{
    if (!s) {
        return;
    }
    io_timer_stop(&s->look);
    watch_free(s->watch);
    policy_free(s->user);
    policy_free(s->effective);
    policy_free(s->quiet);
    policy_free(s->deny.rules);
    policy_free(s->allow.rules);
    free(s->deny.path);
    free(s->allow.path);
    free(s);
}

int policy_store_start(struct policy_store *s, struct err *e)
{
    if (enforcer_apply(s->g->enforcer, s->effective, e) < 0) {
        return -1;
    }
    log_info("policy loaded", LOG_S("opensandbox.event", "egress.loaded"),
             LOG_S("egress.default", s->user->fallback == POLICY_ALLOW ? "allow" : "deny"),
             LOG_I("rules", s->user->n_rules));
    io_timer_start(&s->look, EGRESS_OVERLAY_MS);
    return 0;
}

const struct policy *policy_store_user(const struct policy_store *s)
{
    return s->user;
}

const struct policy *policy_store_effective(const struct policy_store *s)
{
    return s->effective;
}

const struct policy *policy_store_quiet(const struct policy_store *s)
{
    return s->quiet;
}

/* ---- changes ---- */

static int ask_parts(struct egress *g, const struct policy *effective, struct err *e)
{
    for (struct egress_part *const *p = g->parts; *p; p++) {
        if ((*p)->check_policy && (*p)->check_policy(g, effective, e) < 0) {
            e->code = ERR_INVALID;
            return err_wrap(e, "credential vault policy validation");
        }
    }
    return 0;
}

static void tell_parts(struct egress *g, const struct policy *effective)
{
    resolver_set_policy(dns_server_resolver(g->dns), effective);
    for (struct egress_part *const *p = g->parts; *p; p++) {
        if ((*p)->on_policy) {
            (*p)->on_policy(g, effective);
        }
    }
}

int policy_store_commit(struct policy_store *s, struct policy *take_user, struct err *e)
{
    cleanup_(policy_free) struct policy *user = take_user;
    cleanup_(policy_free) struct policy *next = policy_overlay(user, s->deny.rules, s->allow.rules);
    if (ask_parts(s->g, next, e) < 0) {
        return -1;
    }
    if (enforcer_apply(s->g->enforcer, next, e) < 0) {
        e->code = ERR_IO;
        return -1;
    }
    if (s->g->cfg.policy_file && save(s->g->cfg.policy_file, user, e) < 0) {
        struct err back = {0};
        if (enforcer_apply(s->g->enforcer, s->effective, &back) < 0) {
            log_error("the old packet rules could not be restored", LOG_ERR(&back));
        }
        return -1;
    }
    struct policy *old = s->effective;
    policy_free(s->user);
    s->user = take_ptr(&user);
    s->effective = take_ptr(&next);
    tell_parts(s->g, s->effective);
    policy_free(old);
    return 0;
}

/* The watch tells of a change that the time of the file may be too coarse to show. */
static void on_change(struct str name, void *arg)
{
    struct policy_store *s = arg;
    bool all = !name.n || str_starts(name, STR("..")); /* the links of a mounted ConfigMap turn */
    struct {
        struct overlay *o;
        struct str name;
    } each[] = {{&s->deny, STR(DENY_NAME)}, {&s->allow, STR(ALLOW_NAME)}};
    for (size_t i = 0; i < ARRAY_LEN(each); i++) {
        if (all || str_eq(name, each[i].name)) {
            each[i].o->is_stale = true;
            io_timer_start(&s->look, EGRESS_OVERLAY_SETTLE_MS);
        }
    }
}

static bool overlay_refresh(struct overlay *o)
{
    struct stamp now = stamp_of(o->path);
    if (!o->is_stale && stamp_eq(&now, &o->stamp)) {
        return false;
    }
    struct err e = {0};
    struct policy *rules;
    if (overlay_read(o->path, o->action, &rules, &e) < 0) {
        log_warn("an overlay could not be read, the old one stays", LOG_ERR(&e));
        o->is_stale = false; /* until it changes, or the next look */
        o->stamp = (struct stamp){0};
        return false;
    }
    o->is_stale = false;
    o->stamp = now;
    policy_free(o->rules);
    o->rules = rules;
    return true;
}

/* The operator's rules stand above the vault: a binding that they no longer cover is not a reason
 * to keep them out. It has no effect from then on (requests are judged one by one), and that is
 * said. */
static void overlays_apply(struct policy_store *s)
{
    struct err e = {0};
    struct policy *next = policy_overlay(s->user, s->deny.rules, s->allow.rules);
    if (enforcer_apply(s->g->enforcer, next, &e) < 0) {
        log_error("the overlays could not be applied",
                  LOG_S("opensandbox.event", "egress.update_failed"), LOG_ERR(&e));
        policy_free(next);
        s->deny.stamp = s->allow.stamp = (struct stamp){0}; /* tried again next time */
        s->deny.is_stale = s->allow.is_stale = true;
        return;
    }
    if (ask_parts(s->g, next, &e) < 0) {
        log_warn("the overlays leave a binding without effect", LOG_ERR(&e));
    }
    struct policy *old = s->effective;
    s->effective = next;
    tell_parts(s->g, next);
    policy_free(old);
    log_info("overlays reloaded", LOG_S("opensandbox.event", "egress.updated"));
}

static void on_look(struct io_timer *t)
{
    struct policy_store *s = container_of(t, struct policy_store, look);
    bool deny = overlay_refresh(&s->deny), allow = overlay_refresh(&s->allow);
    if (deny || allow) {
        overlays_apply(s);
    }
    io_timer_start(&s->look, EGRESS_OVERLAY_MS);
}
