/* Stacks of children that share our memory. */

#include "server/runtime/oci/childstack.h"

#include <sys/mman.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_UNPOISON_MEMORY_REGION(addr, size) ((void)0)
#endif

char *childstack_make(size_t size)
{
    char *p =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void childstack_free(char *stack, size_t size)
{
    /* The child left its frames without returning, so AddressSanitizer still guards them, and would
     * accuse whoever is given these addresses next. */
    ASAN_UNPOISON_MEMORY_REGION(stack, size);
    (void)munmap(stack, size);
}
