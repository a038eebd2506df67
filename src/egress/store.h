#pragma once
/* The policy that is in force and how it changes: one place where the user's rules, the operator's
 * overlays, the parts that have a say, the packet rules and the file on disk come together. A
 * change is checked, applied, written, and only then in force; when any step fails nothing changed.
 */

#include "base/err.h"
#include "egress/policy.h"

struct egress;
struct policy_store;

/* Loads file, environment and overlays. The packet rules are applied by policy_store_start(). */
struct policy_store *policy_store_new(struct egress *g, struct err *e);
int policy_store_start(struct policy_store *s, struct err *e);
void policy_store_free(struct policy_store *s);

const struct policy *policy_store_user(const struct policy_store *s);
const struct policy *policy_store_effective(const struct policy_store *s);
/* Names whose lookups are not logged when they succeed. */
const struct policy *policy_store_quiet(const struct policy_store *s);
/* ERR_INVALID: a part refused it; else ERR_IO: it could not be applied or written. */
int policy_store_commit(struct policy_store *s, struct policy *take_user, struct err *e);
