/* The process between the server and the engine. */

#include "server/runtime/oci/stage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/runtime/oci/childstack.h"

/* From <sys/mount.h>, which cannot be included beside <linux/mount.h>. */
int mount(const char *source, const char *target, const char *type, unsigned long flags,
          const void *data);
int umount2(const char *target, int flags);
#define UNMOUNT_DETACH 2

#define STAGE_STACK (256u << 10)
#define SETUP_TRIES 5000 /* a millisecond each */

void stage_init(struct stage *s, const char *dir)
{
    *s = (struct stage){.dir = dir, .netns_fd = -1, .exec_fd = -1, .become_root_of = -1};
}

void stage_done(struct stage *s)
{
    for (size_t i = 0; i < s->n_mounts; i++) {
        (void)close(s->mounts[i].tree_fd);
    }
    s->n_mounts = 0;
}

static int attributes_set(int fd, unsigned at, bool read_only, int userns_fd)
{
    struct mount_attr attr = {
        .attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | (read_only ? MOUNT_ATTR_RDONLY : 0),
        .propagation = MS_PRIVATE,
    };
    if (userns_fd >= 0) {
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = (uint64_t)userns_fd;
    }
    return syscall(SYS_mount_setattr, fd, "", at, &attr, sizeof(attr)) < 0 ? -errno : 0;
}

int tree_clone(int dir_fd, const char *path, bool recursive, bool read_only, int userns_fd,
               struct err *e)
{
    unsigned flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
    unsigned at = AT_EMPTY_PATH | (recursive ? AT_RECURSIVE : 0);
    cleanup_close int fd =
        (int)syscall(SYS_open_tree, dir_fd, path, flags | (recursive ? AT_RECURSIVE : 0));
    if (fd < 0) {
        return err_sys(e, errno, "clone the mount of '%s'", path);
    }
    int r = attributes_set(fd, at, read_only, userns_fd);
    return r < 0 ? err_sys(e, r, "set up the mount of '%s'", path) : take_fd(&fd);
}

int tree_setup(int take_tree_fd, int userns_fd, struct err *e)
{
    cleanup_close int fd = take_tree_fd;
    if (fd < 0) {
        return err_sys(e, errno, "duplicate a descriptor");
    }
    int r = attributes_set(fd, AT_EMPTY_PATH, false, userns_fd);
    /* A process that is being started by another thread has copies of our descriptors until it is
     * another program: a file of this mount may be open for writing in it. */
    for (unsigned i = 0; r == -EBUSY && i < SETUP_TRIES; i++) {
        (void)usleep(1000);
        r = attributes_set(fd, AT_EMPTY_PATH, false, userns_fd);
    }
    return r < 0 ? err_sys(e, r, "set up a mount") : take_fd(&fd);
}

static struct stage_mount *stage_next(struct stage *s, int take_tree_fd)
{
    must(s->n_mounts < STAGE_MOUNTS_MAX);
    struct stage_mount *m = &s->mounts[s->n_mounts++];
    *m = (struct stage_mount){.tree_fd = take_tree_fd};
    return m;
}

void stage_add(struct stage *s, int take_tree_fd, const char *name)
{
    (void)snprintf(stage_next(s, take_tree_fd)->name, STAGE_NAME_MAX, "%s", name);
}

void stage_add_inside(struct stage *s, int take_tree_fd, const char *target, bool is_file)
{
    struct stage_mount *m = stage_next(s, take_tree_fd);
    m->target = target;
    m->is_file = is_file;
}

/* ---- in the child: it shares the memory of the server, so system calls only ---- */

static int failed(struct stage *s, const char *step)
{
    s->failed_errno = errno;
    s->failed_step = step;
    return -1;
}

static int join_cgroup(struct stage *s, int fd)
{
    return write(fd, "0", 1) == 1 ? 0 : failed(s, "join a control group");
}

