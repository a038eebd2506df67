/* Which control group hierarchies this machine has, and the groups of a sandbox in them: making,
 * limiting, joining, removing. Stopping, killing and counting is in cgroup_tasks.c. */

#include "server/runtime/oci/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "server/runtime/oci/limits.h"

static const struct {
    const char *v1, *v2;
    uint32_t bit;
} controller_names[] = {
    {"cpu", "cpu", CGROUP_CPU},          {"cpuacct", NULL, CGROUP_CPUACCT},
    {"memory", "memory", CGROUP_MEMORY}, {"pids", "pids", CGROUP_PIDS},
    {"blkio", "io", CGROUP_IO},          {"devices", NULL, CGROUP_DEVICES},
    {"freezer", NULL, CGROUP_FREEZER},   {"name=systemd", NULL, CGROUP_NAMED},
};

const char *cgroup_mode_name(enum cgroup_mode m)
{
    static const char *const names[] = {"none", "v1", "v2", "hybrid"};
    return names[m];
}

static uint32_t controllers_parse(struct str list, char sep, bool v2)
{
    uint32_t bits = 0;
    while (list.p) {
        struct str word = str_cut(&list, sep);
        for (size_t i = 0; i < sizeof(controller_names) / sizeof(controller_names[0]); i++) {
            const char *name = v2 ? controller_names[i].v2 : controller_names[i].v1;
            if (name && str_eq(word, str_from(name))) {
                bits |= controller_names[i].bit;
            }
        }
    }
    return bits;
}

/* One line: "36 35 98:0 / /sys/fs/cgroup/cpu rw,relatime shared:9 - cgroup cgroup rw,cpu". */
static void parse_mount_line(struct str line, struct cgroup_host *ret)
{
    struct str mount = STR_NULL;
    for (int i = 0; i < 5; i++) {
        mount = str_cut(&line, ' ');
    }
    struct str word = STR_NULL;
    while (line.p && !str_eq(word, STR("-"))) {
        word = str_cut(&line, ' ');
    }
    struct str type = str_cut(&line, ' ');
    (void)str_cut(&line, ' ');
    struct str options = line;
    bool v2 = str_eq(type, STR("cgroup2"));
    if ((!v2 && !str_eq(type, STR("cgroup"))) || ret->n_hiers == CGROUP_HIERS_MAX) {
        return;
    }
    struct cgroup_hier h = {.v2 = v2};
    if (str_to_cstr(mount, h.mount, sizeof(h.mount)) < 0) {
        return;
    }
    h.controllers = v2 ? 0 : controllers_parse(options, ',', false);
    ret->hier[ret->n_hiers++] = h;
}

void cgroup_parse_mounts(struct str mountinfo, struct cgroup_host *ret)
{
    bool v1 = false, v2 = false;
    ret->n_hiers = 0;
    while (mountinfo.p) {
        parse_mount_line(str_cut(&mountinfo, '\n'), ret);
    }
    for (size_t i = 0; i < ret->n_hiers; i++) {
        v1 = v1 || !ret->hier[i].v2;
        v2 = v2 || ret->hier[i].v2;
    }
    ret->mode = v1 && v2 ? CGROUP_HYBRID : v1 ? CGROUP_V1 : v2 ? CGROUP_V2 : CGROUP_NONE;
    for (size_t i = 0; i < ret->n_hiers; i++) {
        struct cgroup_hier *h = &ret->hier[i];
        /* The v2 freezer can kill what it froze; where it exists v1's is not needed. */
        uint32_t wanted = h->controllers & ~(v2 ? (uint32_t)CGROUP_FREEZER : 0);
        h->used = h->v2 || wanted;
        /* Each move costs: in v1 execd has groups of its own only where it needs its own limit. */
        h->split = h->v2 || (h->controllers & (CGROUP_CPU | CGROUP_MEMORY | CGROUP_PIDS));
    }
}

const struct cgroup_hier *cgroup_hier_of(const struct cgroup_host *h, uint32_t controller)
{
    for (size_t i = 0; i < h->n_hiers; i++) {
        if (h->hier[i].controllers & controller) {
            return &h->hier[i];
        }
    }
    return NULL;
}

const struct cgroup_hier *cgroup_hier_v2(const struct cgroup_host *h)
{
    for (size_t i = 0; i < h->n_hiers; i++) {
        if (h->hier[i].v2) {
            return &h->hier[i];
        }
    }
    return NULL;
}

