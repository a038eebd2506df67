#pragma once
/* Renew intents from a Redis list: whoever proxies traffic elsewhere (the ingress) puts
 * {"sandbox_id", "observed_at"} there, and the sandbox is renewed as if this server had seen it. */

#include "base/err.h"
#include "server/config/config.h"
#include "server/lifecycle/lifecycle.h"

struct renew_source;

/* Threads that wait on the list. A Redis that cannot be reached is logged and tried again. NULL
 * with an error only for a DSN that makes no sense. */
struct renew_source *renew_source_start(struct lifecycle *lc, const struct config *cfg,
                                        struct err *e);
void renew_source_stop(struct renew_source *s); /* joins; NULL is fine */

/* One payload: 0 with the id, -EINVAL when it is malformed, -ETIME when it is too old. */
int renew_intent_parse(struct str payload, int64_t now_us, char id[SANDBOX_ID_MAX]);