static int enter_cgroups(struct stage *s)
{
    struct cgroup_join *cg = s->cg;
    for (int i = 0; cg && i < cg->n; i++) {
        bool is_final = cg->init_fd[i] < 0;
        if ((is_final || s->own_cgroup_ns || s->stay_in_work) &&
            join_cgroup(s, cg->work_fd[i]) < 0) {
            return -1;
        }
    }
    if (cg && s->own_cgroup_ns && unshare(CLONE_NEWCGROUP) < 0) {
        return failed(s, "make a cgroup namespace");
    }
    for (int i = 0; cg && !s->stay_in_work && i < cg->n; i++) {
        if (cg->init_fd[i] >= 0 && join_cgroup(s, cg->init_fd[i]) < 0) {
            return -1;
        }
    }
    return 0;
}

static int place_mount(struct stage *s, const struct stage_mount *m)
{
    if (mkdir(m->name, 0700) < 0) {
        return failed(s, "make a mount point");
    }
    if (syscall(SYS_move_mount, m->tree_fd, "", AT_FDCWD, m->name, MOVE_MOUNT_F_EMPTY_PATH) < 0) {
        return failed(s, "attach a layer");
    }
    return 0;
}

static int open_in(int root_fd, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
    };
    return (int)syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
}

/* A link that leads nowhere is in the way, and of no use to anybody: it is replaced, in the
 * sandbox's own layer. */
static void make_entry(int at, const char *name, bool is_file)
{
    for (int i = 0; i < 2; i++) {
        int fd = is_file ? openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)
                         : mkdirat(at, name, 0755);
        if (fd >= 0 || errno != EEXIST) {
            (void)(is_file && fd >= 0 && close(fd));
            return;
        }
        (void)unlinkat(at, name, 0); /* a directory, or a file that appeared, stays */
    }
}

/* The mount point `path` inside the root file system, made if need be. Every step is taken from the
 * root again, so that no link of the image leads out of it. */
static int open_target(int root_fd, const char *path, bool is_file)
{
    char prefix[PATH_MAX];
    size_t len = strlen(path);
    int parent = -1;
    if (len == 0 || len >= sizeof(prefix)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (size_t i = 1; i <= len; i++) {
        if (i < len && path[i] != '/') {
            continue;
        }
        memcpy(prefix, path, i);
        prefix[i] = 0;
        int fd = open_in(root_fd, prefix);
        if (fd < 0 && errno == ENOENT) {
            char *name = strrchr(prefix, '/');
            name = name ? name + 1 : prefix;
            int at = parent >= 0 ? parent : root_fd;
            make_entry(at, name, i == len && is_file);
            fd = open_in(root_fd, prefix);
        }
        (void)(parent >= 0 && close(parent));
        parent = fd;
        if (fd < 0) {
            return -1;
        }
    }
    return parent;
}

static int place_inside(struct stage *s, int root_fd, int tree_fd, const char *target, bool is_file)
{
    int at = open_target(root_fd, target, is_file);
    if (at < 0) {
        return failed(s, "make a mount point inside the sandbox");
    }
    if (syscall(SYS_move_mount, tree_fd, "", at, "",
                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
        return failed(s, "mount inside the sandbox");
    }
    (void)close(at);
    return 0;
}

/* Programs count processors and look at their network card there; the rest of the host's hardware
 * is none of their business. */
static int make_sysfs(struct stage *s)
{
    static const char *const dirs[] = {
        "sys",    "sys/devices",   "sys/devices/system", "sys/devices/virtual", "sys/class",
        "sys/fs", "sys/fs/cgroup", "sys/kernel",         "sys/kernel/mm",
    };
    static const char *const shown[] = {
        "devices/system/cpu",
        "devices/system/node",
        "devices/virtual/net",
        "class/net",
        "kernel/mm/transparent_hugepage",
    };
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (mkdir(dirs[i], 0755) < 0) {
            return failed(s, "prepare sysfs");
        }
    }
    if (mkdir("sysfs", 0700) < 0 ||
        mount("sysfs", "sysfs", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY, NULL) < 0) {
        return failed(s, "mount sysfs");
    }
    for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
        char from[64] = "sysfs/", to[64] = "sys/";
        memcpy(from + 6, shown[i], strlen(shown[i]) + 1);
        memcpy(to + 4, shown[i], strlen(shown[i]) + 1);
        /* What this kernel does not have is left out. */
        if (access(from, F_OK) == 0 &&
            (mkdir(to, 0755) < 0 || mount(from, to, NULL, MS_BIND, NULL) < 0)) {
            return failed(s, "show a part of sysfs");
        }
    }
    for (size_t i = 0; i < s->n_shown; i++) {
        const char *to = s->shown[i].to;
        if ((mkdir(to, 0755) < 0 && errno != EEXIST) ||
            mount(s->shown[i].from, to, NULL, MS_BIND, NULL) < 0) {
            return failed(s, "show the control groups");
        }
    }
    return umount2("sysfs", UNMOUNT_DETACH) < 0 ? failed(s, "hide sysfs") : 0;
}

