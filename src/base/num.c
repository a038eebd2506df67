/* Numbers out of text. Nothing here reads the locale of the process. */

#include "base/num.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>

#include "base/must.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int parse_u64(struct str s, uint64_t *ret)
{
    if (s.n == 0) {
        return -EINVAL;
    }
    uint64_t v = 0;
    bool over = false;
    for (size_t i = 0; i < s.n; i++) {
        if (!is_digit(s.p[i])) {
            return -EINVAL;
        }
        over = over || __builtin_mul_overflow(v, 10u, &v) ||
               __builtin_add_overflow(v, (unsigned)(s.p[i] - '0'), &v);
    }
    if (over) {
        return -ERANGE;
    }
    *ret = v;
    return 0;
}

int parse_u64_hex(struct str s, uint64_t *ret)
{
    if (s.n == 0) {
        return -EINVAL;
    }
    uint64_t v = 0;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        unsigned digit;
        if (is_digit(c)) {
            digit = (unsigned)(c - '0');
        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
            digit = (unsigned)((c | 0x20) - 'a' + 10);
        } else {
            return -EINVAL;
        }
        v = v << 4 | digit;
    }
    if (s.n > 16) {
        return -ERANGE;
    }
    *ret = v;
    return 0;
}

int parse_i64(struct str s, int64_t *ret)
{
    bool negative = s.n && s.p[0] == '-';
    uint64_t v;
    int r = parse_u64(str_sub(s, negative, s.n), &v);
    if (r < 0) {
        return r;
    }
    if (v > (uint64_t)INT64_MAX + negative) {
        return -ERANGE;
    }
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return 0;
}

int parse_u32(struct str s, uint32_t *ret)
{
    uint64_t v;
    int r = parse_u64(s, &v);
    if (r < 0) {
        return r;
    }
    if (v > UINT32_MAX) {
        return -ERANGE;
    }
    *ret = (uint32_t)v;
    return 0;
}

int parse_port(struct str s, uint16_t *ret)
{
    uint64_t v;
    int r = parse_u64(s, &v);
    if (r < 0) {
        return r;
    }
    if (s.p[0] == '0' && s.n > 1) {
        return -EINVAL;
    }
    if (v < 1 || v > UINT16_MAX) {
        return -ERANGE;
    }
    *ret = (uint16_t)v;
    return 0;
}

/* Index after the digits that begin at i; i itself when there are none. */
static size_t skip_digits(struct str s, size_t i)
{
    while (i < s.n && is_digit(s.p[i])) {
        i++;
    }
    return i;
}

/* RFC 8259 §6: no plus sign, no leading zero, digits on both sides of the point. */
static bool is_json_number(struct str s)
{
    size_t i = s.n && s.p[0] == '-';
    size_t end = skip_digits(s, i);
    if (end == i || (s.p[i] == '0' && end - i > 1)) {
        return false;
    }
    i = end;
    if (i < s.n && s.p[i] == '.') {
        end = skip_digits(s, i + 1);
        if (end == i + 1) {
            return false;
        }
        i = end;
    }
    if (i < s.n && (s.p[i] | 0x20) == 'e') {
        i++;
        i += i < s.n && (s.p[i] == '+' || s.p[i] == '-');
        end = skip_digits(s, i);
        if (end == i) {
            return false;
        }
        i = end;
    }
    return i == s.n;
}

int parse_double(struct str s, double *ret)
{
    char text[PARSE_DOUBLE_MAX_LEN + 1];
    if (!is_json_number(s)) {
        return -EINVAL;
    }
    if (str_to_cstr(s, text, sizeof(text)) < 0) {
        return -ERANGE;
    }
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* static in libc, not freed */
    double v = strtod_l(text, NULL, c_locale);
    if (!isfinite(v)) {
        return -ERANGE;
    }
    *ret = v;
    return 0;
}

int parse_bool(struct str s, bool *ret)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true}, {"false", false}, {"1", true},  {"0", false},
                 {"yes", true},  {"no", false},    {"on", true}, {"off", false}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (str_eq_nocase(s, str_from(words[i].word))) {
            *ret = words[i].value;
            return 0;
        }
    }
    return -EINVAL;
}

/* A decimal fraction taken from the front of a string: digits / 10^scale. */
struct decimal {
    uint64_t digits;
    unsigned scale;
};

/* Reads "12", "1.5", ".5" or "5." and moves *s behind it. What does not fit 64 bits
 * and 18 decimal places is -ERANGE. */
static int decimal_take(struct str *s, struct decimal *ret)
{
    struct decimal d = {0};
    size_t i = 0;
    size_t n_digits = 0;
    bool point = false;
    unsigned zeros = 0; /* in the fraction, not yet counted: trailing ones never are */
    for (; i < s->n && (is_digit(s->p[i]) || (s->p[i] == '.' && !point)); i++) {
        if (s->p[i] == '.') {
            point = true;
            continue;
        }
        n_digits++;
        if (point && s->p[i] == '0') {
            zeros++;
            continue;
        }
        for (unsigned add = point ? zeros + 1 : 1; add; add--) {
            if (__builtin_mul_overflow(d.digits, 10u, &d.digits) ||
                __builtin_add_overflow(d.digits, add == 1 ? (unsigned)(s->p[i] - '0') : 0u,
                                       &d.digits)) {
                return -ERANGE;
            }
            d.scale += point;
            if (d.scale > 18) {
                return -ERANGE;
            }
        }
        zeros = 0;
    }
    if (n_digits == 0) {
        return -EINVAL;
    }
    *s = str_sub(*s, i, s->n);
    *ret = d;
    return 0;
}

