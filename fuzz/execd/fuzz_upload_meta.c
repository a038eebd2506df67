/* The metadata part of an upload. */
#include <stdint.h>
#include <stdlib.h>

#include "execd/upload_parts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a = {0};
    struct file_upload meta = {0};
    struct upload_error e = {0};
    int r = upload_meta_parse(&a, str_n((const char *)data, size), &meta, &e);
    if ((r == 0) != (e.status == 0) || (r == 0 && (!meta.path || !*meta.path))) {
        abort();
    }
    arena_done(&a);
    return 0;
}
