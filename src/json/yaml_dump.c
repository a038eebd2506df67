/* Trees as YAML for people: block style, quotes only where they are needed, text with line breaks
 * as a literal block. What is written here reads back as the same tree. */

#include <errno.h>
#include <string.h>

#include "base/utf8.h"
#include "json/yaml.h"
#include "json/yaml_scalar.h"

#define LONG_KEY 512u /* libyaml takes "key:" only up to 1024 characters; beyond it is "? key" */

static void add_indent(struct buf *b, unsigned level)
{
    for (unsigned i = 0; i < level; i++) {
        (void)buf_add(b, "  ", 2);
    }
}

/* ---- strings ---- */

static bool is_plain_char(struct str s, size_t i, uint32_t cp)
{
    char before = i ? s.p[i - 1] : ' ';
    char after = i + 1 < s.n ? s.p[i + 1] : ' ';
    if (cp >= 0x80) {
        return cp > 0xa0 && cp != 0x2028 && cp != 0x2029 && yaml_is_printable(cp);
    }
    if ((cp >= '0' && cp <= '9') || (cp >= 'A' && cp <= 'Z') || (cp >= 'a' && cp <= 'z')) {
        return true;
    }
    if (cp == '_' || cp == '/' || cp == '.') {
        return true;
    }
    if (i == 0) {
        /* indicators, and what could be one; an option such as -f is none */
        return cp == '-' && after > ' ' && after != '-' && after != ':';
    }
    switch (cp) {
    case ' ':
        return after != ' ' && after != '#' && i + 1 < s.n;
    case '#':
        return before != ' ';
    case ':':
        return after != ' ';
    case '-':
    case '+':
    case '@':
    case '=':
    case '(':
    case ')':
    case ';':
    case '*':
    case '$':
    case '~':
        return true;
    default:
        return false;
    }
}

static bool is_plain(struct str s)
{
    if (s.n == 0 || yaml_is_ambiguous(s) || str_starts(s, STR("..."))) {
        return false;
    }
    for (size_t i = 0; i < s.n;) {
        uint32_t cp = 0;
        int n = utf8_next(str_sub(s, i, s.n), &cp);
        if (n <= 0 || !is_plain_char(s, i, cp)) {
            return false;
        }
        i += (size_t)n;
    }
    return true;
}

