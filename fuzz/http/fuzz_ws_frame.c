/* Frame headers: what is accepted formats back to the same bytes, and no prefix says otherwise. */

#include <stdint.h>

#include "base/must.h"
#include "http/ws.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = {(const char *)data, size};
    struct ws_frame f, again;
    int n = ws_frame_parse(in, &f);
    must(n <= WS_FRAME_MAX && (n <= 0 || (size_t)n <= size));
    for (size_t i = 0; i < size && i < WS_FRAME_MAX; i++) {
        int m = ws_frame_parse(str_n(in.p, i), &again);
        must(m == 0 || m == n); /* decided early, but never differently */
    }
    if (n > 0) {
        char out[WS_FRAME_MAX];
        must(ws_frame_format(&f, out) == (size_t)n && memcmp(out, data, (size_t)n) == 0);
    }
    char key[29];
    ws_accept_key(in, key);
    must(key[28] == '\0');
    return 0;
}
