#pragma once
/* Metrics over OTLP/HTTP (JSON), pushed now and then when an endpoint is configured: by
 * OTEL_EXPORTER_OTLP_METRICS_ENDPOINT, OTEL_EXPORTER_OTLP_ENDPOINT, or a collector on port 4318 of
 * HOST_IP or of the address in /etc/hostinfo. A failure is said once and tried again next time. */

#include <stdint.h>

#include "base/err.h"

struct egress;
struct metrics;

/* NULL: no endpoint, or (with e set) one that cannot be used. */
struct metrics *metrics_new(struct egress *g, struct err *e);
void metrics_free(struct metrics *m);
/* A lookup that policy allowed has ended, well or not. m may be NULL. */
void metrics_lookup(struct metrics *m, uint64_t ms);