static bool is_break(uint32_t cp)
{
    return cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

/* A block shows its text as it is, so everything in it must be visible and survive. */
static bool is_block(struct str s)
{
    if (str_find(s, '\n') < 0 || s.p[0] == '\n' || s.p[0] == ' ' || s.p[0] == '\t') {
        return false;
    }
    for (size_t i = 0; i < s.n;) {
        uint32_t cp = 0;
        int n = utf8_next(str_sub(s, i, s.n), &cp);
        if (n <= 0 || !yaml_is_printable(cp) || is_break(cp) ||
            (cp == '\n' && i && (s.p[i - 1] == ' ' || s.p[i - 1] == '\t'))) {
            return false;
        }
        i += (size_t)n;
    }
    return s.p[s.n - 1] != ' ' && s.p[s.n - 1] != '\t';
}

static void add_escaped(struct buf *b, uint32_t cp)
{
    static const char from[] = "\n\t\r\"\\";
    static const char to[] = "ntr\"\\";
    const char *at = cp && cp < 0x80 ? strchr(from, (int)cp) : NULL;
    if (at) {
        (void)buf_printf(b, "\\%c", to[at - from]);
    } else if (cp < 0x100) {
        (void)buf_printf(b, "\\x%02x", (unsigned)cp);
    } else if (cp < 0x10000) {
        (void)buf_printf(b, "\\u%04x", (unsigned)cp);
    } else {
        (void)buf_printf(b, "\\U%08x", (unsigned)cp);
    }
}

static void add_quoted(struct buf *b, struct str s)
{
    (void)buf_add_char(b, '"');
    while (s.n) {
        uint32_t cp = 0;
        int n = utf8_next(s, &cp);
        n = n <= 0 ? 1 : n;
        if (cp == '"' || cp == '\\' || cp < 0x20 || is_break(cp) || !yaml_is_printable(cp)) {
            add_escaped(b, cp);
        } else {
            (void)buf_add(b, s.p, (size_t)n);
        }
        s = str_sub(s, (size_t)n, s.n);
    }
    (void)buf_add_char(b, '"');
}

/* Between single quotes nothing is escaped: everything must be visible as it is. */
static bool is_single(struct str s)
{
    while (s.n) {
        uint32_t cp = 0;
        int n = utf8_next(s, &cp);
        if (n <= 0 || cp < 0x20 || is_break(cp) || !yaml_is_printable(cp)) {
            return false;
        }
        s = str_sub(s, (size_t)n, s.n);
    }
    return true;
}

static void add_single(struct buf *b, struct str s)
{
    (void)buf_add_char(b, '\'');
    for (size_t i = 0; i < s.n; i++) {
        (void)buf_add_cstr(b, s.p[i] == '\'' ? "'" : "");
        (void)buf_add_char(b, s.p[i]);
    }
    (void)buf_add_char(b, '\'');
}

static void add_text(struct buf *b, struct str s)
{
    if (is_plain(s)) {
        (void)buf_add_str(b, s);
    } else if (is_single(s)) {
        add_single(b, s);
    } else {
        add_quoted(b, s);
    }
}

/* Behind the chomping indicator: one line break is the rule, none and several are marked. */
static void add_block(struct buf *b, struct str s, unsigned level)
{
    bool ends = s.p[s.n - 1] == '\n';
    bool more = ends && s.p[s.n - 2] == '\n';
    (void)buf_add_cstr(b, more ? "|+\n" : ends ? "|\n" : "|-\n");
    if (ends) {
        s.n--;
    }
    while (s.p) {
        struct str line = str_cut(&s, '\n');
        if (line.n) {
            add_indent(b, level);
            (void)buf_add_str(b, line);
        }
        (void)buf_add_char(b, '\n');
    }
}

/* ---- trees ---- */

static bool is_container(const struct json *j)
{
    return (json_is_object(j) || json_is_array(j)) && json_len(j) > 0;
}

/* A scalar or an empty container, and the end of its line. */
static void add_leaf(struct buf *b, const struct json *j, unsigned level)
{
    if (json_is_string(j) && is_block(json_str(j))) {
        add_block(b, json_str(j), level);
        return;
    }
    if (json_is_string(j)) {
        add_text(b, json_str(j));
    } else {
        (void)json_dump(j, b, 0);
    }
    (void)buf_add_char(b, '\n');
}

static void add_node(struct buf *b, const struct json *j, unsigned level, bool in_line);

static void add_member(struct buf *b, const char *key, const struct json *value, unsigned level)
{
    struct str k = str_from(key);
    if (k.n > LONG_KEY) {
        (void)buf_add_cstr(b, "? ");
        add_text(b, k);
        (void)buf_add_char(b, '\n');
        add_indent(b, level);
    } else {
        add_text(b, k);
    }
    (void)buf_add_char(b, ':');
    if (is_container(value)) {
        (void)buf_add_char(b, '\n');
        /* A list stands below its key, not to the right of it. */
        add_node(b, value, level + !json_is_array(value), false);
    } else {
        (void)buf_add_char(b, ' ');
        add_leaf(b, value, level + 1);
    }
}

/* in_line: the cursor stands behind "- " already, so the first entry is not indented. */
static void add_node(struct buf *b, const struct json *j, unsigned level, bool in_line)
{
    void *it = NULL;
    const char *key;
    struct json *value;
    while (json_is_object(j) && json_next(j, &it, &key, &value)) {
        add_indent(b, in_line ? 0 : level);
        in_line = false;
        add_member(b, key, value, level);
    }
    for (size_t i = 0; json_is_array(j) && i < json_len(j); i++) {
        add_indent(b, in_line ? 0 : level);
        in_line = false;
        (void)buf_add_cstr(b, "- ");
        value = json_item(j, i);
        if (is_container(value)) {
            add_node(b, value, level + 1, true);
        } else {
            add_leaf(b, value, level + 1);
        }
    }
}

int yaml_dump(const struct json *j, struct buf *out)
{
    if (is_container(j)) {
        add_node(out, j, 0, false);
    } else {
        add_leaf(out, j, 1);
    }
    return buf_failed(out) ? -ENOSPC : 0;
}
