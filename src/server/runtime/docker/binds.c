/* Where the content of a requested volume is: a path of this machine, or a volume of the engine. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/codec.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"
#include "server/runtime/oci/hostpath.h"
#include "server/runtime/oci/ossfs.h"

/* ---- paths ---- */

static bool is_below(struct str path, struct str dir)
{
    while (dir.n > 1 && dir.p[dir.n - 1] == '/') {
        dir.n--;
    }
    return str_eq(dir, STR("/")) ||
           (path.p && str_starts(path, dir) && (path.n == dir.n || path.p[dir.n] == '/'));
}

/* What the path really is, as far as it exists. */
static int real_part(const char *path, char out[PATH_MAX])
{
    char prefix[PATH_MAX];
    if (str_to_cstr(str_from(path), prefix, sizeof(prefix)) < 0) {
        return -ENAMETOOLONG;
    }
    while (!realpath(prefix, out)) {
        char *slash = strrchr(prefix, '/');
        if (errno != ENOENT || !slash) {
            return -errno;
        }
        slash[slash == prefix] = 0;
    }
    return 0;
}

static bool is_allowed(const struct runtime_spec *spec, const char *real)
{
    for (size_t i = 0; i < spec->host_paths.n; i++) {
        char entry[PATH_MAX];
        if (realpath(spec->host_paths.v[i], entry) && is_below(str_from(real), str_from(entry))) {
            return true;
        }
    }
    return false;
}

/* Where the engine takes nothing but names: looked at now, and by the engine once more. */
static int host_source(const struct runtime_spec *spec, const struct volume *v, char out[PATH_MAX],
                       enum runtime_stage *stage, struct err *e)
{
    bool sub = v->sub_path && *v->sub_path;
    cleanup_free char *path =
        xasprintf("%s%s%s", v->host->path, sub ? "/" : "", sub ? v->sub_path : "");
    struct stat st;
    /* An entry that is not there yet is made, as the directories below it are. */
    for (size_t i = 0; i < spec->host_paths.n; i++) {
        if (is_below(str_from(v->host->path), str_from(spec->host_paths.v[i]))) {
            (void)dir_make(AT_FDCWD, spec->host_paths.v[i], 0755);
        }
    }
    *stage = STAGE_HOST_PATH;
    int r = real_part(path, out);
    if (r < 0) {
        return err_sys(e, r, "volume %s: %s", v->name, path);
    }
    if (!is_allowed(spec, out)) {
        *stage = STAGE_HOST_PATH_DENIED;
        return err_set(e, ERR_INVALID, "volume %s: %s leads out of storage.allowed_host_paths",
                       v->name, path);
    }
    if (stat(path, &st) < 0 && (r = dir_make(AT_FDCWD, path, 0755)) < 0) {
        return err_sys(e, r, "volume %s: make %s", v->name, path);
    }
    if (!realpath(path, out) || stat(out, &st) < 0) {
        return err_sys(e, errno, "volume %s: %s", v->name, path);
    }
    char base[PATH_MAX];
    if (sub && (!realpath(v->host->path, base) || !is_below(str_from(out), str_from(base)))) {
        *stage = STAGE_SUB_PATH;
        return err_set(e, ERR_INVALID, "volume %s: subPath leads out of it", v->name);
    }
    if (!is_allowed(spec, out)) {
        *stage = STAGE_HOST_PATH_DENIED;
        return err_set(e, ERR_INVALID, "volume %s: %s leads out of storage.allowed_host_paths",
                       v->name, path);
    }
    return S_ISDIR(st.st_mode) || S_ISREG(st.st_mode)
               ? 0
               : err_set(e, ERR_INVALID, "volume %s: neither a directory nor a file", v->name);
}

/* ---- volumes of the engine ---- */

