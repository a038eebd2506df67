/* From clone to exec.
 *
 * Theory of operation: the child normally shares our memory and we sleep until it has executed the
 * new program (CLONE_VM | CLONE_VFORK), so that starting a process does not cost more in a big
 * process than in a small one. Everything the child does is therefore a bare system call: no
 * allocation, no lock, no buffered output. All signals are blocked from before the clone until the
 * child has put its own dispositions to default, so none of our handlers ever runs in it.
 *
 * Memory is not shared when the child changes its identity: a process of that user could otherwise
 * stop or inspect it while it still has our memory; and not under the sanitizers, whose bookkeeping
 * does not survive it. Such a child reports a failure through a pipe that exec closes.
 *
 * clone3 is refused with ENOSYS by some container profiles, and pidfds do not exist everywhere:
 * clone and pidfd_open, and in the end waiting for SIGCHLD, take their place. */

#include "io/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/fsuid.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#endif

#define FD_SCAN_MAX (64 << 10)

unsigned spawn_avoid;

/* Declared here because <sched.h> and <linux/sched.h> do not like each other. */
int clone(int (*fn)(void *arg), void *stack, int flags, void *arg, ...);
int setns(int fd, int kind);

/* ---- the child's side ---- */

/* By the system call itself: sigaction(3) refuses the two signals that glibc keeps for itself, and
 * a parent that ignored them would hand that on. */
static void signals_to_default(void)
{
    static const unsigned long
        dfl[4]; /* the kernel's struct sigaction: SIG_DFL, no flags, no mask */

    for (int i = 1; i < NSIG; i++) {
        (void)syscall(SYS_rt_sigaction, i, dfl, NULL, 8); /* fails for SIGKILL and SIGSTOP */
    }
}

static int write_once(int fd, const char *s, size_t n)
{
    ssize_t r = write(fd, s, n);

    return r < 0 ? -errno : (size_t)r == n ? 0 : -EIO;
}

static int set_oom_score(int score)
{
    char text[16], *at = text + sizeof(text);
    unsigned v = score < 0 ? 0u - (unsigned)score : (unsigned)score;

    do {
        *--at = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    if (score < 0) {
        *--at = '-';
    }
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    int r = write_once(fd, at, (size_t)(text + sizeof(text) - at));
    (void)close(fd);
    return r;
}

/* Sources may themselves be 0, 1 or 2, so they are first moved out of the way. */
static int place_stdio(struct spawn_plan *p)
{
    int src[3];

    for (int i = 0; i < 3; i++) {
        src[i] = p->child_fd[i];
        if (src[i] < 3) {
            src[i] = fcntl(src[i], F_DUPFD_CLOEXEC, 3);
            if (src[i] < 0) {
                return -errno;
            }
        }
    }
    for (int i = 0; i < 3; i++) {
        if (dup2(src[i], i) < 0) { /* the copy is not close-on-exec */
            return -errno;
        }
    }
    return 0;
}

static int keep_only(const int *keep, size_t n_keep)
{
    if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) < 0) {
        /* Before Linux 5.11. Ours are close-on-exec anyway; this is for what was inherited. */
        struct rlimit lim = {.rlim_cur = FD_SCAN_MAX};
        (void)getrlimit(RLIMIT_NOFILE, &lim);
        for (int fd = 3; fd < (int)MIN(lim.rlim_cur, (rlim_t)FD_SCAN_MAX); fd++) {
            (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
        }
    }
    for (size_t i = 0; i < n_keep; i++) {
        if (fcntl(keep[i], F_SETFD, 0) < 0) {
            return -errno;
        }
    }
    return 0;
}

/* The wrappers of libc would change the identity of every thread that shares our memory. */
static int set_identity(const struct io_child_opts *o)
{
    if (syscall(SYS_setgroups, o->n_groups, o->groups) < 0 ||
        syscall(SYS_setresgid, o->gid, o->gid, o->gid) < 0 ||
        syscall(SYS_setresuid, o->uid, o->uid, o->uid) < 0) {
        return -errno;
    }
    return 0;
}

/* Of this process only: limits are not part of the memory that may be shared. */
static int set_max_fds(uint64_t n)
{
    struct rlimit lim;

    if (getrlimit(RLIMIT_NOFILE, &lim) < 0) {
        return -errno;
    }
    lim.rlim_cur = MIN(n, lim.rlim_max);
    return setrlimit(RLIMIT_NOFILE, &lim) < 0 ? -errno : 0;
}

