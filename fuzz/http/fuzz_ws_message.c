/* Message assembly: the same events whole, byte by byte, and in odd pieces. The first byte of the
 * input chooses the role and the size limit. */

#include <stdint.h>

#include "base/must.h"
#include "http/ws_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void run(const uint8_t *data, size_t size, size_t piece, bool is_server, size_t max,
                struct buf *log)
{
    struct ws_reader r;
    ws_reader_init(&r, is_server, max);
    char *copy = xmalloc(size + 1);
    memcpy(copy, data, size);
    int rc = 0;
    for (size_t at = 0; at < size && rc >= 0; at += piece) {
        char *p = copy + at;
        size_t n = MIN(piece, size - at);
        struct ws_event ev;
        while ((rc = ws_reader_next(&r, &p, &n, &ev)) > 0) {
            must(ev.data.n <= max || ev.opcode >= WS_CLOSE);
            must(ev.opcode != WS_TEXT || utf8_valid(ev.data));
            must(ev.opcode != WS_CLOSE || ev.code == 1005 || ws_close_code_valid(ev.code));
            (void)buf_printf(log, "%d %u %zu ", (int)ev.opcode, ev.code, ev.data.n);
            (void)buf_add_str(log, ev.data);
        }
        must(rc < 0 || n == 0);
    }
    (void)buf_printf(log, "%d", rc < 0 ? rc : 0);
    free(copy);
    ws_reader_done(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) {
        return 0;
    }
    bool is_server = data[0] & 1;
    size_t max = data[0] >> 1;
    size_t pieces[] = {1, 3, 7, size};
    struct buf want = BUF_INIT(64u << 20);
    run(data + 1, size - 1, size, is_server, max, &want);
    for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
        struct buf got = BUF_INIT(64u << 20);
        run(data + 1, size - 1, pieces[i], is_server, max, &got);
        must(str_eq(buf_str(&want), buf_str(&got)));
        buf_done(&got);
    }
    buf_done(&want);
    return 0;
}