/* The overlay makes its own files (work directory, copies, whiteouts) as whoever mounted it. On an
 * idmapped layer host root does not exist; root of the sandbox does. All capabilities stay. */
static int make_overlay(struct stage *s)
{
    if (mkdir("rootfs", 0700) < 0) {
        return failed(s, "make a mount point");
    }
    if (s->id_first &&
        (prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP) < 0 ||
         syscall(SYS_setfsgid, s->id_first) < 0 || syscall(SYS_setfsuid, s->id_first) < 0)) {
        return failed(s, "act as the sandbox's root");
    }
    if (mount("overlay", "rootfs", "overlay", MS_NOSUID | MS_NODEV, s->overlay) < 0) {
        return failed(s, "mount the root file system (overlay)");
    }
    return 0;
}

static int fill_rootfs(struct stage *s)
{
    int root_fd = open("rootfs", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root_fd < 0) {
        return failed(s, "open the root file system");
    }
    for (size_t i = 0; i < s->n_mounts; i++) {
        const struct stage_mount *m = &s->mounts[i];
        if (m->target && place_inside(s, root_fd, m->tree_fd, m->target, m->is_file) < 0) {
            return -1;
        }
    }
    int sys = (int)syscall(SYS_open_tree, AT_FDCWD, "sys",
                           OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    struct mount_attr ro = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
                                        MOUNT_ATTR_NOEXEC};
    if (sys < 0 ||
        syscall(SYS_mount_setattr, sys, "", AT_EMPTY_PATH | AT_RECURSIVE, &ro, sizeof(ro)) < 0) {
        return failed(s, "prepare sysfs");
    }
    if (place_inside(s, root_fd, sys, "/sys", false) < 0) {
        return -1;
    }
    (void)close(sys);
    (void)close(root_fd);
    if (s->id_first && (syscall(SYS_setfsuid, 0) < 0 || syscall(SYS_setfsgid, 0) < 0 ||
                        prctl(PR_SET_SECUREBITS, 0) < 0)) {
        return failed(s, "act as root again");
    }
    return 0;
}

static int make_bundle(struct stage *s)
{
    static const char *const dirs[] = {"bundle", "engine"};
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (mkdir(dirs[i], 0711) < 0 ||
            (s->become_root_of >= 0 && chown(dirs[i], s->id_first, s->id_first) < 0)) {
            return failed(s, "prepare the bundle");
        }
    }
    int fd = open("bundle/config.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    for (size_t at = 0; fd >= 0 && at < s->config.n;) {
        ssize_t n = write(fd, s->config.p + at, s->config.n - at);
        if (n < 0) {
            return failed(s, "write config.json");
        }
        at += (size_t)n;
    }
    return fd < 0 || close(fd) < 0 ? failed(s, "write config.json") : 0;
}

static int make_mounts(struct stage *s)
{
    if (unshare(CLONE_NEWNS) < 0) {
        return failed(s, "make a mount namespace");
    }
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
        return failed(s, "make mounts private");
    }
    if (s->unmount && umount2(s->unmount, UNMOUNT_DETACH) < 0 && errno != EINVAL) {
        return failed(s, "hide the unused cgroup hierarchy");
    }
    if (mount("opensandbox", s->dir, "tmpfs", MS_NOSUID | MS_NODEV, "mode=0711,size=8m") < 0 ||
        chdir(s->dir) < 0) {
        return failed(s, "prepare the stage directory");
    }
    for (size_t i = 0; i < s->n_mounts; i++) {
        if (!s->mounts[i].target && place_mount(s, &s->mounts[i]) < 0) {
            return -1;
        }
    }
    if (make_bundle(s) < 0 || make_sysfs(s) < 0 || make_overlay(s) < 0 || fill_rootfs(s) < 0) {
        return -1;
    }
    return chdir("/") < 0 ? failed(s, "leave the stage directory") : 0;
}

