#pragma once
/* Images made of another image and one more layer on top: what a snapshot is.
 *
 * The tree of the new layer is prepared in a directory from image_store_temp(): files as overlayfs
 * keeps them in an upper directory (whiteouts are 0:0 character devices, opaque directories carry
 * trusted.overlay.opaque), owned by the ids that are seen inside a sandbox. It becomes a layer by a
 * rename. Once recorded, the image is created from under its name like any other, exported, pushed
 * and removed; a name "snapshot:<id>" is never pruned. */

#include "base/err.h"
#include "server/image/store.h"

#define IMAGE_SNAPSHOT_PREFIX "snapshot:"

struct image_derive {
    const struct image *base; /* its config is inherited; its layers must be in the store */
    const char *name;         /* of the new image, e.g. "snapshot:<id>" */
    const char *layer_id; /* of the new layer, e.g. "snap-<id>"; unique, at most LAYER_ID_MAX - 1 */
    const char *temp_name; /* of image_store_temp(); taken, whether or not this succeeds */
    uint64_t size;         /* bytes in it; 0: they are counted */
};
struct image *image_derive(struct image_store *s, const struct image_derive *d, struct err *e);
/* The same with the layer read from a tar archive (plain, gzip or zstd; OCI whiteouts);
 * temp_name is not used, layer_id may be NULL: then it is the digest of the archive. */
struct image *image_derive_tar(struct image_store *s, const struct image_derive *d, int tar_fd,
                               struct err *e);

/* The record of an image, to be kept with what was made from it, and back. */
int image_write_record(const struct image *img, int dir_fd, const char *file, struct err *e);
struct image *image_read_record(int dir_fd, const char *file, struct err *e);
struct image *image_clone(const struct image *img);
