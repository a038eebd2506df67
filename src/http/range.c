/* The Range header (RFC 9110 14): one byte range, anything else is ignored. */

#include <errno.h>

#include "base/num.h"
#include "http/file.h"

/* Digits that do not fit are as good as infinite: they lie behind every file. */
static int parse_position(struct str s, uint64_t *ret)
{
    int r = parse_u64(s, ret);
    if (r == -ERANGE) {
        *ret = UINT64_MAX;
        return 0;
    }
    return r;
}

static int parse_suffix(struct str digits, uint64_t size, struct http_range *ret)
{
    uint64_t n;
    if (parse_position(digits, &n) < 0) {
        return 0;
    }
    if (n == 0 || size == 0) {
        return -ERANGE;
    }
    n = n < size ? n : size;
    *ret = (struct http_range){size - n, n};
    return 1;
}

int http_range_parse(struct str value, uint64_t size, struct http_range *ret)
{
    if (!str_starts_nocase(value, STR("bytes="))) {
        return 0;
    }
    struct str last = str_trim(str_sub(value, 6, value.n));
    if (str_find(last, ',') >= 0 || str_find(last, '-') < 0) {
        return 0;
    }
    struct str first = str_cut(&last, '-');
    if (first.n == 0) {
        return parse_suffix(last, size, ret);
    }
    uint64_t from, to = UINT64_MAX;
    if (parse_position(first, &from) < 0 || (last.n > 0 && parse_position(last, &to) < 0) ||
        to < from) {
        return 0;
    }
    if (from >= size) {
        return -ERANGE;
    }
    to = to < size ? to : size - 1;
    *ret = (struct http_range){from, to - from + 1};
    return 1;
}
