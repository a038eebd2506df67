/* Making and starting one sandbox. Every step leaves the directory in a state from which a later
 * start can tell what to take down; see state.h. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/oci/bundle.h"
#include "server/runtime/oci/disk.h"
#include "server/runtime/oci/gateway.h"
#include "server/runtime/oci/images.h"
#include "server/runtime/oci/life.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/oci.h"
#include "server/runtime/oci/rootfs.h"
#include "server/runtime/oci/stage.h"
#include "server/runtime/oci/start.h"
#include "server/runtime/oci/trust.h"
#include "server/runtime/oci/volume.h"

/* Everything one create holds on to. */
struct making {
    struct oci *o;
    const struct runtime_spec *spec;
    struct arena a;
    struct sandbox *sb;
    struct sandbox_state state;
    const struct engine *engine;
    struct cgroup_limits limits;
    uint64_t disk_bytes;
    struct rootfs rootfs;
    struct start start;
    struct home home;
    struct volumes volumes;
    int userns_fd;
    char *dir;
};

static struct str_list copy_strings(struct arena *a, const char *const *v)
{
    struct str_list l = {0};
    while (v && v[l.n]) {
        l.n++;
    }
    l.v = arena_array(a, l.n + 1, sizeof(*l.v));
    for (size_t i = 0; i < l.n; i++) {
        l.v[i] = v[i];
    }
    return l;
}

void oci_limits_of(const struct oci *o, const struct runtime_limits *l, struct cgroup_limits *ret,
                   uint64_t *ret_disk)
{
    *ret = (struct cgroup_limits){
        .cpu_millis = l->cpu_millis ? l->cpu_millis : o->default_cpu_millis,
        .memory_bytes = l->memory_bytes ? l->memory_bytes : o->default_memory,
        .pids = l->pids ? l->pids : (uint64_t)o->oci->pids_limit,
    };
    for (size_t i = 0; i < IO_LIMITS; i++) {
        ret->io[i] = l->io[i] ? l->io[i] : o->default_io[i];
    }
    *ret_disk = l->disk_bytes ? l->disk_bytes : o->default_disk;
}

static int check_platform(const struct runtime_spec *spec, struct err *e)
{
#if defined(__x86_64__)
    static const char *const names[] = {"amd64", "x86_64", "x86-64"};
#else
    static const char *const names[] = {"arm64", "aarch64", "arm64/v8"};
#endif
    if (spec->os && strcmp(spec->os, "linux") != 0) {
        return err_set(e, ERR_INVALID, "platform.os: this host runs linux sandboxes, not %s",
                       spec->os);
    }
    for (size_t i = 0; spec->arch && i < ARRAY_LEN(names); i++) {
        if (strcmp(spec->arch, names[i]) == 0) {
            return 0;
        }
    }
    return spec->arch ? err_set(e, ERR_INVALID, "platform.arch: this host is %s, not %s", names[0],
                                spec->arch)
                      : 0;
}

int oci_check(struct runtime *rt, const struct runtime_spec *spec, struct err *e)
{
    struct oci *o = oci_of(rt);
    struct cgroup_limits limits;
    uint64_t disk;
    if (!sandbox_id_is_valid(spec->id)) {
        return err_set(e, ERR_INVALID, "'%s' cannot be a sandbox id", spec->id);
    }
    if (check_platform(spec, e) < 0 || images_check(o, spec, e) < 0 ||
        !engine_find(&o->engines, o->oci, spec->engine, e)) {
        return -1;
    }
    if (spec->standby && !engine_passes_fds(engine_find(&o->engines, o->oci, spec->engine, e))) {
        return err_set(e, ERR_INVALID,
                       "this engine cannot start a sandbox ahead of its use: no warm pools");
    }
    if (spec->limits.gpus) {
        return err_set(e, ERR_INVALID, "gpu: this host's runtime offers no GPU");
    }
    if (spec->egress_policy && gateway_check(o, spec, e) < 0) {
        return -1;
    }
    if (spec->n_mounts + spec->n_volumes > OCI_BINDS_MAX - HOST_BINDS_MAX) {
        return err_set(e, ERR_INVALID, "volumes: at most %u", OCI_BINDS_MAX - HOST_BINDS_MAX);
    }
    oci_limits_of(o, &spec->limits, &limits, &disk);
    if (cgroup_check(&o->cg, &limits, e) < 0) {
        return -1;
    }
    if (disk && (disk < OCI_DISK_MIN || disk > OCI_DISK_MAX)) {
        return err_set(e, ERR_INVALID, "disk: %llu bytes is not between %u and %llu",
                       (unsigned long long)disk, OCI_DISK_MIN, OCI_DISK_MAX);
    }
    return disk && disk_check(e) < 0 ? err_wrap(e, "disk") : 0;
}

