#pragma once
/* Where metrics go, out of the environment. Pure but for reading it. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "otlp/document.h"

struct telemetry_config {
    const char *host; /* name or address, without brackets */
    uint16_t port;
    const char *target;    /* path and query to POST to */
    const char *authority; /* for the Host header */
    uint64_t period_ms;
    const char *sandbox_id;                                          /* or NULL */
    struct otlp_pair attrs[OTLP_MAX_PAIRS], headers[OTLP_MAX_PAIRS]; /* of points; of requests */
    size_t n_attrs, n_headers;
};

/* Looks up a variable; NULL when it is not set. */
typedef const char *telemetry_env_fn(const char *name, void *arg);

/* 1: on. 0: not configured. -1 with `e`: configured, but not in a way that works. `hostinfo` is the
 * content of /etc/hostinfo. */
int telemetry_config_read(struct arena *a, telemetry_env_fn *env, void *arg, struct str hostinfo,
                          struct telemetry_config *ret, struct err *e);
/* http://host[:port][/path]: /v1/metrics is added to it. -1 with `e`. */
int telemetry_endpoint(struct arena *a, struct str url, struct telemetry_config *ret,
                       struct err *e);
