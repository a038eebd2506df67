#pragma once
/* Images as files, for machines without a registry: import of an OCI layout (tar or directory), of
 * what `docker save` writes, and of a plain root file system; export as an OCI layout. */

#include "base/err.h"
#include "server/image/store.h"

/* The kind is recognised from the content. `name` may be NULL when the archive names its image
 * itself; a plain root file system needs one. Returns the recorded image. */
struct image *image_import(struct image_store *s, int fd, const char *name, struct err *e);
/* Writes an uncompressed tar of an OCI layout, readable by docker, podman and skopeo. */
int image_export(struct image_store *s, const char *name, int fd, struct err *e);

struct image_push {
    const char *name;   /* image in the store */
    const char *target; /* where to push it; NULL: under its own name */
    const char *user, *password;
};
int image_push(struct image_store *s, const struct image_push *p, struct err *e);
