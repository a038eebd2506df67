#include "cli/duration.h"

#include <ctype.h>
#include <errno.h>

#include "base/buf.h"
#include "base/num.h"

#define MAX_SECONDS (100LL * 366 * 86400)

bool duration_is_none(const char *text)
{
    return str_eq_nocase(str_trim(str_from(text)), STR("none"));
}

int duration_parse(const char *text, int64_t *ret_seconds)
{
    static const struct {
        char unit;
        int64_t seconds;
    } units[] = {{'h', 3600}, {'m', 60}, {'s', 1}};
    struct str s = str_trim(str_from(text));
    uint64_t n;
    int64_t sum = 0;
    size_t next = 0;
    if (parse_u64(s, &n) == 0) {
        if (n > MAX_SECONDS) {
            return -EINVAL;
        }
        *ret_seconds = (int64_t)n;
        return 0;
    }
    while (s.n) {
        size_t digits = 0;
        while (digits < s.n && isdigit((unsigned char)s.p[digits])) {
            digits++;
        }
        if (!digits || digits == s.n || parse_u64(str_sub(s, 0, digits), &n) < 0 ||
            n > MAX_SECONDS) {
            return -EINVAL;
        }
        while (next < 3 && units[next].unit != s.p[digits]) {
            next++;
        }
        if (next == 3) {
            return -EINVAL;
        }
        sum += (int64_t)n * units[next++].seconds;
        s = str_sub(s, digits + 1, s.n);
        if (sum > MAX_SECONDS) {
            return -EINVAL;
        }
    }
    if (next == 0) {
        return -EINVAL;
    }
    *ret_seconds = sum;
    return 0;
}

void duration_format(struct buf *out, int64_t seconds)
{
    long long days = seconds / 86400, rest = seconds % 86400;
    if (days) {
        (void)buf_printf(out, "%lld day%s, ", days, days == 1 ? "" : "s");
    }
    (void)buf_printf(out, "%lld:%02lld:%02lld", rest / 3600, rest / 60 % 60, rest % 60);
}
