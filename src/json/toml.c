/* TOML 1.0: tables, keys, arrays and inline tables. The words are in toml_lex.c.
 *
 * Most of the work is in refusing to define a thing twice. Beside the tree a mark is kept for each
 * table and array: who made it decides who may still add to it.
 *
 *   [a.b]        marks b DECLARED; a, if it had to be made, stays unmarked and may be declared
 * later a.b = 1      marks a with the section it stands in: more dotted keys may follow in that
 * section, later sections may neither declare a nor reach into it by a dotted key
 *   [[a]]        marks the array OF_TABLES; only [[a]] adds to it
 *   {...} [...]  are FROZEN once read: nothing reaches in */

#include "json/toml.h"

#include <string.h>

#include "base/map.h"
#include "base/must.h"
#include "base/utf8.h"
#include "json/toml_lex.h"

#define TOML_MAX_LINES_PATH 512u /* longer paths are not recorded in `lines` */

enum { DECLARED = 1, OF_TABLES = 2, FROZEN = 4, SECTION_SHIFT = 3 };

struct toml {
    struct toml_text t;
    struct map marks; /* address of a table or array -> marks, and section << SECTION_SHIFT */
    struct json *lines;
    struct buf path; /* of what is being read, as in "servers[1].port" */
    size_t section, n_sections;
};

/* Where a key leads: the table that is to hold it, the last part, and how deep that is. */
struct place {
    struct json *table;
    struct buf name;
    unsigned depth;
};

static size_t mark_get(const struct toml *p, const struct json *j)
{
    return (size_t)map_get(&p->marks, str_n((const char *)&j, sizeof(j)));
}

static void mark_set(struct toml *p, const struct json *j, size_t mark)
{
    (void)map_put(&p->marks, str_n((const char *)&j, sizeof(j)), (void *)mark);
}

static void path_add(struct toml *p, struct str key)
{
    if (p->path.len) {
        (void)buf_add_char(&p->path, '.');
    }
    (void)buf_add_str(&p->path, key);
}

/* Back to an earlier path; one that grew too long to be recorded is whole again. */
static void path_cut(struct toml *p, size_t len, bool failed)
{
    p->path.len = len;
    p->path.failed = failed;
}

static void note_line(struct toml *p)
{
    if (p->lines && !buf_failed(&p->path) && !json_get(p->lines, buf_cstr(&p->path))) {
        json_set(p->lines, buf_cstr(&p->path), json_int_new(p->t.line));
    }
}

static int descend(struct toml *p, struct place *at)
{
    return ++at->depth > JSON_MAX_DEPTH
               ? toml_fail(&p->t, "nested deeper than %d levels", JSON_MAX_DEPTH)
               : 0;
}

static struct json *child_table(struct json *table, const char *key)
{
    struct json *sub = json_object_new();
    json_set(table, key, sub);
    return sub;
}

/* One step of a [header]: into a table, or into the newest table of an array. */
static int step_header(struct toml *p, struct place *at)
{
    const char *key = buf_cstr(&at->name);
    struct json *next = json_get(at->table, key);
    path_add(p, buf_str(&at->name));
    if (!next) {
        next = child_table(at->table, key);
    } else if (mark_get(p, next) & FROZEN) {
        return toml_fail(&p->t, "\"%s\" is complete, nothing can be added to it", key);
    } else if (json_is_array(next)) {
        (void)buf_printf(&p->path, "[%zu]", json_len(next) - 1);
        next = json_item(next, json_len(next) - 1);
        at->depth++;
    } else if (!json_is_object(next)) {
        return toml_fail(&p->t, "\"%s\" is not a table", key);
    }
    at->table = next;
    return descend(p, at);
}

/* One step of a dotted key: only into tables that this section made. */
static int step_dotted(struct toml *p, struct place *at)
{
    const char *key = buf_cstr(&at->name);
    struct json *next = json_get(at->table, key);
    path_add(p, buf_str(&at->name));
    size_t mark = next ? mark_get(p, next) : 0;
    if (!next) {
        next = child_table(at->table, key);
    } else if (!json_is_object(next)) {
        return toml_fail(&p->t, "\"%s\" is not a table", key);
    } else if ((mark & (DECLARED | FROZEN)) || (mark && mark >> SECTION_SHIFT != p->section)) {
        return toml_fail(&p->t, "table \"%s\" is defined elsewhere", key);
    }
    mark_set(p, next, p->section << SECTION_SHIFT);
    at->table = next;
    return descend(p, at);
}

