#pragma once
/* OpenTelemetry metrics over OTLP/HTTP in its JSON encoding. Off unless an endpoint is configured;
 * then one POST a minute. What fails is dropped and tried again with the next one: nothing waits
 * for it. On the loop. */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "http/server.h"

struct execd;
struct telemetry;

/* From the environment (OTEL_EXPORTER_OTLP_*, HOST_IP, /etc/hostinfo). NULL: off. */
struct telemetry *telemetry_new(struct execd *x);
void telemetry_free(struct telemetry *t);

/* All of these do nothing when `t` is NULL. */
/* A request has been answered: its duration, and for the file routes that of the operation. */
void telemetry_request(struct telemetry *t, const struct http_req *req, int status, uint64_t us);
enum telemetry_operation {
    TELEMETRY_RUN_CODE,
    TELEMETRY_RUN_IN_SESSION,
    TELEMETRY_RUN_COMMAND,
    TELEMETRY_OPERATION__COUNT
};
void telemetry_execution(struct telemetry *t, enum telemetry_operation op, bool success,
                         uint64_t ms);
/* Sends what there is now, for the end of the program. */
void telemetry_flush(struct telemetry *t);
