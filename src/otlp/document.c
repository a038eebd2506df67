#include "otlp/document.h"

#include <inttypes.h>
#include <stdio.h>

static const unsigned bounds_ms[OTLP_BOUNDS] = {0,   5,   10,   25,   50,   75,   100,  250,
                                                500, 750, 1000, 2500, 5000, 7500, 10000};
const struct otlp_view otlp_view_ms = {bounds_ms, OTLP_BOUNDS, 1};
const struct otlp_view otlp_view_s = {bounds_ms + 1, OTLP_BOUNDS - 1, 1000};

size_t otlp_pairs(struct str text, struct otlp_pair ret[OTLP_MAX_PAIRS])
{
    size_t n = 0;
    while (text.p && n < OTLP_MAX_PAIRS) {
        struct str value = str_cut(&text, ','), key = str_trim(str_cut(&value, '='));
        if (value.p && key.n > 0) {
            ret[n++] = (struct otlp_pair){key, str_trim(value)};
        }
    }
    return n;
}

static void put_attrs(struct json_out *o, const struct otlp_pair *attrs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        json_obj_begin(o);
        json_key(o, "key");
        json_put_str(o, attrs[i].key);
        json_key(o, "value");
        json_obj_begin(o);
        json_key(o, "stringValue");
        json_put_str(o, attrs[i].value);
        json_obj_end(o);
        json_obj_end(o);
    }
}

/* OTLP writes 64-bit integers as strings. */
static void put_u64(struct json_out *o, const char *key, uint64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, v);
    if (key) {
        json_key(o, key);
    }
    json_put_cstr(o, text);
}

static void list_begin(struct json_out *o, const char *key)
{
    json_key(o, key);
    json_arr_begin(o);
}

void otlp_document_begin(struct json_out *o, const char *scope, const struct otlp_pair *resource,
                         size_t n_resource)
{
    json_obj_begin(o);
    list_begin(o, "resourceMetrics");
    json_obj_begin(o);
    json_key(o, "resource");
    json_obj_begin(o);
    list_begin(o, "attributes");
    put_attrs(o, resource, n_resource);
    json_arr_end(o);
    json_obj_end(o);
    list_begin(o, "scopeMetrics");
    json_obj_begin(o);
    json_key(o, "scope");
    json_obj_begin(o);
    json_key(o, "name");
    json_put_cstr(o, scope);
    json_obj_end(o);
    list_begin(o, "metrics");
}

void otlp_document_end(struct json_out *o)
{
    for (int i = 0; i < 3; i++) { /* metrics, scopeMetrics, resourceMetrics */
        json_arr_end(o);
        json_obj_end(o);
    }
}

void otlp_metric_begin(struct json_out *o, const char *name, const char *unit, enum otlp_kind kind)
{
    static const char *const names[] = {"gauge", "sum", "histogram"};
    json_obj_begin(o);
    json_key(o, "name");
    json_put_cstr(o, name);
    if (unit) {
        json_key(o, "unit");
        json_put_cstr(o, unit);
    }
    json_key(o, names[kind]);
    json_obj_begin(o);
    if (kind != OTLP_GAUGE) {
        json_key(o, "aggregationTemporality");
        json_put_int(o, 2); /* cumulative */
    }
    if (kind == OTLP_COUNTER) {
        json_key(o, "isMonotonic");
        json_put_bool(o, true);
    }
    list_begin(o, "dataPoints");
}

void otlp_metric_end(struct json_out *o)
{
    json_arr_end(o);
    json_obj_end(o);
    json_obj_end(o);
}

static void point_begin(struct json_out *o, const struct otlp_common *c,
                        const struct otlp_pair *own, size_t n_own)
{
    json_obj_begin(o);
    put_u64(o, "startTimeUnixNano", c->start_ns);
    put_u64(o, "timeUnixNano", c->now_ns);
    list_begin(o, "attributes");
    put_attrs(o, c->attrs, c->n_attrs);
    put_attrs(o, own, n_own);
    json_arr_end(o);
}

void otlp_put_int(struct json_out *o, const struct otlp_common *c, const struct otlp_pair *own,
                  size_t n_own, uint64_t v)
{
    point_begin(o, c, own, n_own);
    put_u64(o, "asInt", v);
    json_obj_end(o);
}

void otlp_put_double(struct json_out *o, const struct otlp_common *c, double v)
{
    point_begin(o, c, NULL, 0);
    json_key(o, "asDouble");
    json_put_num(o, v);
    json_obj_end(o);
}

void otlp_buckets_add(struct otlp_buckets *b, const struct otlp_view *view, double ms)
{
    size_t i = 0;
    while (i < view->n && ms > view->bounds_ms[i]) {
        i++;
    }
    b->n[i]++;
    b->count++;
    b->sum_ms += ms;
}

void otlp_put_buckets(struct json_out *o, const struct otlp_common *c, const struct otlp_pair *own,
                      size_t n_own, const struct otlp_buckets *b, const struct otlp_view *view)
{
    point_begin(o, c, own, n_own);
    put_u64(o, "count", b->count);
    json_key(o, "sum");
    json_put_num(o, b->sum_ms / view->ms_per_unit);
    list_begin(o, "bucketCounts");
    for (size_t i = 0; i <= view->n; i++) {
        put_u64(o, NULL, b->n[i]);
    }
    json_arr_end(o);
    list_begin(o, "explicitBounds");
    for (size_t i = 0; i < view->n; i++) {
        json_put_num(o, (double)view->bounds_ms[i] / view->ms_per_unit);
    }
    json_arr_end(o);
    json_obj_end(o);
}