/* Reads a key and walks to the table that holds its last part, which is left in at->name. */
static int key(struct toml *p, struct place *at, int (*step)(struct toml *, struct place *))
{
    for (;;) {
        buf_clear(&at->name);
        toml_skip_space(&p->t);
        if (toml_key_part(&p->t, &at->name) < 0) {
            return -1;
        }
        toml_skip_space(&p->t);
        if (!toml_take(&p->t, '.')) {
            return 0;
        }
        if (step(p, at) < 0) {
            return -1;
        }
    }
}

static struct json *value(struct toml *p, unsigned depth);

static int key_value(struct toml *p, struct json *table, unsigned depth)
{
    struct place at = {.table = table, .name = BUF_INIT(TOML_MAX_KEY), .depth = depth};
    size_t path_len = p->path.len;
    bool path_failed = p->path.failed;
    int r = key(p, &at, step_dotted);
    if (r == 0) {
        path_add(p, buf_str(&at.name));
        note_line(p);
        if (json_get(at.table, buf_cstr(&at.name))) {
            r = toml_fail(&p->t, "\"%s\" is defined twice", buf_cstr(&at.name));
        } else if (!toml_take(&p->t, '=')) {
            r = toml_fail(&p->t, "expected \"=\" after the key");
        }
    }
    if (r == 0) {
        toml_skip_space(&p->t);
        struct json *v = value(p, at.depth);
        if (v) {
            json_set(at.table, buf_cstr(&at.name), v);
        } else {
            r = -1;
        }
    }
    path_cut(p, path_len, path_failed);
    buf_done(&at.name);
    return r;
}

static int array_items(struct toml *p, struct json *arr, unsigned depth)
{
    for (;;) {
        if (toml_skip_blank(&p->t) < 0) {
            return -1;
        }
        if (toml_take(&p->t, ']')) {
            return 0;
        }
        size_t path_len = p->path.len;
        bool path_failed = p->path.failed;
        (void)buf_printf(&p->path, "[%zu]", json_len(arr));
        struct json *v = value(p, depth);
        path_cut(p, path_len, path_failed);
        if (!v) {
            return -1;
        }
        json_push(arr, v);
        if (toml_skip_blank(&p->t) < 0) {
            return -1;
        }
        if (!toml_take(&p->t, ',') && toml_peek(&p->t) != ']') {
            return toml_fail(&p->t, "expected \",\" or \"]\" in the array");
        }
    }
}

static int inline_items(struct toml *p, struct json *table, unsigned depth)
{
    size_t outer = p->section;
    p->section = ++p->n_sections;
    toml_skip_space(&p->t);
    bool done = toml_take(&p->t, '}');
    while (!done) {
        if (key_value(p, table, depth) < 0) {
            return -1;
        }
        toml_skip_space(&p->t);
        done = toml_take(&p->t, '}');
        if (!done && !toml_take(&p->t, ',')) {
            return toml_fail(&p->t, "expected \",\" or \"}\" in the inline table");
        }
    }
    p->section = outer;
    return 0;
}

static struct json *value(struct toml *p, unsigned depth)
{
    bool is_array = toml_take(&p->t, '[');
    if (!is_array && !toml_take(&p->t, '{')) {
        return toml_scalar(&p->t);
    }
    if (depth >= JSON_MAX_DEPTH) {
        (void)toml_fail(&p->t, "nested deeper than %d levels", JSON_MAX_DEPTH);
        return NULL;
    }
    struct json *j = is_array ? json_array_new() : json_object_new();
    int r = is_array ? array_items(p, j, depth + 1) : inline_items(p, j, depth + 1);
    if (r < 0) {
        json_free(j);
        return NULL;
    }
    mark_set(p, j, FROZEN);
    return j;
}