void cgroup_path(const struct cgroup_host *h, const struct cgroup_hier *hier, const char *id,
                 const char *leaf, char out[CGROUP_PATH_MAX])
{
    leaf = hier->split ? leaf : NULL;
    (void)snprintf(out, CGROUP_PATH_MAX, "%s/%s%s%s%s%s", hier->mount, h->parent, id ? "/" : "",
                   id ? id : "", leaf ? "/" : "", leaf ? leaf : "");
}

static int group_write(const char *dir, const char *file, const char *value, struct err *e)
{
    char path[CGROUP_PATH_MAX + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    int r = file_write(AT_FDCWD, path, str_from(value));
    return r < 0 ? err_sys(e, r, "write '%s' to %s", value, path) : 0;
}

static int group_write_u64(const char *dir, const char *file, uint64_t value, struct err *e)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
    return group_write(dir, file, text, e);
}

static int group_mkdir(const char *dir, struct err *e)
{
    if (mkdir(dir, 0755) < 0 && errno != EEXIST) {
        return err_sys(e, errno, "make control group %s", dir);
    }
    return 0;
}

/* v2: what children of `dir` may use. A controller that cannot be switched on is left out. */
static void enable_controllers(const char *dir, uint32_t bits)
{
    for (size_t i = 0; i < sizeof(controller_names) / sizeof(controller_names[0]); i++) {
        char word[16];
        if (controller_names[i].v2 && (bits & controller_names[i].bit)) {
            (void)snprintf(word, sizeof(word), "+%s", controller_names[i].v2);
            (void)group_write(dir, "cgroup.subtree_control", word, NULL);
        }
    }
}

static uint32_t read_controllers(const char *dir, const char *file)
{
    char path[CGROUP_PATH_MAX + 64];
    cleanup_(buf_done) struct buf text = BUF_INIT(4096);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    if (file_read(AT_FDCWD, path, &text) < 0) {
        return 0;
    }
    struct str s = buf_str(&text);
    while (s.n && s.p[s.n - 1] == '\n') {
        s.n--;
    }
    return controllers_parse(s, ' ', true);
}

/* Nothing but the harmless character devices may be read or written, whatever nodes an image brings
 * along; runc insists on the right to make any node, and on the tun device. Set once for all
 * sandboxes. v1 only: on v2 it would take a BPF program, and the sandbox's file systems are mounted
 * nodev in any case. */
