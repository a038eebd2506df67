/* osb doctor: is this machine able to run sandboxes, and does the server answer? Says for each
 * problem what to do. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/commands.h"

#define NEED_DISK_MIB 1024 /* less is a warning */

enum verdict { FINE, DOUBT, BROKEN };

struct report {
    struct cli *x;
    struct json *rows;
    unsigned n_broken;
};

__attribute__((format(printf, 4, 6))) static void
note(struct report *r, const char *check, enum verdict v, const char *fmt, const char *todo, ...)
{
    static const char *const words[] = {[FINE] = "ok", [DOUBT] = "warning", [BROKEN] = "error"};
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    va_list ap;
    va_start(ap, todo);
    (void)buf_vprintf(&b, fmt, ap);
    va_end(ap);
    r->n_broken += v == BROKEN;
    json_push(r->rows, jobject("check", check, "status", words[v], "found", buf_cstr(&b), "todo",
                               v == FINE ? NULL : todo, NULL));
}

static bool file_has(const char *path, const char *word)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(1u << 20);
    return file_read(AT_FDCWD, path, &b) >= 0 && str_find_str(buf_str(&b), str_from(word)) >= 0;
}

static void check_kernel(struct report *r)
{
    struct utsname u;
    (void)uname(&u);
    struct str rest = str_from(u.release);
    uint64_t major = 0, minor = 0;
    struct str a = str_cut(&rest, '.'), b = str_cut(&rest, '.');
    (void)parse_u64(a, &major);
    (void)parse_u64(b, &minor);
    bool fine = major > 5 || (major == 5 && minor >= 10);
    note(r, "kernel", fine ? FINE : BROKEN, "%s %s", "Use Linux 5.10 or newer.", u.sysname,
         u.release);
}

/* Version 2, or version 1 with a hierarchy for each controller: the runtime works with both. */
static void check_cgroups(struct report *r)
{
    struct statfs f;
    bool v2 = statfs("/sys/fs/cgroup", &f) == 0 && f.f_type == CGROUP2_SUPER_MAGIC;
    bool all = v2 ? file_has("/sys/fs/cgroup/cgroup.controllers", "memory") &&
                        file_has("/sys/fs/cgroup/cgroup.controllers", "pids")
                  : access("/sys/fs/cgroup/memory/cgroup.procs", F_OK) == 0 &&
                        access("/sys/fs/cgroup/pids/cgroup.procs", F_OK) == 0;
    note(r, "cgroups", all ? FINE : BROKEN, "%s",
         v2 ? "Enable the cpu, memory and pids controllers for this cgroup."
            : "Mount the control groups at /sys/fs/cgroup (version 2, or 1 by controller).",
         !all ? "memory or pids is missing at /sys/fs/cgroup"
         : v2 ? "version 2 at /sys/fs/cgroup"
              : "version 1 at /sys/fs/cgroup");
}

static void check_features(struct report *r)
{
    bool overlay = file_has("/proc/filesystems", "overlay");
    note(r, "overlayfs", overlay ? FINE : BROKEN, "%s", "Load it: modprobe overlay.",
         overlay ? "known to the kernel" : "not known to the kernel");
    cleanup_(buf_done) struct buf b = BUF_INIT(64);
    uint64_t n = 0;
    if (file_read(AT_FDCWD, "/proc/sys/user/max_user_namespaces", &b) >= 0) {
        struct str text = buf_str(&b);
        ptrdiff_t nl = str_find(text, '\n');
        (void)parse_u64(nl < 0 ? text : str_sub(text, 0, (size_t)nl), &n);
    }
    note(r, "user namespaces", n ? FINE : BROKEN, "at most %llu",
         "sysctl user.max_user_namespaces=65536", (unsigned long long)n);
    cleanup_close int nl = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_NETFILTER);
    note(r, "nftables", nl >= 0 ? FINE : BROKEN, "%s", "Load it: modprobe nf_tables.",
         nl >= 0 ? "netfilter answers" : strerror(errno));
}

static bool in_path(const char *name, char *out, size_t n)
{
    const char *path = getenv("PATH");
    struct str rest = str_from(path ? path : "/usr/sbin:/usr/bin:/sbin:/bin");
    while (rest.p) {
        struct str dir = str_cut(&rest, ':');
        (void)snprintf(out, n, "%.*s/%s", STR_FMT(dir), name);
        if (access(out, X_OK) == 0) {
            return true;
        }
    }
    return false;
}

static void check_engines(struct report *r)
{
    static const char *const engines[] = {"crun", "runc", "runsc"};
    cleanup_(buf_done) struct buf found = BUF_INIT(2048);
    char path[512];
    for (size_t i = 0; i < ARRAY_LEN(engines); i++) {
        if (in_path(engines[i], path, sizeof(path))) {
            (void)buf_printf(&found, "%s%s", found.len ? ", " : "", path);
        }
    }
    note(r, "engines", found.len ? FINE : BROKEN, "%s", "Install crun: apt-get install crun.",
         found.len ? buf_cstr(&found) : "none of crun, runc, runsc");
    note(r, "root", geteuid() == 0 ? FINE : DOUBT, "uid %u",
         "The server with the embedded runtime has to run as root.", (unsigned)geteuid());
}

static void check_disk(struct report *r)
{
    struct statvfs v;
    const char *dir =
        access("/var/lib/opensandbox", F_OK) == 0 ? "/var/lib/opensandbox" : "/var/lib";
    if (statvfs(dir, &v) < 0) {
        note(r, "disk", DOUBT, "%s: %s", "Make room for images.", dir, strerror(errno));
        return;
    }
    unsigned long long mib = (unsigned long long)v.f_bavail * v.f_frsize >> 20;
    note(r, "disk", mib >= NEED_DISK_MIB ? FINE : DOUBT, "%llu MiB free at %s",
         "Make room: images and sandboxes live there.", mib, dir);
}

static void check_server(struct report *r)
{
    struct osb_error e = {0};
    struct cli *x = r->x;
    const char *domain = x->set.domain ? x->set.domain : "localhost:8080";
    note(r, "configuration", FINE, "%s%s", NULL, x->set.path,
         x->set.file_exists ? "" : " (not there: defaults)");
    x->set.request_timeout = MIN(x->set.request_timeout, 5);
    if (!cli_client(x) || osb_client_health(x->client, &e) < 0) {
        note(r, "server", BROKEN, "%s: %s", "Start one: osb server start; or say where: --domain.",
             domain, e.message);
        return;
    }
    note(r, "server", FINE, "%s answers", NULL, domain);
    struct osb_list *l = osb_list(x->client, &(struct osb_filter){.page_size = 1}, &e);
    note(r, "api key", l ? FINE : BROKEN, "%s",
         "Set it: osb config set connection.api_key KEY (or OPEN_SANDBOX_API_KEY).",
         l ? "accepted" : e.message);
    osb_list_free(l);
}

static int run_doctor(struct cli *x)
{
    cleanup_(json_free) struct json *rows = json_array_new();
    struct report r = {.x = x, .rows = rows};
    check_kernel(&r);
    check_cgroups(&r);
    check_features(&r);
    check_engines(&r);
    check_disk(&r);
    check_server(&r);
    out_rows(&x->out, "Doctor", "check,status,found,todo", rows);
    return r.n_broken ? 1 : 0;
}

static const struct cli_opt opts[] = {OPT_OUTPUT("table|json|yaml"), {0}};
const struct cli_cmd cmd_doctor = {
    .name = "doctor",
    .help = "Check this machine and the server.\nExit code 1: something has to be done.",
    .opts = opts,
    .run = run_doctor};