/* The wanted descriptors may sit on each other's numbers: first all out of the way, then down. */
static int place_fds(struct stage *s)
{
    int moved[STAGE_FDS_MAX];
    for (size_t i = 0; i < s->n_fds; i++) {
        moved[i] = fcntl(s->fds[i], F_DUPFD_CLOEXEC, STAGE_FDS_MAX + 1);
        if (moved[i] < 0) {
            return failed(s, "duplicate a descriptor");
        }
    }
    if (s->exec_fd <= STAGE_FDS_MAX) {
        s->exec_fd = fcntl(s->exec_fd, F_DUPFD_CLOEXEC, STAGE_FDS_MAX + 1);
    }
    for (size_t i = 0; i < s->n_fds; i++) {
        if (dup2(moved[i], (int)i) < 0) {
            return failed(s, "place a descriptor");
        }
    }
    return 0;
}

static void default_signals(void)
{
    struct sigaction sa = {.sa_handler = SIG_DFL};
    for (int i = 1; i < NSIG; i++) {
        (void)sigaction(i, &sa, NULL);
    }
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* execd outlives its workload (which it gives a score of its own), and the machine's services with
 * a better score outlive both. The engine could not do it from inside the user namespace. */
static void protect_from_oom(const struct stage *s)
{
    const char *score = s->stay_in_work ? "200" : "-500";
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        (void)!write(fd, score, strlen(score));
        (void)close(fd);
    }
}

/* The engine itself has no more rights than root of the sandbox: it may mount in a mount namespace
 * of its own, and nothing of the host belongs to it. */
static int become_root_of(struct stage *s)
{
    if (s->become_root_of < 0) {
        return 0;
    }
    if (setns(s->become_root_of, CLONE_NEWUSER) < 0 || syscall(SYS_setgroups, 0, NULL) < 0 ||
        syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0 ||
        unshare(CLONE_NEWNS) < 0) {
        return failed(s, "enter the user namespace");
    }
    return 0;
}

static int child_main(void *arg)
{
    struct stage *s = arg;
    default_signals();
    /* A server that dies now takes its half-made sandbox along. The sandbox itself does not inherit
     * this. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setsid();
    (void)umask(022);
    protect_from_oom(s);
    if (enter_cgroups(s) < 0) {
        _exit(125);
    }
    if (s->netns_fd >= 0 && setns(s->netns_fd, CLONE_NEWNET) < 0) {
        (void)failed(s, "enter the network namespace");
        _exit(125);
    }
    if (make_mounts(s) < 0 || become_root_of(s) < 0 || place_fds(s) < 0) {
        _exit(125);
    }
    union { /* execveat takes pointers to non-const and changes nothing */
        const char *const *c;
        char *const *m;
    } argv = {.c = s->argv}, envp = {.c = s->envp};
    (void)syscall(SYS_execveat, s->exec_fd, "", argv.m, envp.m, AT_EMPTY_PATH);
    (void)failed(s, "run the engine");
    _exit(125);
}

int stage_spawn(struct stage *s, pid_t *ret_pid, int *ret_pidfd, struct err *e)
{
    char *stack = childstack_make(STAGE_STACK);
    if (!stack) {
        return err_sys(e, errno, "stack for the engine's start");
    }
    int pidfd = -1, cancel;
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    s->failed_step = NULL;
    /* No copy of the server's page tables: the child borrows its memory until it is the engine. */
    pid_t pid = clone(child_main, stack + STAGE_STACK,
                      CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, s, &pidfd);
    int clone_errno = errno;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    (void)pthread_setcancelstate(cancel, NULL);
    childstack_free(stack, STAGE_STACK);
    if (pid < 0) {
        return err_sys(e, clone_errno, "start the engine's process");
    }
    if (s->failed_step) {
        (void)close(pidfd);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        return err_sys(e, s->failed_errno, "%s", s->failed_step);
    }
    *ret_pid = pid;
    *ret_pidfd = pidfd;
    return 0;
}
