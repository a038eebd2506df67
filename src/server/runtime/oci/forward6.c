/* IPv6 forwarding: which links, how, and the record of what was changed. */

#include "server/runtime/oci/forward6.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "server/runtime/oci/net6.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define PER_LINK "force_forwarding"
#define OURS "fd6f7362" /* how addresses of a server's bridge begin (net6.c), in hex */

struct links {
    char name[FORWARD6_LINKS_MAX][LINK_NAME_MAX];
    size_t n;
};

static void links_add(struct links *l, struct str name)
{
    char text[LINK_NAME_MAX];
    if (l->n == FORWARD6_LINKS_MAX || str_to_cstr(name, text, sizeof(text)) < 0) {
        return;
    }
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->name[i], text) == 0) {
            return;
        }
    }
    memcpy(l->name[l->n++], text, sizeof(text));
}

static struct str last_word(struct str line)
{
    ptrdiff_t space = str_rfind(line, ' ');
    return str_sub(line, space < 0 ? line.n : (size_t)space + 1, line.n);
}

/* Does the route lead somewhere that is not the link itself, a group, or a server's own bridge? */
static bool leads_out(struct str line, bool all_routes)
{
    static const char *const near[] = {"fe8", "fe9", "fea", "feb", "ff", OURS};
    if (str_starts(line, STR("00000000000000000000000000000000 00 "))) {
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(near); i++) {
        if (str_starts(line, str_from(near[i]))) {
            return false;
        }
    }
    return all_routes;
}

static void find_uplinks(const struct forward6 *f, struct links *ret)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(4u << 20);
    ret->n = 0;
    if (file_read(AT_FDCWD, "/proc/net/ipv6_route", &text) < 0) {
        return;
    }
    struct str rest = buf_str(&text);
    while (rest.p) {
        struct str line = str_trim(str_cut(&rest, '\n')), dev = last_word(line);
        if (leads_out(line, f->all_routes) && !str_eq(dev, STR("lo")) &&
            !str_eq(dev, str_from(f->bridge))) {
            links_add(ret, dev);
        }
    }
}

bool forward6_has_uplink(const struct forward6 *f)
{
    struct links out;
    find_uplinks(f, &out);
    return out.n > 0;
}

/* ---- the record ---- */

struct change {
    char link[LINK_NAME_MAX], name[32];
    uint32_t index; /* another link may have the name by now; 0 for all and default */
    int64_t old, now;
};

static int change_parse(struct str line, struct change *ret)
{
    struct str link = str_cut(&line, ' '), index = str_cut(&line, ' '), name = str_cut(&line, ' '),
               old = str_cut(&line, ' ');
    return str_to_cstr(link, ret->link, sizeof(ret->link)) < 0 ||
                   str_to_cstr(name, ret->name, sizeof(ret->name)) < 0 ||
                   parse_u32(index, &ret->index) < 0 || parse_i64(old, &ret->old) < 0 ||
                   parse_i64(line, &ret->now) < 0
               ? -EINVAL
               : 0;
}

static bool change_is_of(const struct change *a, const struct change *b)
{
    return strcmp(a->link, b->link) == 0 && strcmp(a->name, b->name) == 0 && a->index == b->index;
}

/* What was changed since the machine started; the first line names the boot. */
static void record_read(const struct forward6 *f, struct buf *out)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(FORWARD6_RECORD_MAX), boot = BUF_INIT(128);
    (void)file_read(AT_FDCWD, BOOT_ID, &boot);
    struct str all = buf_str(&boot), id = str_cut(&all, '\n');
    (void)buf_printf(out, "%.*s\n", STR_FMT(id));
    if (file_read(AT_FDCWD, f->record, &text) == 0) {
        struct str rest = buf_str(&text);
        if (str_eq(str_cut(&rest, '\n'), id)) {
            (void)buf_add_str(out, rest);
        }
    }
}

static int record_write(const struct forward6 *f, const struct buf *text)
{
    return buf_failed(text) ? -EFBIG : file_write_atomic(AT_FDCWD, f->record, buf_str(text), 0600);
}

static int record_add(const struct forward6 *f, const struct change *c)
{
    cleanup_(buf_done) struct buf old = BUF_INIT(FORWARD6_RECORD_MAX),
                                  new = BUF_INIT(FORWARD6_RECORD_MAX);
    if (!f->record[0]) {
        return 0;
    }
    record_read(f, &old);
    struct str rest = buf_str(&old), boot = str_cut(&rest, '\n');
    (void)buf_printf(&new, "%.*s\n", STR_FMT(boot));
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        struct change other;
        if (change_parse(line, &other) == 0 && !change_is_of(&other, c)) {
            (void)buf_printf(&new, "%.*s\n", STR_FMT(line));
        }
    }
    (void)buf_printf(&new, "%s %u %s %lld %lld\n", c->link, c->index, c->name, (long long)c->old,
                     (long long)c->now);
    return record_write(f, &new);
}

