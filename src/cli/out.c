#include "cli/out.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "cli/table.h"
#include "json/yaml.h"

static size_t terminal_width(void)
{
    struct winsize w;
    uint64_t n;
    const char *env = getenv("COLUMNS");
    if (env && parse_u64(str_from(env), &n) == 0 && n >= 20 && n <= 10000) {
        return (size_t)n;
    }
    if (!isatty(STDOUT_FILENO)) {
        return 0;
    }
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 20 ? w.ws_col : 80;
}

void out_init(struct out *o, bool color_wanted)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    bool may = color_wanted && !(no && no[0]) && !(term && strcmp(term, "dumb") == 0);
    *o = (struct out){.plain = !color_wanted, .width = terminal_width()};
    o->color = may && isatty(STDOUT_FILENO);
    o->color_err = may && isatty(STDERR_FILENO);
}

bool out_write(struct out *o, struct str s)
{
    int r = !o->broken && s.n ? fd_write_full(STDOUT_FILENO, s.p, s.n) : 0;
    if (r < 0) {
        o->broken = true;
        o->why = -r;
    }
    return !o->broken;
}

void out_line(struct out *o, const char *fmt, ...)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(OUT_MAX);
    va_list ap;
    va_start(ap, fmt);
    (void)buf_vprintf(&b, fmt, ap);
    va_end(ap);
    (void)buf_add_char(&b, '\n');
    (void)out_write(o, buf_str(&b));
}

struct json *jtext(const char *s)
{
    return s ? json_string_new(str_from(s)) : json_null_new();
}

/* ---- trees ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct json *sorted(const struct json *j)
{
    const char *key;
    struct json *v;
    void *it = NULL;
    size_t n = 0;
    if (json_is_array(j)) {
        struct json *out = json_array_new();
        for (size_t i = 0; i < json_len(j); i++) {
            json_push(out, sorted(json_item(j, i)));
        }
        return out;
    }
    if (!json_is_object(j)) {
        return json_clone(j);
    }
    struct json *out = json_object_new();
    cleanup_free const char **keys = xcalloc(json_len(j) + 1, sizeof(*keys));
    while (json_next(j, &it, &key, &v)) {
        keys[n++] = key;
    }
    qsort(keys, n, sizeof(*keys), by_name);
    for (size_t i = 0; i < n; i++) {
        json_set(out, keys[i], sorted(json_get(j, keys[i])));
    }
    return out;
}

void out_tree(struct out *o, const struct json *j)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(OUT_MAX);
    if (o->format == OUT_YAML) {
        cleanup_(json_free) struct json *s = sorted(j);
        (void)yaml_dump(s, &b);
    } else {
        (void)json_dump(j, &b, 2);
    }
    if (b.len && b.p[b.len - 1] != '\n') {
        (void)buf_add_char(&b, '\n');
    }
    (void)out_write(o, buf_str(&b));
}

static bool is_tree(const struct out *o)
{
    return o->format == OUT_JSON || o->format == OUT_YAML;
}

/* ---- cells ---- */

static void put_nested(struct buf *b, const struct json *j)
{
    const char *key;
    struct json *v;
    void *it = NULL;
    bool first = true;
    if (json_is_object(j)) {
        (void)buf_add_char(b, '{');
        while (json_next(j, &it, &key, &v)) {
            (void)buf_printf(b, "%s'%s': ", first ? "" : ", ", key);
            put_nested(b, v);
            first = false;
        }
        (void)buf_add_char(b, '}');
    } else if (json_is_array(j)) {
        (void)buf_add_char(b, '[');
        for (size_t i = 0; i < json_len(j); i++) {
            (void)buf_add_cstr(b, i ? ", " : "");
            put_nested(b, json_item(j, i));
        }
        (void)buf_add_char(b, ']');
    } else if (json_is_string(j)) {
        (void)buf_printf(b, "'%.*s'", STR_FMT(json_str(j)));
    } else if (json_is_bool(j)) {
        (void)buf_add_cstr(b, json_bool(j, false) ? "True" : "False");
    } else if (!j || json_is_null(j)) {
        (void)buf_add_cstr(b, "None");
    } else {
        (void)json_dump(j, b, 0);
    }
}

