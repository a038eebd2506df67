/* Looking at the machine. */

#include "server/runtime/oci/host.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/oci/cgroup.h"
#include "server/runtime/oci/disk.h"
#include "server/runtime/oci/idrange.h"
#include "server/runtime/oci/nft.h"

static void fact(struct host_facts *f, const char *name, bool ok, bool is_needed, const char *fmt,
                 ...) __attribute__((format(printf, 5, 6)));

static void fact(struct host_facts *f, const char *name, bool ok, bool is_needed, const char *fmt,
                 ...)
{
    must(f->n < HOST_FACTS_MAX);
    struct host_fact *x = &f->v[f->n++];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(x->detail, sizeof(x->detail), fmt, ap);
    va_end(ap);
    x->name = name;
    x->ok = ok;
    x->is_needed = is_needed;
}

static void probe_root(struct host_facts *f)
{
    bool ok = geteuid() == 0;
    fact(f, "root", ok, true, "%s",
         ok ? "running as root" : "the embedded runtime needs root: start the server with sudo");
}

static void probe_cgroups(struct host_facts *f)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(1u << 20);
    struct cgroup_host h = {0};
    if (file_read(AT_FDCWD, "/proc/self/mountinfo", &text) == 0) {
        cgroup_parse_mounts(buf_str(&text), &h);
    }
    if (h.mode == CGROUP_NONE) {
        fact(f, "cgroups", false, true,
             "no cgroup file system is mounted; mount one: mount -t cgroup2 none /sys/fs/cgroup");
        return;
    }
    bool ok = access(h.hier[0].mount, W_OK) == 0;
    fact(f, "cgroups", ok, true, "%s%s", cgroup_mode_name(h.mode),
         ok ? "" : ", mounted read-only: a container needs a writable cgroup file system");
}

static void probe_overlay(struct host_facts *f)
{
    cleanup_close int fs = (int)syscall(SYS_fsopen, "overlay", FSOPEN_CLOEXEC);
    fact(f, "overlayfs", fs >= 0, true, "%s",
         fs >= 0 ? "available" : "the kernel has no overlay file system: modprobe overlay");
}

/* A user namespace, and a mount whose ids it maps: tried on the directory that will hold layers. */
static void probe_userns(const struct config_oci *cfg, struct host_facts *f)
{
    struct err e = {0};
    bool needed = cfg->user_namespace;
    cleanup_close int ns = userns_make((uint32_t)cfg->id_base, (uint32_t)cfg->id_count, &e);
    if (ns < 0) {
        fact(f, "user namespaces", false, needed, "%.160s: see sysctl user.max_user_namespaces",
             e.msg);
        return;
    }
    fact(f, "user namespaces", true, needed, "available");
    char *dir = xstrdup(cfg->root);
    while (access(dir, F_OK) < 0 && strrchr(dir, '/') > dir) {
        *strrchr(dir, '/') = 0;
    }
    cleanup_close int tree =
        (int)syscall(SYS_open_tree, AT_FDCWD, dir, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_IDMAP, .userns_fd = (uint64_t)ns};
    bool ok =
        tree >= 0 && syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof(attr)) == 0;
    fact(f, "idmapped mounts", ok, needed, "%.120s: %s%s", dir, ok ? "available" : strerror(errno),
         ok ? "" : " (needs Linux 5.19 and a file system that supports them, such as ext4 or xfs)");
    free(dir);
}

static void probe_network(const struct config_oci *cfg, struct host_facts *f)
{
    bool needed = strcmp(cfg->network, "none") != 0;
    struct err e = {0};
    /* A listing is a question the kernel only answers with nftables compiled in. */
    bool ok = nft_apply("list tables inet", &e) == 0;
    fact(f, "nftables", ok, needed, "%.200s", ok ? "available" : e.msg);
    ok = access("/proc/sys/net/ipv4/ip_forward", W_OK) == 0;
    fact(f, "forwarding", ok, needed, "%s",
         ok ? "can be switched on" : "/proc/sys/net/ipv4/ip_forward cannot be written");
}

static void probe_engine(const struct config_oci *cfg, const char *name, bool needed,
                         struct host_facts *f)
{
    static const char *const dirs[] = {"/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                       "/usr/bin"};
    const char *set = str_map_get(&cfg->engine_paths, name);
    char path[256];
    bool ok = set && access(set, X_OK) == 0;
    (void)snprintf(path, sizeof(path), "%s", set ? set : "");
    for (size_t i = 0; !set && !ok && i < ARRAY_LEN(dirs); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dirs[i], name);
        ok = access(path, X_OK) == 0;
    }
    fact(f, name, ok, needed, "%.160s%s", ok ? path : "not installed",
         ok ? "" : ": apt-get install it, or set [oci.engine_paths]");
}

void host_probe(const struct config_oci *cfg, struct host_facts *ret)
{
    static const char *const engines[] = {"crun", "runc", "runsc"};
    struct utsname u;
    struct err e = {0};
    *ret = (struct host_facts){0};
    if (uname(&u) == 0) {
        fact(ret, "kernel", true, false, "Linux %.64s", u.release);
    }
    probe_root(ret);
    probe_cgroups(ret);
    probe_overlay(ret);
    probe_userns(cfg, ret);
    probe_network(cfg, ret);
    bool disk = disk_check(&e) == 0;
    fact(ret, "disk limits", disk, false, "%.200s", disk ? "available" : e.msg);
    bool known = false;
    for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
        bool is_default = strcmp(engines[i], cfg->engine) == 0;
        known = known || is_default;
        probe_engine(cfg, engines[i], is_default, ret);
    }
    if (!known) {
        probe_engine(cfg, cfg->engine, true, ret);
    }
}

int host_require(const struct config_oci *cfg, struct err *e)
{
    struct host_facts *f = NEW(struct host_facts);
    int r = 0;
    host_probe(cfg, f);
    for (size_t i = 0; r == 0 && i < f->n; i++) {
        if (f->v[i].is_needed && !f->v[i].ok) {
            r = err_set(e, ERR_UNSUPPORTED, "%s: %s", f->v[i].name, f->v[i].detail);
        }
    }
    free(f);
    return r;
}
