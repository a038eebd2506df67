/* The system call filter, as data. */

#include "server/runtime/oci/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/oci/limits.h"

static const char *const allowed[] = {
    /* files */
    "access",
    "chdir",
    "chmod",
    "chown",
    "close",
    "close_range",
    "copy_file_range",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "faccessat",
    "faccessat2",
    "fadvise64",
    "fallocate",
    "fchdir",
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "flistxattr",
    "flock",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fstatfs",
    "fsync",
    "ftruncate",
    "futimesat",
    "getcwd",
    "getdents",
    "getdents64",
    "getxattr",
    "getxattrat",
    "inotify_add_watch",
    "inotify_init",
    "inotify_init1",
    "inotify_rm_watch",
    "ioctl",
    "lchown",
    "lgetxattr",
    "link",
    "linkat",
    "listxattr",
    "listxattrat",
    "llistxattr",
    "lremovexattr",
    "lseek",
    "lsetxattr",
    "lstat",
    "mkdir",
    "mkdirat",
    "mknod",
    "mknodat",
    "name_to_handle_at",
    "newfstatat",
    "open",
    "openat",
    "openat2",
    "pipe",
    "pipe2",
    "pread64",
    "preadv",
    "preadv2",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "read",
    "readahead",
    "readlink",
    "readlinkat",
    "readv",
    "removexattr",
    "removexattrat",
    "rename",
    "renameat",
    "renameat2",
    "rmdir",
    "sendfile",
    "setxattr",
    "setxattrat",
    "splice",
    "stat",
    "statfs",
    "statx",
    "symlink",
    "symlinkat",
    "sync",
    "sync_file_range",
    "syncfs",
    "tee",
    "truncate",
    "umask",
    "unlink",
    "unlinkat",
    "utime",
    "utimensat",
    "utimes",
    "vmsplice",
    "write",
    "writev",
    "chroot",
    "cachestat",
    "statmount",
    "listmount",
    /* waiting */
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "eventfd",
    "eventfd2",
    "poll",
    "ppoll",
    "pselect6",
    "select",
    "signalfd",
    "signalfd4",
    "io_cancel",
    "io_destroy",
    "io_getevents",
    "io_pgetevents",
    "io_setup",
    "io_submit",
    /* memory */
    "brk",
    "madvise",
    "membarrier",
    "memfd_create",
    "mincore",
    "mlock",
    "mlock2",
    "mlockall",
    "mmap",
    "mprotect",
    "mremap",
    "msync",
    "munlock",
    "munlockall",
    "munmap",
    "pkey_alloc",
    "pkey_free",
    "pkey_mprotect",
    "process_madvise",
    "process_mrelease",
    "remap_file_pages",
    "map_shadow_stack",
    "mseal",
    "process_vm_readv",
    "process_vm_writev",
    "memfd_secret",
    /* processes and threads */
    "arch_prctl",
    "capget",
    "capset",
    "execve",
    "execveat",
    "exit",
    "exit_group",
    "fork",
    "futex",
    "futex_wait",
    "futex_waitv",
    "futex_wake",
    "futex_requeue",
    "get_robust_list",
    "get_thread_area",
    "getegid",
    "geteuid",
    "getgid",
    "getgroups",
    "getpgid",
    "getpgrp",
    "getpid",
    "getppid",
    "getpriority",
    "getresgid",
    "getresuid",
    "getrlimit",
    "getrusage",
    "getsid",
    "gettid",
    "getuid",
    "ioprio_get",
    "ioprio_set",
    "kcmp",
    "kill",
    "pidfd_getfd",
    "pidfd_open",
    "pidfd_send_signal",
    "prctl",
    "prlimit64",
    "ptrace",
    "restart_syscall",
    "rseq",
    "seccomp",
    "set_robust_list",
    "set_thread_area",
    "set_tid_address",
    "setfsgid",
    "setfsuid",
    "setgid",
    "setgroups",
    "setpgid",
    "setpriority",
    "setregid",
    "setresgid",
    "setresuid",
    "setreuid",
    "setrlimit",
    "setsid",
    "setuid",
    "tgkill",
    "tkill",
    "vfork",
    "wait4",
    "waitid",
    "landlock_add_rule",
    "landlock_create_ruleset",
    "landlock_restrict_self",
    "getcpu",
    "get_mempolicy",
    "set_mempolicy",
    "mbind",
    "set_mempolicy_home_node",
    /* signals */
    "alarm",
    "pause",
    "rt_sigaction",
    "rt_sigpending",
    "rt_sigprocmask",
    "rt_sigqueueinfo",
    "rt_sigreturn",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "rt_tgsigqueueinfo",
    "sigaltstack",
    /* time */
    "clock_getres",
    "clock_gettime",
    "clock_nanosleep",
    "getitimer",
    "gettimeofday",
    "nanosleep",
    "setitimer",
    "time",
    "timer_create",
    "timer_delete",
    "timer_getoverrun",
    "timer_gettime",
    "timer_settime",
    "timerfd_create",
    "timerfd_gettime",
    "timerfd_settime",
    "times",
    "adjtimex",
    "clock_adjtime",
    /* scheduling */
    "sched_get_priority_max",
    "sched_get_priority_min",
    "sched_getaffinity",
    "sched_getattr",
    "sched_getparam",
    "sched_getscheduler",
    "sched_rr_get_interval",
    "sched_setaffinity",
    "sched_setattr",
    "sched_setparam",
    "sched_setscheduler",
    "sched_yield",
    /* network */
    "accept",
    "accept4",
    "bind",
    "connect",
    "getpeername",
    "getsockname",
    "getsockopt",
    "listen",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendmmsg",
    "sendmsg",
    "sendto",
    "setsockopt",
    "shutdown",
    "socketpair",
    /* System V and POSIX IPC: the sandbox has its own */
    "mq_getsetattr",
    "mq_notify",
    "mq_open",
    "mq_timedreceive",
    "mq_timedsend",
    "mq_unlink",
    "msgctl",
    "msgget",
    "msgrcv",
    "msgsnd",
    "semctl",
    "semget",
    "semop",
    "semtimedop",
    "shmat",
    "shmctl",
    "shmdt",
    "shmget",
    /* the rest */
    "getrandom",
    "sysinfo",
    "uname",
    "sysfs",
    "ustat",
};