/* Text of a value as a cell; heap. */
static char *cell_text(const struct json *j)
{
    struct buf b = BUF_INIT(1u << 20);
    if (!j || json_is_null(j)) {
        return xstrdup("-");
    }
    if (json_is_string(j)) {
        return str_dup(json_str(j));
    }
    put_nested(&b, j);
    return buf_take(&b);
}

static const char *icon_of(const char *value)
{
    static const struct {
        const char *icon, *words;
    } icons[] = {
        {"●", "running|ready|healthy"},     {"◐", "pending|creating|starting"}, {"⏸", "paused"},
        {"○", "stopped|terminated|killed"}, {"✗", "error|failed|unhealthy"},    {"✦", "created"},
    };
    for (size_t i = 0; i < ARRAY_LEN(icons); i++) {
        struct str rest = str_from(icons[i].words);
        while (rest.p) {
            if (str_eq_nocase(str_cut(&rest, '|'), str_from(value))) {
                return icons[i].icon;
            }
        }
    }
    return NULL;
}

static char *status_cell(const char *key, const struct json *v)
{
    char *text = cell_text(v);
    bool status =
        strcmp(key, "status") == 0 || strcmp(key, "state") == 0 || strcmp(key, "healthy") == 0;
    const char *icon = status ? icon_of(text) : NULL;
    if (icon) {
        char *with = xasprintf("%s %s", icon, text);
        free(text);
        return with;
    }
    return text;
}

/* ---- models and rows ---- */

void out_model(struct out *o, const char *title, const struct json *obj)
{
    if (is_tree(o)) {
        out_tree(o, obj);
        return;
    }
    struct table t = {.title = title,
                      .n_cols = 2,
                      .head = {"Key", "Value"},
                      .lines = true,
                      .width = o->width,
                      .color = o->color};
    cleanup_(buf_done) struct buf b = BUF_INIT(OUT_MAX);
    const char *key;
    struct json *v;
    void *it = NULL;
    while (json_next(obj, &it, &key, &v)) {
        cleanup_free char *text = status_cell(key, v);
        const char *const cells[] = {key, text};
        table_add(&t, cells);
    }
    table_render(&t, &b);
    table_done(&t);
    (void)out_write(o, buf_str(&b));
}

void out_rows_tree(struct out *o, const char *title, const char *columns, const struct json *rows,
                   const struct json *tree)
{
    char names[TABLE_MAX_COLUMNS][40], heads[TABLE_MAX_COLUMNS][40];
    struct table t = {.title = title, .width = o->width, .color = o->color};
    if (is_tree(o)) {
        out_tree(o, tree);
        return;
    }
    for (struct str rest = str_from(columns); rest.p && t.n_cols < TABLE_MAX_COLUMNS; t.n_cols++) {
        (void)str_to_cstr(str_cut(&rest, ','), names[t.n_cols], sizeof(names[0]));
        char *h = heads[t.n_cols];
        (void)snprintf(h, sizeof(heads[0]), "%s", names[t.n_cols]);
        for (char *p = h; *p; p++) {
            *p = (char)(*p >= 'a' && *p <= 'z' ? *p - 'a' + 'A' : *p);
        }
        t.head[t.n_cols] = h;
    }
    for (size_t i = 0; i < json_len(rows); i++) {
        char *cells[TABLE_MAX_COLUMNS] = {0};
        for (size_t c = 0; c < t.n_cols; c++) {
            cells[c] = status_cell(names[c], json_get(json_item(rows, i), names[c]));
        }
        table_add(&t, (const char *const *)cells);
        for (size_t c = 0; c < t.n_cols; c++) {
            free(cells[c]);
        }
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(OUT_MAX);
    table_render(&t, &b);
    table_done(&t);
    (void)out_write(o, buf_str(&b));
}

void out_rows(struct out *o, const char *title, const char *columns, const struct json *rows)
{
    out_rows_tree(o, title, columns, rows, rows);
}

/* ---- panels and lines ---- */

void out_panel(struct out *o, const char *title, const struct json *obj)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(OUT_MAX);
    const char *key;
    struct json *v;
    void *it = NULL;
    if (is_tree(o)) {
        out_tree(o, obj);
        return;
    }
    if (o->plain) {
        (void)buf_printf(&b, "--- %s ---\n", title);
    } else {
        (void)buf_printf(&b, o->color ? "\n  \033[1;32m✓ %s\033[0m\n  " : "\n  ✓ %s\n  ", title);
        for (size_t i = 0; i < text_width(str_from(title)) + 2; i++) {
            (void)buf_add_cstr(&b, "─");
        }
        (void)buf_add_char(&b, '\n');
    }
    while (json_next(obj, &it, &key, &v)) {
        cleanup_free char *text = cell_text(v);
        (void)buf_printf(&b, "  %s: %s\n", key, text);
    }
    (void)buf_add_cstr(&b, o->plain ? "" : "\n");
    (void)out_write(o, buf_str(&b));
}

