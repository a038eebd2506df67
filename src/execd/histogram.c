#include "execd/histogram.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/must.h"
#include "execd/limits.h"

const unsigned histogram_bounds[HISTOGRAM_BOUNDS] = {0,   5,   10,   25,   50,   75,   100,  250,
                                                     500, 750, 1000, 2500, 5000, 7500, 10000};

struct histogram_series {
    uint64_t count, buckets[HISTOGRAM_BOUNDS + 1];
    double sum;
};

#define KEY_MAX 512

void histogram_add(struct histogram *h, const struct str values[3], double ms)
{
    struct buf key = BUF_INIT(KEY_MAX);
    for (size_t i = 0; i < ARRAY_LEN(h->keys) && h->keys[i]; i++) {
        (void)buf_add_str(&key, values[i]);
        (void)buf_add_char(&key, '\0');
    }
    struct histogram_series *s = map_get(&h->series, buf_str(&key));
    if (!s && !buf_failed(&key) && map_len(&h->series) < TELEMETRY_MAX_SERIES) {
        s = NEW(struct histogram_series);
        (void)map_put(&h->series, buf_str(&key), s);
    }
    buf_done(&key);
    if (!s) {
        return;
    }
    size_t i = 0;
    while (i < HISTOGRAM_BOUNDS && ms > histogram_bounds[i]) {
        i++;
    }
    s->buckets[i]++;
    s->count++;
    s->sum += ms;
}

void histogram_done(struct histogram *h)
{
    size_t it = 0;
    struct str key;
    void *value;
    while (map_next(&h->series, &it, &key, &value)) {
        free(value);
    }
    map_done(&h->series);
}

void otlp_put_attr(struct json_out *o, struct str key, struct str value)
{
    json_obj_begin(o);
    json_key(o, "key");
    json_put_str(o, key);
    json_key(o, "value");
    json_obj_begin(o);
    json_key(o, "stringValue");
    json_put_str(o, value);
    json_obj_end(o);
    json_obj_end(o);
}

static void put_u64(struct json_out *o, uint64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRIu64, v);
    json_put_cstr(o, text);
}

void otlp_put_u64(struct json_out *o, const char *key, uint64_t v)
{
    json_key(o, key);
    put_u64(o, v);
}

static void point_head(struct json_out *o, const struct otlp_common *c)
{
    json_obj_begin(o);
    otlp_put_u64(o, "startTimeUnixNano", c->start_ns);
    otlp_put_u64(o, "timeUnixNano", c->now_ns);
    json_key(o, "attributes");
    json_arr_begin(o);
    for (size_t i = 0; i < c->n_attrs; i++) {
        otlp_put_attr(o, c->attrs[i].key, c->attrs[i].value);
    }
}

void otlp_point_begin(struct json_out *o, const struct otlp_common *c, const char *key,
                      const char *value)
{
    point_head(o, c);
    if (key) {
        otlp_put_attr(o, str_from(key), str_from(value));
    }
    json_arr_end(o);
}

static void encode_series(const struct histogram *h, struct str values,
                          const struct histogram_series *s, const struct otlp_common *c,
                          struct json_out *o)
{
    point_head(o, c);
    for (size_t i = 0; i < ARRAY_LEN(h->keys) && h->keys[i]; i++) {
        otlp_put_attr(o, str_from(h->keys[i]), str_cut(&values, '\0'));
    }
    json_arr_end(o);
    otlp_put_u64(o, "count", s->count);
    json_key(o, "sum");
    json_put_num(o, s->sum);
    json_key(o, "bucketCounts");
    json_arr_begin(o);
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        put_u64(o, s->buckets[i]);
    }
    json_arr_end(o);
    json_key(o, "explicitBounds");
    json_arr_begin(o);
    for (size_t i = 0; i < HISTOGRAM_BOUNDS; i++) {
        json_put_int(o, histogram_bounds[i]);
    }
    json_arr_end(o);
    json_obj_end(o);
}

void histogram_encode(const struct histogram *h, const struct otlp_common *c, struct json_out *o)
{
    if (map_len(&h->series) == 0) {
        return;
    }
    json_obj_begin(o);
    json_key(o, "name");
    json_put_cstr(o, h->name);
    json_key(o, "unit");
    json_put_cstr(o, "ms");
    json_key(o, "histogram");
    json_obj_begin(o);
    json_key(o, "aggregationTemporality");
    json_put_int(o, 2); /* cumulative */
    json_key(o, "dataPoints");
    json_arr_begin(o);
    size_t it = 0;
    struct str key;
    void *value;
    while (map_next(&h->series, &it, &key, &value)) {
        encode_series(h, key, value, c, o);
    }
    json_arr_end(o);
    json_obj_end(o);
    json_obj_end(o);
}
