#include "execd/histogram.h"

#include <stdlib.h>

#include "base/must.h"
#include "execd/limits.h"

#define KEY_MAX 512

void histogram_add(struct histogram *h, const struct str values[3], double ms)
{
    struct buf key = BUF_INIT(KEY_MAX);
    for (size_t i = 0; i < ARRAY_LEN(h->keys) && h->keys[i]; i++) {
        (void)buf_add_str(&key, values[i]);
        (void)buf_add_char(&key, '\0');
    }
    struct otlp_buckets *s = map_get(&h->series, buf_str(&key));
    if (!s && !buf_failed(&key) && map_len(&h->series) < TELEMETRY_MAX_SERIES) {
        s = NEW(struct otlp_buckets);
        (void)map_put(&h->series, buf_str(&key), s);
    }
    buf_done(&key);
    if (s) {
        otlp_buckets_add(s, &otlp_view_ms, ms);
    }
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

static void encode_series(const struct histogram *h, struct str values,
                          const struct otlp_buckets *s, const struct otlp_common *c,
                          struct json_out *o)
{
    struct otlp_pair own[ARRAY_LEN(h->keys)];
    size_t n = 0;
    for (; n < ARRAY_LEN(h->keys) && h->keys[n]; n++) {
        own[n] = (struct otlp_pair){str_from(h->keys[n]), str_cut(&values, '\0')};
    }
    otlp_put_buckets(o, c, own, n, s, &otlp_view_ms);
}

void histogram_encode(const struct histogram *h, const struct otlp_common *c, struct json_out *o)
{
    if (map_len(&h->series) == 0) {
        return;
    }
    otlp_metric_begin(o, h->name, "ms", OTLP_HISTOGRAM);
    size_t it = 0;
    struct str key;
    void *value;
    while (map_next(&h->series, &it, &key, &value)) {
        encode_series(h, key, value, c, o);
    }
    otlp_metric_end(o);
}