static int check_space(const struct oci *o, struct err *e)
{
    struct statvfs v;
    if (fstatvfs(o->root_fd, &v) == 0) {
        uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;
        if (left < OCI_DISK_RESERVE) {
            return err_set(e, ERR_LIMIT, "only %llu MiB are left on the disk of %s",
                           (unsigned long long)(left >> 20), o->root);
        }
    }
    return 0;
}

static void fill_state(struct making *m)
{
    const struct runtime_spec *spec = m->spec;
    struct sandbox_state *s = &m->state;
    struct str_pair *labels = arena_array(&m->a, spec->n_labels + 1, sizeof(*labels));
    for (size_t i = 0; i < spec->n_labels; i++) {
        labels[i] = (struct str_pair){spec->labels[i].key, spec->labels[i].value};
    }
    *s = (struct sandbox_state){
        .id = spec->id,
        .phase = "creating",
        .boot_id = state_boot_id(),
        .engine = m->engine->name,
        .image = spec->image,
        .hostname = spec->hostname ? spec->hostname : spec->id,
        .entrypoint = copy_strings(&m->a, spec->entrypoint),
        .volumes = volumes_names(spec, m->o->cfg->storage.ossfs_mount_root, &m->a),
        .labels = {.v = labels, .n = spec->n_labels, .has = spec->n_labels > 0},
        .standby = {spec->standby, spec->standby},
        .egress = {spec->egress_policy != NULL, spec->egress_policy != NULL},
        .created_us = {true, clock_wall_us()},
        .cpu_millis = {m->limits.cpu_millis > 0, (int64_t)m->limits.cpu_millis},
        .memory_bytes = {m->limits.memory_bytes > 0, (int64_t)m->limits.memory_bytes},
        .pids = {m->limits.pids > 0, (int64_t)m->limits.pids},
        .disk_bytes = {m->disk_bytes > 0, (int64_t)m->disk_bytes},
    };
}

