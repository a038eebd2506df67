#pragma once
/* Which system calls a sandbox may make: a list of what ordinary programs need. Whatever is not on
 * it does not exist for the sandbox (ENOSYS, so that libraries use their fallbacks); what reaches
 * for the host is refused by name (EPERM, as programs expect it). */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "json/json.h"

/* Writes the value of linux.seccomp; `setting` is [oci].seccomp: "default" or a profile's path in
 * the format of the OCI runtime specification. Not called for "unconfined". */
int seccomp_write(struct json_out *o, const char *setting, struct err *e);
/* The default filter as the program the kernel runs, in base64: crun takes it as it is, which saves
 * it 3 ms of compiling at each start. */
int seccomp_compile(struct buf *out, struct err *e);
/* For tests: is the call allowed, at least with some arguments? */
bool seccomp_allows(const char *name);