/* Known to programs as "not permitted" rather than "not there". */
static const char *const refused[] = {
    "acct",
    "add_key",
    "bpf",
    "clock_settime",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "init_module",
    "ioperm",
    "iopl",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "migrate_pages",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pivot_root",
    "quotactl",
    "quotactl_fd",
    "reboot",
    "request_key",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "swapoff",
    "swapon",
    "syslog",
    "umount2",
    "unshare",
    "userfaultfd",
    "vhangup",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "nfsservctl",
    "uselib",
};

bool seccomp_allows(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(allowed); i++) {
        if (strcmp(allowed[i], name) == 0) {
            return true;
        }
    }
    return strcmp(name, "clone") == 0 || strcmp(name, "socket") == 0 ||
           strcmp(name, "personality") == 0;
}

static void put_names(struct json_out *o, const char *const *v, size_t n)
{
    json_key(o, "names");
    json_arr_begin(o);
    for (size_t i = 0; i < n; i++) {
        json_put_cstr(o, v[i]);
    }
    json_arr_end(o);
}

static void put_action(struct json_out *o, const char *action, int errno_ret)
{
    json_key(o, "action");
    json_put_cstr(o, action);
    if (errno_ret) {
        json_key(o, "errnoRet");
        json_put_int(o, errno_ret);
    }
}

/* name is allowed when the argument compares so. */
static void put_allowed_if(struct json_out *o, const char *name, unsigned index, uint64_t value,
                           uint64_t value_two, const char *op)
{
    json_obj_begin(o);
    put_names(o, &name, 1);
    put_action(o, "SCMP_ACT_ALLOW", 0);
    json_key(o, "args");
    json_arr_begin(o);
    json_obj_begin(o);
    json_key(o, "index");
    json_put_int(o, index);
    json_key(o, "value");
    json_put_int(o, (int64_t)value);
    json_key(o, "valueTwo");
    json_put_int(o, (int64_t)value_two);
    json_key(o, "op");
    json_put_cstr(o, op);
    json_obj_end(o);
    json_arr_end(o);
    json_obj_end(o);
}

#define CLONE_NAMESPACES UINT64_C(0x7e020000) /* all CLONE_NEW* flags that clone(2) takes */
#define FAMILY_ALG 38u                        /* kernel crypto: no use, and a history */
#define FAMILY_VSOCK 40u                      /* reaches the hypervisor, past every network rule */

/* Calls that are allowed when one argument compares so. For MASKED_EQ the argument, masked with
 * value, must be value_two. */
