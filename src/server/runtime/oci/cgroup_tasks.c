/* What is done to the tasks of a sandbox as a whole: stop, go on, kill; and what they used. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/num.h"
#include "server/runtime/oci/cgroup.h"
#include "server/runtime/oci/limits.h"

#define STAT_MAX (64u << 10)

static int group_read(const char *dir, const char *file, struct buf *out)
{
    char path[CGROUP_PATH_MAX + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    buf_clear(out);
    return file_read(AT_FDCWD, path, out);
}

static uint64_t group_read_u64(const char *dir, const char *file)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(256);
    uint64_t v = 0;
    if (group_read(dir, file, &text) < 0) {
        return 0;
    }
    struct str s = buf_str(&text);
    s = str_cut(&s, '\n');
    return parse_u64(s, &v) < 0 ? 0 : v;
}

/* The number behind `key` in a file of "key number" lines; 0 when it is not there. */
static uint64_t group_read_key(const char *dir, const char *file, const char *key)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(STAT_MAX);
    uint64_t v = 0;
    if (group_read(dir, file, &text) < 0) {
        return 0;
    }
    struct str rest = buf_str(&text);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        struct str name = str_cut(&line, ' ');
        if (str_eq(name, str_from(key))) {
            return parse_u64(line, &v) < 0 ? 0 : v;
        }
    }
    return 0;
}

/* Waits until `key` in cgroup.events has the value; the kernel announces changes with POLLPRI. */
static int events_wait(const char *dir, const char *key, uint64_t value, uint64_t timeout_ms)
{
    char path[CGROUP_PATH_MAX + 64];
    (void)snprintf(path, sizeof(path), "%s/cgroup.events", dir);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    uint64_t deadline = clock_mono_ms() + timeout_ms;
    for (;;) {
        char text[256];
        ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
        if (n < 0) {
            return errno == ENODEV ? 0 : -errno;
        }
        struct str rest = str_n(text, (size_t)n);
        while (rest.p) {
            struct str line = str_cut(&rest, '\n');
            struct str name = str_cut(&line, ' ');
            uint64_t v;
            if (str_eq(name, str_from(key)) && parse_u64(line, &v) == 0 && v == value) {
                return 0;
            }
        }
        uint64_t now = clock_mono_ms();
        if (now >= deadline) {
            return -ETIMEDOUT;
        }
        struct pollfd p = {.fd = fd, .events = POLLPRI};
        (void)poll(&p, 1, (int)(deadline - now));
    }
}

static int write_in(const char *dir, const char *file, const char *value)
{
    char path[CGROUP_PATH_MAX + 64];
    (void)snprintf(path, sizeof(path), "%s/%s", dir, file);
    return file_write(AT_FDCWD, path, str_from(value));
}

static int v1_freeze(const char *dir, bool on)
{
    const char *want = on ? "FROZEN" : "THAWED";
    uint64_t deadline = clock_mono_ms() + OCI_FREEZE_WAIT_MS;
    cleanup_(buf_done) struct buf text = BUF_INIT(64);
    for (;;) {
        int r = write_in(dir, "freezer.state", want);
        if (r < 0) {
            return r;
        }
        r = group_read(dir, "freezer.state", &text);
        if (r < 0) {
            return r;
        }
        if (str_starts(buf_str(&text), str_from(want))) {
            return 0;
        }
        if (clock_mono_ms() > deadline) {
            return -ETIMEDOUT;
        }
        (void)usleep(2000); /* the v1 freezer announces nothing */
    }
}

int cgroup_freeze(const struct cgroup_host *h, const char *id, bool on, struct err *e)
{
    char dir[CGROUP_PATH_MAX];
    const struct cgroup_hier *v2 = cgroup_hier_v2(h);
    int r;
    if (v2) {
        cgroup_path(h, v2, id, NULL, dir);
        r = write_in(dir, "cgroup.freeze", on ? "1" : "0");
        if (r == 0) {
            r = events_wait(dir, "frozen", on ? 1 : 0, OCI_FREEZE_WAIT_MS);
        }
    } else {
        cgroup_path(h, cgroup_hier_of(h, CGROUP_FREEZER), id, NULL, dir);
        r = v1_freeze(dir, on);
    }
    if (r == -ETIMEDOUT && on) {
        (void)cgroup_freeze(h, id, false, NULL);
        return err_set(e, ERR_TIMEOUT, "the sandbox could not be stopped within %u ms",
                       OCI_FREEZE_WAIT_MS);
    }
    return r < 0 ? err_sys(e, r, "%s control group %s", on ? "freeze" : "thaw", dir) : 0;
}

