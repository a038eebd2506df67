/* TOML's integers, floats, dates and times. A date-time becomes the string that rfc3339_parse()
 * reads; inf and nan, which JSON cannot say, become the strings "inf", "-inf" and "nan". */

#include "json/toml_number.h"

#include <errno.h>
#include <string.h>

#include "base/num.h"

#define TOKEN_MAX 512u

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_digit_of(char c, unsigned base)
{
    if (base <= 10) {
        return c >= '0' && c < (char)('0' + base);
    }
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

/* Copies s without underscores; each must stand between two digits. */
static bool strip_underscores(struct str s, unsigned base, struct buf *out)
{
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] != '_') {
            (void)buf_add_char(out, s.p[i]);
        } else if (i == 0 || i + 1 == s.n || !is_digit_of(s.p[i - 1], base) ||
                   !is_digit_of(s.p[i + 1], base)) {
            return false;
        }
    }
    return !buf_failed(out);
}

static struct json *prefixed_int(struct str digits, unsigned base, const char **why)
{
    uint64_t v = 0;
    *why = "malformed number";
    for (size_t i = 0; i < digits.n; i++) {
        char c = digits.p[i];
        if (!is_digit_of(c, base)) {
            return NULL;
        }
        unsigned d = is_digit(c) ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
        if (v > ((uint64_t)INT64_MAX - d) / base) {
            *why = "integer out of range";
            return NULL;
        }
        v = v * base + d;
    }
    return digits.n ? json_int_new((int64_t)v) : NULL;
}

/* text: without underscores, with its sign. */
static struct json *decimal(struct str text, const char **why)
{
    bool plus = text.n && text.p[0] == '+';
    struct str number = str_sub(text, plus, text.n);
    size_t first = number.n && number.p[0] == '-';
    *why = "malformed number";
    if (plus && first) {
        return NULL;
    }
    bool whole = number.n > first;
    for (size_t i = first; i < number.n; i++) {
        whole = whole && is_digit(number.p[i]);
    }
    if (whole) {
        int64_t v;
        if (number.p[first] == '0' && number.n > first + 1) {
            *why = "number with a leading zero";
            return NULL;
        }
        if (parse_i64(number, &v) < 0) {
            *why = "integer out of range";
            return NULL;
        }
        return json_int_new(v);
    }
    double v;
    int r = parse_double(number, &v);
    if (r == -ERANGE) {
        *why = "number out of range";
    }
    return r < 0 ? NULL : json_num_new(v);
}

static struct json *number(struct str token, const char **why)
{
    static const struct {
        char letter;
        unsigned base;
    } prefixes[] = {{'x', 16}, {'o', 8}, {'b', 2}};
    unsigned base = 10;
    for (size_t i = 0; i < 3; i++) {
        if (token.n >= 2 && token.p[0] == '0' && token.p[1] == prefixes[i].letter) {
            base = prefixes[i].base;
        }
    }
    struct buf text = BUF_INIT(TOKEN_MAX);
    struct str digits = base == 10 ? token : str_sub(token, 2, token.n);
    struct json *j = NULL;
    *why = "malformed number";
    if (strip_underscores(digits, base, &text)) {
        j = base == 10 ? decimal(buf_str(&text), why) : prefixed_int(buf_str(&text), base, why);
    }
    buf_done(&text);
    return j;
}

/* ---- dates ---- */

static bool two_digits(struct str s, size_t at, unsigned max, unsigned *ret)
{
    if (at + 2 > s.n || !is_digit(s.p[at]) || !is_digit(s.p[at + 1])) {
        return false;
    }
    *ret = (unsigned)((s.p[at] - '0') * 10 + (s.p[at + 1] - '0'));
    return *ret <= max;
}

static bool date_valid(struct str s)
{
    static const unsigned month_days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    unsigned century, year, month, day;
    if (s.n != 10 || s.p[4] != '-' || s.p[7] != '-' || !two_digits(s, 0, 99, &century) ||
        !two_digits(s, 2, 99, &year) || !two_digits(s, 5, 12, &month) || month == 0 ||
        !two_digits(s, 8, 31, &day) || day == 0) {
        return false;
    }
    year += century * 100;
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return day <= month_days[month - 1] + (month == 2 && leap);
}

/* Length of the time at the front, 0 when there is none. */
static size_t time_len(struct str s)
{
    unsigned v;
    if (s.n < 8 || s.p[2] != ':' || s.p[5] != ':' || !two_digits(s, 0, 23, &v) ||
        !two_digits(s, 3, 59, &v) || !two_digits(s, 6, 60, &v)) {
        return 0;
    }
    if (s.n == 8 || s.p[8] != '.') {
        return 8;
    }
    size_t n = 9;
    while (n < s.n && is_digit(s.p[n])) {
        n++;
    }
    return n > 9 ? n : 0;
}

static bool offset_valid(struct str s)
{
    unsigned v;
    if (s.n == 1) {
        return s.p[0] == 'Z' || s.p[0] == 'z';
    }
    return s.n == 6 && (s.p[0] == '+' || s.p[0] == '-') && s.p[3] == ':' &&
           two_digits(s, 1, 23, &v) && two_digits(s, 4, 59, &v);
}

static struct json *date_or_time(struct str token)
{
    struct str date = str_sub(token, 0, 10);
    size_t n = time_len(token);
    if (n) {
        return n == token.n ? json_string_new(token) : NULL;
    }
    if (!date_valid(date)) {
        return NULL;
    }
    if (token.n == 10) {
        return json_string_new(token);
    }
    struct str rest = str_sub(token, 11, token.n);
    n = time_len(rest);
    struct str offset = str_sub(rest, n, rest.n);
    if (!strchr("Tt ", token.p[10]) || n == 0 || (offset.n && !offset_valid(offset)) ||
        token.n >= TOKEN_MAX) {
        return NULL;
    }
    char text[TOKEN_MAX];
    (void)str_to_cstr(token, text, sizeof(text));
    text[10] = 'T';
    if (text[token.n - 1] == 'z') {
        text[token.n - 1] = 'Z';
    }
    return json_string_new(str_n(text, token.n));
}

static bool looks_like_date(struct str s)
{
    return (s.n >= 3 && is_digit(s.p[0]) && s.p[2] == ':') ||
           (s.n >= 5 && is_digit(s.p[0]) && is_digit(s.p[3]) && s.p[4] == '-');
}

struct json *toml_number_or_date(struct str token, const char **ret_why)
{
    if (looks_like_date(token)) {
        struct json *j = date_or_time(token);
        if (!j) {
            *ret_why = "malformed date or time";
        }
        return j;
    }
    struct str word = token.p[0] == '+' || token.p[0] == '-' ? str_sub(token, 1, token.n) : token;
    if (str_eq(word, STR("inf"))) {
        return json_string_new(token.p[0] == '-' ? token : word);
    }
    if (str_eq(word, STR("nan"))) {
        return json_string_new(word);
    }
    if (word.n == 0 || !is_digit(word.p[0])) {
        *ret_why = "expected a value (strings need quotes)";
        return NULL;
    }
    return number(token, ret_why);
}