static int enter_surroundings(struct spawn_plan *p)
{
    const struct io_child_opts *o = p->o;
    int r = 0;

    if (o->set_ids) {
        /* Whoever starts it may handle files as somebody else, and must not here: its own files in
         * /proc are those of its identity. */
        (void)setfsuid(geteuid());
    }
    for (size_t i = p->in_cgroup ? 1 : 0; i < p->n_cgroups && r == 0; i++) {
        r = write_once(p->cgroup_fd[i], "0", 1);
    }
    if (r == 0 && o->oom_score_adj) {
        r = set_oom_score(o->oom_score_adj);
    }
    if (r == 0 && o->netns_fd > 0 && setns(o->netns_fd, CLONE_NEWNET) < 0) {
        r = -errno;
    }
    return r;
}

static int become(struct spawn_plan *p)
{
    const struct io_child_opts *o = p->o;
    bool tty = p->tty_fd >= 0;
    sigset_t none;

    if ((o->new_session || tty ? setsid() : setpgid(0, 0)) < 0) {
        return -errno;
    }
    signals_to_default();
    int r = enter_surroundings(p);
    if (r == 0 && tty && ioctl(p->tty_fd, TIOCSCTTY, 0) < 0) {
        r = -errno;
    }
    r = r < 0 ? r : place_stdio(p);
    r = r < 0 ? r : keep_only(o->keep_fds, o->n_keep_fds);
    if (r == 0 && o->max_fds) { /* when none is opened any more: ours may be beyond it */
        r = set_max_fds(o->max_fds);
    }
    if (r == 0 && o->set_ids) {
        r = set_identity(o);
    }
    if (r == 0 && o->cwd && chdir(o->cwd) < 0) { /* with the rights of the new identity */
        r = -errno;
    }
    if (r < 0) {
        return r;
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    return 0;
}

/* As execvpe(3): a directory without the program, or without the right to see it, is no reason to
 * give up; but "not allowed" is a better answer than "not found". */
static int exec_first(struct spawn_plan *p)
{
    int r = -ENOENT;

    for (size_t i = 0; p->paths[i]; i++) {
        (void)execve(p->paths[i], (char *const *)(uintptr_t)p->argv,
                     (char *const *)(uintptr_t)p->envp);
        switch (errno) {
        case EACCES:
            r = -EACCES;
            break;
        case ENOENT:
        case ENOTDIR:
        case ESTALE:
        case ENODEV:
        case ETIMEDOUT:
            break;
        default:
            return -errno;
        }
    }
    return r;
}

static int child_main(void *arg)
{
    struct spawn_plan *p = arg;
    int r = become(p);

    if (r == 0) {
        r = exec_first(p);
    }
    if (p->report_fd >= 0) {
        (void)!write(p->report_fd, &r, sizeof(r)); /* nobody left to tell about a failure */
    } else {
        p->error = r;
    }
    _exit(127);
}

/* ---- cloning ---- */

static long raw_clone3(struct clone_args *a)
{
    return syscall(SYS_clone3, a, sizeof(*a));
}

/* clone3 with a stack of its own: the C code after the call must run on the old stack in the parent
 * and not at all in the child, hence the assembly. */
static long clone3_on_stack(struct clone_args *a, int (*fn)(void *arg), void *arg)
{
#if defined(__x86_64__)
    long ret;
    register void *r_arg __asm__("r8") = arg;

    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "mov %%r8, %%rdi\n\t"
                     "call *%%rdx\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(ret)
                     : "0"((long)SYS_clone3), "D"(a), "S"(sizeof(*a)), "d"(fn), "r"(r_arg)
                     : "rcx", "r11", "memory", "cc");
    return ret;
#elif defined(__aarch64__)
    register long x0 __asm__("x0") = (long)a;
    register long x1 __asm__("x1") = (long)sizeof(*a);
    register long x8 __asm__("x8") = SYS_clone3;
    register long x2 __asm__("x2") = (long)fn;
    register long x3 __asm__("x3") = (long)arg;

    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x3\n\t"
                     "blr x2\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x1), "r"(x8), "r"(x2), "r"(x3)
                     : "memory", "cc");
    return x0;
#else
    return -ENOSYS;
#endif
}

