/* Event streams: the same events whatever the split (the first byte picks it), within the limit. */

#include <errno.h>
#include <stdint.h>

#include "base/must.h"
#include "http/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_EVENT 200

static void add(uint64_t *h, struct str s)
{
    must(s.n <= MAX_EVENT);
    for (size_t i = 0; i < s.n; i++) {
        *h = (*h ^ (uint8_t)s.p[i]) * 1099511628211u;
    }
    *h = (*h ^ 0x100) * 1099511628211u;
}

static void on_event(const struct sse_event *ev, void *arg)
{
    add(arg, ev->event);
    add(arg, ev->id);
    add(arg, ev->data);
}

static uint64_t parse(struct str in, size_t step)
{
    uint64_t hash = 14695981039346656037u;
    int r = 0;
    struct sse_parser *p = sse_parser_new(MAX_EVENT, on_event, &hash);
    for (size_t at = 0; at < in.n && r == 0; at += step) {
        r = sse_parser_feed(p, str_sub(in, at, at + step));
    }
    if (r == 0) {
        r = sse_parser_end(p);
    }
    must(r == 0 || r == -EMSGSIZE);
    sse_parser_free(p);
    return hash ^ (uint64_t)(int64_t)r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    struct str in = str_n((const char *)data + 1, size - 1);
    must(parse(in, in.n ? in.n : 1) == parse(in, 1 + data[0] % 16));
    return 0;
}
