/* Paths, queries and URLs: what is decoded and encoded again comes back, what is parsed lies inside
 * the input, and a path that was encoded holds nothing that a request line or a router could
 * misread. */

#include <stdint.h>

#include "base/codec.h"
#include "base/must.h"
#include "net/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool inside(struct str part, struct str whole)
{
    return part.n == 0 || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

/* decode(encode(x)) is x, and what is encoded is visible ASCII without delimiters. */
static void check_roundtrip(struct str in, bool keep_slash)
{
    struct buf enc = BUF_INIT(16u << 20), dec = BUF_INIT(16u << 20);
    must(percent_encode(&enc, in, keep_slash) == 0);
    for (size_t i = 0; i < enc.len; i++) {
        char c = enc.p[i];
        must(c > ' ' && c < 0x7f && c != '?' && c != '#' && c != '&' && c != '=' && c != '+');
        must(keep_slash || c != '/');
    }
    must(percent_decode(&dec, buf_str(&enc), false) == 0 && str_eq(buf_str(&dec), in));
    buf_done(&enc);
    buf_done(&dec);
}

/* Decoding never grows, and decoding what needs no decoding changes nothing. */
static void check_decode(struct str in, bool plus)
{
    struct buf dec = BUF_INIT(16u << 20);
    if (percent_decode(&dec, in, plus) == 0) {
        must(dec.len <= in.n);
        if (str_find(in, '%') < 0 && (!plus || str_find(in, '+') < 0)) {
            must(str_eq(buf_str(&dec), in));
        }
    } else {
        must(str_find(in, '%') >= 0);
    }
    buf_done(&dec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = {(const char *)data, size};
    struct url u;
    struct str host;
    uint16_t port = 0;
    check_roundtrip(in, false);
    check_roundtrip(in, true);
    check_decode(in, false);
    check_decode(in, true);
    if (url_parse(in, &u) == 0) {
        must(inside(u.scheme, in) && inside(u.user, in) && inside(u.password, in));
        must(inside(u.host, in) && inside(u.path, in) && inside(u.query, in));
        must(u.path.n == 0 || u.path.p[0] == '/');
        must(str_find(u.path, '?') < 0 && str_find(u.path, ' ') < 0 && str_find(u.query, '#') < 0);
    }
    if (authority_parse(in, &host, &port) == 0) {
        must(inside(host, in) && host.n > 0);
    }
    return 0;
}
