#include "execd/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/num.h"

#define PROC_MAX (1u << 20)

static bool list_has(struct str list, struct str item)
{
    while (list.p) {
        if (str_eq(str_cut(&list, ','), item)) {
            return true;
        }
    }
    return false;
}

struct str cgroup_own_path(struct str proc_cgroup, struct str controller)
{
    while (proc_cgroup.p) {
        struct str line = str_cut(&proc_cgroup, '\n');
        struct str id = str_cut(&line, ':');
        struct str controllers = str_cut(&line, ':');
        bool is_it = controller.n ? list_has(controllers, controller)
                                  : str_eq(id, STR("0")) && controllers.n == 0;
        if (is_it && line.n > 0) {
            return line;
        }
    }
    return STR_NULL;
}

/* mountinfo writes blanks and backslashes as three octal digits. */
static const char *unescape(struct arena *a, struct str s)
{
    char *out = arena_alloc(a, s.n + 1);
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\\' && i + 3 < s.n) {
            out[n++] = (char)(((s.p[i + 1] & 7) << 6) | ((s.p[i + 2] & 7) << 3) | (s.p[i + 3] & 7));
            i += 3;
        } else {
            out[n++] = s.p[i];
        }
    }
    return out;
}

bool cgroup_mount(struct arena *a, struct str mountinfo, struct str controller,
                  const char **ret_point, struct str *ret_root)
{
    while (mountinfo.p) {
        struct str line = str_cut(&mountinfo, '\n');
        for (int i = 0; i < 3; i++) {
            (void)str_cut(&line, ' '); /* id, parent, device */
        }
        struct str root = str_cut(&line, ' ');
        struct str point = str_cut(&line, ' ');
        ptrdiff_t dash = str_find_str(line, STR(" - "));
        if (dash < 0) {
            continue;
        }
        line = str_sub(line, (size_t)dash + 3, line.n);
        struct str type = str_cut(&line, ' ');
        (void)str_cut(&line, ' '); /* source */
        bool is_it = controller.n ? str_eq(type, STR("cgroup")) && list_has(line, controller)
                                  : str_eq(type, STR("cgroup2"));
        /* In a mount made outside of this namespace nothing tells where the namespace begins. */
        if (is_it && !str_starts(root, STR("/.."))) {
            *ret_point = unescape(a, point);
            *ret_root = root;
            return true;
        }
    }
    return false;
}

struct cgroup_dir cgroup_locate(struct arena *a, struct str proc_cgroup, struct str mountinfo,
                                struct str controller, bool own_namespace)
{
    struct cgroup_dir d = {0};
    struct str root, path = cgroup_own_path(proc_cgroup, controller);
    bool v1 = path.p && cgroup_mount(a, mountinfo, controller, &d.top, &root);
    if (!v1) {
        path = cgroup_own_path(proc_cgroup, STR(""));
        if (!path.p || !cgroup_mount(a, mountinfo, STR(""), &d.top, &root)) {
            return (struct cgroup_dir){0};
        }
    }
    if (!own_namespace && str_eq(root, STR("/")) && str_eq(path, STR("/"))) {
        return (struct cgroup_dir){0}; /* the machine itself: its own counters say more */
    }
    d.found = true;
    d.v2 = !v1;
    d.dir = d.top;
    bool whole = own_namespace || !str_eq(root, STR("/")) || str_starts(path, STR("/.."));
    if (!whole) {
        d.dir = arena_printf(a, "%s%.*s", d.top, STR_FMT(path));
    }
    return d;
}

/* The initial cgroup namespace has a number of its own in the kernel. */
static bool in_own_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/cgroup", &st) == 0 && st.st_ino != 0xEFFFFFFBu;
}

struct cgroup_dir cgroup_find(struct arena *a, struct str controller)
{
    cleanup_(buf_done) struct buf own = BUF_INIT(PROC_MAX);
    cleanup_(buf_done) struct buf mounts = BUF_INIT(PROC_MAX);
    (void)file_read(AT_FDCWD, "/proc/self/cgroup", &own); /* missing is empty: nothing is found */
    (void)file_read(AT_FDCWD, "/proc/self/mountinfo", &mounts);
    struct cgroup_dir d =
        cgroup_locate(a, buf_str(&own), buf_str(&mounts), controller, in_own_namespace());
    if (d.found && faccessat(AT_FDCWD, d.dir, F_OK, 0) < 0) {
        d.dir = d.top; /* named as another namespace sees it */
    }
    return d;
}

int cgroup_parse_limit(struct str text, uint64_t *ret)
{
    struct str line = str_trim(str_cut(&text, '\n'));
    if (str_eq(line, STR("max"))) {
        *ret = UINT64_MAX;
        return 0;
    }
    int r = parse_u64(line, ret);
    if (r == -ERANGE || (r == 0 && *ret >= (1ull << 60))) {
        *ret = UINT64_MAX; /* version 1 writes "no limit" as a huge number */
        return 0;
    }
    return r;
}

double cgroup_parse_cpu_max(struct str text)
{
    struct str line = str_cut(&text, '\n');
    uint64_t quota, period;
    struct str first = str_cut(&line, ' ');
    if (parse_u64(first, &quota) < 0 || parse_u64(str_trim(line), &period) < 0 || period == 0) {
        return 0;
    }
    return (double)quota / (double)period;
}

int cgroup_stat_get(struct str text, struct str key, uint64_t *ret)
{
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        if (str_eq(str_cut(&line, ' '), key)) {
            return parse_u64(str_trim(line), ret) < 0 ? -ENOENT : 0;
        }
    }
    return -ENOENT;
}
