/* Everything about a new process that can be settled before it exists: descriptors, terminal, where
 * the program is, cgroup files. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "io/spawn.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- program ---- */

static const char *env_get(const char *const *envp, const char *name)
{
    size_t n = strlen(name);

    for (; *envp; envp++) {
        if (strncmp(*envp, name, n) == 0 && (*envp)[n] == '=') {
            return *envp + n + 1;
        }
    }
    return NULL;
}

/* The child tries these one after the other: only there are cwd and identity the right ones. */
static int plan_paths(struct spawn_plan *p)
{
    const char *file = p->o->path;

    if (!file[0]) {
        return -ENOENT;
    }
    if (strchr(file, '/')) {
        p->paths[0] = file;
        return 0;
    }
    const char *path = env_get(p->envp, "PATH");
    struct str rest = str_from(path ? path : DEFAULT_PATH);
    size_t n_file = strlen(file), n = 0;
    char *at = p->paths_mem = xmalloc(rest.n + (n_file + 3) * IO_CHILD_MAX_PATHS);
    while (rest.p && n < IO_CHILD_MAX_PATHS) {
        struct str dir = str_cut(&rest, ':');
        dir = dir.n ? dir : STR("."); /* POSIX: an empty element is the current directory */
        p->paths[n++] = at;
        memcpy(at, dir.p, dir.n);
        at[dir.n] = '/';
        memcpy(at + dir.n + 1, file, n_file + 1);
        at += dir.n + n_file + 2;
    }
    return 0;
}

/* ---- descriptors ---- */

static int open_null(struct spawn_plan *p)
{
    if (p->null_fd < 0) {
        p->null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    }
    return p->null_fd < 0 ? -errno : p->null_fd;
}

static int open_peer(int master)
{
    char path[32];
    unsigned n;
    int fd = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

    if (fd >= 0) {
        return fd;
    }
    if (ioctl(master, TIOCGPTN, &n) < 0) {
        return -errno;
    }
    (void)snprintf(path, sizeof(path), "/dev/pts/%u", n);
    fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* By hand: grantpt(3) may run a helper and look up groups, which a static program cannot. */
static int open_tty(struct spawn_plan *p)
{
    struct winsize ws = {.ws_row = p->o->pty_rows, .ws_col = p->o->pty_cols};
    const int unlock = 0;

    if (p->tty_fd >= 0) {
        return p->tty_fd;
    }
    p->pty_fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    if (p->pty_fd < 0 || ioctl(p->pty_fd, TIOCSPTLCK, &unlock) < 0) {
        return -errno;
    }
    if (ws.ws_row && ws.ws_col && ioctl(p->pty_fd, TIOCSWINSZ, &ws) < 0) {
        return -errno;
    }
    p->tty_fd = open_peer(p->pty_fd);
    if (p->tty_fd >= 0 && p->o->set_ids) {
        /* So that the user's programs may open their terminal by name; not all file systems care.
         */
        (void)!fchown(p->tty_fd, p->o->uid, (gid_t)-1);
    }
    return p->tty_fd;
}

/* Our end does not block; the child's end is another file description and does. */
static int open_pipe(struct spawn_plan *p, int i)
{
    int fd[2];

    if (pipe2(fd, O_CLOEXEC) < 0) {
        return -errno;
    }
    int ours = i == 0 ? 1 : 0;
    p->parent_fd[i] = fd[ours];
    p->child_fd[i] = fd[!ours];
    return fd_set_nonblock(fd[ours], true);
}

static int plan_fd(struct spawn_plan *p, int i, const struct io_child_fd *f)
{
    int r;

    switch (f->kind) {
    case IO_STDIO_PIPE:
        return open_pipe(p, i);
    case IO_STDIO_FD:
        r = f->fd >= 0 ? f->fd : -EBADF;
        break;
    case IO_STDIO_PTY:
        r = open_tty(p);
        break;
    case IO_STDIO_NULL:
        r = open_null(p);
        break;
    default:
        return -EINVAL;
    }
    if (r < 0) {
        return r;
    }
    p->child_fd[i] = r;
    p->borrowed[i] = true;
    return 0;
}

/* ---- cgroups ---- */

#define OWN_FDS "/proc/self/fd/"

int io_cgroup_open(const char *path)
{
    struct str s = str_from(path);
    uint32_t n;
    int fd;

    if (str_starts(s, STR(OWN_FDS))) {
        if (parse_u32(str_sub(s, sizeof(OWN_FDS) - 1, s.n), &n) < 0 || n > INT32_MAX) {
            return -EBADF;
        }
        fd = fcntl((int)n, F_DUPFD_CLOEXEC, 3);
    } else {
        fd = open(path, O_WRONLY | O_CLOEXEC);
    }
    return fd < 0 ? -errno : fd;
}

static int plan_cgroups(struct spawn_plan *p)
{
    struct statfs fs;

    for (size_t i = 0; p->o->cgroup_procs && p->o->cgroup_procs[i]; i++) {
        const char *path = p->o->cgroup_procs[i];
        if (i == IO_CHILD_MAX_CGROUPS) {
            return -E2BIG;
        }
        int fd = io_cgroup_open(path);
        if (fd < 0) {
            return fd;
        }
        p->cgroup_fd[p->n_cgroups++] = fd;
        const char *slash = strrchr(path, '/');
        if (i == 0 && !str_starts(str_from(path), STR(OWN_FDS)) && slash && slash != path &&
            fstatfs(fd, &fs) == 0 && fs.f_type == CGROUP2_SUPER_MAGIC) {
            /* Moving a process later waits for an RCU period; being born there does not. */
            char *dir = xstrndup(path, (size_t)(slash - path));
            p->cgroup_dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC); /* -1: write it */
            free(dir);
        }
    }
    return 0;
}

/* ---- all of it ---- */

int spawn_plan_init(struct spawn_plan *p, const struct io_child_opts *o)
{
    *p = (struct spawn_plan){
        .o = o,
        .argv = o->argv,
        .envp = o->envp ? o->envp : (const char *const *)environ,
        .child_fd = {-1, -1, -1},
        .parent_fd = {-1, -1, -1},
        .pty_fd = -1,
        .null_fd = -1,
        .tty_fd = -1,
        .cgroup_dir_fd = -1,
        .report_fd = -1,
    };
    int r = plan_paths(p);
    r = r < 0 ? r : plan_fd(p, 0, &o->in);
    r = r < 0 ? r : plan_fd(p, 1, &o->out);
    if (r == 0 && o->merge_err) {
        p->child_fd[2] = p->child_fd[1];
        p->borrowed[2] = true;
    } else {
        r = r < 0 ? r : plan_fd(p, 2, &o->err);
    }
    return r < 0 ? r : plan_cgroups(p);
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

void spawn_plan_done(struct spawn_plan *p)
{
    for (int i = 0; i < 3; i++) {
        if (!p->borrowed[i]) {
            close_fd(&p->child_fd[i]);
        }
        close_fd(&p->parent_fd[i]);
    }
    for (size_t i = 0; i < p->n_cgroups; i++) {
        close_fd(&p->cgroup_fd[i]);
    }
    close_fd(&p->cgroup_dir_fd);
    close_fd(&p->pty_fd);
    close_fd(&p->tty_fd);
    close_fd(&p->null_fd);
    close_fd(&p->report_fd);
    free(p->paths_mem);
    p->paths_mem = NULL;
}