static uint64_t pow10_u64(unsigned n)
{
    uint64_t v = 1;
    while (n--) {
        v *= 10;
    }
    return v;
}

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit duration_units[] = {
    {"ns", 1},       {"us", 1000},      {"\xc2\xb5s", 1000}, {"\xce\xbcs", 1000},
    {"ms", 1000000}, {"s", 1000000000}, {"m", 60000000000},  {"h", 3600000000000},
};

static bool unit_find(const struct unit *units, size_t n, struct str name, uint64_t *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(name, str_from(units[i].name))) {
            *ret = units[i].factor;
            return true;
        }
    }
    return false;
}

int parse_duration_ms(struct str s, int64_t *ret)
{
    if (str_eq(s, STR("0"))) {
        *ret = 0;
        return 0;
    }
    if (s.n == 0) {
        return -EINVAL;
    }
    unsigned __int128 ns = 0;
    while (s.n) {
        struct decimal d;
        int r = decimal_take(&s, &d);
        if (r < 0) {
            return r;
        }
        size_t n = 0;
        while (n < s.n && !is_digit(s.p[n]) && s.p[n] != '.') {
            n++;
        }
        uint64_t factor;
        if (!unit_find(duration_units, ARRAY_LEN(duration_units), str_sub(s, 0, n), &factor)) {
            return -EINVAL;
        }
        s = str_sub(s, n, s.n);
        ns += (unsigned __int128)d.digits * factor / pow10_u64(d.scale);
        if (ns > (unsigned __int128)INT64_MAX * 1000000) {
            return -ERANGE;
        }
    }
    /* Rounded up: a timeout that was set never becomes none. */
    unsigned __int128 ms = (ns + 999999) / 1000000;
    if (ms > INT64_MAX) {
        return -ERANGE;
    }
    *ret = (int64_t)ms;
    return 0;
}

struct suffix {
    const char *name;
    int exp10;
    unsigned exp2;
};

static const struct suffix quantity_suffixes[] = {
    {"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},  {"k", 3, 0},   {"M", 6, 0},
    {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

static int suffix_parse(struct str s, struct suffix *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(quantity_suffixes); i++) {
        if (str_eq(s, str_from(quantity_suffixes[i].name))) {
            *ret = quantity_suffixes[i];
            return 0;
        }
    }
    if (s.n < 2 || (s.p[0] | 0x20) != 'e') {
        return -EINVAL;
    }
    struct str digits = str_sub(s, s.p[1] == '+' ? 2 : 1, s.n);
    if (s.p[1] == '+' && digits.n && digits.p[0] == '-') {
        return -EINVAL;
    }
    int64_t exp;
    int r = parse_i64(digits, &exp);
    if (r < 0) {
        return r;
    }
    *ret = (struct suffix){"", (int)MAX(MIN(exp, 1000), -1000), 0};
    return 0;
}

/* The quantity times 10^shift, rounded up to a whole number as Kubernetes does. */
static int quantity(struct str s, int shift, uint64_t *ret)
{
    if (s.n && s.p[0] == '+') {
        s = str_sub(s, 1, s.n);
    }
    struct decimal d;
    struct suffix suffix = {0};
    int r = decimal_take(&s, &d);
    if (r == 0) {
        r = suffix_parse(s, &suffix);
    }
    if (r < 0) {
        return r;
    }
    int exp = suffix.exp10 + shift - (int)d.scale;
    if (d.digits == 0) {
        *ret = 0;
        return 0;
    }
    if (exp > 19) {
        return -ERANGE;
    }
    /* digits < 2^64 and 2^60 leave no room for a power of ten above 10^4 */
    unsigned __int128 v = (unsigned __int128)d.digits << suffix.exp2;
    for (; exp > 0; exp--) {
        v *= 10;
        if (v > UINT64_MAX) {
            return -ERANGE;
        }
    }
    for (; exp < 0 && v > 1; exp++) {
        v = v / 10 + (v % 10 != 0);
    }
    if (v > UINT64_MAX) {
        return -ERANGE;
    }
    *ret = (uint64_t)v;
    return 0;
}

int parse_quantity_bytes(struct str s, uint64_t *ret)
{
    return quantity(s, 0, ret);
}

int parse_quantity_millicpu(struct str s, uint64_t *ret)
{
    uint64_t v;
    int r = quantity(s, 3, &v);
    if (r < 0) {
        return r;
    }
    if (v == 0) {
        return -EINVAL;
    }
    *ret = v;
    return 0;
}