static long clone_shared(struct spawn_plan *p, char *stack, int *pidfd)
{
    uint64_t flags = CLONE_VM | CLONE_VFORK;
    struct clone_args a = {
        .flags = flags | CLONE_PIDFD | (p->in_cgroup ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
        .stack = (uint64_t)(uintptr_t)stack,
        .stack_size = IO_CHILD_STACK,
        .cgroup = p->in_cgroup ? (uint64_t)p->cgroup_dir_fd : 0,
    };
    long r = spawn_avoid & SPAWN_NO_CLONE3 ? -ENOSYS : clone3_on_stack(&a, child_main, p);

    if (r != -ENOSYS || p->in_cgroup) {
        return r;
    }
    r = -EINVAL;
    if (!(spawn_avoid & SPAWN_NO_PIDFD)) {
        r = clone(child_main, stack + IO_CHILD_STACK, (int)flags | CLONE_PIDFD | SIGCHLD, p, pidfd);
        r = r < 0 ? -errno : r;
    }
    if (r == -EINVAL) {
        r = clone(child_main, stack + IO_CHILD_STACK, (int)flags | SIGCHLD, p);
        r = r < 0 ? -errno : r;
    }
    return r;
}

static long clone_apart(struct spawn_plan *p, int *pidfd)
{
    struct clone_args a = {
        .flags = CLONE_PIDFD | (p->in_cgroup ? CLONE_INTO_CGROUP : 0),
        .pidfd = (uint64_t)(uintptr_t)pidfd,
        .exit_signal = SIGCHLD,
        .cgroup = p->in_cgroup ? (uint64_t)p->cgroup_dir_fd : 0,
    };
    long r = -ENOSYS;

    if (!(spawn_avoid & SPAWN_NO_CLONE3)) {
        r = raw_clone3(&a);
        r = r < 0 ? -errno : r;
    }
    if (r == -ENOSYS && !p->in_cgroup) {
        r = -EINVAL;
        if (!(spawn_avoid & SPAWN_NO_PIDFD)) {
            r = syscall(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, pidfd, 0, 0);
            r = r < 0 ? -errno : r;
        }
        if (r == -EINVAL) {
            r = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
            r = r < 0 ? -errno : r;
        }
    }
    if (r == 0) {
        (void)child_main(p);
    }
    return r;
}

/* Being born in a cgroup is an optimisation; where it is refused the child writes the file, and
 * that gives the error which counts. */
static long clone_somehow(struct spawn_plan *p, char *stack, int *pidfd)
{
    p->in_cgroup = p->cgroup_dir_fd >= 0 && !(spawn_avoid & SPAWN_NO_INTO_CGROUP);
    long r = stack ? clone_shared(p, stack, pidfd) : clone_apart(p, pidfd);
    if (r < 0 && p->in_cgroup && r != -EAGAIN && r != -ENOMEM) {
        p->in_cgroup = false;
        r = stack ? clone_shared(p, stack, pidfd) : clone_apart(p, pidfd);
    }
    return r;
}

/* ---- the parent's side ---- */

static bool can_share_memory(const struct spawn_plan *p)
{
#ifdef SANITIZED
    return false;
#else
    return !p->o->set_ids && !(spawn_avoid & SPAWN_NO_SHARED_MEMORY);
#endif
}

/* 0 when the child has executed its program, else its error. */
static int wait_for_exec(struct spawn_plan *p, int read_fd)
{
    int error = 0;

    (void)close(take_fd(&p->report_fd)); /* else there would be no end to read */
    ssize_t r = fd_read_full(read_fd, &error, sizeof(error));
    (void)close(read_fd);
    return r == sizeof(error) ? error : 0;
}

static int settle(struct spawn_plan *p, struct proc *ret, pid_t pid, int pidfd)
{
    if (p->error) {
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
        if (pidfd >= 0) {
            (void)close(pidfd);
        }
        return p->error;
    }
    if (pidfd < 0 && !(spawn_avoid & SPAWN_NO_PIDFD)) {
        pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* -1: SIGCHLD it is */
    }
    *ret = (struct proc){.pid = pid, .pidfd = pidfd};
    proc_register(ret);
    return 0;
}

int spawn_run(struct spawn_plan *p, struct proc *ret)
{
    int pidfd = -1, report[2] = {-1, -1};
    char *stack = NULL;
    sigset_t all, old;

    if (can_share_memory(p)) {
        stack = xmalloc(IO_CHILD_STACK); /* aligned to 16 bytes, as the ABI wants */
    } else if (pipe2(report, O_CLOEXEC) < 0) {
        return -errno;
    }
    p->report_fd = report[1];
    (void)sigfillset(&all);
    must(pthread_sigmask(SIG_SETMASK, &all, &old) == 0);
    proc_birth_begin();
    long pid = clone_somehow(p, stack, &pidfd);
    must(pthread_sigmask(SIG_SETMASK, &old, NULL) == 0);
    if (pid > 0 && report[0] >= 0) {
        p->error = wait_for_exec(p, report[0]);
    } else if (report[0] >= 0) {
        (void)close(report[0]);
    }
    int r = pid < 0 ? (int)pid : settle(p, ret, (pid_t)pid, pidfd);
    proc_birth_end();
    free(stack);
    return r;
}
