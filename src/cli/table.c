#include "cli/table.h"

#include <stdint.h>

#include "base/must.h"
#include "base/utf8.h"

static size_t cell_width(uint32_t cp)
{
    if (cp < 0x20 || cp == 0x7f || cp == 0x200d || (cp >= 0xfe00 && cp <= 0xfe0f) ||
        (cp >= 0x300 && cp <= 0x36f)) {
        return 0;
    }
    bool wide = (cp >= 0x1100 && cp <= 0x115f) || (cp >= 0x2e80 && cp <= 0xa4cf) ||
                (cp >= 0xac00 && cp <= 0xd7a3) || (cp >= 0xf900 && cp <= 0xfaff) ||
                (cp >= 0xfe30 && cp <= 0xfe6f) || (cp >= 0xff00 && cp <= 0xff60) ||
                (cp >= 0x1f300 && cp <= 0x1faff) || (cp >= 0x20000 && cp <= 0x3fffd);
    return wide ? 2 : 1;
}

/* Bytes of s that fit into `width` columns, at least one character. */
static size_t fit(struct str s, size_t width)
{
    size_t used = 0, w = 0;
    while (used < s.n) {
        uint32_t cp = '?';
        int n = utf8_next(str_sub(s, used, s.n), &cp);
        size_t step = n > 0 ? (size_t)n : 1, cw = n > 0 ? cell_width(cp) : 1;
        if (w + cw > width && used) {
            break;
        }
        w += cw;
        used += step;
    }
    return used;
}

size_t text_width(struct str s)
{
    size_t w = 0;
    while (s.n) {
        uint32_t cp = '?';
        int n = utf8_next(s, &cp);
        w += n > 0 ? cell_width(cp) : 1;
        s = str_sub(s, n > 0 ? (size_t)n : 1, s.n);
    }
    return w;
}

void table_add(struct table *t, const char *const *cells)
{
    t->cells = xreallocarray(t->cells, (t->n_rows + 1) * t->n_cols, sizeof(*t->cells));
    for (size_t i = 0; i < t->n_cols; i++) {
        t->cells[t->n_rows * t->n_cols + i] = xstrdup(cells[i] ? cells[i] : "-");
    }
    t->n_rows++;
}

void table_done(struct table *t)
{
    for (size_t i = 0; i < t->n_rows * t->n_cols; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    t->cells = NULL;
    t->n_rows = 0;
}

/* The widest line of a text. */
static size_t widest(const char *text)
{
    struct str rest = str_from(text);
    size_t w = 0;
    while (rest.p) {
        size_t line = text_width(str_cut(&rest, '\n'));
        w = MAX(w, line);
    }
    return w;
}

static void measure(const struct table *t, size_t w[TABLE_MAX_COLUMNS])
{
    size_t sum = 0;
    for (size_t c = 0; c < t->n_cols; c++) {
        w[c] = t->head[c] ? widest(t->head[c]) : 0;
        for (size_t r = 0; r < t->n_rows; r++) {
            w[c] = MAX(w[c], widest(t->cells[r * t->n_cols + c]));
        }
        sum += w[c] + 3;
    }
    /* Too wide: the widest column gives, one by one. */
    while (t->width && sum + 1 > t->width) {
        size_t most = 0;
        for (size_t c = 1; c < t->n_cols; c++) {
            most = w[c] > w[most] ? c : most;
        }
        if (w[most] <= TABLE_MIN_COLUMN) {
            break;
        }
        w[most]--;
        sum--;
    }
}

static void rule(const struct table *t, const size_t *w, struct buf *out, const char *left,
                 const char *mid, const char *right)
{
    for (size_t c = 0; c < t->n_cols; c++) {
        (void)buf_add_cstr(out, c ? mid : left);
        for (size_t i = 0; i < w[c] + 2; i++) {
            (void)buf_add_cstr(out, "─");
        }
    }
    (void)buf_printf(out, "%s\n", right);
}

static void spaces(struct buf *out, size_t n)
{
    (void)buf_printf(out, "%*s", (int)n, "");
}

/* One row, as many lines as its longest cell needs. */
static void row(const struct table *t, const size_t *w, struct buf *out, const char *const *cells,
                bool bold)
{
    struct str rest[TABLE_MAX_COLUMNS];
    bool more = true;
    for (size_t c = 0; c < t->n_cols; c++) {
        rest[c] = str_from(cells[c] ? cells[c] : "");
    }
    while (more) {
        more = false;
        for (size_t c = 0; c < t->n_cols; c++) {
            ptrdiff_t nl = str_find(rest[c], '\n');
            struct str line = nl >= 0 ? str_sub(rest[c], 0, (size_t)nl) : rest[c];
            size_t n = line.n ? fit(line, w[c]) : 0;
            struct str piece = str_sub(line, 0, n);
            (void)buf_printf(out, "│ %s%.*s%s", bold ? "\033[1m" : "", STR_FMT(piece),
                             bold ? "\033[0m" : "");
            size_t used = text_width(piece);
            spaces(out, (used < w[c] ? w[c] - used : 0) + 1);
            rest[c] = str_sub(rest[c], n + (nl >= 0 && n == (size_t)nl), rest[c].n);
            more = more || rest[c].n;
        }
        (void)buf_add_cstr(out, "│\n");
    }
}

void table_render(const struct table *t, struct buf *out)
{
    size_t w[TABLE_MAX_COLUMNS] = {0}, total = 1;
    must(t->n_cols > 0 && t->n_cols <= TABLE_MAX_COLUMNS);
    measure(t, w);
    for (size_t c = 0; c < t->n_cols; c++) {
        total += w[c] + 3;
    }
    if (t->title) {
        size_t n = text_width(str_from(t->title));
        spaces(out, total > n ? (total - n) / 2 : 0);
        (void)buf_printf(out, t->color ? "\033[1m%s\033[0m\n" : "%s\n", t->title);
    }
    rule(t, w, out, "╭", "┬", "╮");
    if (t->head[0]) {
        row(t, w, out, t->head, t->color);
        rule(t, w, out, "├", "┼", "┤");
    }
    for (size_t r = 0; r < t->n_rows; r++) {
        if (r && t->lines) {
            rule(t, w, out, "├", "┼", "┤");
        }
        row(t, w, out, (const char *const *)&t->cells[r * t->n_cols], false);
    }
    rule(t, w, out, "╰", "┴", "╯");
}
