#pragma once
/* Metrics as OTLP/HTTP wants them in its JSON encoding: a document of one resource and one scope,
 * metrics in it, points in these. Whoever counts writes begin, points, end, in this order. Pure. */

#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "json/json.h"

#define OTLP_MAX_PAIRS 32 /* limit: extra attributes; extra request headers */

struct otlp_pair {
    struct str key, value;
};

/* What every point carries besides its own attributes, and the times of this export. */
struct otlp_common {
    const struct otlp_pair *attrs;
    size_t n_attrs;
    uint64_t start_ns, now_ns;
};

enum otlp_kind { OTLP_GAUGE, OTLP_COUNTER, OTLP_HISTOGRAM };

/* "k=v,k2=v2", blanks trimmed, pairs without '=' or key left out. The strings stay in `text`. */
size_t otlp_pairs(struct str text, struct otlp_pair ret[OTLP_MAX_PAIRS]);

void otlp_document_begin(struct json_out *o, const char *scope, const struct otlp_pair *resource,
                         size_t n_resource);
void otlp_document_end(struct json_out *o);
/* `unit` may be NULL. */
void otlp_metric_begin(struct json_out *o, const char *name, const char *unit, enum otlp_kind kind);
void otlp_metric_end(struct json_out *o);
/* A point; `own` are attributes of its own. */
void otlp_put_int(struct json_out *o, const struct otlp_common *c, const struct otlp_pair *own,
                  size_t n_own, uint64_t v);
void otlp_put_double(struct json_out *o, const struct otlp_common *c, double v);

/* Bounds of OpenTelemetry's default view. Durations are counted in milliseconds; the unit is the
 * one in which they are told. */
#define OTLP_BOUNDS 15
struct otlp_view {
    const unsigned *bounds_ms;
    size_t n;
    unsigned ms_per_unit;
};
extern const struct otlp_view otlp_view_ms;
extern const struct otlp_view otlp_view_s; /* nothing lasts 0 s: without that bound */

struct otlp_buckets {
    uint64_t count, n[OTLP_BOUNDS + 1];
    double sum_ms;
};

void otlp_buckets_add(struct otlp_buckets *b, const struct otlp_view *view, double ms);
void otlp_put_buckets(struct json_out *o, const struct otlp_common *c, const struct otlp_pair *own,
                      size_t n_own, const struct otlp_buckets *b, const struct otlp_view *view);
