/* Numbers, durations, quantities and dates out of hostile text. */

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/must.h"
#include "base/num.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int r)
{
    must(r == 0 || r == -EINVAL || r == -ERANGE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str s = str_n((const char *)data, size);
    uint64_t u = 0, bytes = 0, cpu = 0;
    int64_t i = 0, ms = 0, us = 0;
    uint32_t u32;
    uint16_t port;
    double d;
    bool b;
    int r_u = parse_u64(s, &u);
    check(r_u);
    check(parse_u64_hex(s, &bytes));
    check(parse_i64(s, &i));
    check(parse_u32(s, &u32));
    check(parse_port(s, &port));
    check(parse_bool(s, &b));
    int r = parse_double(s, &d);
    check(r);
    must(r < 0 || isfinite(d));
    r = parse_duration_ms(s, &ms);
    check(r);
    must(r < 0 || ms >= 0);
    r = parse_quantity_bytes(s, &bytes);
    check(r);
    must(r_u < 0 || (r == 0 && bytes == u)); /* plain digits are themselves */
    r = parse_quantity_millicpu(s, &cpu);
    check(r);
    must(r < 0 || cpu > 0);
    if (rfc3339_parse(s, &us) == 0) {
        char text[RFC3339_MAX];
        int64_t again;
        rfc3339_format(us, 6, text);
        if (us >= -62167219200000000 && us <= 253402300799999999) {
            must(rfc3339_parse(str_from(text), &again) == 0 && again == us);
        }
    }
    int64_t sec;
    if (http_date_parse(s, &sec) == 0) {
        char text[HTTP_DATE_LEN + 1];
        int64_t again;
        http_date_format(sec, text);
        must(http_date_parse(str_from(text), &again) == 0 && again == sec);
    }
    return 0;
}
