#pragma once
/* The stack of a child that shares our memory (clone(2) with CLONE_VM) and never returns from its
 * first function. */

#include <stddef.h>

/* Its lowest address, or NULL and errno. */
char *childstack_make(size_t size);
/* Once the child is gone or another program. */
void childstack_free(char *stack, size_t size);