static int limit_devices(const char *dir, struct err *e)
{
    static const char *const allowed[] = {
        "c *:* m",   "b *:* m",   "c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm",   "c 1:8 rwm",
        "c 1:9 rwm", "c 5:0 rwm", "c 5:1 rwm", "c 5:2 rwm", "c 136:* rwm", "c 10:200 rwm",
    };
    char path[CGROUP_PATH_MAX + 16];
    cleanup_(buf_done) struct buf list = BUF_INIT(64u << 10);
    (void)snprintf(path, sizeof(path), "%s/devices.list", dir);
    if (file_read(AT_FDCWD, path, &list) == 0 && !str_starts(buf_str(&list), STR("a *:*"))) {
        return 0; /* an earlier start has done it; with sandboxes below it cannot be changed */
    }
    if (group_write(dir, "devices.deny", "a", e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
        if (group_write(dir, "devices.allow", allowed[i], e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int hier_init(struct cgroup_host *h, struct cgroup_hier *hier, struct err *e)
{
    char dir[CGROUP_PATH_MAX];
    cgroup_path(h, hier, NULL, NULL, dir);
    if (group_mkdir(dir, e) < 0) {
        return -1;
    }
    if (hier->v2) {
        enable_controllers(hier->mount, read_controllers(hier->mount, "cgroup.controllers"));
        uint32_t bits = read_controllers(dir, "cgroup.controllers");
        enable_controllers(dir, bits);
        hier->controllers = read_controllers(dir, "cgroup.subtree_control");
    }
    h->controllers |= hier->controllers;
    return hier->controllers & CGROUP_DEVICES ? limit_devices(dir, e) : 0;
}

/* A detached mount, or -1 where the kernel does not know the option. */
static int favour_moves(const char *parent)
{
    char name[CGROUP_NAME_MAX + 8];
    (void)snprintf(name, sizeof(name), "osb-%s", parent);
    cleanup_close int fs = (int)syscall(SYS_fsopen, "cgroup", FSOPEN_CLOEXEC);
    if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "none", NULL, 0) < 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_SET_STRING, "name", name, 0) < 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_SET_FLAG, "favordynmods", NULL, 0) < 0 ||
        syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0) {
        return -1;
    }
    return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
}

void cgroup_host_done(struct cgroup_host *h)
{
    if (h->dynmods_fd >= 0) {
        (void)close(h->dynmods_fd);
    }
    h->dynmods_fd = -1;
}

int cgroup_host_init(struct cgroup_host *ret, const char *parent, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(1u << 20);
    *ret = (struct cgroup_host){.dynmods_fd = -1};
    if (strlen(parent) >= sizeof(ret->parent)) {
        return err_set(e, ERR_INVALID, "[oci].cgroup_parent is too long");
    }
    (void)snprintf(ret->parent, sizeof(ret->parent), "%s", parent);
    int r = file_read(AT_FDCWD, "/proc/self/mountinfo", &text);
    if (r < 0) {
        return err_sys(e, r, "read /proc/self/mountinfo");
    }
    cgroup_parse_mounts(buf_str(&text), ret);
    if (ret->mode == CGROUP_NONE) {
        return err_set(e, ERR_UNSUPPORTED, "no cgroup file system is mounted on this machine");
    }
    for (size_t i = 0; i < ret->n_hiers; i++) {
        if (ret->hier[i].used && hier_init(ret, &ret->hier[i], e) < 0) {
            return -1;
        }
    }
    const struct cgroup_hier *v2 = cgroup_hier_v2(ret);
    if (v2) {
        char dir[CGROUP_PATH_MAX];
        cgroup_path(ret, v2, "", "cgroup.kill", dir);
        ret->has_kill = access(dir, W_OK) == 0;
    }
    if (!v2 && !cgroup_hier_of(ret, CGROUP_FREEZER)) {
        return err_set(e, ERR_UNSUPPORTED, "this machine has neither cgroup v2 nor the v1 freezer");
    }
    ret->dynmods_fd = favour_moves(parent);
    return 0;
}

int cgroup_check(const struct cgroup_host *h, const struct cgroup_limits *l, struct err *e)
{
    if (l->memory_bytes && l->memory_bytes < OCI_MEMORY_MIN) {
        return err_set(e, ERR_INVALID, "memory: %llu bytes is less than the smallest limit, %u",
                       (unsigned long long)l->memory_bytes, OCI_MEMORY_MIN);
    }
    if (l->cpu_millis && l->cpu_millis < OCI_CPU_MIN_MILLIS) {
        return err_set(e, ERR_INVALID, "cpu: %llum is less than the smallest limit, %um",
                       (unsigned long long)l->cpu_millis, OCI_CPU_MIN_MILLIS);
    }
    uint64_t io =
        l->io[IO_READ_BPS] | l->io[IO_WRITE_BPS] | l->io[IO_READ_IOPS] | l->io[IO_WRITE_IOPS];
    if (io && !h->disk) {
        return err_set(e, ERR_UNSUPPORTED, "io: the data directory is not on a disk of this host");
    }
    if (l->pids && l->pids < OCI_PIDS_MIN) {
        return err_set(e, ERR_INVALID, "pids: %llu is less than the smallest limit, %u",
                       (unsigned long long)l->pids, OCI_PIDS_MIN);
    }
    const struct {
        const char *name;
        uint64_t value;
        uint32_t bit;
    } rows[] = {{"cpu", l->cpu_millis, CGROUP_CPU},
                {"memory", l->memory_bytes, CGROUP_MEMORY},
                {"pids", l->pids, CGROUP_PIDS},
                {"io", io, CGROUP_IO}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].value && !(h->controllers & rows[i].bit)) {
            return err_set(e, ERR_UNSUPPORTED,
                           "%s: this host cannot limit it, its cgroups have no %s controller",
                           rows[i].name, rows[i].name);
        }
    }
    return 0;
}

static int limit_memory(const struct cgroup_hier *hier, const char *dir, uint64_t bytes,
                        struct err *e)
{
    if (!bytes) {
        return 0;
    }
    if (!hier->v2) { /* never below the other one: a limit that is raised needs this first */
        (void)group_write_u64(dir, "memory.memsw.limit_in_bytes", bytes, NULL);
    }
    if (group_write_u64(dir, hier->v2 ? "memory.max" : "memory.limit_in_bytes", bytes, e) < 0) {
        return -1;
    }
    /* Swap would turn a limit into a suggestion. The files are missing where there is none. */
    if (hier->v2) {
        (void)group_write(dir, "memory.swap.max", "0", NULL);
    } else {
        (void)group_write_u64(dir, "memory.memsw.limit_in_bytes", bytes, NULL);
    }
    return 0;
}

