#pragma once
/* What was refused: counted, logged, kept for GET /events, and names are sent to the webhook. */

#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"
#include "io/loop.h"

struct events;

struct events *events_new(struct io_loop *l, const char *sandbox_id);
void events_free(struct events *v);
/* Called for each name that is refused. */
void events_on_name(struct events *v, void (*fn)(struct str name, void *arg), void *arg);
/* `kind` is a constant word. What repeats is counted, and logged once a second with its count. */
void events_refused(struct events *v, const char *kind, struct str target, struct str detail);
/* So many packets more than were passed on one by one. */
void events_untold(struct events *v, uint64_t n_packets);
uint64_t events_count(const struct events *v);
uint64_t events_names(const struct events *v); /* lookups that were refused */
/* {"total": n, "packets": of them, "events": [newest first]} */
void events_format(const struct events *v, struct buf *out);
