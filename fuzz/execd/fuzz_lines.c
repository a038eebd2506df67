/* Output of a process, cut into reads by its own bytes. However it is cut, the events are the same,
 * each is one line of valid JSON, and no event is empty. */
#include <stdint.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "execd/limits.h"
#include "execd/lines.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void split(struct str in, size_t step, bool lf_only, struct buf *out)
{
    struct lines l;
    lines_init(&l, STR("stdout"), lf_only);
    for (size_t at = 0; at < in.n; at += step) {
        struct str piece = str_sub(in, at, at + step);
        while (piece.n) {
            cleanup_(buf_done) struct buf batch = BUF_INIT(8 << 20);
            lines_feed(&l, &piece, &batch, 1);
            (void)buf_add_str(out, buf_str(&batch));
        }
    }
    lines_end(&l, out, 1);
    lines_done(&l);
}

static void check(struct str events)
{
    while (events.n) {
        ptrdiff_t end = str_find_str(events, STR("\n\n"));
        struct err e = {0};
        if (end < 0) {
            abort();
        }
        cleanup_(json_free) struct json *j = json_parse(str_sub(events, 0, (size_t)end), &e);
        if (json_str(json_get(j, "text")).n == 0) {
            /* jansson has no strings with a NUL; everything else must be there */
            if (str_find_str(str_sub(events, 0, (size_t)end), STR("\\u0000")) < 0) {
                abort();
            }
        }
        events = str_sub(events, (size_t)end + 2, events.n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 10000) {
        return 0;
    }
    struct str in = str_n((const char *)data + 2, size - 2);
    cleanup_(buf_done) struct buf whole = BUF_INIT(64 << 20), cut = BUF_INIT(64 << 20);
    split(in, EXECD_READ_CHUNK, data[0] & 1, &whole);
    split(in, (size_t)data[1] + 1, data[0] & 1, &cut);
    if (!str_eq(buf_str(&whole), buf_str(&cut))) {
        abort();
    }
    check(buf_str(&whole));
    return 0;
}