/* The directory and the ids: from here on the sandbox can be found. */
static int make_dir(struct making *m, struct err *e)
{
    struct oci *o = m->o;
    const char *id = m->spec->id;
    if (o->oci->user_namespace) {
        uint32_t range;
        m->userns_fd = spares_take_userns(o->spares, &range, e);
        if (m->userns_fd < 0) {
            return -1;
        }
        m->sb->id_range = (int)range;
        m->state.id_range = (struct opt_int){true, range};
    }
    if (spares_take_home(o->spares, m->disk_bytes, o->sandboxes_fd, id, &m->home, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_home");
    m->dir = arena_printf(&m->a, "%s/sandboxes/%s", o->root, id);
    if (state_write(m->home.dir_fd, &m->state, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_state");
    return 0;
}

/* Files that say who the sandbox is go into its writable layer, where it may change them. */
static int write_identity(struct making *m, struct err *e)
{
    cleanup_(buf_done) struct buf hosts = BUF_INIT(4096), dns = BUF_INIT(4096);
    char ip[16];
    network_ip_format(m->sb->net.ip, ip);
    if (m->sb->inner_fd >= 0) {
        (void)snprintf(ip, sizeof(ip), "%s", GATEWAY_SANDBOX_ADDR);
    }
    const char *name = m->state.hostname;
    (void)buf_printf(&hosts,
                     "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n%s %s\n",
                     ip[0] ? ip : "127.0.1.1", name);
    if (m->sb->inner_fd >= 0) {
        (void)buf_add_cstr(&dns, "nameserver " GATEWAY_ADDR "\n");
    } else if (m->sb->net.ip) {
        network_resolv_conf(m->o->net, &dns);
    }
    const struct {
        const char *path;
        struct str text;
    } files[] = {{"upper/etc/hosts", buf_str(&hosts)},
                 {"upper/etc/resolv.conf", buf_str(&dns)},
                 {"upper/etc/hostname", str_from(arena_printf(&m->a, "%s\n", name))}};
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(files); i++) {
        cleanup_close int fd = openat(m->home.rw_fd, files[i].path,
                                      O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
        r = fd < 0 ? -errno : fd_write_full(fd, files[i].text.p, files[i].text.n);
    }
    return r < 0 ? err_sys(e, r, "write /etc of the sandbox") : 0;
}

/* Everything that is made before a process is. */
static int prepare(struct making *m, enum runtime_stage *stage, struct err *e)
{
    struct oci *o = m->o;
    *stage = STAGE_PREPARE;
    if (check_space(o, e) < 0 || volumes_check(o, m->spec, &m->a, stage, e) < 0) {
        return -1;
    }
    *stage = STAGE_IMAGE;
    if (images_resolve(o, m->spec, m->sb, &m->a, &m->rootfs, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_image");
    *stage = STAGE_START;
    if (make_dir(m, e) < 0 || images_record(m->sb, m->home.dir_fd, e) < 0) {
        return -1;
    }
    if (volumes_take(o, m->spec, &m->a, &m->volumes, stage, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_volumes");
    *stage = STAGE_START;
    bool outbound = m->spec->network == NETWORK_DEFAULT && !network_is_off(o->net);
    if (network_take(o->net, outbound, &m->sb->net, e) < 0) {
        return -1;
    }
    m->state.ip = (struct opt_int){m->sb->net.ip != 0, m->sb->net.ip};
    m->state.link = m->sb->net.link;
    FAULT_POINT("oci.create.after_netns");
    if (m->spec->egress_policy && gateway_make(o, m->sb, m->spec, m->home.dir_fd, m->dir, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_gateway");
    struct cgroup_limits limits = m->limits;
    struct stat layer;
    if (m->disk_bytes && fstat(m->home.rw_fd, &layer) == 0) {
        limits.layer = layer.st_dev;
    }
    if (m->engine->kind == ENGINE_RUNSC && limits.pids) {
        /* It has several threads of its own for each task inside. */
        limits.pids = limits.pids * OCI_RUNSC_PIDS_EACH + OCI_RUNSC_PIDS_OWN;
    }
    if (m->spec->egress_policy && m->spec->credential_proxy &&
        trust_write(&m->rootfs, m->home.dir_fd, m->home.rw_fd, e) < 0) {
        return -1;
    }
    if (write_identity(m, e) < 0 || cgroup_make(&o->cg, m->spec->id, &limits, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_cgroup");
    return 0;
}

static int run(struct making *m, enum runtime_stage *stage, struct err *e)
{
    struct start_opts so = {
        .o = m->o,
        .spec = m->spec,
        .engine = m->engine,
        .rootfs = &m->rootfs,
        .volumes = &m->volumes,
        .dir_fd = m->home.dir_fd,
        .dir = m->dir,
        .hostname = m->state.hostname,
        .id_range = m->sb->id_range,
        .userns_fd = m->userns_fd,
        .home = &m->home,
        .netns_fd = sandbox_ns(m->sb),
    };
    if (start_spawn(&m->start, &so, &m->a, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_spawn");
    *stage = STAGE_EXECD;
    if (start_wait(&m->start, &so, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_ready");
    return 0;
}

/* It answers: on record, in the table, watched. */
static int finish(struct making *m, struct err *e)
{
    struct oci *o = m->o;
    struct sandbox *sb = m->sb;
    sb->pid = m->start.pid;
    m->state.phase = "running";
    m->state.pid = (struct opt_int){true, sb->pid};
    m->state.pid_start = (struct opt_int){true, (int64_t)state_pid_start(sb->pid)};
    m->state.started_us = (struct opt_int){true, clock_wall_us()};
    if (state_write(m->home.dir_fd, &m->state, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.after_running");
    volumes_keep(o, m->spec);
    (void)pthread_mutex_lock(&o->lock);
    sb->status.state = RT_RUNNING;
    sb->status.started_us = m->state.started_us.v;
    sb->is_up = true;
    (void)pthread_mutex_unlock(&o->lock);
    return watch_sandbox(o->watch, sb->id, sb->pid, take_fd(&m->start.pidfd), e);
}

static void making_done(struct making *m)
{
    volumes_close(&m->volumes);
    home_close(&m->home);
    if (m->userns_fd >= 0) {
        (void)close(m->userns_fd);
    }
    start_done(&m->start, m->o->watch);
    arena_done(&m->a);
}

int oci_create(struct runtime *rt, const struct runtime_spec *spec, enum runtime_stage *ret_stage,
               struct err *e)
{
    struct making m = {
        .o = oci_of(rt),
        .spec = spec,
        .home = HOME_NONE,
        .userns_fd = -1,
        .start = START_INIT,
    };
    *ret_stage = STAGE_PREPARE;
    if (oci_check(rt, spec, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.create.begin");
    /* What a create of the same id left when it was cut short. */
    if (oci_remove(rt, spec->id, e) < 0) {
        return -1;
    }
    m.engine = engine_find(&m.o->engines, m.o->oci, spec->engine, e);
    m.sb = sandbox_add(m.o, spec->id);
    must(m.engine && m.sb);
    oci_limits_of(m.o, &spec->limits, &m.limits, &m.disk_bytes);
    fill_state(&m);
    int r = prepare(&m, ret_stage, e);
    r = r < 0 ? r : run(&m, ret_stage, e);
    r = r < 0 ? r : finish(&m, e);
    making_done(&m);
    spares_wake(m.o->spares);
    if (r < 0) {
        struct err ignored = {0}; /* the reason to report is the first one; sweep finds the rest */
        (void)oci_remove(rt, spec->id, &ignored);
    }
    return r;
}
