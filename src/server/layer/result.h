#pragma once
/* What opensandbox-layer says at its end, in one line on its standard output:
 *
 *   ok BYTES ENTRIES SKIPPED DIGEST
 *   error CODE ERRNO MESSAGE
 *
 * The reader trusts nothing of it: whoever wrote the archive may have taken over the writer. */

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "server/image/ref.h"

#define LAYER_RESULT_MAX (ERR_MSG_MAX + 128u) /* limit: bytes of the line */

struct layer_result {
    uint64_t bytes; /* of the files unpacked, or of the archive written */
    uint64_t entries, devices_skipped;
    char digest[IMAGE_DIGEST_MAX]; /* of the uncompressed archive: the diff id */
};

/* `e` NULL: it succeeded. */
void layer_result_format(struct buf *out, const struct layer_result *r, const struct err *e);
/* -1 with the error of the other side, or with one that says that the line makes no sense. */
int layer_result_parse(struct str line, struct layer_result *ret, struct err *e);
