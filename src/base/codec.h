#pragma once
/* hex, base64, base64url, base36: encoders append to a buf, decoders are strict (no white space, no
 * missing padding for base64, no trailing bits) and return the byte count or -EINVAL / -ENOSPC. */

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

int hex_encode(struct buf *out, const void *p, size_t n); /* lower case */
ssize_t hex_decode(struct str s, void *out, size_t out_len);
int base64_encode(struct buf *out, const void *p, size_t n);
ssize_t base64_decode(struct str s, void *out, size_t out_len);
int base64url_encode(struct buf *out, const void *p, size_t n); /* no padding */
ssize_t base64url_decode(struct str s, void *out, size_t out_len);
int base36_encode(struct buf *out, uint64_t v);
int base36_decode(struct str s, uint64_t *ret); /* -EINVAL, -ERANGE */
/* Percent-decoding of a path or query piece; '+' becomes a space when plus_is_space. A malformed
 * escape is -EINVAL. */
int percent_decode(struct buf *out, struct str s, bool plus_is_space);
/* Escapes everything but RFC 3986 unreserved characters (and '/' when keep_slash). */
int percent_encode(struct buf *out, struct str s, bool keep_slash);
