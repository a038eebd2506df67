/* String views: comparing, searching, cutting. */

#include "base/str.h"

#include <errno.h>
#include <stdint.h>

#include "base/must.h"

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

bool str_eq(struct str a, struct str b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

bool str_eq_nocase(struct str a, struct str b)
{
    return a.n == b.n && str_starts_nocase(a, b);
}

bool str_eq_consttime(struct str a, struct str b)
{
    if (a.n != b.n) {
        return false;
    }
    volatile unsigned char diff = 0;
    for (size_t i = 0; i < a.n; i++) {
        diff = (unsigned char)(diff | (a.p[i] ^ b.p[i]));
    }
    return diff == 0;
}

int str_cmp(struct str a, struct str b)
{
    size_t n = MIN(a.n, b.n);
    int r = n ? memcmp(a.p, b.p, n) : 0;
    return r ? r : (a.n > b.n) - (a.n < b.n);
}

bool str_starts(struct str s, struct str prefix)
{
    return s.n >= prefix.n && str_eq(str_n(s.p, prefix.n), prefix);
}

bool str_ends(struct str s, struct str suffix)
{
    return suffix.n == 0 ||
           (s.n >= suffix.n && str_eq(str_n(s.p + (s.n - suffix.n), suffix.n), suffix));
}

bool str_starts_nocase(struct str s, struct str prefix)
{
    if (s.n < prefix.n) {
        return false;
    }
    for (size_t i = 0; i < prefix.n; i++) {
        if (lower(s.p[i]) != lower(prefix.p[i])) {
            return false;
        }
    }
    return true;
}

ptrdiff_t str_find(struct str s, char c)
{
    const char *at = s.n ? memchr(s.p, c, s.n) : NULL;
    return at ? at - s.p : -1;
}

ptrdiff_t str_rfind(struct str s, char c)
{
    const char *at = s.n ? memrchr(s.p, c, s.n) : NULL;
    return at ? at - s.p : -1;
}

ptrdiff_t str_find_str(struct str s, struct str needle)
{
    if (needle.n == 0) {
        return 0;
    }
    const char *at = s.n ? memmem(s.p, s.n, needle.p, needle.n) : NULL;
    return at ? at - s.p : -1;
}

struct str str_sub(struct str s, size_t from, size_t to)
{
    to = MIN(to, s.n);
    from = MIN(from, to);
    return s.p ? str_n(s.p + from, to - from) : STR_NULL;
}

static struct str trim(struct str s, struct str set)
{
    while (s.n && str_find(set, s.p[0]) >= 0) {
        s.p++;
        s.n--;
    }
    while (s.n && str_find(set, s.p[s.n - 1]) >= 0) {
        s.n--;
    }
    return s;
}

struct str str_trim(struct str s)
{
    return trim(s, STR(" \t"));
}

struct str str_trim_space(struct str s)
{
    return trim(s, STR(" \t\n\v\f\r"));
}

struct str str_cut(struct str *rest, char sep)
{
    struct str piece = *rest;
    ptrdiff_t at = str_find(*rest, sep);
    if (at < 0) {
        *rest = STR_NULL;
        return piece;
    }
    piece.n = (size_t)at;
    *rest = str_n(rest->p + at + 1, rest->n - (size_t)at - 1);
    return piece;
}

char *str_dup(struct str s)
{
    char *p = xmalloc(s.n + 1);
    if (s.n) {
        memcpy(p, s.p, s.n);
    }
    p[s.n] = 0;
    return p;
}

int str_to_cstr(struct str s, char *out, size_t out_len)
{
    if (s.n >= out_len) {
        return -ENOSPC;
    }
    if (str_find(s, 0) >= 0) {
        return -EINVAL;
    }
    if (s.n) {
        memcpy(out, s.p, s.n);
    }
    out[s.n] = 0;
    return 0;
}

size_t str_distance(const char *a, const char *b)
{
    size_t row[64], n = strlen(b);
    if (strlen(a) >= ARRAY_LEN(row) || n >= ARRAY_LEN(row)) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t above = row[j];
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            row[j] = MIN(change, MIN(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[n];
}
