#pragma once
/* The vault as a part of the sidecar: its routes, its memory over crashes, its word in policy
 * changes. */

#include "egress/egress.h"
#include "egress/vault/vault.h"

extern struct egress_part vault_part;

/* The state of now, borrowed; NULL: there is no vault. */
struct vault_state *vault_current(void);
/* A secret of the interceptor (its CA) that is to survive a crash together with the vault: what was
 * kept by the incarnation before (STR_NULL: nothing), and what shall be. */
struct str vault_kept_extra(void);
void vault_keep_extra(struct str s);