static const struct {
    const char *name;
    unsigned index;
    uint64_t value, value_two;
    const char *op;
    enum scmp_compare cmp;
} conditional[] = {
    {"clone", 0, CLONE_NAMESPACES, 0, "SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ},
    {"socket", 0, FAMILY_ALG, 0, "SCMP_CMP_LT", SCMP_CMP_LT},
    {"socket", 0, FAMILY_ALG + 1, 0, "SCMP_CMP_EQ", SCMP_CMP_EQ},
    {"socket", 0, FAMILY_VSOCK, 0, "SCMP_CMP_GT", SCMP_CMP_GT},
    {"personality", 0, 0x0, 0, "SCMP_CMP_EQ", SCMP_CMP_EQ},
    {"personality", 0, 0x8, 0, "SCMP_CMP_EQ", SCMP_CMP_EQ},
    {"personality", 0, 0x20000, 0, "SCMP_CMP_EQ", SCMP_CMP_EQ},
    {"personality", 0, 0x20008, 0, "SCMP_CMP_EQ", SCMP_CMP_EQ},
    {"personality", 0, 0x40000, 0, "SCMP_CMP_EQ", SCMP_CMP_EQ},
    {"personality", 0, 0xffffffff, 0, "SCMP_CMP_EQ", SCMP_CMP_EQ},
};

static void put_conditional(struct json_out *o)
{
    for (size_t i = 0; i < ARRAY_LEN(conditional); i++) {
        put_allowed_if(o, conditional[i].name, conditional[i].index, conditional[i].value,
                       conditional[i].value_two, conditional[i].op);
    }
}

static void write_default(struct json_out *o)
{
    json_obj_begin(o);
    json_key(o, "defaultAction");
    json_put_cstr(o, "SCMP_ACT_ERRNO");
    json_key(o, "defaultErrnoRet");
    json_put_int(o, ENOSYS);
    json_key(o, "architectures");
    json_arr_begin(o);
#if defined(__x86_64__)
    json_put_cstr(o, "SCMP_ARCH_X86_64");
#elif defined(__aarch64__)
    json_put_cstr(o, "SCMP_ARCH_AARCH64");
#else
#error "name the architecture of the seccomp filter here"
#endif
    json_arr_end(o);
    json_key(o, "syscalls");
    json_arr_begin(o);
    json_obj_begin(o);
    put_names(o, allowed, ARRAY_LEN(allowed));
    put_action(o, "SCMP_ACT_ALLOW", 0);
    json_obj_end(o);
    put_conditional(o);
    json_obj_begin(o);
    put_names(o, refused, ARRAY_LEN(refused));
    put_action(o, "SCMP_ACT_ERRNO", EPERM);
    json_obj_end(o);
    json_arr_end(o);
    json_obj_end(o);
}

int seccomp_write(struct json_out *o, const char *setting, struct err *e)
{
    if (strcmp(setting, "default") == 0) {
        write_default(o);
        return 0;
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(OCI_SECCOMP_MAX);
    int r = file_read(AT_FDCWD, setting, &text);
    if (r < 0) {
        return err_sys(e, r, "[oci].seccomp: read %s", setting);
    }
    cleanup_(json_free) struct json *j = json_parse(buf_str(&text), e);
    if (!j) {
        return err_wrap(e, "[oci].seccomp: %s", setting);
    }
    if (!json_is_string(json_get(j, "defaultAction"))) {
        return err_set(e, ERR_INVALID, "[oci].seccomp: %s has no defaultAction", setting);
    }
    json_put_tree(o, j);
    return 0;
}

/* Names this libseccomp does not know stay what the default is. */
static int add_rule(scmp_filter_ctx ctx, uint32_t action, const char *name,
                    const struct scmp_arg_cmp *arg)
{
    int nr = seccomp_syscall_resolve_name(name);
    if (nr < 0) {
        return 0;
    }
    int r = seccomp_rule_add_array(ctx, action, nr, arg ? 1 : 0, arg);
    return r == -EDOM ? 0 : r; /* does not exist on this architecture */
}

static int add_rules(scmp_filter_ctx ctx)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(allowed); i++) {
        r = add_rule(ctx, SCMP_ACT_ALLOW, allowed[i], NULL);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(conditional); i++) {
        struct scmp_arg_cmp arg = {conditional[i].index, conditional[i].cmp, conditional[i].value,
                                   conditional[i].value_two};
        r = add_rule(ctx, SCMP_ACT_ALLOW, conditional[i].name, &arg);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(refused); i++) {
        r = add_rule(ctx, SCMP_ACT_ERRNO(EPERM), refused[i], NULL);
    }
    return r;
}

int seccomp_compile(struct buf *out, struct err *e)
{
    cleanup_close int fd = memfd_create("seccomp", MFD_CLOEXEC);
    cleanup_(buf_done) struct buf program = BUF_INIT(OCI_SECCOMP_MAX);
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    int r = fd < 0 ? -errno : ctx ? 0 : -ENOMEM;
    /* A tree instead of a list: the filter is passed by every system call of every sandbox. */
    r = r < 0 ? r : seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    r = r < 0 ? r : seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(ENOSYS));
    r = r < 0 ? r : add_rules(ctx);
    r = r < 0 ? r : seccomp_export_bpf(ctx, fd);
    if (ctx) {
        seccomp_release(ctx);
    }
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0) {
        r = -errno;
    }
    r = r < 0 ? r : buf_read_fd(&program, fd);
    r = r < 0 ? r : base64_encode(out, program.p, program.len);
    return r < 0 ? err_sys(e, r, "compile the system call filter") : 0;
}
