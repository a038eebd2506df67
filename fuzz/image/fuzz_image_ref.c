/* A name that parses can be printed, and reads back as itself. */

#include <stdint.h>
#include <stdlib.h>

#include "base/must.h"
#include "server/image/ref.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct image_ref a, b;
    char one[1024], two[1024];
    if (image_ref_parse(str_n((const char *)data, size), &a, NULL) < 0) {
        return 0;
    }
    must(image_ref_format(&a, one, sizeof(one)) == 0);
    must(image_ref_parse(str_from(one), &b, NULL) == 0);
    must(image_ref_format(&b, two, sizeof(two)) == 0);
    must(strcmp(one, two) == 0);
    return 0;
}
