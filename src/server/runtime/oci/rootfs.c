/* Root file systems out of layers. */

#include "server/runtime/oci/rootfs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

int rootfs_builtin(const struct config_oci *cfg, const struct host_image *host, const char *image,
                   struct rootfs *ret, struct err *e)
{
    *ret = (struct rootfs){0};
    const char *dir = str_map_get(&cfg->rootfs, image);
    if (dir) {
        struct stat st;
        if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode)) {
            return err_set(e, ERR_NOT_FOUND, "[oci.rootfs] %s = \"%s\" is not a directory", image,
                           dir);
        }
        ret->layers[ret->n_layers++] = dir;
        return 1;
    }
    if (strcmp(image, "host") != 0) {
        return 0;
    }
    ret->layers[ret->n_layers++] = host->dir;
    for (size_t i = 0; i < host->n_binds; i++) {
        ret->binds[ret->n_binds++] = host->binds[i];
    }
    for (size_t i = 0; i < cfg->host_image_paths.n && ret->n_binds < OCI_BINDS_MAX; i++) {
        ret->binds[ret->n_binds++] = cfg->host_image_paths.v[i];
    }
    return 1;
}

static int layer_clone(const char *path, int userns_fd, struct err *e)
{
    cleanup_close int dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return err_sys(e, errno, "layer %s", path);
    }
    int fd = tree_clone(dir, "", false, true, userns_fd, e);
    return fd < 0 ? err_wrap(e, "layer %s", path) : fd;
}

int rootfs_stage(const struct rootfs *r, struct stage *s, const struct home *home, int userns_fd,
                 struct err *e)
{
    int n = snprintf(s->overlay, sizeof(s->overlay), "lowerdir=");
    for (size_t i = 0; i < r->n_layers; i++) {
        char name[STAGE_NAME_MAX];
        (void)snprintf(name, sizeof(name), "l%zu", i);
        int fd = layer_clone(r->layers[i], userns_fd, e);
        if (fd < 0) {
            return -1;
        }
        stage_add(s, fd, name);
        n += snprintf(s->overlay + n, sizeof(s->overlay) - (size_t)n, "%s%s", i ? ":" : "", name);
    }
    /* Older kernels cannot copy a mount that is nowhere attached; it is not needed elsewhere. */
    int fd = home->mounted ? tree_setup(fcntl(home->rw_fd, F_DUPFD_CLOEXEC, 3), userns_fd, e)
                           : tree_clone(home->rw_fd, "", false, false, userns_fd, e);
    if (fd < 0) {
        return err_wrap(e, "writable layer");
    }
    stage_add(s, fd, "rw");
    /* volatile: nothing here outlives the machine's run, so no fsync inside needs to reach a disk.
     * Renames of directories across layers copy instead of leaving redirections in the layer. */
    (void)snprintf(s->overlay + n, sizeof(s->overlay) - (size_t)n,
                   ",upperdir=rw/upper,workdir=rw/work,index=off,metacopy=off,"
                   "redirect_dir=nofollow,xino=off,volatile");
    return 0;
}

int rootfs_stage_binds(const struct rootfs *r, struct stage *s, struct err *e)
{
    for (size_t i = 0; i < r->n_binds; i++) {
        struct stat st;
        cleanup_close int at = open(r->binds[i], O_PATH | O_CLOEXEC);
        if (at < 0 || fstat(at, &st) < 0) {
            return err_sys(e, errno, "image host: %s", r->binds[i]);
        }
        /* Not idmapped, on purpose: see hostimage.h. */
        int fd = tree_clone(at, "", true, true, -1, e);
        if (fd < 0) {
            return err_wrap(e, "image host: %s", r->binds[i]);
        }
        stage_add_inside(s, fd, r->binds[i], !S_ISDIR(st.st_mode));
    }
    return 0;
}
