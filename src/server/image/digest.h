#pragma once
/* SHA-256 of a stream, in the "sha256:<hex>" form that images use. */

#include <stddef.h>

#include "base/str.h"
#include "server/image/ref.h"

struct digest;

struct digest *digest_new(void);
void digest_free(struct digest *d);
void digest_add(struct digest *d, const void *p, size_t n);
/* Ends it; the object can only be freed afterwards. */
void digest_final(struct digest *d, char out[IMAGE_DIGEST_MAX]);
void digest_of(struct str s, char out[IMAGE_DIGEST_MAX]);
/* Feeds a whole file from its beginning; 0 or -errno. */
int digest_add_fd(struct digest *d, int fd);
