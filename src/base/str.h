#pragma once
/* String views: pointer and length, by value, never owning, not NUL-terminated.
 * C strings appear only at the border to libc; everything that was parsed out of a buffer is a str.
 */

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct str {
    const char *p; /* may be NULL only when n is 0 */
    size_t n;
};

#define STR(lit) ((struct str){("" lit), sizeof(lit) - 1})
#define STR_NULL ((struct str){NULL, 0})
/* For printf: printf("%.*s", STR_FMT(s)). */
#define STR_FMT(s) (int)(s).n, (s).p ? (s).p : ""

static inline struct str str_from(const char *c)
{
    return (struct str){c, c ? strlen(c) : 0};
}

static inline struct str str_n(const char *p, size_t n)
{
    return (struct str){p, n};
}

bool str_eq(struct str a, struct str b);
bool str_eq_nocase(struct str a, struct str b); /* ASCII only */
/* Same result as str_eq in time that depends on the lengths only: for secrets. */
bool str_eq_consttime(struct str a, struct str b);
int str_cmp(struct str a, struct str b);
bool str_starts(struct str s, struct str prefix);
bool str_ends(struct str s, struct str suffix);
bool str_starts_nocase(struct str s, struct str prefix);
/* Index of the first byte `c` / the first occurrence of `needle`, or -1. */
ptrdiff_t str_find(struct str s, char c);
ptrdiff_t str_rfind(struct str s, char c);
ptrdiff_t str_find_str(struct str s, struct str needle);
/* s[from..to), clamped to the string. */
struct str str_sub(struct str s, size_t from, size_t to);
/* Without leading and trailing spaces and tabs. */
struct str str_trim(struct str s);
/* Without any white space at its ends: line breaks and the like as well. */
struct str str_trim_space(struct str s);
/* Cuts the piece before the first `sep` off the front of *rest and returns it; without a separator
 * the whole rest is returned and *rest becomes STR_NULL. Loop while rest.p is not NULL. */
struct str str_cut(struct str *rest, char sep);
char *str_dup(struct str s); /* heap, NUL-terminated */
/* Copies into `out` with a NUL; -ENOSPC when it does not fit, -EINVAL when it contains a NUL. */
int str_to_cstr(struct str s, char *out, size_t out_len);
/* How many letters to change, add or take away between two names, to guess which was meant;
 * SIZE_MAX when one has more than 63. */
size_t str_distance(const char *a, const char *b);