static int pvc_sub_path(const struct docker *d, const struct volume *v, struct volume_plan *plan,
                        const struct json *info, char out[PATH_MAX], enum runtime_stage *stage,
                        struct err *e)
{
    const char *point = json_cstr(json_get(info, "Mountpoint"));
    char base[PATH_MAX];
    if (!str_eq(json_str(json_get(info, "Driver")), STR("local")) || !point || !*point) {
        *stage = STAGE_PVC_DRIVER;
        return err_set(e, ERR_INVALID, "volume %s: subPath needs a volume of the driver local",
                       v->name);
    }
    cleanup_free char *path = xasprintf("%s/%s", point, v->sub_path);
    *stage = STAGE_SUB_PATH;
    if (d->shares_mounts) {
        cleanup_close int data = open(point, O_PATH | O_DIRECTORY | O_CLOEXEC);
        return data < 0 ? err_sys(e, errno, "volume %s: %s", v->name, point)
                        : hold_put(d, plan, volume_sub_open(data, v, stage, e), out, e);
    }
    if (!realpath(point, base)) { /* the engine's directories are not here: it will look itself */
        return str_to_cstr(str_from(path), out, PATH_MAX);
    }
    if (!realpath(path, out)) {
        return err_set(e, ERR_INVALID, "volume %s: there is no %s in it", v->name, v->sub_path);
    }
    return is_below(str_from(out), str_from(base))
               ? 0
               : err_set(e, ERR_INVALID, "volume %s: subPath leads out of it", v->name);
}

static int pvc_source(struct docker *d, const struct runtime_spec *spec, const struct volume *v,
                      struct volume_plan *plan, char out[PATH_MAX], enum runtime_stage *stage,
                      struct err *e)
{
    const char *name = v->pvc->claim_name;
    bool make = !v->pvc->create_if_not_exists.has || v->pvc->create_if_not_exists.v;
    *stage = STAGE_PVC;
    cleanup_(engine_answer_done) struct engine_answer a;
    if (named_volume_inspect(d, name, &a, e) < 0) {
        return -1;
    }
    if (a.status == 404 && !make) {
        *stage = STAGE_PVC_MISSING;
        return err_set(e, ERR_INVALID, "volume %s: the engine has no volume %s", v->name, name);
    }
    if (label_is(json_get(a.json, "Labels"), LABEL_VOLUME_OF, spec->id)) {
        /* Made by a try of this create that was cut short. */
        json_push(plan->managed, json_string_new(str_from(name)));
    }
    if (a.status == 404) {
        engine_answer_done(&a);
        if (named_volume_make(d, name, spec->id, v->pvc->delete_on_termination.v, plan, e) < 0 ||
            named_volume_inspect(d, name, &a, e) < 0) {
            return -1;
        }
    }
    if (engine_check(&a, name, e) < 0) {
        engine_err_as_io(e);
        return -1;
    }
    return v->sub_path && *v->sub_path ? pvc_sub_path(d, v, plan, a.json, out, stage, e)
                                       : str_to_cstr(str_from(name), out, PATH_MAX);
}

/* ---- buckets ---- */

static int ossfs_source(struct docker *d, const struct volume *v, struct volume_plan *plan,
                        char out[PATH_MAX], enum runtime_stage *stage, struct err *e)
{
    const char *root = d->cfg->storage.ossfs_mount_root;
    cleanup_(arena_done) struct arena a = {0};
    *stage = STAGE_OSSFS_ROOT;
    if (root[0] != '/') {
        return err_set(e, ERR_INVALID, "storage.ossfs_mount_root '%s' is not absolute", root);
    }
    const char *path = ossfs_mount_point(root, v, &a);
    *stage = STAGE_SUB_PATH;
    if (!path || str_to_cstr(str_from(path), out, PATH_MAX) < 0) {
        return err_set(e, ERR_INVALID, "volume %s: subPath leads out of the bucket", v->name);
    }
    *stage = STAGE_OSSFS;
    (void)pthread_mutex_lock(&d->ossfs_lock);
    uintptr_t n = (uintptr_t)map_get(&d->ossfs_busy, str_from(path));
    int r = ossfs_mount(v, path, &a, e);
    if (r == 0) { /* held until the container's label says so */
        (void)map_put(&d->ossfs_busy, str_from(path), (void *)(n + 1));
        json_push(plan->ossfs, json_string_new(str_from(path)));
    }
    (void)pthread_mutex_unlock(&d->ossfs_lock);
    return r;
}

