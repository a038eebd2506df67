#pragma once
/* EXECD_CLONE3_COMPAT: makes clone3(2) fail with ENOSYS for execd and everything it starts, so that
 * programs fall back to clone(2) where a sandbox's kernel or policy handles clone3 badly. */

#include "base/err.h"

/* Sets no_new_privs and installs the filter. */
int clone3_refuse(struct err *e);
