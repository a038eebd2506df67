#pragma once
/* What the kernel still has of a sidecar that died: the addresses that were learned, with their
 * names and the time they have left, and which policy judged the connections that are open. The
 * rules outlive us anyway, so nothing else has to be written anywhere. Reads the text of
 * nftables' listings; no I/O. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "egress/learned.h"

#define RESTORE_DIGEST_LEN 32   /* hexadecimal digits */
#define RESTORE_NAMES_MAX 120u  /* limit: bytes of names that an address carries in the kernel */
#define RESTORE_POLICY "policy" /* begins the comment with the digest */

/* ` comment "name name"` for an element, nothing when no name is plain enough to be put there. */
void restore_comment(struct buf *out, const struct learned_addr *a);
/* A listing of a set of learned addresses; those without a time are over. Returns how many pairs.
 */
size_t restore_addresses(struct learned *l, struct str listing, uint64_t now_ms);
/* A listing of the chain that lets through: the mark it sets, and the policy's digest. */
bool restore_generation(struct str listing, uint32_t *ret_mark,
                        char ret_digest[RESTORE_DIGEST_LEN + 1]);
