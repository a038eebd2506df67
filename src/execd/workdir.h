#pragma once
/* The working directory a request names: expanded against the environment the process will have,
 * and checked before anything is started. */

#include <stdbool.h>

#include "base/err.h"
#include "execd/env.h"

/* NULL for an absent or empty `cwd` with *ret_ok true. Otherwise the expanded path (which exists
 * and is a directory), or NULL with ERR_INVALID and *ret_ok false. */
const char *workdir_check(const struct env *env, const char *cwd, bool *ret_ok, struct err *e);
/* The same, but what does not exist is made (mkdir -p). */
const char *workdir_make(const struct env *env, const char *cwd, bool *ret_ok, struct err *e);
