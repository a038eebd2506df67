#pragma once
/* Memory that outlives a crash of the sidecar, and nothing else.
 *
 * Whoever restarts the sidecar (its supervisor) makes an anonymous file in memory, keeps the
 * descriptor open, never maps or reads it, and lets every incarnation of the sidecar inherit it
 * under the number that OPENSANDBOX_EGRESS_VAULT_FD names. Where the kernel has memfd_secret(2) the
 * pages are not even in the kernel's own map; otherwise they are a memfd, locked by the sidecar as
 * long as it lives. Nothing ever gets a name in a file system, and with the supervisor everything
 * is gone.
 *
 * Two slots are written in turn and switched by one word, so that a kill at any instruction leaves
 * the old content or the new one; the slot that is not in use is wiped. */

#include "base/err.h"
#include "base/str.h"

#define VAULT_KEEP_ENV "OPENSANDBOX_EGRESS_VAULT_FD"

struct vault_keep;

/* For the supervisor: a new descriptor (close-on-exec), or -errno. */
int vault_keep_create(void);
/* For the sidecar: the descriptor stays the caller's. NULL: it is not one of ours. */
struct vault_keep *vault_keep_open(int fd, struct err *e);
void vault_keep_close(struct vault_keep *k);              /* NULL is fine */
int vault_keep_write(struct vault_keep *k, struct str s); /* -EFBIG; "" forgets everything */
struct str vault_keep_read(const struct vault_keep *k);   /* borrowed; STR_NULL: empty or torn */
