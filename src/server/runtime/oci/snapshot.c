/* Snapshots: the writable layer of a running sandbox, copied while nothing inside moves, becomes
 * one more layer on top of what the sandbox was made from. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/image/derive.h"
#include "server/runtime/oci/copy.h"
#include "server/runtime/oci/disk.h"
#include "server/runtime/oci/home.h"
#include "server/runtime/oci/images.h"
#include "server/runtime/oci/oci.h"

/* What the runtime itself puts into every sandbox, anew each time. */
static const char *const own_files[] = {"etc/hosts", "etc/resolv.conf", "etc/hostname",
                                        "opt/opensandbox/execd", NULL};

static void name_of(const char *snapshot_id, char out[SANDBOX_ID_MAX + 32])
{
    (void)snprintf(out, SANDBOX_ID_MAX + 32, IMAGE_SNAPSHOT_PREFIX "%s", snapshot_id);
}

static void layer_of(const char *snapshot_id, char out[LAYER_ID_MAX])
{
    (void)snprintf(out, LAYER_ID_MAX, "snap-%s", snapshot_id);
}

static int open_upper(int dir_fd, struct err *e)
{
    cleanup_close int rw = -1;
    if (faccessat(dir_fd, HOME_DISK, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        rw = disk_open(dir_fd, HOME_DISK, e);
        if (rw < 0) {
            return -1;
        }
    } else {
        rw = openat(dir_fd, HOME_RW, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    int fd = rw < 0 ? -1 : openat(rw, "upper", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "writable layer") : fd;
}

void snapshot_thaw(struct oci *o, const char *id, int dir_fd)
{
    struct err e = {0};
    if (faccessat(dir_fd, HOME_FROZEN, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        return;
    }
    if (cgroup_freeze(&o->cg, id, false, &e) < 0) {
        log_warn("a sandbox could not be thawed", LOG_S("id", id), LOG_ERR(&e));
        return;
    }
    (void)unlinkat(dir_fd, HOME_FROZEN, 0);
}

/* Still for no longer than the copy takes. */
static int capture(struct oci *o, const char *id, int dir_fd, int to_fd, struct copy_stats *st,
                   struct err *e)
{
    const struct copy_opts opts = {.skip = own_files};
    cleanup_close int upper = open_upper(dir_fd, e);
    if (upper < 0) {
        return -1;
    }
    cleanup_close int mark =
        openat(dir_fd, HOME_FROZEN, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (mark < 0) {
        return err_sys(e, errno, "%s", HOME_FROZEN);
    }
    FAULT_POINT("oci.snapshot.begin");
    uint64_t begin = clock_mono_us();
    int r = cgroup_freeze(&o->cg, id, true, e);
    uint64_t still = clock_mono_us();
    FAULT_POINT("oci.snapshot.frozen");
    r = r < 0 ? r : copy_tree(upper, to_fd, &opts, st, e);
    uint64_t copied = clock_mono_us();
    FAULT_POINT("oci.snapshot.copied");
    struct err thaw = {0};
    if (cgroup_freeze(&o->cg, id, false, &thaw) < 0) {
        log_error("a sandbox could not be thawed", LOG_S("id", id), LOG_ERR(&thaw));
        r = r < 0 ? r : err_set(e, thaw.code, "%s", thaw.msg);
    } else {
        (void)unlinkat(dir_fd, HOME_FROZEN, 0);
    }
    FAULT_POINT("oci.snapshot.thawed");
    log_info("writable layer captured", LOG_S("id", id),
             LOG_I("frozen_us", clock_mono_us() - begin), LOG_I("copy_us", copied - still),
             LOG_I("files", st->files), LOG_I("bytes", st->bytes), LOG_I("shared", st->shared));
    return r;
}

static int take(struct oci *o, const char *id, const char *snapshot_id, const struct image *base,
                struct err *e)
{
    char temp[64], name[SANDBOX_ID_MAX + 32], layer[LAYER_ID_MAX];
    struct copy_stats st = {0};
    cleanup_close int to = -1;
    cleanup_close int dir = sandbox_dir_open(o, id, e);
    if (dir < 0 || image_store_temp(o->images, temp, &to, e) < 0) {
        return -1;
    }
    if (capture(o, id, dir, to, &st, e) < 0) {
        image_store_temp_remove(o->images, temp);
        return -1;
    }
    name_of(snapshot_id, name);
    layer_of(snapshot_id, layer);
    const struct image_derive d = {
        .base = base,
        .name = name,
        .layer_id = layer,
        .temp_name = temp,
        .size = st.bytes ? st.bytes : 1, /* 0 would have it counted again */
    };
    cleanup_(image_free) struct image *img = image_derive(o->images, &d, e);
    FAULT_POINT("oci.snapshot.recorded");
    return img ? 0 : -1;
}

int oci_snapshot(struct runtime *rt, const char *id, const char *snapshot_id, struct err *e)
{
    struct oci *o = oci_of(rt);
    struct sandbox *sb = sandbox_get(o, id);
    if (!sb || sb->status.state != RT_RUNNING) {
        return err_set(e, ERR_CONFLICT, "sandbox %s is not running", id);
    }
    if (!sandbox_id_is_valid(snapshot_id)) {
        return err_set(e, ERR_INVALID, "'%s' cannot be the id of a snapshot", snapshot_id);
    }
    cleanup_(image_free) struct image *base = images_of_sandbox(o, id, e);
    return !base || take(o, id, snapshot_id, base, e) < 0 ? err_wrap(e, "snapshot of %s", id) : 0;
}

int oci_snapshot_remove(struct runtime *rt, const char *snapshot_id, struct err *e)
{
    struct oci *o = oci_of(rt);
    char name[SANDBOX_ID_MAX + 32], layer[LAYER_ID_MAX];
    const char *const layers[] = {layer};
    if (!sandbox_id_is_valid(snapshot_id)) {
        return 0; /* there can be none */
    }
    name_of(snapshot_id, name);
    layer_of(snapshot_id, layer);
    FAULT_POINT("oci.snapshot.removing");
    if (image_store_forget(o->images, name, e) < 0) {
        return -1;
    }
    image_store_collect(o->images, layers, 1); /* one that a crash left without a record */
    return 0;
}

int oci_snapshot_exists(struct runtime *rt, const char *snapshot_id, struct err *e)
{
    struct oci *o = oci_of(rt);
    char name[SANDBOX_ID_MAX + 32];
    struct err missing = {0};
    if (!sandbox_id_is_valid(snapshot_id)) {
        return 0;
    }
    name_of(snapshot_id, name);
    cleanup_(image_free) struct image *img = image_store_peek(o->images, name, NULL, &missing);
    return img != NULL;
}
