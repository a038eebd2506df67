/* The embedded runtime as the rest of the server sees it: its operations, and its beginning. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "server/runtime/oci/disk.h"
#include "server/runtime/oci/host.h"
#include "server/runtime/oci/images.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/oci.h"
#include "server/runtime/oci/seccomp.h"

/* ---- operations on a sandbox that exists ---- */

static struct sandbox *find(struct runtime *rt, const char *id, struct err *e)
{
    struct sandbox *sb = sandbox_get(oci_of(rt), id);
    if (!sb) {
        (void)err_set(e, ERR_NOT_FOUND, "no sandbox %s here", id);
    }
    return sb;
}

/* Is it one that can be paused and resumed? */
static int check_alive(struct runtime *rt, const char *id, struct err *e)
{
    const struct sandbox *sb = find(rt, id, e);
    if (sb && sb->status.state == RT_EXITED) {
        return err_set(e, ERR_CONFLICT, "sandbox %s has ended", id);
    }
    return sb ? 0 : -1;
}

static int oci_pause(struct runtime *rt, const char *id, struct err *e)
{
    if (check_alive(rt, id, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.pause.begin");
    int r = cgroup_freeze(&oci_of(rt)->cg, id, true, e);
    FAULT_POINT("oci.pause.end");
    return r;
}

static int oci_resume(struct runtime *rt, const char *id, struct err *e)
{
    if (check_alive(rt, id, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.resume.begin");
    int r = cgroup_freeze(&oci_of(rt)->cg, id, false, e);
    FAULT_POINT("oci.resume.end");
    return r;
}

static void status_of(struct oci *o, const char *id, struct runtime_status *ret)
{
    (void)pthread_mutex_lock(&o->lock);
    struct sandbox *sb = map_get(&o->sandboxes, str_from(id));
    *ret = sb ? sb->status : (struct runtime_status){.state = RT_MISSING};
    (void)pthread_mutex_unlock(&o->lock);
    if (ret->state == RT_RUNNING && cgroup_is_frozen(&o->cg, id)) {
        ret->state = RT_PAUSED;
    }
}

static int oci_inspect(struct runtime *rt, const char *id, struct runtime_status *ret,
                       struct err *e)
{
    status_of(oci_of(rt), id, ret);
    return 0;
}

static int oci_list(struct runtime *rt,
                    void (*fn)(const char *id, const struct runtime_status *st, void *arg),
                    void *arg, struct err *e)
{
    struct oci *o = oci_of(rt);
    (void)pthread_mutex_lock(&o->lock);
    size_t n = 0, max = map_len(&o->sandboxes), it = 0;
    char(*ids)[SANDBOX_ID_MAX + 1] = xcalloc(max + 1, sizeof(*ids));
    struct str key;
    void *value;
    while (n < max && map_next(&o->sandboxes, &it, &key, &value)) {
        memcpy(ids[n++], ((struct sandbox *)value)->id, sizeof(*ids));
    }
    (void)pthread_mutex_unlock(&o->lock);
    for (size_t i = 0; i < n; i++) {
        struct runtime_status st;
        status_of(o, ids[i], &st);
        if (st.state != RT_MISSING) {
            fn(ids[i], &st, arg);
        }
    }
    free(ids);
    return 0;
}

static int oci_stats(struct runtime *rt, const char *id, struct runtime_stats *ret, struct err *e)
{
    struct oci *o = oci_of(rt);
    struct sandbox *sb = find(rt, id, e);
    struct cgroup_usage u;
    struct link_counters c;
    if (!sb || cgroup_usage(&o->cg, id, &u, e) < 0) {
        return -1;
    }
    *ret = (struct runtime_stats){
        .cpu_usage_us = u.cpu_us,
        .memory_bytes = u.memory_bytes,
        .memory_limit = u.memory_limit,
        .pids = u.pids,
    };
    uint64_t now = clock_mono_us();
    if (sb->stats_at_us && now > sb->stats_at_us && u.cpu_us >= sb->stats_cpu_us) {
        ret->cpu_cores_used =
            (double)(u.cpu_us - sb->stats_cpu_us) / (double)(now - sb->stats_at_us);
    }
    sb->stats_at_us = now;
    sb->stats_cpu_us = u.cpu_us;
    if (network_counters(o->net, &sb->net, &c) == 0) {
        ret->net_rx = c.rx_bytes;
        ret->net_tx = c.tx_bytes;
    }
    cleanup_close int dir = sandbox_dir_open(o, id, NULL);
    ret->disk_bytes = dir < 0 ? 0 : disk_used(dir, HOME_DISK);
    return 0;
}

static int oci_describe(struct runtime *rt, const char *id, struct buf *out, struct err *e)
{
    struct oci *o = oci_of(rt);
    cleanup_(arena_done) struct arena a = {0};
    struct sandbox_state s;
    cleanup_close int dir = sandbox_dir_open(o, id, e);
    if (dir < 0 || state_read(dir, &a, &s, e) < 0) {
        return -1;
    }
    char ip[16];
    network_ip_format((uint32_t)s.ip.v, ip);
    (void)buf_printf(out, "runtime: oci\nengine: %s\nimage: %s\nhostname: %s\npid: %lld\n",
                     s.engine ? s.engine : "", s.image ? s.image : "", s.hostname ? s.hostname : "",
                     (long long)s.pid.v);
    (void)buf_printf(out, "address: %s\nlink: %s\ncgroup: %s/%s (%s)\n", ip[0] ? ip : "none",
                     s.link ? s.link : "none", o->cg.parent, id, cgroup_mode_name(o->cg.mode));
    if (s.id_range.has) {
        uint32_t first = idrange_first(&o->ids, (uint32_t)s.id_range.v);
        (void)buf_printf(out, "host ids: %u-%u\n", first, first + o->ids.count - 1);
    }
    (void)buf_printf(out, "cpu limit: %lldm\nmemory limit: %lld\npids limit: %lld\n",
                     (long long)s.cpu_millis.v, (long long)s.memory_bytes.v, (long long)s.pids.v);
    (void)buf_printf(out, "disk limit: %lld\ndirectory: %s/sandboxes/%s\n",
                     (long long)s.disk_bytes.v, o->root, id);
    return 0;
}

static int oci_target(struct runtime *rt, const char *id, uint16_t port, struct runtime_target *ret)
{
    struct oci *o = oci_of(rt);
    int ns = -1, ns_fd = -1, r = -ENOENT;
    (void)pthread_mutex_lock(&o->lock);
    struct sandbox *sb = map_get(&o->sandboxes, str_from(id));
    if (sb) {
        ns = sb->inner_fd >= 0 && port != OCI_EGRESS_PORT ? sb->inner_fd : sb->net.ns_fd;
        r = sb->is_up && ns >= 0 ? 0 : -EAGAIN;
    }
    if (r == 0 && (ns_fd = fcntl(ns, F_DUPFD_CLOEXEC, 3)) < 0) {
        r = -errno;
    }
    (void)pthread_mutex_unlock(&o->lock);
    if (r < 0) {
        return r;
    }
    *ret = (struct runtime_target){0};
    if (io_addr_ip(STR("::1"), port, &ret->alt) == 0) {
        ret->http.alt = &ret->alt;
    }
    int n = snprintf(ret->key, sizeof(ret->key), "%s:%u", id, port);
    ret->http.key = str_n(ret->key, (size_t)n);
    ret->http.netns_fd = ns_fd;
    return io_addr_ip(STR("127.0.0.1"), port, &ret->http.addr);
}

/* ---- beginning and end ---- */

static int open_dir(int at, const char *path, struct err *e)
{
    int r = dir_make(at, path, 0700);
    int fd = r < 0 ? r : openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return r < 0 ? err_sys(e, r, "make %s", path) : fd < 0 ? err_sys(e, errno, "%s", path) : fd;
}

static int open_dirs(struct oci *o, struct err *e)
{
    o->root = xstrdup(o->oci->root);
    o->stage_dir = xasprintf("%s/stage", o->oci->run_dir);
    if ((o->root_fd = open_dir(AT_FDCWD, o->root, e)) < 0 ||
        (o->sandboxes_fd = open_dir(o->root_fd, "sandboxes", e)) < 0 ||
        (o->trash_fd = open_dir(o->root_fd, "trash", e)) < 0 ||
        (o->templates_fd = open_dir(o->root_fd, "templates", e)) < 0 ||
        (o->spare_fd = open_dir(o->root_fd, "spare", e)) < 0) {
        return -1;
    }
    int r = dir_make(o->root_fd, "volumes", 0700);
    if (r < 0 || (r = dir_make(o->root_fd, "ossfs", 0700)) < 0) {
        return err_sys(e, r, "make %s/volumes", o->root);
    }
    (void)fchmod(o->root_fd, 0700); /* layers inside have files with setuid bits */
    o->lock_fd = openat(o->root_fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (o->lock_fd < 0) {
        return err_sys(e, errno, "%s/lock", o->root);
    }
    /* A POSIX lock: flock(2) would be held on by a child that is about to exec when the server
     * dies. */
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(o->lock_fd, F_SETLK, &lock) < 0) {
        return errno == EAGAIN || errno == EACCES
                   ? err_set(e, ERR_CONFLICT, "another server already works with %s", o->root)
                   : err_sys(e, errno, "lock %s/lock", o->root);
    }
    /* The first process of a sandbox walks here with ids of its own. */
    r = dir_make(AT_FDCWD, o->stage_dir, 0711);
    if (r < 0 || chmod(o->oci->run_dir, 0711) < 0 || chmod(o->stage_dir, 0711) < 0) {
        return err_sys(e, r < 0 ? r : errno, "make %s", o->stage_dir);
    }
    return claim_run_dir(&o->claim, o->oci, o->root, e);
}

/* Sandboxes run our copy: replacing the installed file is no concern of theirs. */
static int install_execd(struct oci *o, struct err *e)
{
    struct stat st, have;
    const char *path = o->oci->execd;
    char name[80], tmp[96];
    cleanup_close int from = open(path, O_RDONLY | O_CLOEXEC);
    cleanup_close int dir = open_dir(o->root_fd, "execd", e);
    if (from < 0 || fstat(from, &st) < 0) {
        return err_set(e, ERR_NOT_FOUND, "execd is not at '%s' (set [oci].execd): %s", path,
                       strerror(errno));
    }
    if (dir < 0) {
        return -1;
    }
    (void)snprintf(name, sizeof(name), "%llx-%llx-%llx", (unsigned long long)st.st_size,
                   (unsigned long long)st.st_mtim.tv_sec, (unsigned long long)st.st_mtim.tv_nsec);
    if (fstatat(dir, name, &have, 0) < 0 || have.st_size != st.st_size) {
        (void)snprintf(tmp, sizeof(tmp), ".%s", name);
        cleanup_close int to = openat(dir, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0555);
        off_t at = 0;
        while (to >= 0 && at < st.st_size) {
            /* Not copy_file_range(2), which refuses two different file systems. */
            if (sendfile(to, from, &at, (size_t)(st.st_size - at)) <= 0) {
                break;
            }
        }
        if (to < 0 || at < st.st_size || fchmod(to, 0555) < 0 ||
            renameat(dir, tmp, dir, name) < 0) {
            return err_sys(e, errno, "copy %s", path);
        }
    }
    o->execd_fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    return o->execd_fd < 0 ? err_sys(e, errno, "copy of %s", path) : 0;
}

static int parse_defaults(struct oci *o, struct err *e)
{
    const struct config_oci *c = o->oci;
    const struct {
        const char *key, *text;
        int (*parse)(struct str s, uint64_t *ret);
        uint64_t *to;
    } rows[] = {{"default_cpu", c->default_cpu, parse_quantity_millicpu, &o->default_cpu_millis},
                {"default_memory", c->default_memory, parse_quantity_bytes, &o->default_memory},
                {"default_disk", c->default_disk, parse_quantity_bytes, &o->default_disk},
                {"default_io_read_bps", c->default_io_read_bps, parse_quantity_bytes,
                 &o->default_io[IO_READ_BPS]},
                {"default_io_write_bps", c->default_io_write_bps, parse_quantity_bytes,
                 &o->default_io[IO_WRITE_BPS]}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (rows[i].text && *rows[i].text &&
            rows[i].parse(str_from(rows[i].text), rows[i].to) < 0) {
            return err_set(e, ERR_INVALID, "[oci].%s: '%s' is not a quantity", rows[i].key,
                           rows[i].text);
        }
    }
    o->default_io[IO_READ_IOPS] = (uint64_t)c->default_io_read_iops;
    o->default_io[IO_WRITE_IOPS] = (uint64_t)c->default_io_write_iops;
    struct cgroup_limits l = {o->default_cpu_millis, o->default_memory, (uint64_t)c->pids_limit};
    memcpy(l.io, o->default_io, sizeof(l.io));
    if (cgroup_check(&o->cg, &l, e) < 0 || (o->default_disk && disk_check(e) < 0)) {
        return err_wrap(e, "[oci] defaults");
    }
    return 0;
}

/* Writable layers made ahead of a crash that never became a sandbox's. */
static void empty_spare(struct oci *o)
{
    (void)dir_remove(o->root_fd, "spare", true);
    (void)mkdirat(o->root_fd, "spare", 0700);
    (void)close(o->spare_fd);
    o->spare_fd = openat(o->root_fd, "spare", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

int oci_spares_start(struct oci *o, struct err *e)
{
    struct spare_opts so = {
        .ids = &o->ids,
        .net = o->net,
        .userns = o->oci->user_namespace,
        .disk_bytes = o->default_disk,
        .spare_fd = o->spare_fd,
        .templates_fd = o->templates_fd,
        .trash_fd = o->trash_fd,
        .pool = (unsigned)o->oci->netns_pool,
    };
    o->spares = spares_new(&so, e);
    return o->spares ? 0 : -1;
}

static void oci_free(struct runtime *rt)
{
    struct oci *o = oci_of(rt);
    bool has_adopted = o->spares != NULL;
    spares_free(o->spares);
    watch_free(o->watch);
    size_t it = 0, n_connected = 0;
    struct str key;
    void *value;
    while (map_next(&o->sandboxes, &it, &key, &value)) {
        struct sandbox *sb = value;
        n_connected += sb->net.ip && sb->status.state != RT_EXITED;
        images_release(o, sb);
        if (sb->net.ns_fd >= 0) {
            (void)close(sb->net.ns_fd);
        }
        if (sb->inner_fd >= 0) {
            (void)close(sb->inner_fd);
        }
        free(sb);
    }
    map_done(&o->sandboxes);
    image_store_close(o->images);
    if (o->net && has_adopted && n_connected == 0) {
        network_end(o->net); /* what goes on without us keeps its network */
    }
    network_free(o->net);
    host_image_done(&o->host_image);
    engines_done(&o->engines);
    idrange_done(&o->ids);
    cgroup_host_done(&o->cg);
    buf_done(&o->seccomp);
    int fds[] = {o->root_fd,  o->sandboxes_fd, o->trash_fd, o->templates_fd,
                 o->spare_fd, o->lock_fd,      o->execd_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    claim_done(&o->claim);
    (void)pthread_mutex_destroy(&o->volumes_lock);
    (void)pthread_mutex_destroy(&o->ossfs_lock);
    (void)pthread_mutex_destroy(&o->lock);
    free(o->root);
    free(o->stage_dir);
    config_unref(o->cfg);
    free(o);
}

static struct image_store *oci_images(struct runtime *rt)
{
    return oci_of(rt)->images;
}

static const struct runtime_ops oci_ops = {
    .name = "oci",
    .create = oci_create,
    .activate = oci_activate,
    .remove = oci_remove,
    .pause = oci_pause,
    .resume = oci_resume,
    .inspect = oci_inspect,
    .list = oci_list,
    .stats = oci_stats,
    .logs = oci_logs,
    .describe = oci_describe,
    .target = oci_target,
    .snapshot = oci_snapshot,
    .snapshot_remove = oci_snapshot_remove,
    .snapshot_exists = oci_snapshot_exists,
    .adopt = oci_adopt,
    .check = oci_check,
    .sweep = oci_sweep,
    .must_fetch = images_must_fetch,
    .images = oci_images,
    .free = oci_free,
};

static int oci_init(struct oci *o, struct err *e)
{
    const struct config_oci *c = o->oci;
    cleanup_free char *images = NULL;
    if (host_require(c, e) < 0 || open_dirs(o, e) < 0 || install_execd(o, e) < 0 ||
        engines_init(&o->engines, c, e) < 0 || cgroup_host_init(&o->cg, c->cgroup_parent, e) < 0 ||
        claim_cgroup(&o->claim, &o->cg, e) < 0 || claim_bridge(&o->claim, c, e) < 0 ||
        idrange_init(&o->ids, c->id_base, c->id_count, c->id_ranges, e) < 0) {
        return -1;
    }
    (void)cgroup_io_find(&o->cg,
                         o->root_fd); /* a create with such a limit says that it cannot be */
    if (parse_defaults(o, e) < 0) {
        return -1;
    }
    if (strcmp(c->seccomp, "default") == 0 && seccomp_compile(&o->seccomp, e) < 0) {
        return -1;
    }
    empty_spare(o);
    cleanup_close int images_fd = open_dir(o->root_fd, "images", e);
    images = xasprintf("%s/images", o->root);
    if (images_fd < 0 || host_image_make(images_fd, images, &o->host_image, e) < 0) {
        return -1;
    }
    if (images_open(o, e) < 0) {
        return -1;
    }
    o->net = network_new(c, e);
    if (!o->net || claim_bridge(&o->claim, c, e) < 0) {
        return -1;
    }
    o->watch = watch_new(sandbox_on_exit, o, e);
    return o->watch ? 0 : -1;
}

struct runtime *runtime_oci_new(const struct config *cfg, struct err *e)
{
    struct oci *o = NEW(struct oci);
    o->rt.ops = &oci_ops;
    o->cfg = config_ref((struct config *)(uintptr_t)cfg); /* only its count changes */
    o->oci = &o->cfg->oci;
    o->root_fd = o->sandboxes_fd = o->trash_fd = o->templates_fd = o->spare_fd = -1;
    o->lock_fd = o->execd_fd = -1;
    o->claim = (struct claim)CLAIM_INIT;
    o->cg.dynmods_fd = -1;
    buf_init(&o->seccomp, OCI_SECCOMP_MAX);
    (void)pthread_mutex_init(&o->volumes_lock, NULL);
    (void)pthread_mutex_init(&o->ossfs_lock, NULL);
    (void)pthread_mutex_init(&o->lock, NULL);
    if (oci_init(o, e) < 0) {
        (void)err_wrap(e, "oci runtime");
        oci_free(&o->rt);
        return NULL;
    }
    return &o->rt;
}
