#pragma once
/* Inside the json room only: the words of TOML (white space, strings, numbers, dates). */

#include "json/json.h"

struct toml_text {
    const char *p, *end;
    unsigned line;
    struct err *e;
};

/* All that can fail return 0 or -1 with t->e set. */
int toml_fail(struct toml_text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Next byte, or 0 at the end (a NUL in the text is refused before). */
static inline char toml_peek(const struct toml_text *t)
{
    return t->p < t->end ? *t->p : 0;
}
bool toml_take(struct toml_text *t, char c);
void toml_skip_space(struct toml_text *t); /* spaces and tabs */
/* Space, comment, then the end of the line or of the text. */
int toml_line_end(struct toml_text *t);
/* Space, comments and line ends, as between the values of an array. */
int toml_skip_blank(struct toml_text *t);
/* One part of a key, bare or quoted, appended to out. */
int toml_key_part(struct toml_text *t, struct buf *out);
/* A string, number, boolean or date; arrays and inline tables are the parser's. NULL: failed. */
struct json *toml_scalar(struct toml_text *t);
