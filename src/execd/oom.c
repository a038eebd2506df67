/* Out-of-memory kills. */

#include "execd/oom.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"

#define CGROUP_ROOT "/sys/fs/cgroup"

static int try_open(const char *dir, struct str sub)
{
    static const char *const names[] = {"memory.events", "memory.oom_control"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        cleanup_free char *path = xasprintf("%s%.*s/%s", dir, STR_FMT(sub), names[i]);
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            return fd;
        }
    }
    return -1;
}

static int open_workload(const char *const *procs)
{
    for (size_t i = 0; procs[i]; i++) {
        struct str path = str_from(procs[i]);
        ptrdiff_t slash = str_rfind(path, '/');
        int fd = slash < 0 ? -1 : try_open("", str_sub(path, 0, (size_t)slash));
        if (fd >= 0) {
            return fd;
        }
    }
    return -1;
}

/* "0::/path" is v2, "9:memory:/path" is v1. Inside a cgroup namespace the path may be "/". */
static int open_own(void)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(64 << 10);
    (void)file_read(AT_FDCWD, "/proc/self/cgroup", &text);
    struct str rest = buf_str(&text);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        (void)str_cut(&line, ':');
        struct str controllers = str_cut(&line, ':');
        struct str path = str_eq(line, STR("/")) ? STR_NULL : line;
        bool v1 = str_eq(controllers, STR("memory"));
        if (!v1 && controllers.n) {
            continue;
        }
        int fd = try_open(v1 ? CGROUP_ROOT "/memory" : CGROUP_ROOT, path);
        if (fd >= 0) {
            return fd;
        }
    }
    int fd = try_open(CGROUP_ROOT, STR_NULL);
    return fd >= 0 ? fd : try_open(CGROUP_ROOT "/memory", STR_NULL);
}

void oom_watch_init(struct oom_watch *w, const char *const *procs)
{
    w->fd = procs ? open_workload(procs) : -1;
    if (w->fd < 0) {
        w->fd = open_own();
    }
}

void oom_watch_done(struct oom_watch *w)
{
    if (w->fd >= 0) {
        (void)close(w->fd);
        w->fd = -1;
    }
}

uint64_t oom_parse(const char *text)
{
    struct str rest = str_from(text);
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        uint64_t n;
        if (str_starts(line, STR("oom_kill ")) && parse_u64(str_sub(line, 9, line.n), &n) == 0) {
            return n;
        }
    }
    return 0;
}

uint64_t oom_count(const struct oom_watch *w)
{
    char text[512];
    ssize_t n = w->fd < 0 ? -1 : pread(w->fd, text, sizeof(text) - 1, 0);
    if (n <= 0) {
        return 0;
    }
    text[n] = 0;
    return oom_parse(text);
}

bool oom_was_cause(const struct oom_watch *w, uint64_t count_at_start,
                   const struct io_child_status *st)
{
    bool killed = (st->end == IO_CHILD_SIGNALED && st->signal == SIGKILL) ||
                  (st->end == IO_CHILD_EXITED && st->code == 128 + SIGKILL);
    return killed && oom_count(w) > count_at_start;
}