/* ---- on ---- */

static int change(const struct forward6 *f, const char *link, const char *name, int64_t value)
{
    struct change c = {.index = if_nametoindex(link), .now = value};
    char text[24];
    (void)snprintf(c.link, sizeof(c.link), "%s", link);
    (void)snprintf(c.name, sizeof(c.name), "%s", name);
    c.old = net6_setting_read(link, name);
    if (c.old == value) {
        return 0;
    }
    int r = c.old < 0 ? -ENODEV : record_add(f, &c);
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    return r < 0 ? r : net6_setting_write(link, name, text);
}

/* Older kernels: the switch for all links sets that of each link as well. Those that were on before
 * are remembered as such, since switching it off takes them along too. */
static int start_all(const struct forward6 *f)
{
    cleanup_closedir DIR *d = opendir(NET6_CONF);
    const struct dirent *e;
    int r = 0;
    while (r == 0 && d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || strlen(e->d_name) >= LINK_NAME_MAX) {
            continue;
        }
        if (net6_setting_read(e->d_name, "accept_ra") == 1) {
            r = change(f, e->d_name, "accept_ra", 2);
        }
        if (r == 0 && net6_setting_read(e->d_name, "forwarding") == 1) {
            struct change c = {
                .name = "forwarding", .index = if_nametoindex(e->d_name), .old = 1, .now = 1};
            (void)snprintf(c.link, sizeof(c.link), "%.15s", e->d_name);
            r = record_add(f, &c);
        }
        r = r == -ENODEV || r == -ENOENT ? 0 : r; /* the link is gone again */
    }
    return r < 0 ? r : change(f, "all", "forwarding", 1);
}

void forward6_init(struct forward6 *f, const char *run_dir, const char *bridge, bool all_routes)
{
    *f = (struct forward6){.all_routes = all_routes};
    f->has_no_per_link = net6_setting_read("all", PER_LINK) < 0;
    (void)snprintf(f->bridge, sizeof(f->bridge), "%s", bridge);
    if (snprintf(f->record, sizeof(f->record), "%s/forward6", run_dir) >= (int)sizeof(f->record)) {
        f->record[0] = 0;
        log_warn("[oci].run_dir is too long to remember there which links forward IPv6");
    }
}

int forward6_start(const struct forward6 *f)
{
    struct links out;
    if (net6_setting_read("all", "forwarding") == 1) {
        return 0;
    }
    if (f->has_no_per_link) {
        return f->all_routes ? start_all(f) : -EOPNOTSUPP;
    }
    find_uplinks(f, &out);
    if (out.n == 0 && !f->all_routes) {
        return -EOPNOTSUPP;
    }
    for (size_t i = 0; i < out.n; i++) {
        int r = change(f, out.name[i], PER_LINK, 1);
        if (r < 0 && r != -ENODEV && r != -ENOENT) {
            return r;
        }
    }
    return change(f, f->bridge, PER_LINK, 1);
}

/* ---- off ---- */

/* A bridge of another server, running or with sandboxes that outlive it. */
static bool others_need_it(const struct forward6 *f)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(4u << 20);
    (void)file_read(AT_FDCWD, "/proc/net/if_inet6", &text);
    struct str rest = buf_str(&text);
    while (rest.p) {
        struct str line = str_trim(str_cut(&rest, '\n'));
        if (str_starts(line, STR(OURS)) && !str_eq(last_word(line), str_from(f->bridge))) {
            return true;
        }
    }
    return false;
}

/* The latest change first. `reset`: the switch for all links was one of them. */
static void take_back(struct str lines, bool *reset)
{
    while (lines.n) {
        ptrdiff_t before = str_rfind(lines, '\n');
        struct str line = str_sub(lines, (size_t)(before + 1), lines.n);
        lines = str_sub(lines, 0, (size_t)MAX(before, 0));
        struct change c;
        char text[24];
        if (change_parse(line, &c) < 0 || c.index != if_nametoindex(c.link)) {
            continue;
        }
        bool mine = c.old == c.now ? *reset : net6_setting_read(c.link, c.name) == c.now;
        (void)snprintf(text, sizeof(text), "%lld", (long long)c.old);
        if (mine && net6_setting_write(c.link, c.name, text) == 0) {
            *reset |= strcmp(c.link, "all") == 0 && strcmp(c.name, "forwarding") == 0;
            log_info("took back a setting of the host", LOG_S("link", c.link),
                     LOG_S("setting", c.name), LOG_I("value", c.old));
        }
    }
}

void forward6_stop(const struct forward6 *f)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(FORWARD6_RECORD_MAX);
    bool reset = false;
    if (!f->record[0] || access(f->record, F_OK) < 0 || others_need_it(f)) {
        return;
    }
    record_read(f, &text);
    struct str rest = buf_str(&text);
    (void)str_cut(&rest, '\n');
    take_back(rest, &reset);
    (void)unlink(f->record);
}
