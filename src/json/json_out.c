/* Writing JSON: the escaper, the writer without a tree, and trees as text.
 *
 * json_escape() is on the path of every byte that a sandboxed program prints, so it makes room for
 * a block at once, copies eight bytes at a time and looks for the ones that need work while at it.
 */

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "base/num.h"
#include "base/utf8.h"
#include "json/tree.h"

/* ---- escaping ---- */

#define ONES 0x0101010101010101u
#define HIGH 0x8080808080808080u
#define ESCAPE_MAX 6u      /* bytes that one byte can become */
#define ESCAPE_BLOCK 1024u /* bytes for which room is made at once */

static const char hex[] = "0123456789abcdef";

/* High bit set in each byte of w that is below 0x20, '"', '\\' or not ASCII. A borrow can only mark
 * a byte above one that is marked rightly, so the lowest mark is exact. */
static uint64_t needs_work(uint64_t w)
{
    uint64_t quote = w ^ (ONES * '"');
    uint64_t slash = w ^ (ONES * '\\');
    return (w | (w - ONES * 0x20) | (quote - ONES) | (slash - ONES)) & HIGH;
}

/* How many bytes come before the first mark. */
static size_t plain_bytes(uint64_t marks)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    return marks ? (size_t)__builtin_ctzll(marks) / 8 : 8;
#else
    return marks ? 0 : 8; /* borrows run the other way: look again, byte by byte */
#endif
}

