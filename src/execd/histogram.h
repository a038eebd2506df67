#pragma once
/* Durations counted by their attributes, and OTLP's JSON for them. Pure. */

#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/str.h"
#include "otlp/document.h"

/* One instrument: all its series. Zero with a name and a list of attribute keys is the start. */
struct histogram {
    const char *name;
    const char *keys[3]; /* NULL: fewer */
    struct map series;   /* values joined by NUL -> struct histogram_series */
};

/* Attribute values in the order of the keys. Beyond TELEMETRY_MAX_SERIES new combinations are not
 * counted. */
void histogram_add(struct histogram *h, const struct str values[3], double ms);
void histogram_done(struct histogram *h);
/* A metric object; nothing when there are no series. */
void histogram_encode(const struct histogram *h, const struct otlp_common *c, struct json_out *o);
