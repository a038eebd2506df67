#pragma once
/* Memory for secrets: locked, so that it is never swapped; left out of core dumps; not inherited by
 * a child; wiped before it is given back. One block holds all values of one state of the vault. */

#include <stdbool.h>
#include <stddef.h>

#include "base/str.h"

struct secret_block;

/* Room for n bytes, zeroed. */
struct secret_block *secret_block_new(size_t n);
void secret_block_free(struct secret_block *b); /* NULL is fine */
/* Copies s to the end of the block and a NUL behind it; room for both must be left. */
struct str secret_block_add(struct secret_block *b, struct str s);
/* False when the kernel did not let us lock it (RLIMIT_MEMLOCK). */
bool secret_block_is_locked(const struct secret_block *b);

/* Wipes bytes that somebody else owns: a request body, a string in an arena. */
void secret_wipe(struct str s);

/* For the whole process, once at its start: no core dumps, no attaching, no reading of our memory
 * through /proc by others of the same user; all of it locked where the limits allow that. */
void secret_harden_process(void);
