#pragma once
/* Headers of tar archives that we make ourselves: short names, no owners, no times. */

#include <stdint.h>
#include <sys/types.h>

#define USTAR_BLOCK 512u   /* everything in a tar archive is a multiple of it */
#define USTAR_NAME_MAX 99u /* limit: characters of a name in an archive of ours */

/* `type` is '0' for a file, '5' for a directory. The name is shorter than USTAR_NAME_MAX. */
void ustar_header(char out[USTAR_BLOCK], const char *name, char type, mode_t mode, uint64_t size);
/* Bytes from the end of a content to the next header. */
static inline size_t ustar_padding(uint64_t size)
{
    return (size_t)((USTAR_BLOCK - size % USTAR_BLOCK) % USTAR_BLOCK);
}
