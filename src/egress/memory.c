/* The memory limit of control groups, of either version.
 *
 * In a container without a cgroup namespace the path in /proc/self/cgroup is the host's, while the
 * mount shows the container's own group at its root: what is not there is passed over, and the way
 * up from the path ends at the root in any case. */

#include "egress/memory.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "base/str.h"

static uint64_t limit_in(const char *mount, struct str path, const char *file)
{
    char name[PATH_MAX];
    cleanup_(buf_done) struct buf text = BUF_INIT(64);
    uint64_t v;
    int n = snprintf(name, sizeof(name), "%s%.*s/%s", mount, STR_FMT(path), file);
    if (n < 0 || (size_t)n >= sizeof(name) || file_read(AT_FDCWD, name, &text) < 0) {
        return UINT64_MAX;
    }
    struct str rest = buf_str(&text);
    return parse_u64(str_cut(&rest, '\n'), &v) < 0 ? UINT64_MAX : v; /* "max" */
}

/* The least of the group's and of all above it. */
static uint64_t limit_up(const char *mount, struct str path, const char *file)
{
    uint64_t least = UINT64_MAX;
    for (;;) {
        ptrdiff_t slash = str_rfind(path, '/');
        if (path.n && path.p[path.n - 1] == '/') {
            path.n--;
            continue;
        }
        least = MIN(least, limit_in(mount, path, file));
        if (path.n == 0 || slash < 0) {
            return least;
        }
        path.n = (size_t)slash;
    }
}

static bool has_controller(struct str list, struct str name)
{
    while (list.p) {
        if (str_eq(str_cut(&list, ','), name)) {
            return true;
        }
    }
    return false;
}

uint64_t memory_limit_at(const char *groups, const char *mount)
{
    struct str rest = str_from(groups);
    uint64_t least = UINT64_MAX;
    char v1[PATH_MAX];
    (void)snprintf(v1, sizeof(v1), "%s/memory", mount);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        (void)str_cut(&line, ':');
        struct str controllers = str_cut(&line, ':');
        if (!line.p) {
            continue;
        }
        if (controllers.n == 0) {
            least = MIN(least, limit_up(mount, line, "memory.max"));
        } else if (has_controller(controllers, STR("memory"))) {
            least = MIN(least, limit_up(v1, line, "memory.limit_in_bytes"));
        }
    }
    return least;
}

uint64_t memory_limit(void)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(MEMORY_GROUPS_MAX);
    if (file_read(AT_FDCWD, "/proc/self/cgroup", &text) < 0) {
        return UINT64_MAX;
    }
    return memory_limit_at(buf_cstr(&text), "/sys/fs/cgroup");
}
