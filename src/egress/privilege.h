#pragma once
/* What the sidecar gives up before it looks at anything that comes from outside. */

#include "base/err.h"
#include "egress/config.h"

/* Another user, of all capabilities only those that netfilter and locked memory need, no way to
 * more, no core dumps. With uid 0 in the configuration the user stays. */
int privilege_drop(const struct egress_config *c, struct err *e);