static int limit_cpu(const struct cgroup_hier *hier, const char *dir, uint64_t millis,
                     struct err *e)
{
    char text[64];
    if (!millis) {
        return 0;
    }
    if (hier->v2) {
        (void)snprintf(text, sizeof(text), "%llu 100000", (unsigned long long)millis * 100);
        return group_write(dir, "cpu.max", text, e);
    }
    if (group_write_u64(dir, "cpu.cfs_period_us", 100000, e) < 0) {
        return -1;
    }
    return group_write_u64(dir, "cpu.cfs_quota_us", millis * 100, e);
}

static int limit_sandbox(const struct cgroup_hier *hier, const char *dir,
                         const struct cgroup_limits *l, struct err *e)
{
    if ((hier->controllers & CGROUP_MEMORY) && l->memory_bytes &&
        limit_memory(hier, dir, l->memory_bytes + OCI_HEADROOM_MEMORY, e) < 0) {
        return -1;
    }
    if ((hier->controllers & CGROUP_PIDS) && l->pids &&
        group_write_u64(dir, "pids.max", l->pids + OCI_HEADROOM_PIDS, e) < 0) {
        return -1;
    }
    return 0;
}

static int limit_work(const struct cgroup_hier *hier, const char *dir,
                      const struct cgroup_limits *l, struct err *e)
{
    if ((hier->controllers & CGROUP_MEMORY) && limit_memory(hier, dir, l->memory_bytes, e) < 0) {
        return -1;
    }
    if ((hier->controllers & CGROUP_PIDS) && l->pids &&
        group_write_u64(dir, "pids.max", l->pids, e) < 0) {
        return -1;
    }
    return hier->controllers & CGROUP_CPU ? limit_cpu(hier, dir, l->cpu_millis, e) : 0;
}

/* execd is the one that has to answer while the workload takes what it can get. */
static int favour_init(const struct cgroup_hier *hier, const char *dir,
                       const struct cgroup_limits *l, struct err *e)
{
    if (hier->controllers & CGROUP_CPU) {
        if (limit_cpu(hier, dir, l->cpu_millis, e) < 0) {
            return -1;
        }
        (void)group_write(dir, hier->v2 ? "cpu.weight" : "cpu.shares", hier->v2 ? "1000" : "10240",
                          NULL);
    }
    if (hier->v2 && (hier->controllers & CGROUP_MEMORY)) {
        (void)group_write_u64(dir, "memory.min", OCI_HEADROOM_MEMORY / 4, NULL);
    }
    return 0;
}

/* The limits of groups that are there. */
static int hier_limit(const struct cgroup_host *h, const struct cgroup_hier *hier, const char *id,
                      const struct cgroup_limits *l, struct err *e)
{
    char dir[CGROUP_PATH_MAX], init[CGROUP_PATH_MAX], work[CGROUP_PATH_MAX];
    cgroup_path(h, hier, id, NULL, dir);
    cgroup_path(h, hier, id, "init", init);
    cgroup_path(h, hier, id, "work", work);
    if (limit_sandbox(hier, dir, l, e) < 0 ||
        ((hier->controllers & CGROUP_IO) && cgroup_io_limit(h, hier, dir, l, e) < 0)) {
        return -1;
    }
    if (!hier->split) {
        return 0;
    }
    return limit_work(hier, work, l, e) < 0 ? -1 : favour_init(hier, init, l, e);
}

static int hier_make(const struct cgroup_host *h, const struct cgroup_hier *hier, const char *id,
                     const struct cgroup_limits *l, struct err *e)
{
    char dir[CGROUP_PATH_MAX], init[CGROUP_PATH_MAX], work[CGROUP_PATH_MAX];
    cgroup_path(h, hier, id, NULL, dir);
    cgroup_path(h, hier, id, "init", init);
    cgroup_path(h, hier, id, "work", work);
    if (group_mkdir(dir, e) < 0) {
        return -1;
    }
    if (hier->v2 && hier->controllers) {
        enable_controllers(dir, hier->controllers);
    }
    if (hier->split && (group_mkdir(work, e) < 0 || group_mkdir(init, e) < 0)) {
        return -1;
    }
    return hier_limit(h, hier, id, l, e);
}

