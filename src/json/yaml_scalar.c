/* Plain scalars by the core schema of YAML 1.2, with one rule of YAML 1.1 that people rely on in
 * file modes: a leading zero means octal. yes, no, on and off are strings. inf and nan, which JSON
 * cannot say, stay strings. */

#include "json/yaml_scalar.h"

#include <errno.h>
#include <string.h>

#include "base/must.h"
#include "base/num.h"

static bool is_one_of(struct str s, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (str_eq(s, str_from(words[i]))) {
            return true;
        }
    }
    return false;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits of a base from s[from] to the end, at least one. */
static bool all_digits(struct str s, size_t from, unsigned base)
{
    for (size_t i = from; i < s.n; i++) {
        char c = s.p[i];
        bool ok = base == 16 ? is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f')
                             : c >= '0' && c < (char)('0' + base);
        if (!ok) {
            return false;
        }
    }
    return s.n > from;
}

static int digits_value(struct str s, size_t from, unsigned base, bool negative, int64_t *ret)
{
    uint64_t limit = (uint64_t)INT64_MAX + negative;
    uint64_t v = 0;
    for (size_t i = from; i < s.n; i++) {
        char c = s.p[i];
        unsigned d = is_digit(c) ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
        if (v > (limit - d) / base) {
            return -ERANGE;
        }
        v = v * base + d;
    }
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return 0;
}

/* 0, -EINVAL when not an integer, -ERANGE when too large. */
static int int_value(struct str s, int64_t *ret)
{
    bool sign = s.n && (s.p[0] == '-' || s.p[0] == '+');
    if (str_starts(s, STR("0x")) && all_digits(s, 2, 16)) {
        return digits_value(s, 2, 16, false, ret);
    }
    if (str_starts(s, STR("0o")) && all_digits(s, 2, 8)) {
        return digits_value(s, 2, 8, false, ret);
    }
    bool negative = sign && s.p[0] == '-';
    if (s.n > (size_t)sign + 1 && s.p[sign] == '0' && all_digits(s, sign, 8)) {
        return digits_value(s, sign, 8, negative, ret);
    }
    if (!all_digits(s, sign, 10)) {
        return -EINVAL;
    }
    return digits_value(s, sign, 10, negative, ret);
}

/* [-+]? ( "." digits | digits ( "." digits? )? ) ( [eE] [-+]? digits )?, brought into the form that
 * parse_double() reads. */
static bool float_value(struct str s, double *ret)
{
    char text[PARSE_DOUBLE_MAX_LEN + 1];
    size_t n = 0;
    size_t i = 0;
    if (s.n > PARSE_DOUBLE_MAX_LEN - 2) {
        return false;
    }
    if (s.n && (s.p[0] == '-' || s.p[0] == '+')) {
        if (s.p[0] == '-') {
            text[n++] = '-';
        }
        i = 1;
    }
    size_t n_digits = 0;
    while (i + 1 < s.n && s.p[i] == '0' && is_digit(s.p[i + 1])) {
        i++; /* leading zeros */
    }
    if (i < s.n && s.p[i] == '.') {
        text[n++] = '0';
    }
    bool point = false;
    for (; i < s.n && (is_digit(s.p[i]) || (s.p[i] == '.' && !point)); i++) {
        point = point || s.p[i] == '.';
        n_digits += is_digit(s.p[i]);
        text[n++] = s.p[i];
    }
    if (n_digits == 0) {
        return false;
    }
    if (text[n - 1] == '.') {
        text[n++] = '0';
    }
    for (; i < s.n; i++) {
        text[n++] = s.p[i];
    }
    return parse_double(str_n(text, n), ret) == 0;
}

struct json *yaml_plain(struct str s)
{
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
    static const char *const trues[] = {"true", "True", "TRUE"};
    static const char *const falses[] = {"false", "False", "FALSE"};
    if (is_one_of(s, nulls, ARRAY_LEN(nulls))) {
        return json_null_new();
    }
    if (is_one_of(s, trues, ARRAY_LEN(trues))) {
        return json_bool_new(true);
    }
    if (is_one_of(s, falses, ARRAY_LEN(falses))) {
        return json_bool_new(false);
    }
    int64_t i;
    double d;
    int r = int_value(s, &i);
    if (r == -ERANGE) {
        return NULL;
    }
    if (r == 0) {
        return json_int_new(i);
    }
    return float_value(s, &d) ? json_num_new(d) : json_string_new(s);
}

bool yaml_is_ambiguous(struct str s)
{
    static const char *const words[] = {"",    "~", "null", "true", "false", "yes",  "no",  "on",
                                        "off", "y", "n",    "=",    "<<",    ".inf", ".nan"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (str_eq_nocase(s, str_from(words[i]))) {
            return true;
        }
    }
    /* Anything made of the letters of numbers, times and dates. */
    if (!is_digit(s.p[0]) && !strchr(".+-", s.p[0])) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == 0 || !strchr("0123456789.:+-_abcdefABCDEFxXoOnNiITtZz ", s.p[i])) {
            return false;
        }
    }
    return true;
}

bool yaml_is_printable(uint32_t cp)
{
    return cp == '\t' || cp == '\n' || (cp >= 0x20 && cp <= 0x7e) || cp == 0x85 ||
           (cp >= 0xa0 && cp <= 0xd7ff) || (cp >= 0xe000 && cp <= 0xfffd && cp != 0xfeff) ||
           (cp >= 0x10000 && cp <= 0x10ffff);
}
