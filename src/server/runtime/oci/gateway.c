/* Gateways: the namespace, the link, the sidecar's start and end. */

#include "server/runtime/oci/gateway.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "io/child.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/net6.h"
#include "server/runtime/oci/netlink.h"
#include "server/runtime/oci/netns.h"

#define INSIDE_LINK "sb0"
#define LINK_BITS 29
#define SIDECAR_ID                                                                                 \
    60000u /* its user, of the sandbox's range: nobody inside is it, nobody outside */

static int group_name(const char *id, char out[SANDBOX_ID_MAX + 16], struct err *e)
{
    int n = snprintf(out, SANDBOX_ID_MAX + 16, "%s" GATEWAY_SUFFIX, id);
    return n > SANDBOX_ID_MAX ? err_set(e, ERR_INVALID, "the id %s is too long", id) : 0;
}

bool gateway_is_group(const char *group, char ret_id[SANDBOX_ID_MAX + 1])
{
    struct str g = str_from(group);
    if (!str_ends(g, STR(GATEWAY_SUFFIX))) {
        return false;
    }
    g.n -= sizeof(GATEWAY_SUFFIX) - 1;
    return str_to_cstr(g, ret_id, SANDBOX_ID_MAX + 1) == 0;
}

/* Beside this program, or beside execd: that is how they are installed and how they are built. */
static int program_find(const struct oci *o, char out[PATH_MAX], struct err *e)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n < 0 ? 0 : n] = 0;
    const char *near[] = {self, o->oci->execd, "/usr/local/bin/x", "/usr/bin/x"};
    for (size_t i = 0; i < ARRAY_LEN(near); i++) {
        ptrdiff_t slash = str_rfind(str_from(near[i]), '/');
        int len = snprintf(out, PATH_MAX, "%.*s/opensandbox-egress", (int)MAX(slash, 0), near[i]);
        if (len < PATH_MAX && access(out, X_OK) == 0) {
            return 0;
        }
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "networkPolicy: opensandbox-egress is neither beside the server nor beside %s",
                   o->oci->execd);
}

int gateway_check(const struct oci *o, const struct runtime_spec *spec, struct err *e)
{
    char path[PATH_MAX], group[SANDBOX_ID_MAX + 16];
    if (network_is_off(o->net) || spec->network == NETWORK_NONE) {
        return err_set(e, ERR_UNSUPPORTED, "networkPolicy needs a network, and there is none");
    }
    return program_find(o, path, e) < 0 ? -1 : group_name(spec->id, group, e);
}

/* ---- the link ---- */

struct wiring {
    int inner_fd;
    bool ipv6;
    const char *link, *addr, *via;
};

/* In the gateway: the pair, and forwarding. */
static int wire_gateway(void *arg)
{
    const struct wiring *w = arg;
    struct netlink nl = NETLINK_INIT;
    struct in_addr a;
    must(inet_pton(AF_INET, GATEWAY_ADDR, &a) == 1);
    int r = netlink_open(&nl);
    r = r < 0 ? r : link_add_veth(&nl, INSIDE_LINK, "eth0", w->inner_fd, 0);
    int index = r < 0 ? r : link_index(&nl, INSIDE_LINK);
    r = index < 0 ? index : addr_add(&nl, index, a.s_addr, LINK_BITS);
    r = r < 0 ? r : link_up(&nl, index);
    r = r < 0 || !w->ipv6 ? r : net6_gateway_link(&nl, INSIDE_LINK, index, false);
    netlink_close(&nl);
    return r < 0 ? r : file_write(AT_FDCWD, "/proc/sys/net/ipv4/ip_forward", STR("1"));
}

/* In the sandbox: its address, and the gateway as the only way out. */
static int wire_sandbox(void *arg)
{
    const struct wiring *w = arg;
    struct netlink nl = NETLINK_INIT;
    struct in_addr a, via;
    must(inet_pton(AF_INET, GATEWAY_SANDBOX_ADDR, &a) == 1 &&
         inet_pton(AF_INET, GATEWAY_ADDR, &via) == 1);
    int r = netlink_open(&nl);
    int index = r < 0 ? r : link_index(&nl, "eth0");
    r = index < 0 ? index : addr_add(&nl, index, a.s_addr, LINK_BITS);
    r = r < 0 ? r : link_up(&nl, index);
    r = r < 0 ? r : route_add_default(&nl, index, via.s_addr);
    r = r < 0 || !w->ipv6 ? r : net6_gateway_link(&nl, "eth0", index, true);
    netlink_close(&nl);
    return r;
}

