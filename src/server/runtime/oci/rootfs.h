#pragma once
/* From an image name to the root file system of one sandbox: read-only layers below, the sandbox's
 * own writable layer on top, and for the image `host` some directories of this machine bound over
 * it. */

#include <stddef.h>

#include "base/arena.h"
#include "base/err.h"
#include "server/config/config.h"
#include "server/runtime/oci/home.h"
#include "server/runtime/oci/hostimage.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/stage.h"

struct rootfs {
    const char *layers[OCI_LAYERS_MAX]; /* absolute directories, the topmost first */
    size_t n_layers;
    const char *binds[OCI_BINDS_MAX]; /* of this machine, at the same path inside, read-only */
    size_t n_binds;
    const char *const *env; /* of the image, NULL-terminated, or NULL */
    const char *workdir;    /* of the image, or NULL */
    const char *user;       /* of the image, "name|uid[:group|gid]", or NULL: root */
};

/* Images that need no store: `host`, and the directories of [oci.rootfs]. 1 when found, 0 when the
 * name is none of them. Strings live as long as the arena, the configuration and the host image. */
int rootfs_builtin(const struct config_oci *cfg, const struct host_image *host, const char *image,
                   struct rootfs *ret, struct err *e);
/* Puts layers and the writable layer (rw_fd: a directory with `upper` and `work`) on the stage as
 * an overlay, idmapped through userns_fd when >= 0. */
int rootfs_stage(const struct rootfs *r, struct stage *s, const struct home *home, int userns_fd,
                 struct err *e);
/* Puts the directories of this machine over it. */
int rootfs_stage_binds(const struct rootfs *r, struct stage *s, struct err *e);
