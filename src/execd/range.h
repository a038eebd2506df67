#pragma once
/* Pure parts of a download: which bytes are asked for, and the file name in a header. */

#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum range_kind {
    RANGE_ALL,    /* send everything with 200 */
    RANGE_PART,   /* 206 */
    RANGE_BAD,    /* malformed: 416 with a JSON body */
    RANGE_BEYOND, /* nothing of it is in the file: 416 */
};

struct range {
    enum range_kind kind;
    uint64_t start, len; /* for RANGE_PART */
};

/* A Range header against a file of `size` bytes. Of several ranges the first that overlaps the file
 * counts. An empty file has no parts: everything is sent. */
struct range range_parse(struct str header, uint64_t size);

/* attachment; filename="..." with quotes escaped; names that are not plain ASCII are
 * percent-encoded and repeated as filename*=UTF-8''... */
void content_disposition(struct buf *out, struct str name);
