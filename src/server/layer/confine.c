/* Giving privileges away. */

#include "server/layer/confine.h"

#include <errno.h>
#include <linux/capability.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/must.h"
#include "server/layer/limits.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

int confine_to_parent(pid_t parent, struct err *e)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0) {
        return err_sys(e, errno, "PR_SET_PDEATHSIG");
    }
    return getppid() == parent ? 0 : err_set(e, ERR_UNAVAILABLE, "the server is gone");
}

static int limit(int what, rlim_t max, struct err *e)
{
    struct rlimit lim = {0};
    (void)getrlimit((__rlimit_resource_t)what, &lim);
    lim.rlim_cur = lim.rlim_max = MIN(max, lim.rlim_max);
    return setrlimit((__rlimit_resource_t)what, &lim) < 0 ? err_sys(e, errno, "setrlimit") : 0;
}

/* Owners, modes, attributes and links of other people's files. SYS_ADMIN is for trusted.overlay
 * attributes alone; the filter leaves nothing else that would ask for it. */
static int drop_capabilities(struct err *e)
{
    const uint64_t keep = 1ull << CAP_CHOWN | 1ull << CAP_DAC_OVERRIDE |
                          1ull << CAP_DAC_READ_SEARCH | 1ull << CAP_FOWNER | 1ull << CAP_FSETID |
                          1ull << CAP_MKNOD | 1ull << CAP_SETFCAP | 1ull << CAP_SYS_ADMIN;
    struct __user_cap_header_struct h = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct d[2] = {0};
    if (syscall(SYS_capget, &h, d) < 0) {
        return err_sys(e, errno, "capget");
    }
    for (int i = 0; i < 2; i++) {
        d[i].permitted &= (uint32_t)(keep >> (32 * i));
        d[i].effective = d[i].permitted;
        d[i].inheritable = 0;
    }
    return syscall(SYS_capset, &h, d) < 0 ? err_sys(e, errno, "capset") : 0;
}

static const int allowed[] = {
    /* contents */
    SCMP_SYS(read),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(pwrite64),
    SCMP_SYS(lseek),
    SCMP_SYS(ftruncate),
    SCMP_SYS(fadvise64),
    SCMP_SYS(close),
    SCMP_SYS(dup),
    SCMP_SYS(fcntl),
    /* names */
    SCMP_SYS(openat),
    SCMP_SYS(openat2),
    SCMP_SYS(getdents64),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(statx),
    SCMP_SYS(readlinkat),
    SCMP_SYS(mkdirat),
    SCMP_SYS(mknodat),
    SCMP_SYS(symlinkat),
    SCMP_SYS(linkat),
    SCMP_SYS(unlinkat),
    SCMP_SYS(renameat),
    SCMP_SYS(renameat2),
    SCMP_SYS(fchmod),
    SCMP_SYS(fchmodat),
    SCMP_SYS(fchown),
    SCMP_SYS(fchownat),
    SCMP_SYS(utimensat),
    SCMP_SYS(fgetxattr),
    SCMP_SYS(fsetxattr),
    SCMP_SYS(flistxattr),
    /* the C library at work, and its end */
    SCMP_SYS(brk),
    SCMP_SYS(munmap),
    SCMP_SYS(mremap),
    SCMP_SYS(madvise),
    SCMP_SYS(futex),
    SCMP_SYS(getrandom),
    SCMP_SYS(clock_gettime),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(getpid),
    SCMP_SYS(gettid),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(tgkill),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
};

/* Memory yes, code no: neither a decoder gone astray nor the C library, which would take its
 * modules out of the layer, can map anything to execute. */
static int allow_memory(scmp_filter_ctx ctx)
{
    const struct scmp_arg_cmp no_exec = SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0);
    int r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1, no_exec);
    return r < 0 ? r : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1, no_exec);
}

/* What is not listed does not exist (ENOSYS): a C library newer than the list falls back. */
static int filter_calls(struct err *e)
{
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    must(ctx);
    int r = allow_memory(ctx);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(allowed); i++) {
        r = seccomp_rule_add(ctx, SCMP_ACT_ALLOW, allowed[i], 0);
        r = r == -EDOM ? 0 : r; /* not a call of this architecture */
    }
    r = r < 0 ? r : seccomp_load(ctx); /* sets no_new_privs */
    seccomp_release(ctx);
    return r < 0 ? err_sys(e, r, "seccomp") : 0;
}

int confine_to_root(int root_fd, struct err *e)
{
    if (limit(RLIMIT_CORE, 0, e) < 0 || limit(RLIMIT_NOFILE, LAYER_MAX_FDS, e) < 0) {
        return -1;
    }
    if (fchdir(root_fd) < 0 || chroot(".") < 0) {
        return err_sys(e, errno, "entering the layer");
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return err_sys(e, errno, "PR_SET_NO_NEW_PRIVS");
    }
    if (drop_capabilities(e) < 0) {
        return -1;
    }
    if (SANITIZED) {
        return 0; /* the sanitizers need terabytes of addresses, and processes at their end */
    }
    return limit(RLIMIT_AS, LAYER_MAX_MEMORY, e) < 0 ? -1 : filter_calls(e);
}
