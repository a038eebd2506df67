/* Writes config.json. */

#include "server/runtime/oci/bundle.h"

#include <stdio.h>
#include <strings.h>
#include <sys/resource.h>

#include "base/must.h"
#include "server/runtime/oci/seccomp.h"
#include "json/json.h"

/* What root of an ordinary image does without thinking: own, read and switch to its own users'
 * things. All of it only concerns ids of the sandbox's user namespace. */
static const char *const default_caps[] = {
    "CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER",  "CAP_FSETID",  "CAP_KILL",
    "CAP_SETGID", "CAP_SETUID",       "CAP_SETPCAP", "CAP_SETFCAP", "CAP_SYS_CHROOT",
};

/* One more that execd has and takes from everything it starts (it is of no use in a user
 * namespace): whoever has fewer capabilities cannot trace it, read its memory or take its
 * descriptors. */
#define SHIELD_CAP "CAP_WAKE_ALARM"

static const char *const known_caps[] = {
    "CHOWN",
    "DAC_OVERRIDE",
    "DAC_READ_SEARCH",
    "FOWNER",
    "FSETID",
    "KILL",
    "SETGID",
    "SETUID",
    "SETPCAP",
    "LINUX_IMMUTABLE",
    "NET_BIND_SERVICE",
    "NET_BROADCAST",
    "NET_ADMIN",
    "NET_RAW",
    "IPC_LOCK",
    "IPC_OWNER",
    "SYS_MODULE",
    "SYS_RAWIO",
    "SYS_CHROOT",
    "SYS_PTRACE",
    "SYS_PACCT",
    "SYS_ADMIN",
    "SYS_BOOT",
    "SYS_NICE",
    "SYS_RESOURCE",
    "SYS_TIME",
    "SYS_TTY_CONFIG",
    "MKNOD",
    "LEASE",
    "AUDIT_WRITE",
    "AUDIT_CONTROL",
    "SETFCAP",
    "MAC_OVERRIDE",
    "MAC_ADMIN",
    "SYSLOG",
    "WAKE_ALARM",
    "BLOCK_SUSPEND",
    "AUDIT_READ",
    "PERFMON",
    "BPF",
    "CHECKPOINT_RESTORE",
};

static const char *const masked_paths[] = {
    "/proc/asound",     "/proc/acpi",        "/proc/interrupts",
    "/proc/kcore",      "/proc/keys",        "/proc/latency_stats",
    "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug",
    "/proc/scsi",       "/proc/kallsyms",    "/proc/kpagecount",
    "/proc/kpageflags", "/sys/firmware",     "/sys/devices/virtual/powercap",
};

static const char *const readonly_paths[] = {
    "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger",
};