int cgroup_make(const struct cgroup_host *h, const char *id, const struct cgroup_limits *l,
                struct err *e)
{
    for (size_t i = 0; i < h->n_hiers; i++) {
        if (h->hier[i].used && hier_make(h, &h->hier[i], id, l, e) < 0) {
            return -1;
        }
    }
    return 0;
}

int cgroup_update(const struct cgroup_host *h, const char *id, const struct cgroup_limits *l,
                  struct err *e)
{
    for (size_t i = 0; i < h->n_hiers; i++) {
        if (h->hier[i].used && hier_limit(h, &h->hier[i], id, l, e) < 0) {
            return -1;
        }
    }
    return 0;
}

static int procs_open(const struct cgroup_host *h, const struct cgroup_hier *hier, const char *id,
                      const char *leaf, struct err *e)
{
    char dir[CGROUP_PATH_MAX], path[CGROUP_PATH_MAX + 16];
    cgroup_path(h, hier, id, leaf, dir);
    (void)snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd;
}

int cgroup_join_open(const struct cgroup_host *h, const char *id, struct cgroup_join *ret,
                     struct err *e)
{
    ret->n = 0;
    for (size_t i = 0; i < h->n_hiers; i++) {
        if (!h->hier[i].used) {
            continue;
        }
        bool split = h->hier[i].split;
        int init = split ? procs_open(h, &h->hier[i], id, "init", e) : -1;
        int work = split && init < 0 ? -1 : procs_open(h, &h->hier[i], id, "work", e);
        if (work < 0) {
            if (init >= 0) {
                (void)close(init);
            }
            cgroup_join_close(ret);
            return -1;
        }
        ret->init_fd[ret->n] = init;
        ret->work_fd[ret->n++] = work;
    }
    return 0;
}

void cgroup_join_close(struct cgroup_join *j)
{
    for (int i = 0; i < j->n; i++) {
        if (j->init_fd[i] >= 0) {
            (void)close(j->init_fd[i]);
        }
        (void)close(j->work_fd[i]);
    }
    j->n = 0;
}

/* rmdir from the leaves up. EBUSY passes by itself: dead tasks leave their group a little after
 * they stopped being visible. */
static int group_rmdir(const char *dir, uint64_t deadline_ms, struct err *e)
{
    for (;;) {
        if (rmdir(dir) == 0 || errno == ENOENT) {
            return 0;
        }
        if (errno == ENOTEMPTY || errno == EBUSY) {
            cleanup_closedir DIR *d = opendir(dir);
            struct dirent *ent;
            while (d && (ent = readdir(d))) {
                char sub[CGROUP_PATH_MAX + 256];
                if (ent->d_type == DT_DIR && ent->d_name[0] != '.') {
                    (void)snprintf(sub, sizeof(sub), "%s/%s", dir, ent->d_name);
                    (void)rmdir(sub);
                }
            }
        } else {
            return err_sys(e, errno, "remove control group %s", dir);
        }
        if (rmdir(dir) == 0 || errno == ENOENT) {
            return 0;
        }
        if (clock_mono_ms() > deadline_ms) {
            return err_sys(e, errno, "remove control group %s", dir);
        }
        (void)usleep(1000);
    }
}

int cgroup_remove(const struct cgroup_host *h, const char *id, struct err *e)
{
    int r = 0;
    uint64_t deadline = clock_mono_ms() + OCI_KILL_WAIT_MS;
    /* Also where we made none: some engines make groups of their own everywhere. */
    for (size_t i = 0; i < h->n_hiers; i++) {
        char dir[CGROUP_PATH_MAX];
        cgroup_path(h, &h->hier[i], id, NULL, dir);
        if (group_rmdir(dir, deadline, r == 0 ? e : NULL) < 0) {
            r = -1;
        }
    }
    return r;
}

int cgroup_list(const struct cgroup_host *h, void (*fn)(const char *id, void *arg), void *arg,
                struct err *e)
{
    for (size_t i = 0; i < h->n_hiers; i++) {
        char dir[CGROUP_PATH_MAX];
        cgroup_path(h, &h->hier[i], NULL, NULL, dir);
        cleanup_closedir DIR *d = opendir(dir);
        if (!d) {
            if (errno == ENOENT) {
                continue;
            }
            return err_sys(e, errno, "list %s", dir);
        }
        struct dirent *ent;
        while ((ent = readdir(d))) {
            if (ent->d_type == DT_DIR && ent->d_name[0] != '.') {
                fn(ent->d_name, arg);
            }
        }
    }
    return 0;
}