static int wire(const struct oci *o, struct sandbox *sb, struct err *e)
{
    sb->inner_fd = netns_make(e);
    if (sb->inner_fd < 0) {
        return -1;
    }
    struct wiring w = {.inner_fd = sb->inner_fd, .ipv6 = network_has_ipv6(o->net)};
    int r = netns_run(sb->net.ns_fd, wire_gateway, &w);
    r = r < 0 ? r : netns_run(sb->inner_fd, wire_sandbox, &w);
    return r < 0 ? err_sys(e, r, "connect the sandbox to its gateway") : 0;
}

/* ---- the sidecar ---- */

static int state_dir_make(const struct oci *o, const struct sandbox *sb, int dir_fd, uid_t *ret_uid,
                          struct err *e)
{
    *ret_uid = sb->id_range >= 0 && o->ids.count > SIDECAR_ID
                   ? idrange_first(&o->ids, (uint32_t)sb->id_range) + SIDECAR_ID
                   : 65534;
    if ((mkdirat(dir_fd, "egress", 0700) < 0 && errno != EEXIST) ||
        fchownat(dir_fd, "egress", *ret_uid, *ret_uid, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(e, errno, "make a directory for the sidecar");
    }
    return 0;
}

static const char *env(struct arena *a, const char *name, const char *value)
{
    return arena_printf(a, "OPENSANDBOX_EGRESS_%s=%s", name, value);
}

static const char *const *environment(struct oci *o, const struct runtime_spec *spec,
                                      const char *dir, uid_t uid, struct arena *a)
{
    cleanup_(buf_done) struct buf resolvers = BUF_INIT(512);
    const char **v = arena_array(a, 32, sizeof(*v));
    size_t n = 0;
    network_resolvers(o->net, &resolvers);
    v[n++] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
    v[n++] = env(a, "RULES", spec->egress_policy);
    v[n++] = env(a, "MODE", o->cfg->egress.mode);
    v[n++] = env(a, "TOKEN", spec->egress_token ? spec->egress_token : "");
    v[n++] = env(a, "SANDBOX_ID", spec->id);
    v[n++] = env(a, "INSIDE", INSIDE_LINK);
    v[n++] = env(a, "STATE_DIR", arena_printf(a, "%s/egress", dir));
    v[n++] = env(a, "CA_DIR", ".");
    v[n++] = env(a, "UID", arena_printf(a, "%u", uid));
    if (resolvers.len) {
        v[n++] = env(a, "DNS_UPSTREAM", buf_cstr(&resolvers));
    }
    if (spec->credential_proxy) {
        v[n++] = env(a, "MITMPROXY_TRANSPARENT", "true");
    }
    const char *passed[] = {
        "DENY_WEBHOOK",       "LOG_LEVEL", "MAX_RULES", "RULES_DIR", "MITMPROXY_UPSTREAM_TRUST_DIR",
        "METRICS_EXTRA_ATTRS"};
    for (size_t i = 0; i < ARRAY_LEN(passed); i++) {
        const char *value = getenv(arena_printf(a, "OPENSANDBOX_EGRESS_%s", passed[i]));
        if (value) {
            v[n++] = env(a, passed[i], value);
        }
    }
    const char *metrics[] = {"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT",
                             "OTEL_METRIC_EXPORT_INTERVAL"};
    for (size_t i = 0; i < ARRAY_LEN(metrics); i++) {
        const char *value = getenv(metrics[i]);
        if (value) {
            v[n++] = arena_printf(a, "%s=%s", metrics[i], value);
        }
    }
    v[n] = NULL;
    return v;
}

/* What it said last, for the error. */
static void sidecar_complaint(int dir_fd, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(64u << 10);
    if (file_read(dir_fd, "egress.log", &text) == 0) {
        struct str s = str_trim(buf_str(&text));
        s = str_sub(s, s.n > 300 ? s.n - 300 : 0, s.n);
        (void)err_set(e, ERR_IO, "the egress sidecar did not start: %.*s", STR_FMT(s));
    } else {
        (void)err_set(e, ERR_IO, "the egress sidecar did not start");
    }
}

/* The program returns when its worker is ready and goes on in the background. */
static int sidecar_run(struct oci *o, const struct sandbox *sb, const struct cgroup_join *cg,
                       const char *const *envp, int log_fd, struct err *e)
{
    char path[PATH_MAX], procs[CGROUP_HIERS_MAX][32];
    const char *argv[] = {"opensandbox-egress", "--detach", NULL};
    const char *groups[CGROUP_HIERS_MAX + 1] = {0};
    struct io_child_status st;
    if (program_find(o, path, e) < 0) {
        return -1;
    }
    for (int i = 0; i < cg->n; i++) {
        (void)snprintf(procs[i], sizeof(procs[i]), "/proc/self/fd/%d", cg->work_fd[i]);
        groups[i] = procs[i];
    }
    struct io_child_opts opts = {
        .path = path,
        .argv = argv,
        .envp = envp,
        .cwd = "/",
        .in = {IO_STDIO_NULL, -1},
        .out = {IO_STDIO_FD, log_fd},
        .err = {IO_STDIO_FD, log_fd},
        .new_session = true,
        .cgroup_procs = groups,
        .netns_fd = sb->net.ns_fd,
        .timeout_ms = OCI_EGRESS_START_MS,
    };
    if (io_child_run(&opts, NULL, NULL, &st, e) < 0) {
        return err_wrap(e, "%s", path);
    }
    return st.end == IO_CHILD_EXITED && st.code == 0 ? 0 : 1;
}

int gateway_make(struct oci *o, struct sandbox *sb, const struct runtime_spec *spec, int dir_fd,
                 const char *dir, struct err *e)
{
    cleanup_(arena_done) struct arena a = {0};
    char group[SANDBOX_ID_MAX + 16];
    struct cgroup_limits limits = {.memory_bytes = OCI_EGRESS_MEMORY, .pids = OCI_EGRESS_PIDS};
    struct cgroup_join cg = {0};
    uid_t uid;
    sb->net.once = true; /* rules and forwarding stay in it */
    if (group_name(spec->id, group, e) < 0 || wire(o, sb, e) < 0 ||
        state_dir_make(o, sb, dir_fd, &uid, e) < 0 || cgroup_make(&o->cg, group, &limits, e) < 0 ||
        cgroup_join_open(&o->cg, group, &cg, e) < 0) {
        return err_wrap(e, "egress gateway");
    }
    cleanup_close int log_fd =
        openat(dir_fd, "egress.log", O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0640);
    int r = log_fd < 0 ? err_sys(e, errno, "egress.log")
                       : sidecar_run(o, sb, &cg, environment(o, spec, dir, uid, &a), log_fd, e);
    cgroup_join_close(&cg);
    if (r > 0) {
        sidecar_complaint(dir_fd, e);
        r = -1;
    }
    return r;
}

int gateway_remove(struct oci *o, const char *id, struct err *e)
{
    char group[SANDBOX_ID_MAX + 16];
    if (group_name(id, group, NULL) < 0) {
        return 0; /* it never had one */
    }
    return cgroup_kill(&o->cg, group, e) < 0 ? -1 : cgroup_remove(&o->cg, group, e);
}

/* A process of the sidecar, or -1. */
static int sidecar_pid(const struct oci *o, const char *group)
{
    for (size_t i = 0; i < o->cg.n_hiers; i++) {
        char path[CGROUP_PATH_MAX], file[CGROUP_PATH_MAX + 16];
        cleanup_(buf_done) struct buf text = BUF_INIT(4096);
        uint32_t pid;
        if (!o->cg.hier[i].used) {
            continue;
        }
        cgroup_path(&o->cg, &o->cg.hier[i], group, "work", path);
        (void)snprintf(file, sizeof(file), "%s/cgroup.procs", path);
        if (file_read(AT_FDCWD, file, &text) == 0) {
            struct str rest = buf_str(&text);
            if (parse_u32(str_cut(&rest, '\n'), &pid) == 0) {
                return (int)pid;
            }
        }
    }
    return -1;
}

int gateway_adopt(struct oci *o, struct sandbox *sb, uint32_t ip, const char *link, struct err *e)
{
    char group[SANDBOX_ID_MAX + 16];
    if (group_name(sb->id, group, e) < 0) {
        return -1;
    }
    sb->inner_fd = netns_of_pid(sb->pid, e);
    if (sb->inner_fd < 0) {
        return -1;
    }
    int pid = sidecar_pid(o, group);
    if (pid < 0) {
        log_warn("the egress sidecar of a sandbox is gone: it has no network any more",
                 LOG_S("id", sb->id));
        return 0;
    }
    int r = network_adopt(o->net, pid, ip, link, &sb->net, e);
    sb->net.once = true;
    return r;
}
