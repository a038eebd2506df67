/* Volumes: finding them, and knowing who has them. */

#include "server/runtime/oci/volume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rand.h"
#include "base/sha1.h"
#include "server/runtime/oci/hostpath.h"

#define MOUNT_PATH_MAX 4096

/* ---- who has what ---- */

static int user_add(int share_fd, const char *id)
{
    int users = openat(share_fd, "users", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd = users < 0 ? -1 : openat(users, id, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : 0;
    (void)(fd >= 0 && close(fd));
    (void)(users >= 0 && close(users));
    return r;
}

static bool has_file(int dir_fd, const char *name)
{
    return faccessat(dir_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int make_marker(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : (void)close(fd), 0;
}

/* Calls fn for each entry; stops when it returns false. */
static void each_entry(int at_fd, const char *path, bool (*fn)(const char *name, void *arg),
                       void *arg)
{
    int fd = openat(at_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *ent;
    while (d && (ent = readdir(d))) {
        if (strcmp(ent->d_name, ".") != 0 && strcmp(ent->d_name, "..") != 0 &&
            !fn(ent->d_name, arg)) {
            return;
        }
    }
}

static bool note_entry(const char *name, void *arg)
{
    *(bool *)arg = true;
    return name == NULL;
}

static bool has_users(int share_fd)
{
    bool any = false;
    each_entry(share_fd, "users", note_entry, &any);
    return any;
}

static void trash_share(struct oci *o, const char *name)
{
    char to[ID_HEX_LEN + 1];
    rand_id_hex(to);
    if (renameat(o->root_fd, name, o->trash_fd, to) < 0 && errno != ENOENT) {
        log_warn("a volume could not be removed", LOG_S("name", name), LOG_I("errno", errno));
    }
}

static void unmount_share(int share_fd)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(MOUNT_PATH_MAX);
    struct err e = {0};
    if (file_read(share_fd, "mount", &path) == 0 && ossfs_unmount(buf_cstr(&path), &e) < 0) {
        log_warn("a bucket could not be unmounted", LOG_ERR(&e));
    }
}

/* With the lock of its kind held. */
static void drop_one(struct oci *o, const char *id, const char *name)
{
    char user[SANDBOX_ID_MAX + 8];
    cleanup_close int fd =
        openat(o->root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    (void)snprintf(user, sizeof(user), "users/%s", id);
    if (fd < 0) {
        return;
    }
    (void)unlinkat(fd, user, 0);
    if (has_users(fd)) {
        return;
    }
    if (str_starts(str_from(name), STR("ossfs/"))) {
        unmount_share(fd);
        trash_share(o, name);
    } else if (has_file(fd, "delete") || has_file(fd, "pending")) {
        trash_share(o, name);
    }
}

static pthread_mutex_t *lock_of(struct oci *o, const char *name)
{
    return str_starts(str_from(name), STR("ossfs/")) ? &o->ossfs_lock : &o->volumes_lock;
}

void volumes_drop(struct oci *o, const char *id, const struct str_list *names)
{
    for (size_t i = 0; i < names->n; i++) {
        (void)pthread_mutex_lock(lock_of(o, names->v[i]));
        drop_one(o, id, names->v[i]);
        (void)pthread_mutex_unlock(lock_of(o, names->v[i]));
    }
}

/* ---- named volumes ---- */

/* Complete under its name or not there at all. */
static int pvc_make(struct oci *o, const char *id, const struct volume *v, struct err *e)
{
    char tmp[SANDBOX_ID_MAX + 24], name[300];
    bool goes = v->pvc->delete_on_termination.v;
    (void)snprintf(tmp, sizeof(tmp), "volumes/.%s", id);
    (void)snprintf(name, sizeof(name), "volumes/%s", v->pvc->claim_name);
    (void)dir_remove(o->root_fd, tmp, true);
    cleanup_close int fd = -1;
    if (mkdirat(o->root_fd, tmp, 0700) < 0 ||
        (fd = openat(o->root_fd, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0 ||
        mkdirat(fd, "data", 0755) < 0 || mkdirat(fd, "users", 0700) < 0 || user_add(fd, id) < 0 ||
        make_marker(fd, goes ? "delete" : "pending") < 0) {
        return err_sys(e, errno, "volume %s: make %s", v->name, v->pvc->claim_name);
    }
    FAULT_POINT("oci.volume.made");
    if (renameat(o->root_fd, tmp, o->root_fd, name) < 0) {
        return err_sys(e, errno, "volume %s: make %s", v->name, v->pvc->claim_name);
    }
    FAULT_POINT("oci.volume.named");
    return 0;
}

static bool pvc_may_make(const struct volume *v)
{
    return !v->pvc->create_if_not_exists.has || v->pvc->create_if_not_exists.v;
}

static int pvc_missing(const struct volume *v, enum runtime_stage *stage, struct err *e)
{
    *stage = STAGE_PVC_MISSING;
    return err_set(e, ERR_NOT_FOUND, "volume %s: there is no volume %s", v->name,
                   v->pvc->claim_name);
}

/* Without making anything or taking hold of it. */
static int pvc_check(const struct oci *o, const struct volume *v, enum runtime_stage *stage,
                     struct err *e)
{
    char name[300];
    (void)snprintf(name, sizeof(name), "volumes/%s/data", v->pvc->claim_name);
    *stage = STAGE_PVC;
    cleanup_close int data =
        openat(o->root_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (data < 0 && errno != ENOENT) {
        return err_sys(e, errno, "volume %s: %s", v->name, v->pvc->claim_name);
    }
    if (data < 0 && !pvc_may_make(v)) {
        return pvc_missing(v, stage, e);
    }
    if (!v->sub_path || !*v->sub_path) {
        return 0;
    }
    *stage = STAGE_SUB_PATH;
    if (data < 0) { /* a new one is empty */
        return err_sys(e, ENOENT, "volume %s: subPath '%.200s'", v->name, v->sub_path);
    }
    cleanup_close int sub = volume_sub_open(data, v, stage, e);
    return sub < 0 ? -1 : 0;
}

static int pvc_open(struct oci *o, const struct runtime_spec *spec, const struct volume *v,
                    enum runtime_stage *stage, struct err *e)
{
    char name[300];
    (void)snprintf(name, sizeof(name), "volumes/%s", v->pvc->claim_name);
    *stage = STAGE_PVC;
    cleanup_close int fd =
        openat(o->root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (!pvc_may_make(v)) {
            return pvc_missing(v, stage, e);
        }
        if (pvc_make(o, spec->id, v, e) < 0) {
            return -1;
        }
        fd = openat(o->root_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    int r = fd < 0 ? -errno : user_add(fd, spec->id);
    cleanup_close int data =
        r < 0 ? -1 : openat(fd, "data", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (data < 0) {
        return err_sys(e, r < 0 ? r : errno, "volume %s: %s", v->name, v->pvc->claim_name);
    }
    return v->sub_path && *v->sub_path ? volume_sub_open(data, v, stage, e) : take_fd(&data);
}

void volumes_keep(struct oci *o, const struct runtime_spec *spec)
{
    char name[300];
    for (size_t i = 0; i < spec->n_volumes; i++) {
        if (spec->volumes[i].pvc) {
            (void)snprintf(name, sizeof(name), "volumes/%s/pending",
                           spec->volumes[i].pvc->claim_name);
            (void)unlinkat(o->root_fd, name, 0);
        }
    }
}

/* ---- buckets ---- */

static const char *ossfs_name(struct arena *a, const char *path)
{
    uint8_t md[SHA1_LEN];
    struct sha1 s;
    cleanup_(buf_done) struct buf hex = BUF_INIT(2 * SHA1_LEN + 1);
    sha1_init(&s);
    sha1_add(&s, str_from(path));
    sha1_done(&s, md);
    must(hex_encode(&hex, md, sizeof(md)) == 0);
    return arena_printf(a, "ossfs/%s", buf_cstr(&hex));
}

/* Where it is to be mounted, or NULL. */
static const char *ossfs_find(const struct oci *o, const struct volume *v, struct arena *a,
                              enum runtime_stage *stage, struct err *e)
{
    const char *root = o->cfg->storage.ossfs_mount_root;
    *stage = STAGE_OSSFS_ROOT;
    if (root[0] != '/') {
        (void)err_set(e, ERR_INVALID, "storage.ossfs_mount_root '%s' is not absolute", root);
        return NULL;
    }
    const char *path = ossfs_mount_point(root, v, a);
    *stage = STAGE_SUB_PATH;
    if (!path) {
        (void)err_set(e, ERR_INVALID, "volume %s: subPath leads out of the bucket", v->name);
    }
    return path;
}

static int ossfs_open(struct oci *o, const struct runtime_spec *spec, const struct volume *v,
                      struct arena *a, enum runtime_stage *stage, struct err *e)
{
    const char *path = ossfs_find(o, v, a, stage, e);
    if (!path) {
        return -1;
    }
    *stage = STAGE_OSSFS;
    const char *name = ossfs_name(a, path);
    int r = dir_make(o->root_fd, arena_printf(a, "%s/users", name), 0700);
    cleanup_close int fd =
        r < 0 ? -1 : openat(o->root_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || (r = file_write_atomic(fd, "mount", str_from(path), 0600)) < 0 ||
        (r = user_add(fd, spec->id)) < 0) {
        return err_sys(e, r < 0 ? r : errno, "volume %s: %s", v->name, path);
    }
    FAULT_POINT("oci.volume.bucket");
    if (ossfs_mount(v, path, a, e) < 0) {
        return err_wrap(e, "volume %s", v->name);
    }
    int at = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return at < 0 ? err_sys(e, errno, "volume %s: %s", v->name, path) : at;
}

/* ---- all of them ---- */

struct str_list volumes_names(const struct runtime_spec *spec, const char *ossfs_root,
                              struct arena *a)
{
    struct str_list l = {.v = arena_array(a, spec->n_volumes + 1, sizeof(char *))};
    for (size_t i = 0; i < spec->n_volumes; i++) {
        const struct volume *v = &spec->volumes[i];
        const char *path = v->ossfs ? ossfs_mount_point(ossfs_root, v, a) : NULL;
        if (v->pvc) {
            l.v[l.n++] = arena_printf(a, "volumes/%s", v->pvc->claim_name);
        } else if (path) {
            l.v[l.n++] = ossfs_name(a, path);
        }
    }
    return l;
}

int volumes_check(const struct oci *o, const struct runtime_spec *spec, struct arena *a,
                  enum runtime_stage *ret_stage, struct err *e)
{
    for (size_t i = 0; i < spec->n_volumes; i++) {
        const struct volume *v = &spec->volumes[i];
        int r = v->host  ? volume_host_check(spec, v, ret_stage, e)
                : v->pvc ? pvc_check(o, v, ret_stage, e)
                         : (ossfs_find(o, v, a, ret_stage, e) ? 0 : -1);
        if (r < 0) {
            return -1;
        }
    }
    return 0;
}

static int take_one(struct oci *o, const struct runtime_spec *spec, const struct volume *v,
                    struct arena *a, enum runtime_stage *stage, struct err *e)
{
    if (v->host) {
        return volume_host_open(spec, v, stage, e);
    }
    pthread_mutex_t *lock = v->pvc ? &o->volumes_lock : &o->ossfs_lock;
    (void)pthread_mutex_lock(lock);
    int fd = v->pvc ? pvc_open(o, spec, v, stage, e) : ossfs_open(o, spec, v, a, stage, e);
    (void)pthread_mutex_unlock(lock);
    return fd;
}

static int by_target(const void *a, const void *b)
{
    size_t x = strlen(((const struct runtime_mount *)a)->target);
    size_t y = strlen(((const struct runtime_mount *)b)->target);
    return x < y ? -1 : x > y;
}

int volumes_take(struct oci *o, const struct runtime_spec *spec, struct arena *a,
                 struct volumes *ret, enum runtime_stage *ret_stage, struct err *e)
{
    must(spec->n_volumes <= OCI_BINDS_MAX);
    for (size_t i = 0; i < spec->n_volumes; i++) {
        const struct volume *v = &spec->volumes[i];
        int fd = take_one(o, spec, v, a, ret_stage, e);
        if (fd < 0) {
            return -1;
        }
        ret->v[ret->n++] = (struct runtime_mount){
            .kind = MOUNT_BIND,
            .source_fd = fd,
            .source = v->name,
            .target = v->mount_path,
            .read_only = v->read_only.v,
            .any_ids = v->ossfs != NULL,
        };
    }
    if (ret->n > 1) {
        qsort(ret->v, ret->n, sizeof(ret->v[0]), by_target);
    }
    return 0;
}

void volumes_close(struct volumes *v)
{
    for (size_t i = 0; i < v->n; i++) {
        (void)close(v->v[i].source_fd);
    }
    v->n = 0;
}

/* ---- sweep ---- */

struct share_sweep {
    struct oci *o;
    bool (*is_known)(const char *id, void *arg);
    void *arg;
    const char *kind; /* "volumes", "ossfs" */
    char name[300];
    int dropped;
};

static bool sweep_user(const char *id, void *arg)
{
    struct share_sweep *s = arg;
    if (!s->is_known(id, s->arg)) {
        (void)pthread_mutex_lock(lock_of(s->o, s->name));
        drop_one(s->o, id, s->name);
        (void)pthread_mutex_unlock(lock_of(s->o, s->name));
        s->dropped++;
    }
    return true;
}

static bool sweep_share(const char *name, void *arg)
{
    struct share_sweep *s = arg;
    char users[320];
    (void)snprintf(s->name, sizeof(s->name), "%s/%s", s->kind, name);
    if (name[0] == '.') { /* half made; its sandbox's id follows */
        if (!s->is_known(name + 1, s->arg)) {
            (void)dir_remove(s->o->root_fd, s->name, true);
            s->dropped++;
        }
        return true;
    }
    (void)snprintf(users, sizeof(users), "%s/users", s->name);
    each_entry(s->o->root_fd, users, sweep_user, s);
    return true;
}

int volumes_sweep(struct oci *o, bool (*is_known)(const char *id, void *arg), void *arg)
{
    static const char *const kinds[] = {"volumes", "ossfs"};
    struct share_sweep s = {.o = o, .is_known = is_known, .arg = arg};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        s.kind = kinds[i];
        each_entry(o->root_fd, kinds[i], sweep_share, &s);
    }
    return s.dropped;
}
