/* The words of TOML 1.0: white space, comments, the four kinds of string. Numbers and dates are in
 * toml_number.c. The text is known to be valid UTF-8 without NUL. */

#include "json/toml_lex.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "base/num.h"
#include "json/toml_number.h"

int toml_fail(struct toml_text *t, const char *fmt, ...)
{
    char msg[ERR_MSG_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    return err_set(t->e, ERR_INVALID, "line %u: %s", t->line, msg);
}

bool toml_take(struct toml_text *t, char c)
{
    if (t->p < t->end && *t->p == c) {
        t->p++;
        return true;
    }
    return false;
}

static bool starts(const struct toml_text *t, const char *word)
{
    return str_starts(str_n(t->p, (size_t)(t->end - t->p)), str_from(word));
}

void toml_skip_space(struct toml_text *t)
{
    while (toml_peek(t) == ' ' || toml_peek(t) == '\t') {
        t->p++;
    }
}

/* Tab is the only control character that comments and strings may hold raw. */
static bool is_control(char c)
{
    unsigned char u = (unsigned char)c;
    return (u < 0x20 && u != '\t') || u == 0x7f;
}

static bool take_newline(struct toml_text *t)
{
    size_t n = starts(t, "\r\n") ? 2 : toml_peek(t) == '\n';
    t->p += n;
    t->line += n > 0;
    return n > 0;
}

static int skip_comment(struct toml_text *t)
{
    if (!toml_take(t, '#')) {
        return 0;
    }
    while (t->p < t->end && *t->p != '\n' && !starts(t, "\r\n")) {
        if (is_control(*t->p)) {
            return toml_fail(t, "control character in a comment");
        }
        t->p++;
    }
    return 0;
}

int toml_line_end(struct toml_text *t)
{
    toml_skip_space(t);
    if (skip_comment(t) < 0) {
        return -1;
    }
    if (t->p == t->end || take_newline(t)) {
        return 0;
    }
    return toml_fail(t, "expected the end of the line");
}

int toml_skip_blank(struct toml_text *t)
{
    do {
        toml_skip_space(t);
        if (skip_comment(t) < 0) {
            return -1;
        }
    } while (take_newline(t));
    return 0;
}

/* ---- strings ---- */

static int add(struct toml_text *t, struct buf *out, const char *p, size_t n)
{
    return buf_add(out, p, n) < 0 ? toml_fail(t, "string too long") : 0;
}

static int add_code_point(struct toml_text *t, struct buf *out, size_t n_digits)
{
    uint64_t cp;
    size_t left = (size_t)(t->end - t->p);
    if (left < n_digits || parse_u64_hex(str_n(t->p, n_digits), &cp) < 0) {
        return toml_fail(t, "expected %zu hexadecimal digits", n_digits);
    }
    t->p += n_digits;
    if (cp == 0) {
        return toml_fail(t, "NUL characters are not supported");
    }
    if (cp > 0x10ffff || (cp >= 0xd800 && cp <= 0xdfff)) {
        return toml_fail(t, "not a Unicode character");
    }
    char u[4];
    size_t n = 0;
    if (cp < 0x80) {
        u[n++] = (char)cp;
    } else if (cp < 0x800) {
        u[n++] = (char)(0xc0 | cp >> 6);
        u[n++] = (char)(0x80 | (cp & 0x3f));
    } else if (cp < 0x10000) {
        u[n++] = (char)(0xe0 | cp >> 12);
        u[n++] = (char)(0x80 | (cp >> 6 & 0x3f));
        u[n++] = (char)(0x80 | (cp & 0x3f));
    } else {
        u[n++] = (char)(0xf0 | cp >> 18);
        u[n++] = (char)(0x80 | (cp >> 12 & 0x3f));
        u[n++] = (char)(0x80 | (cp >> 6 & 0x3f));
        u[n++] = (char)(0x80 | (cp & 0x3f));
    }
    return add(t, out, u, n);
}

/* Behind a backslash. */
static int add_escape(struct toml_text *t, struct buf *out)
{
    static const char from[] = "btnfr\"\\";
    static const char to[] = "\b\t\n\f\r\"\\";
    char c = toml_peek(t);
    const char *at = c ? strchr(from, c) : NULL;
    if (at) {
        t->p++;
        return add(t, out, &to[at - from], 1);
    }
    if (toml_take(t, 'u')) {
        return add_code_point(t, out, 4);
    }
    if (toml_take(t, 'U')) {
        return add_code_point(t, out, 8);
    }
    return toml_fail(t, "unknown escape in a string");
}

static int single_line(struct toml_text *t, char quote, struct buf *out)
{
    while (!toml_take(t, quote)) {
        const char *from = t->p;
        while (t->p < t->end && *t->p != quote && !(*t->p == '\\' && quote == '"')) {
            if (is_control(*t->p)) {
                return toml_fail(t, *t->p == '\n' || *t->p == '\r'
                                        ? "line break in a string"
                                        : "control character in a string");
            }
            t->p++;
        }
        if (t->p == t->end) {
            return toml_fail(t, "string without end");
        }
        if (add(t, out, from, (size_t)(t->p - from)) < 0) {
            return -1;
        }
        if (quote == '"' && toml_take(t, '\\') && add_escape(t, out) < 0) {
            return -1;
        }
    }
    return 0;
}

/* A backslash at the end of a line swallows white space up to the next visible character. */
static bool take_line_continuation(struct toml_text *t)
{
    struct toml_text ahead = *t;
    toml_skip_space(&ahead);
    if (!take_newline(&ahead)) {
        return false;
    }
    do {
        toml_skip_space(&ahead);
    } while (take_newline(&ahead));
    *t = ahead;
    return true;
}

/* At a run of quotes: three or more end the string, and up to two of them belong to it. */
static int quotes(struct toml_text *t, char quote, struct buf *out, bool *ret_end)
{
    size_t n = 0;
    while (n < 5 && t->p + n < t->end && t->p[n] == quote) {
        n++;
    }
    *ret_end = n >= 3;
    int r = add(t, out, t->p, *ret_end ? n - 3 : n);
    t->p += n;
    return r;
}

static int multi_line(struct toml_text *t, char quote, struct buf *out)
{
    (void)take_newline(t); /* right behind the opening quotes it is not part of the string */
    for (bool end = false; !end;) {
        if (t->p == t->end) {
            return toml_fail(t, "string without end");
        }
        int r = 0;
        if (*t->p == quote) {
            r = quotes(t, quote, out, &end);
        } else if (take_newline(t)) {
            r = add(t, out, "\n", 1);
        } else if (is_control(*t->p)) {
            r = toml_fail(t, "control character in a string");
        } else if (quote == '"' && toml_take(t, '\\')) {
            r = take_line_continuation(t) ? 0 : add_escape(t, out);
        } else {
            r = add(t, out, t->p++, 1);
        }
        if (r < 0) {
            return -1;
        }
    }
    return 0;
}

static int string(struct toml_text *t, bool multi, struct buf *out)
{
    char quote = *t->p;
    char three[] = {quote, quote, quote, 0};
    if (multi && starts(t, three)) {
        t->p += 3;
        return multi_line(t, quote, out);
    }
    t->p++;
    return single_line(t, quote, out);
}

static bool is_bare(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '_';
}

int toml_key_part(struct toml_text *t, struct buf *out)
{
    if (toml_peek(t) == '"' || toml_peek(t) == '\'') {
        return string(t, false, out);
    }
    const char *from = t->p;
    while (t->p < t->end && is_bare(*t->p)) {
        t->p++;
    }
    return t->p == from ? toml_fail(t, "expected a key") : add(t, out, from, (size_t)(t->p - from));
}

/* ---- scalars ---- */

static struct json *string_value(struct toml_text *t)
{
    struct buf text = BUF_INIT((size_t)(t->end - t->p));
    struct json *j = NULL;
    if (string(t, true, &text) == 0) {
        j = json_string_new(buf_str(&text));
    }
    buf_done(&text);
    return j;
}

/* Everything that can be part of a number, date or word. */
static struct str take_token(struct toml_text *t)
{
    const char *from = t->p;
    while (t->p < t->end && (is_bare(*t->p) || strchr("+.:", *t->p))) {
        t->p++;
    }
    /* "1979-05-27 07:32:00": the one place where a space is inside a value */
    if (t->p - from == 10 && from[4] == '-' && t->end - t->p >= 2 && t->p[0] == ' ' &&
        t->p[1] >= '0' && t->p[1] <= '9') {
        t->p++;
        while (t->p < t->end && (is_bare(*t->p) || strchr("+.:", *t->p))) {
            t->p++;
        }
    }
    return str_n(from, (size_t)(t->p - from));
}

struct json *toml_scalar(struct toml_text *t)
{
    if (toml_peek(t) == '"' || toml_peek(t) == '\'') {
        return string_value(t);
    }
    struct str token = take_token(t);
    const char *why = "expected a value";
    struct json *j = NULL;
    if (str_eq(token, STR("true")) || str_eq(token, STR("false"))) {
        j = json_bool_new(token.n == 4);
    } else if (token.n) {
        j = toml_number_or_date(token, &why);
    }
    if (!j) {
        (void)toml_fail(t, "%s", why);
    }
    return j;
}
