/* Tar headers. */

#include "server/image/ustar.h"

#include <stdio.h>
#include <string.h>

#include "base/must.h"

#define OCTAL_SIZE_MAX (8ull << 30) /* what eleven octal digits cannot say */

/* Larger sizes in base 256, as GNU, Go and libarchive read them. */
static void put_size(char *field, uint64_t size)
{
    if (size < OCTAL_SIZE_MAX) {
        (void)snprintf(field, 12, "%011llo", (unsigned long long)size);
        return;
    }
    field[0] = (char)0x80;
    for (int i = 11; i > 3; i--, size >>= 8) {
        field[i] = (char)(size & 0xff);
    }
}

void ustar_header(char out[USTAR_BLOCK], const char *name, char type, mode_t mode, uint64_t size)
{
    unsigned sum = 0;
    memset(out, 0, USTAR_BLOCK);
    must(strlen(name) <= USTAR_NAME_MAX);
    (void)snprintf(out, USTAR_NAME_MAX + 1, "%s", name);
    (void)snprintf(out + 100, 8, "%07o", (unsigned)mode);
    (void)snprintf(out + 108, 8, "%07o", 0u);
    (void)snprintf(out + 116, 8, "%07o", 0u);
    put_size(out + 124, size);
    (void)snprintf(out + 136, 12, "%011o", 0u);
    memset(out + 148, ' ', 8);
    out[156] = type;
    memcpy(out + 257, "ustar\00000", 8);
    for (size_t i = 0; i < USTAR_BLOCK; i++) {
        sum += (unsigned char)out[i];
    }
    (void)snprintf(out + 148, 8, "%06o", sum);
}