bool bundle_capability_known(const char *name)
{
    name += strncasecmp(name, "CAP_", 4) == 0 ? 4 : 0;
    for (size_t i = 0; i < ARRAY_LEN(known_caps); i++) {
        if (strcasecmp(known_caps[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static void put_text(struct json_out *o, const char *key, const char *value)
{
    json_key(o, key);
    json_put_cstr(o, value);
}

static void put_int(struct json_out *o, const char *key, int64_t value)
{
    json_key(o, key);
    json_put_int(o, value);
}

static void put_strings(struct json_out *o, const char *key, const char *const *v, size_t n)
{
    json_key(o, key);
    json_arr_begin(o);
    for (size_t i = 0; i < n; i++) {
        json_put_cstr(o, v[i]);
    }
    json_arr_end(o);
}

static size_t count(const char *const *v)
{
    size_t n = 0;
    while (v && v[n]) {
        n++;
    }
    return n;
}

static int put_capabilities(struct json_out *o, const struct str_list *wanted, struct err *e)
{
    static const char *const sets[] = {"bounding", "effective", "permitted"};
    json_key(o, "capabilities");
    json_obj_begin(o);
    for (size_t i = 0; i < ARRAY_LEN(sets); i++) {
        json_key(o, sets[i]);
        json_arr_begin(o);
        json_put_cstr(o, SHIELD_CAP);
        for (size_t k = 0; (!wanted || !wanted->n) && k < ARRAY_LEN(default_caps); k++) {
            json_put_cstr(o, default_caps[k]);
        }
        for (size_t k = 0; wanted && k < wanted->n; k++) {
            const char *name = wanted->v[k];
            char full[64];
            if (!bundle_capability_known(name)) {
                return err_set(e, ERR_INVALID, "[oci].capabilities: '%s' is no capability", name);
            }
            name += strncasecmp(name, "CAP_", 4) == 0 ? 4 : 0;
            int n = snprintf(full, sizeof(full), "CAP_%s", name);
            for (int c = 0; c < n; c++) {
                full[c] = (char)(full[c] >= 'a' && full[c] <= 'z' ? full[c] - 32 : full[c]);
            }
            json_put_cstr(o, full);
        }
        json_arr_end(o);
    }
    json_obj_end(o);
    return 0;
}

static void put_rlimit(struct json_out *o, const char *type, int64_t soft, int64_t hard)
{
    json_obj_begin(o);
    put_text(o, "type", type);
    put_int(o, "soft", soft);
    put_int(o, "hard", hard);
    json_obj_end(o);
}

/* The engine has no right to give more than it has. */
static void put_nofile(struct json_out *o)
{
    struct rlimit have;
    int64_t hard = 1048576;
    if (getrlimit(RLIMIT_NOFILE, &have) == 0 && have.rlim_max < (rlim_t)hard) {
        hard = (int64_t)have.rlim_max;
    }
    put_rlimit(o, "RLIMIT_NOFILE", MIN(hard, 65536), hard);
}

static int put_process(struct json_out *o, const struct bundle *b, struct err *e)
{
    json_key(o, "process");
    json_obj_begin(o);
    json_key(o, "terminal");
    json_put_bool(o, false);
    json_key(o, "user");
    json_obj_begin(o);
    put_int(o, "uid", 0);
    put_int(o, "gid", 0);
    json_obj_end(o);
    put_strings(o, "args", b->args, count(b->args));
    put_strings(o, "env", b->env, count(b->env));
    put_text(o, "cwd", b->cwd);
    json_key(o, "noNewPrivileges");
    json_put_bool(o, b->no_new_privileges);
    if (put_capabilities(o, b->capabilities, e) < 0) {
        return -1;
    }
    json_key(o, "rlimits");
    json_arr_begin(o);
    put_nofile(o);
    put_rlimit(o, "RLIMIT_CORE", 0, 0);
    json_arr_end(o);
    json_obj_end(o);
    return 0;
}

/* options: NULL-terminated. */
static void put_mount(struct json_out *o, const char *target, const char *type, const char *source,
                      const char *const *options)
{
    json_obj_begin(o);
    put_text(o, "destination", target);
    put_text(o, "type", type);
    put_text(o, "source", source);
    put_strings(o, "options", options, count(options));
    json_obj_end(o);
}

#define OPTIONS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void put_tmpfs(struct json_out *o, const char *target, uint64_t bytes, const char *mode)
{
    char size[40];
    (void)snprintf(size, sizeof(size), "size=%lluk", (unsigned long long)(bytes + 1023) / 1024);
    put_mount(o, target, "tmpfs", "tmpfs", OPTIONS("nosuid", "nodev", mode, size));
}

static void put_mounts(struct json_out *o, const struct bundle *b)
{
    json_key(o, "mounts");
    json_arr_begin(o);
    put_mount(o, "/proc", "proc", "proc", OPTIONS("nosuid", "noexec", "nodev"));
    put_mount(o, "/dev", "tmpfs", "tmpfs", OPTIONS("nosuid", "noexec", "mode=755", "size=64k"));
    put_mount(o, "/dev/pts", "devpts", "devpts",
              OPTIONS("nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"));
    put_tmpfs(o, "/dev/shm", b->shm_bytes, "mode=1777");
    put_mount(o, "/dev/mqueue", "mqueue", "mqueue", OPTIONS("nosuid", "noexec", "nodev"));
    for (size_t i = 0; i < b->n_tmpfs; i++) {
        put_tmpfs(o, b->tmpfs[i].target, b->tmpfs[i].size, "mode=1777");
    }
    if (b->read_only) {
        put_tmpfs(o, "/tmp", b->shm_bytes, "mode=1777");
        put_tmpfs(o, "/run", b->shm_bytes, "mode=755");
    }
    json_arr_end(o);
}

static void put_namespace(struct json_out *o, const char *type)
{
    json_obj_begin(o);
    put_text(o, "type", type);
    json_obj_end(o);
}

static void put_mapping(struct json_out *o, const char *key, const struct bundle *b)
{
    json_key(o, key);
    json_arr_begin(o);
    json_obj_begin(o);
    put_int(o, "containerID", 0);
    put_int(o, "hostID", b->id_first);
    put_int(o, "size", b->id_count);
    json_obj_end(o);
    json_arr_end(o);
}

static int put_linux(struct json_out *o, const struct bundle *b, struct err *e)
{
    json_key(o, "linux");
    json_obj_begin(o);
    json_key(o, "namespaces");
    json_arr_begin(o);
    put_namespace(o, "pid");
    put_namespace(o, "mount");
    put_namespace(o, "ipc");
    put_namespace(o, "uts");
    if (b->cgroup_ns) {
        put_namespace(o, "cgroup");
    }
    if (b->id_count) {
        put_namespace(o, "user");
    }
    json_arr_end(o); /* the network namespace is the one the engine is started in */
    if (b->id_count) {
        put_mapping(o, "uidMappings", b);
        put_mapping(o, "gidMappings", b);
    }
    if (b->cgroup_path) {
        put_text(o, "cgroupsPath", b->cgroup_path);
    }
    put_strings(o, "maskedPaths", masked_paths, ARRAY_LEN(masked_paths));
    put_strings(o, "readonlyPaths", readonly_paths, ARRAY_LEN(readonly_paths));
    if (strcmp(b->seccomp, "unconfined") != 0 && !b->seccomp_program) {
        json_key(o, "seccomp");
        if (seccomp_write(o, b->seccomp, e) < 0) {
            return -1;
        }
    }
    json_obj_end(o);
    return 0;
}

int bundle_write(const struct bundle *b, struct buf *out, struct err *e)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    put_text(&o, "ociVersion", "1.0.2");
    if (put_process(&o, b, e) < 0) {
        return -1;
    }
    json_key(&o, "root");
    json_obj_begin(&o);
    put_text(&o, "path", b->rootfs);
    json_key(&o, "readonly");
    json_put_bool(&o, b->read_only);
    json_obj_end(&o);
    put_text(&o, "hostname", b->hostname);
    put_mounts(&o, b);
    if (b->seccomp_program) {
        json_key(&o, "annotations");
        json_obj_begin(&o);
        put_text(&o, "run.oci.seccomp_bpf_data", b->seccomp_program);
        json_obj_end(&o);
    }
    if (put_linux(&o, b, e) < 0) {
        return -1;
    }
    json_obj_end(&o);
    return buf_failed(out)
               ? err_set(e, ERR_LIMIT, "environment, entrypoint and mounts are too large")
               : 0;
}
