#pragma once
/* config.json: what the engine is told about one sandbox, in the format of the OCI runtime
 * specification. Control groups, the network namespace and everything mounted from the host are in
 * place before the engine starts (stage.h); the rest is said here. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "json/field.h"

struct bundle_tmpfs {
    const char *target;
    uint64_t size;
};

struct bundle {
    const char *rootfs; /* absolute */
    bool read_only;
    const char *hostname;
    const char *const *args; /* NULL-terminated */
    const char *const *env;  /* NULL-terminated, "NAME=value" */
    const char *cwd;
    uint32_t id_first, id_count; /* id_count 0: no user namespace */
    bool cgroup_ns;              /* make one; false: the process is in its own already */
    const char *cgroup_path;     /* for engines that insist on making groups, or NULL */
    const struct bundle_tmpfs *tmpfs;
    size_t n_tmpfs;
    uint64_t shm_bytes;
    const char *seccomp;                 /* [oci].seccomp */
    const char *seccomp_program;         /* compiled, for an engine that takes it; or NULL */
    const struct str_list *capabilities; /* empty: the built-in set */
    bool no_new_privileges;
};

int bundle_write(const struct bundle *b, struct buf *out, struct err *e);
/* Is it a capability name ("CAP_CHOWN", "chown")? */
bool bundle_capability_known(const char *name);
