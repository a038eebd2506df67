/* UTF-8: whole, in pieces, repaired and cut must tell the same story. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = str_n((const char *)data, size);
    bool valid = utf8_valid(s);

    struct utf8_check c = {0};
    size_t half = size ? data[0] % size : 0;
    bool fed = utf8_check_feed(&c, str_sub(s, 0, half)) &&
               utf8_check_feed(&c, str_sub(s, half, size)) && utf8_check_done(&c);
    must(fed == valid);

    bool walked = true;
    for (struct str rest = s; rest.n && walked;) {
        uint32_t cp = 0;
        int n = utf8_next(rest, &cp);
        walked = n > 0;
        must(n <= 4 && (n <= 0 || (cp <= 0x10ffff && (cp < 0xd800 || cp > 0xdfff))));
        rest = str_sub(rest, n > 0 ? (size_t)n : 0, rest.n);
    }
    must(walked == valid);

    struct buf fixed = BUF_INIT(size * 3);
    must(utf8_repair(&fixed, s) == 0);
    must(utf8_valid(buf_str(&fixed)));
    must(!valid || str_eq(buf_str(&fixed), s));
    buf_done(&fixed);

    size_t cut = utf8_floor(s, half);
    must(cut <= half && half - cut <= 3);
    must(!valid || utf8_valid(str_sub(s, 0, cut)));
    must(utf8_tail(s) <= 3);
    return 0;
}
