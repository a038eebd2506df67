#pragma once
/* Inside the json room only: the regular expressions of field tables. */

#include <stdbool.h>

/* `pattern` is POSIX extended, compiled once per process and kept: it comes from a table, never
 * from a user. Thread-safe. */
bool pattern_match(const char *pattern, const char *s);
