#pragma once
/* What is printed: for people (tables, panels, lines with a sign), or as JSON, YAML or raw text.
 * `plain` (--no-color) also changes the wording of lines and panels; colour itself is used only on
 * a terminal. */

#include <stdbool.h>

#include "base/buf.h"
#include "json/json.h"

enum out_format { OUT_TABLE, OUT_JSON, OUT_YAML, OUT_RAW };

struct out {
    enum out_format format;
    bool plain;     /* --no-color */
    bool color;     /* on stdout */
    bool color_err; /* on stderr */
    bool broken;    /* nobody reads stdout any more, or it takes no more */
    int why;        /* errno of that */
    size_t width;   /* of the terminal; 0: not one */
};

#define OUT_MAX (256u << 20) /* limit: one rendered answer */

void out_init(struct out *o, bool color_wanted);
/* False when stdout is closed; nothing is printed any more then. */
bool out_write(struct out *o, struct str s);
void out_line(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The tree as JSON or YAML (sorted keys). */
void out_tree(struct out *o, const struct json *j);
/* An object: Key/Value table, or the tree. */
void out_model(struct out *o, const char *title, const struct json *obj);
/* An array of objects; columns as "id,status,image". */
void out_rows(struct out *o, const char *title, const char *columns, const struct json *rows);
/* The same with another tree for JSON and YAML. */
void out_rows_tree(struct out *o, const char *title, const char *columns, const struct json *rows,
                   const struct json *tree);
/* "  ✓ TITLE" and its lines, or the tree. */
void out_panel(struct out *o, const char *title, const struct json *obj);
void out_text_panel(struct out *o, const char *title, struct str text);
void out_ok(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void out_info(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void out_warn(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void out_bad(struct out *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* An error with a title, on stderr. */
void out_problem(struct out *o, const char *title, const char *message);

/* NULL becomes null. */
struct json *jtext(const char *s);