bool cgroup_is_frozen(const struct cgroup_host *h, const char *id)
{
    char dir[CGROUP_PATH_MAX];
    const struct cgroup_hier *v2 = cgroup_hier_v2(h);
    if (v2) {
        cgroup_path(h, v2, id, NULL, dir);
        return group_read_u64(dir, "cgroup.freeze") == 1;
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(64);
    cgroup_path(h, cgroup_hier_of(h, CGROUP_FREEZER), id, NULL, dir);
    return group_read(dir, "freezer.state", &text) == 0 &&
           !str_starts(buf_str(&text), STR("THAWED"));
}

/* SIGKILL to everything listed in dir/cgroup.procs and one level below; the number found. */
static int kill_listed(const char *dir, int depth)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(4u << 20);
    int n = 0;
    if (group_read(dir, "cgroup.procs", &text) == 0) {
        struct str rest = buf_str(&text);
        while (rest.p) {
            uint64_t pid;
            if (parse_u64(str_cut(&rest, '\n'), &pid) == 0 && pid > 1) {
                (void)kill((pid_t)pid, SIGKILL);
                n++;
            }
        }
    }
    cleanup_closedir DIR *d = depth > 0 ? opendir(dir) : NULL;
    struct dirent *ent;
    while (d && (ent = readdir(d))) {
        if (ent->d_type == DT_DIR && ent->d_name[0] != '.') {
            char sub[CGROUP_PATH_MAX];
            (void)snprintf(sub, sizeof(sub), "%.200s/%.64s", dir, ent->d_name);
            n += kill_listed(sub, depth - 1);
        }
    }
    return n;
}

/* Without cgroup.kill: stop everything first, so that nothing forks away under our hands. */
static int kill_by_hand(const struct cgroup_host *h, const struct cgroup_hier *hier, const char *id)
{
    char dir[CGROUP_PATH_MAX];
    uint64_t deadline = clock_mono_ms() + OCI_KILL_WAIT_MS;
    cgroup_path(h, hier, id, NULL, dir);
    for (;;) {
        (void)cgroup_freeze(h, id, true, NULL);
        int n = kill_listed(dir, 2);
        (void)cgroup_freeze(h, id, false, NULL);
        if (n == 0) {
            return 0;
        }
        if (clock_mono_ms() > deadline) {
            return -ETIMEDOUT;
        }
        (void)usleep(2000);
    }
}

int cgroup_kill(const struct cgroup_host *h, const char *id, struct err *e)
{
    char dir[CGROUP_PATH_MAX];
    const struct cgroup_hier *v2 = cgroup_hier_v2(h);
    const struct cgroup_hier *hier = v2 ? v2 : cgroup_hier_of(h, CGROUP_FREEZER);
    cgroup_path(h, hier, id, NULL, dir);
    if (access(dir, F_OK) < 0) {
        return 0;
    }
    int r;
    if (h->has_kill) {
        r = write_in(dir, "cgroup.kill", "1");
        if (r == 0) {
            r = events_wait(dir, "populated", 0, OCI_KILL_WAIT_MS);
        }
    } else {
        r = kill_by_hand(h, hier, id);
    }
    if (r == -ENOENT || r == -ENODEV) {
        return 0;
    }
    return r < 0 ? err_sys(e, r, "kill every process of %s", id) : 0;
}

int cgroup_usage(const struct cgroup_host *h, const char *id, struct cgroup_usage *ret,
                 struct err *e)
{
    char dir[CGROUP_PATH_MAX], work[CGROUP_PATH_MAX];
    *ret = (struct cgroup_usage){0};
    const struct cgroup_hier *hier = cgroup_hier_of(h, CGROUP_MEMORY);
    if (hier) {
        cgroup_path(h, hier, id, NULL, dir);
        cgroup_path(h, hier, id, "work", work);
        if (access(dir, F_OK) < 0) {
            return err_sys(e, errno, "control group of %s", id);
        }
        uint64_t all = group_read_u64(dir, hier->v2 ? "memory.current" : "memory.usage_in_bytes");
        uint64_t cold =
            group_read_key(dir, "memory.stat", hier->v2 ? "inactive_file" : "total_inactive_file");
        ret->memory_bytes = all > cold ? all - cold : 0;
        uint64_t limit = group_read_u64(work, hier->v2 ? "memory.max" : "memory.limit_in_bytes");
        ret->memory_limit = limit < (UINT64_C(1) << 62) ? limit : 0;
    }
    hier = cgroup_hier_of(h, CGROUP_PIDS);
    if (hier) {
        cgroup_path(h, hier, id, NULL, dir);
        ret->pids = group_read_u64(dir, "pids.current");
    }
    const struct cgroup_hier *v2 = cgroup_hier_v2(h);
    hier = cgroup_hier_of(h, CGROUP_CPUACCT);
    if (hier) {
        cgroup_path(h, hier, id, NULL, dir);
        ret->cpu_us = group_read_u64(dir, "cpuacct.usage") / 1000;
    } else if (v2) {
        cgroup_path(h, v2, id, NULL, dir);
        ret->cpu_us = group_read_key(dir, "cpu.stat", "usage_usec");
    }
    return 0;
}

uint64_t cgroup_oom_kills(const struct cgroup_host *h, const char *id, bool init)
{
    char dir[CGROUP_PATH_MAX];
    const struct cgroup_hier *hier = cgroup_hier_of(h, CGROUP_MEMORY);
    if (!hier) {
        return 0;
    }
    cgroup_path(h, hier, id, init ? "init" : "work", dir);
    return group_read_key(dir, hier->v2 ? "memory.events" : "memory.oom_control", "oom_kill");
}
