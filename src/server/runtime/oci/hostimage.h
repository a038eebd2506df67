#pragma once
/* The image `host`: this machine's own programs without anything of its owner. /usr is bound
 * read-only and keeps its host ids, so a file that only host root may read stays unreadable; the
 * rest is a small directory tree made here, with an /etc of what programs need and nothing secret.
 */

#include <stddef.h>

#include "base/err.h"

#define HOST_BINDS_MAX 8

struct host_image {
    char *dir; /* the tree: a layer, never changed once made */
    const char
        *binds[HOST_BINDS_MAX]; /* /usr, and /bin, /lib, ... where they are no links into it */
    size_t n_binds;
};

/* Makes the tree below images_fd (path `images`), or finds the one of an earlier start that is
 * still right. */
int host_image_make(int images_fd, const char *images, struct host_image *ret, struct err *e);
void host_image_done(struct host_image *h);