/* [a.b]: the table itself. */
static int open_table(struct toml *p, struct place *at)
{
    const char *name = buf_cstr(&at->name);
    struct json *j = json_get(at->table, name);
    if (!j) {
        j = child_table(at->table, name);
    } else if (!json_is_object(j)) {
        return toml_fail(&p->t, "\"%s\" is not a table", name);
    } else if (mark_get(p, j)) {
        return toml_fail(&p->t, "table \"%s\" is defined twice", name);
    }
    mark_set(p, j, DECLARED);
    at->table = j;
    path_add(p, buf_str(&at->name));
    return descend(p, at);
}

/* [[a.b]]: one more table in the array. */
static int open_array_table(struct toml *p, struct place *at)
{
    const char *name = buf_cstr(&at->name);
    struct json *arr = json_get(at->table, name);
    if (!arr) {
        arr = json_array_new();
        json_set(at->table, name, arr);
        mark_set(p, arr, OF_TABLES);
    } else if (!(mark_get(p, arr) & OF_TABLES)) {
        return toml_fail(&p->t, "\"%s\" is not an array of tables", name);
    }
    struct json *j = json_object_new();
    json_push(arr, j);
    mark_set(p, j, DECLARED);
    at->table = j;
    at->depth++;
    path_add(p, buf_str(&at->name));
    (void)buf_printf(&p->path, "[%zu]", json_len(arr) - 1);
    return descend(p, at);
}

static int header(struct toml *p, struct json *root, struct place *at)
{
    bool is_array = toml_take(&p->t, '[');
    at->table = root;
    at->depth = 1;
    p->section = ++p->n_sections;
    path_cut(p, 0, false);
    if (key(p, at, step_header) < 0 || (is_array ? open_array_table : open_table)(p, at) < 0) {
        return -1;
    }
    note_line(p);
    if (!toml_take(&p->t, ']') || (is_array && !toml_take(&p->t, ']'))) {
        return toml_fail(&p->t, "expected \"%s\" after the name of the table",
                         is_array ? "]]" : "]");
    }
    return toml_line_end(&p->t);
}

static int document(struct toml *p, struct json *root)
{
    struct place at = {.table = root, .name = BUF_INIT(TOML_MAX_KEY), .depth = 1};
    int r = 0;
    p->section = ++p->n_sections;
    while (r == 0 && (r = toml_skip_blank(&p->t)) == 0 && p->t.p < p->t.end) {
        if (toml_take(&p->t, '[')) {
            r = header(p, root, &at);
        } else if ((r = key_value(p, at.table, at.depth)) == 0) {
            r = toml_line_end(&p->t);
        }
    }
    buf_done(&at.name);
    return r;
}

/* Bytes that may not be in the text at all, told with their line. */
static int check_text(struct toml *p)
{
    struct str text = str_n(p->t.p, (size_t)(p->t.end - p->t.p));
    if (text.n > TOML_MAX_TEXT) {
        return err_set(p->t.e, ERR_LIMIT, "more than %u bytes", TOML_MAX_TEXT);
    }
    while (text.n) {
        uint32_t cp;
        int n = utf8_next(text, &cp);
        if (n <= 0 || cp == 0) {
            return toml_fail(&p->t, n <= 0 ? "not valid UTF-8" : "NUL in the text");
        }
        p->t.line += cp == '\n';
        text = str_sub(text, (size_t)n, text.n);
    }
    p->t.line = 1;
    return 0;
}

struct json *toml_parse_lines(struct str text, struct json **ret_lines, struct err *e)
{
    if (str_starts(text, STR("\xef\xbb\xbf"))) {
        text = str_sub(text, 3, text.n);
    }
    struct toml p = {
        .t = {.p = text.p, .end = text.p + text.n, .line = 1, .e = e},
        .lines = ret_lines ? json_object_new() : NULL,
        .path = BUF_INIT(TOML_MAX_LINES_PATH),
    };
    struct json *root = json_object_new();
    if (check_text(&p) < 0 || document(&p, root) < 0) {
        json_free(root);
        json_free(p.lines);
        root = NULL;
        p.lines = NULL;
    }
    if (ret_lines && root) {
        *ret_lines = p.lines;
    }
    map_done(&p.marks);
    buf_done(&p.path);
    return root;
}

struct json *toml_parse(struct str text, struct err *e)
{
    return toml_parse_lines(text, NULL, e);
}