void out_text_panel(struct out *o, const char *title, struct str text)
{
    if (o->plain) {
        out_line(o, "--- %s ---\n%.*s", title, STR_FMT(text));
        return;
    }
    cleanup_free char *copy = str_dup(text);
    struct table t = {.n_cols = 1, .width = o->width};
    cleanup_(buf_done) struct buf b = BUF_INIT(OUT_MAX);
    size_t n = strlen(copy);
    if (n && copy[n - 1] == '\n') {
        copy[n - 1] = '\0';
    }
    const char *const cells[] = {copy};
    table_add(&t, cells);
    (void)buf_printf(&b, o->color ? "\033[1m%s\033[0m\n" : "%s\n", title);
    table_render(&t, &b);
    table_done(&t);
    (void)out_write(o, buf_str(&b));
}

struct line_kind {
    const char *status, *sign, *word, *color;
    bool to_stderr;
};

__attribute__((format(printf, 3, 0))) static void say(struct out *o, const struct line_kind *k,
                                                      const char *fmt, va_list ap)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(1u << 20), line = BUF_INIT(1u << 20);
    (void)buf_vprintf(&b, fmt, ap);
    if (is_tree(o)) {
        cleanup_(json_free) struct json *j = json_object_new();
        json_set(j, "status", jtext(k->status));
        json_set(j, "message", json_string_new(buf_str(&b)));
        out_tree(o, j);
        return;
    }
    bool color = k->to_stderr ? o->color_err : o->color;
    if (o->plain) {
        (void)buf_printf(&line, "%s: %.*s\n", k->word, STR_FMT(buf_str(&b)));
    } else {
        (void)buf_printf(&line, "  %s%s %.*s%s\n", color ? k->color : "", k->sign,
                         STR_FMT(buf_str(&b)), color ? "\033[0m" : "");
    }
    if (k->to_stderr) {
        (void)fd_write_full(STDERR_FILENO, line.p, line.len);
    } else {
        (void)out_write(o, buf_str(&line));
    }
}

static const struct line_kind kind_ok = {"ok", "✅", "OK", "\033[32m", false};
static const struct line_kind kind_info = {"info", "ℹ️ ", "INFO", "\033[36m", false};
static const struct line_kind kind_warn = {"warning", "⚠️ ", "WARN", "\033[33m", true};
static const struct line_kind kind_bad = {"error", "❌", "ERROR", "\033[31m", true};

#define SAY(kind)                                                                                  \
    va_list ap;                                                                                    \
    va_start(ap, fmt);                                                                             \
    say(o, (kind), fmt, ap);                                                                       \
    va_end(ap)

void out_ok(struct out *o, const char *fmt, ...)
{
    SAY(&kind_ok);
}

void out_info(struct out *o, const char *fmt, ...)
{
    SAY(&kind_info);
}

void out_warn(struct out *o, const char *fmt, ...)
{
    SAY(&kind_warn);
}

void out_bad(struct out *o, const char *fmt, ...)
{
    SAY(&kind_bad);
}

void out_problem(struct out *o, const char *title, const char *message)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(64u << 10);
    if (o->plain) {
        (void)buf_printf(&b, "ERROR [%s]: %s\n", title, message);
    } else {
        (void)buf_printf(&b, o->color_err ? "\n  \033[1;31m%s\033[0m\n  " : "\n  %s\n  ", title);
        for (size_t i = 0; i < text_width(str_from(title)) + 2; i++) {
            (void)buf_add_cstr(&b, "─");
        }
        (void)buf_printf(&b, "\n  %s\n\n", message);
    }
    (void)fd_write_full(STDERR_FILENO, b.p, b.len);
}
