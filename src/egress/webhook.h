#pragma once
/* Names that were refused, posted to a URL, one after the other. The host of the URL is looked up
 * by ourselves, whatever the policy says, so that a delivery is never an event of its own. */

#include "base/err.h"
#include "base/str.h"
#include "egress/resolver.h"
#include "io/loop.h"

struct webhook;

/* `url` is http or https; -1: it is neither, or has no host. All strings are borrowed. */
struct webhook *webhook_new(struct io_loop *l, struct resolver *r, const char *url,
                            const char *sandbox_id, struct err *e);
void webhook_free(struct webhook *w);
/* Queued; dropped with a warning when EGRESS_MAX_WEBHOOKS wait already. */
void webhook_send(struct webhook *w, struct str hostname);
