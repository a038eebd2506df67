#pragma once
/* Tables with rounded corners. Cells are text; what does not fit is wrapped. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define TABLE_MAX_COLUMNS 16
#define TABLE_MIN_COLUMN 8 /* no column is squeezed below this */

struct table {
    const char *title; /* or NULL */
    size_t n_cols, n_rows;
    const char *head[TABLE_MAX_COLUMNS];
    char **cells; /* n_rows * n_cols, owned */
    bool lines;   /* between rows */
    size_t width; /* 0: as wide as it gets */
    bool color;   /* bold head and title */
};

void table_add(struct table *t, const char *const *cells); /* copies n_cols texts; NULL is "-" */
void table_render(const struct table *t, struct buf *out);
void table_done(struct table *t);
/* Columns a text takes on a terminal. */
size_t text_width(struct str s);