void ossfs_let_go(struct docker *d, const struct json *paths)
{
    (void)pthread_mutex_lock(&d->ossfs_lock);
    for (size_t i = 0; i < json_len(paths); i++) {
        struct str path = json_str(json_item(paths, i));
        uintptr_t n = (uintptr_t)map_get(&d->ossfs_busy, path);
        if (n > 1) {
            (void)map_put(&d->ossfs_busy, path, (void *)(n - 1));
        } else {
            (void)map_del(&d->ossfs_busy, path);
        }
    }
    (void)pthread_mutex_unlock(&d->ossfs_lock);
}

/* Does any container's label name the path? When in doubt, yes. */
static bool is_used(const struct json *containers, const char *path)
{
    for (size_t i = 0; i < json_len(containers); i++) {
        struct err e = {0};
        const char *text = label_get(json_get(json_item(containers, i), "Labels"), LABEL_OSSFS);
        cleanup_(json_free) struct json *paths = text ? json_parse(str_from(text), &e) : NULL;
        for (size_t k = 0; json_is_array(paths) && k < json_len(paths); k++) {
            if (str_eq(json_str(json_item(paths, k)), str_from(path))) {
                return true;
            }
        }
    }
    return false;
}

void ossfs_release(struct docker *d, const struct json *paths)
{
    cleanup_(engine_answer_done) struct engine_answer a = {0};
    struct err e = {0};
    if (!json_is_array(paths) || !json_len(paths)) {
        return;
    }
    (void)pthread_mutex_lock(&d->ossfs_lock);
    int r = index_refresh(d, &a, &e);
    for (size_t i = 0; r == 0 && i < json_len(paths); i++) {
        const char *path = json_cstr(json_item(paths, i));
        cleanup_free char *root = xasprintf("%s/", d->cfg->storage.ossfs_mount_root);
        /* A label can name anything; only what lies where we mount is ours to unmount. */
        if (path && str_starts(str_from(path), str_from(root)) && !strstr(path, "/..") &&
            !map_get(&d->ossfs_busy, str_from(path)) && !is_used(a.json, path) &&
            ossfs_unmount(path, &e) < 0) {
            log_warn("a bucket could not be unmounted", LOG_S("path", path), LOG_ERR(&e));
        }
    }
    (void)pthread_mutex_unlock(&d->ossfs_lock);
}

/* ---- all of them ---- */

int bind_add(struct docker *d, const struct runtime_spec *spec, const struct volume *v,
             struct volume_plan *plan, enum runtime_stage *stage, struct err *e)
{
    char source[PATH_MAX];
    int r = v->host && d->shares_mounts
                ? hold_put(d, plan, volume_host_open(spec, v, stage, e), source, e)
            : v->host ? host_source(spec, v, source, stage, e)
            : v->pvc  ? pvc_source(d, spec, v, plan, source, stage, e)
                      : ossfs_source(d, v, plan, source, stage, e);
    if (r < 0) {
        return -1;
    }
    if (strchr(source, ':') || strchr(v->mount_path, ':')) {
        *stage = STAGE_PREPARE;
        return err_set(e, ERR_INVALID, "volume %s: the engine takes no ':' in paths", v->name);
    }
    cleanup_free char *text =
        xasprintf("%s:%s:%s", source, v->mount_path, v->read_only.v ? "ro" : "rw");
    json_push(plan->binds, json_string_new(str_from(text)));
    return 0;
}
