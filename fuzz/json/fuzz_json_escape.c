/* Any bytes, escaped, are one JSON string on one line for every client that splits lines, and say
 * the same text. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "base/utf8.h"
#include "json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void no_line_break(struct str s)
{
    while (s.n) {
        uint32_t cp = 0;
        int n = utf8_next(s, &cp);
        must(n > 0);
        must(cp >= 0x20 && cp != 0x85 && cp != 0x2028 && cp != 0x2029);
        s = str_sub(s, (size_t)n, s.n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = str_n((const char *)data, size);
    struct buf out = BUF_INIT(size * 6 + 2), want = BUF_INIT(size * 3);
    must(buf_add_char(&out, '"') == 0);
    must(json_escape(&out, s) == 0);
    must(buf_add_char(&out, '"') == 0);
    no_line_break(buf_str(&out));
    if (str_find(s, 0) < 0) { /* trees hold no NUL */
        struct json *j = json_parse(buf_str(&out), NULL);
        must(j);
        must(utf8_repair(&want, s) == 0);
        must(str_eq(json_str(j), buf_str(&want)));
        json_free(j);
    }
    buf_done(&out);
    buf_done(&want);
    return 0;
}
