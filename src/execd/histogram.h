#pragma once
/* Durations counted by their attributes, and OTLP's JSON for them. Pure. */

#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "execd/telemetry_config.h"
#include "json/json.h"

/* One instrument: all its series. Zero with a name and a list of attribute keys is the start. */
struct histogram {
    const char *name;
    const char *keys[3]; /* NULL: fewer */
    struct map series;   /* values joined by NUL -> struct histogram_series */
};

/* Bounds of OpenTelemetry's default view, in milliseconds. */
#define HISTOGRAM_BOUNDS 15
extern const unsigned histogram_bounds[HISTOGRAM_BOUNDS];

/* What every point carries besides its own attributes, and the times of this export. */
struct otlp_common {
    const struct telemetry_pair *attrs;
    size_t n_attrs;
    uint64_t start_ns, now_ns;
};

/* Attribute values in the order of the keys. Beyond TELEMETRY_MAX_SERIES new combinations are not
 * counted. */
void histogram_add(struct histogram *h, const struct str values[3], double ms);
void histogram_done(struct histogram *h);
/* A metric object; nothing when there are no series. */
void histogram_encode(const struct histogram *h, const struct otlp_common *c, struct json_out *o);

/* {"key":...,"value":{"stringValue":...}} */
void otlp_put_attr(struct json_out *o, struct str key, struct str value);
/* "timeUnixNano" and the like: OTLP writes 64-bit integers as strings. */
void otlp_put_u64(struct json_out *o, const char *key, uint64_t v);
/* Opens a data point with its times and attributes (one of its own when key is not NULL); the
 * caller adds the value and json_obj_end(). */
void otlp_point_begin(struct json_out *o, const struct otlp_common *c, const char *key,
                      const char *value);
