#pragma once
/* Image names: [registry/]repository[:tag][@digest], as docker and podman read them. */

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "server/image/limits.h"

#define IMAGE_DIGEST_MAX 72 /* "sha256:" and 64 hex digits, with room for the NUL */

struct image_ref {
    char registry[256]; /* "docker.io", "localhost:5000" */
    char repo[256];     /* "library/python" */
    char tag[129];      /* "latest" when neither tag nor digest was given; "" with only a digest */
    char digest[IMAGE_DIGEST_MAX];
};

/* A first component with a dot, a colon, or the word localhost is a registry; otherwise it is the
 * default one, where a single-word repository is below "library/". */
int image_ref_parse(struct str s, struct image_ref *ret, struct err *e);
/* "registry/repo:tag" or "registry/repo@digest": the name under which the store keeps it. */
int image_ref_format(const struct image_ref *r, char *out, size_t out_len);
/* Tag or digest, as the registry API wants it. */
const char *image_ref_reference(const struct image_ref *r);
bool image_digest_valid(struct str s); /* sha256 only */