/* Characters on which some clients split lines though JSON allows them raw. */
static bool is_line_break(uint32_t cp)
{
    return cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

/* Writes the ASCII character c as JSON has it. */
static char *put_ascii(char *to, unsigned char c)
{
    static const char short_forms[0x20] = {
        ['\b'] = 'b', ['\t'] = 't', ['\n'] = 'n', ['\f'] = 'f', ['\r'] = 'r'};
    if (c >= 0x20 && c != '"' && c != '\\') {
        *to++ = (char)c;
    } else if (c >= 0x20 || short_forms[c]) {
        *to++ = '\\';
        *to++ = c >= 0x20 ? (char)c : short_forms[c];
    } else {
        memcpy(to, "\\u00", 4);
        to[4] = hex[c >> 4];
        to[5] = hex[c & 15];
        to += 6;
    }
    return to;
}

/* Writes the character at the front of s, which is not ASCII; says how many bytes of s it was. */
static char *put_wide(char *to, struct str s, size_t *ret_used)
{
    uint32_t cp = 0;
    int n = utf8_next(s, &cp);
    *ret_used = n > 0 ? (size_t)n : 1;
    if (n <= 0) {
        memcpy(to, "\xef\xbf\xbd", 3);
        return to + 3;
    }
    if (is_line_break(cp)) {
        char esc[6] = {'\\',        'u', hex[cp >> 12], hex[cp >> 8 & 15], hex[cp >> 4 & 15],
                       hex[cp & 15]};
        memcpy(to, esc, 6);
        return to + 6;
    }
    memcpy(to, s.p, (size_t)n);
    return to + n;
}

/* Escapes at least `size` bytes of s (a character more when it lies across), into room for
 * ESCAPE_MAX times as many and a word. Returns how many bytes of s. */
static size_t escape_block(char **to, struct str s, size_t size)
{
    char *at = *to;
    size_t i = 0;
    while (i < size) {
        for (uint64_t marks = 0; !marks && size - i >= 8;) {
            uint64_t w;
            memcpy(&w, s.p + i, 8);
            memcpy(at, &w, 8);
            marks = needs_work(w);
            i += plain_bytes(marks);
            at += plain_bytes(marks);
        }
        if (i == size) {
            break;
        }
        if (!((unsigned char)s.p[i] & 0x80)) {
            at = put_ascii(at, (unsigned char)s.p[i++]);
        }
        while (i < size && ((unsigned char)s.p[i] & 0x80)) {
            size_t used;
            at = put_wide(at, str_n(s.p + i, s.n - i), &used);
            i += used;
        }
    }
    *to = at;
    return i;
}

int json_escape(struct buf *out, struct str s)
{
    char last[(ESCAPE_MAX + 1) * 8]; /* near the maximum: a few bytes at a time, by way of this */
    while (s.n && !buf_failed(out)) {
        size_t size = MIN(s.n, (size_t)ESCAPE_BLOCK);
        size_t used;
        if (buf_reserve(out, (size + 4) * ESCAPE_MAX + 8) == 0) {
            char *to = out->p + out->len;
            used = escape_block(&to, s, size);
            out->len = (size_t)(to - out->p);
        } else {
            char *to = last;
            used = escape_block(&to, s, 1);
            (void)buf_add(out, last, (size_t)(to - last));
        }
        s = str_n(s.p + used, s.n - used);
    }
    return buf_failed(out) ? -ENOSPC : 0;
}

static void add_quoted(struct buf *b, struct str s)
{
    (void)buf_add_char(b, '"');
    (void)json_escape(b, s);
    (void)buf_add_char(b, '"');
}

/* ---- numbers ---- */

static void add_int(struct buf *b, int64_t v)
{
    if (v < 0) {
        (void)buf_add_char(b, '-');
    }
    (void)buf_add_u64(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* The shortest text that reads back as the same number. */
static void add_num(struct buf *b, double v, bool keep_real)
{
    if (!isfinite(v)) {
        (void)buf_add_cstr(b, "null");
        return;
    }
    char text[40];
    int n = 0;
    for (int digits = 15; digits <= 17; digits++) {
        n = snprintf(text, sizeof(text), "%.*g", digits, v);
        for (int i = 0; i < n; i++) {
            if (!strchr("+-.e0123456789", text[i])) {
                text[i] = '.'; /* the decimal point of a foreign locale */
            }
        }
        double back;
        if (parse_double(str_n(text, (size_t)n), &back) == 0 && back == v) {
            break;
        }
    }
    (void)buf_add(b, text, (size_t)n);
    if (keep_real && !strpbrk(text, ".e")) {
        (void)buf_add_cstr(b, ".0");
    }
}

/* ---- trees ---- */

static void add_break(struct buf *b, int indent, unsigned level)
{
    if (indent <= 0) {
        return;
    }
    (void)buf_add_char(b, '\n');
    for (unsigned i = 0; i < level * (unsigned)indent; i++) {
        (void)buf_add_char(b, ' ');
    }
}

static void add_tree(struct buf *b, const struct json *j, int indent, unsigned level);

static void add_object(struct buf *b, const struct json *j, int indent, unsigned level)
{
    bool first = true;
    (void)buf_add_char(b, '{');
    for (void *it = json_object_iter(json_raw(j)); it;
         it = json_object_iter_next(json_raw(j), it)) {
        if (!first) {
            (void)buf_add_char(b, ',');
        }
        first = false;
        add_break(b, indent, level + 1);
        add_quoted(b, str_n(json_object_iter_key(it), json_object_iter_key_len(it)));
        (void)buf_add_cstr(b, indent > 0 ? ": " : ":");
        add_tree(b, json_wrap(json_object_iter_value(it)), indent, level + 1);
    }
    if (!first) {
        add_break(b, indent, level);
    }
    (void)buf_add_char(b, '}');
}

static void add_array(struct buf *b, const struct json *j, int indent, unsigned level)
{
    size_t n = json_len(j);
    (void)buf_add_char(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i) {
            (void)buf_add_char(b, ',');
        }
        add_break(b, indent, level + 1);
        add_tree(b, json_item(j, i), indent, level + 1);
    }
    if (n) {
        add_break(b, indent, level);
    }
    (void)buf_add_char(b, ']');
}

static void add_tree(struct buf *b, const struct json *j, int indent, unsigned level)
{
    if (json_is_object(j)) {
        add_object(b, j, indent, level);
    } else if (json_is_array(j)) {
        add_array(b, j, indent, level);
    } else if (json_is_string(j)) {
        add_quoted(b, json_str(j));
    } else if (json_is_int(j)) {
        add_int(b, json_int(j, 0));
    } else if (json_is_number(j)) {
        add_num(b, json_num(j, 0), true);
    } else if (json_is_bool(j)) {
        (void)buf_add_cstr(b, json_bool(j, false) ? "true" : "false");
    } else {
        (void)buf_add_cstr(b, "null");
    }
}

int json_dump(const struct json *j, struct buf *out, int indent)
{
    add_tree(out, j, indent, 0);
    return buf_failed(out) ? -ENOSPC : 0;
}

/* ---- writer ---- */

void json_out_init(struct json_out *o, struct buf *buf)
{
    *o = (struct json_out){.buf = buf};
}

/* What has to stand before a value: nothing, or the comma after the one before. */
static void before_value(struct json_out *o)
{
    if (o->after_key) {
        o->after_key = false;
        return;
    }
    if (o->depth == 0) {
        return;
    }
    uint64_t bit = (uint64_t)1 << (o->depth - 1);
    if (o->first & bit) {
        o->first &= ~bit;
    } else {
        (void)buf_add_char(o->buf, ',');
    }
}

static void begin(struct json_out *o, char c)
{
    before_value(o);
    must(o->depth < JSON_MAX_DEPTH);
    o->first |= (uint64_t)1 << o->depth++;
    (void)buf_add_char(o->buf, c);
}

static void end(struct json_out *o, char c)
{
    must(o->depth > 0 && !o->after_key);
    o->depth--;
    (void)buf_add_char(o->buf, c);
}

void json_obj_begin(struct json_out *o)
{
    begin(o, '{');
}

void json_obj_end(struct json_out *o)
{
    end(o, '}');
}

void json_arr_begin(struct json_out *o)
{
    begin(o, '[');
}

void json_arr_end(struct json_out *o)
{
    end(o, ']');
}

void json_key(struct json_out *o, const char *key)
{
    must(!o->after_key);
    before_value(o);
    add_quoted(o->buf, str_from(key));
    (void)buf_add_char(o->buf, ':');
    o->after_key = true;
}

void json_put_str(struct json_out *o, struct str s)
{
    before_value(o);
    add_quoted(o->buf, s);
}

void json_put_cstr(struct json_out *o, const char *s)
{
    if (s) {
        json_put_str(o, str_from(s));
    } else {
        json_put_null(o);
    }
}

void json_put_int(struct json_out *o, int64_t v)
{
    before_value(o);
    add_int(o->buf, v);
}

void json_put_num(struct json_out *o, double v)
{
    before_value(o);
    add_num(o->buf, v, false);
}

void json_put_bool(struct json_out *o, bool v)
{
    before_value(o);
    (void)buf_add_cstr(o->buf, v ? "true" : "false");
}

void json_put_null(struct json_out *o)
{
    before_value(o);
    (void)buf_add_cstr(o->buf, "null");
}

void json_put_raw(struct json_out *o, struct str json_text)
{
    before_value(o);
    (void)buf_add_str(o->buf, json_text);
}

void json_put_tree(struct json_out *o, const struct json *j)
{
    before_value(o);
    add_tree(o->buf, j, 0, 0);
}
