#pragma once
/* multipart/form-data (RFC 7578), incremental and streaming: part headers are collected up to
 * HTTP_MULTIPART_MAX_HEAD, part bodies are passed on as they arrive. No I/O. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

struct multipart;

struct multipart_part {
    struct str name, filename, content_type; /* filename.p NULL: none. Valid during on_part only */
};

struct multipart_ops {
    int (*on_part)(const struct multipart_part *part, void *arg); /* negative errno stops */
    int (*on_data)(struct str data, void *arg);
    int (*on_part_end)(void *arg);
};

/* The boundary out of a Content-Type value: 1..70 characters, else -EINVAL. */
int multipart_boundary(struct str content_type, struct str *ret);
struct multipart *multipart_new(struct str boundary, const struct multipart_ops *ops, void *arg);
void multipart_free(struct multipart *m);
/* 0, -EPROTO for malformed input, or what a callback returned. */
int multipart_feed(struct multipart *m, struct str data);
/* True once the closing boundary has been seen. */
bool multipart_done(const struct multipart *m);
