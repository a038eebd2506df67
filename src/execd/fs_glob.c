/* A backtracking matcher. Alternatives are not expanded: what follows a group is kept in a chain of
 * continuations on the stack, and each alternative is tried in front of it. */

#include "execd/fs_glob.h"

#include <errno.h>
#include <stdint.h>

#include "base/utf8.h"
#include "execd/limits.h"

/* ---- checking ---- */

/* Length of the class that begins at s ("[...]"), or 0 when it is malformed. */
static size_t class_len(struct str s)
{
    size_t i = 1;
    if (i < s.n && (s.p[i] == '!' || s.p[i] == '^')) {
        i++;
    }
    size_t first = i;
    for (; i < s.n && s.p[i] != ']'; i++) {
        if (s.p[i] == '\\') {
            i++;
        }
    }
    return i < s.n && i > first ? i + 1 : 0;
}

/* Length of the group that begins at s ("{..}" or "(..)"), brackets included, or 0. */
static size_t group_len(struct str s)
{
    char open = s.p[0], close = open == '{' ? '}' : ')';
    unsigned depth = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '\\') {
            i++;
        } else if (s.p[i] == '[') {
            size_t n = class_len(str_sub(s, i, s.n));
            if (n == 0) {
                return 0;
            }
            i += n - 1;
        } else if (s.p[i] == open) {
            depth++;
        } else if (s.p[i] == close && --depth == 0) {
            return i + 1;
        }
    }
    return 0;
}

static int check(struct str s, unsigned depth)
{
    if (depth > GLOB_MAX_NESTING) {
        return -E2BIG;
    }
    for (size_t i = 0; i < s.n; i++) {
        struct str rest = str_sub(s, i, s.n);
        size_t n = 1;
        switch (s.p[i]) {
        case '\\':
            if (rest.n < 2) {
                return -EINVAL;
            }
            n = 2;
            break;
        case '[':
            n = class_len(rest);
            break;
        case '!':
            rest = str_sub(s, i + 1, s.n);
            n = rest.n > 0 && rest.p[0] == '(' ? group_len(rest) : 0;
            n += n > 0;
            break;
        case '{':
            n = group_len(rest);
            break;
        default:
            break;
        }
        if (n == 0) {
            return -EINVAL;
        }
        if (n > 1 && (s.p[i] == '{' || s.p[i] == '!')) {
            size_t head = s.p[i] == '{' ? 1 : 2;
            int r = check(str_sub(s, i + head, i + n - 1), depth + 1);
            if (r < 0) {
                return r;
            }
        }
        i += n - 1;
    }
    return 0;
}

int glob_check(struct str pattern)
{
    return pattern.n > GLOB_MAX_PATTERN ? -E2BIG : check(pattern, 0);
}

/* ---- matching ---- */

struct cont {
    struct str rest;
    const struct cont *next;
};

struct matcher {
    struct str pattern; /* the whole of it: what stands before a piece decides about "**" */
    const char *end;    /* of the name */
    uint32_t steps;
};

static int match(struct matcher *m, struct str p, const char *s, const struct cont *k);

static size_t char_at(const char *s, const char *end, uint32_t *ret_cp)
{
    int n = utf8_next(str_n(s, (size_t)(end - s)), ret_cp);
    if (n <= 0) {
        *ret_cp =
            0x110000u + (unsigned char)*s; /* a byte that is no character equals only itself */
        return 1;
    }
    return (size_t)n;
}

static uint32_t class_char(struct str c, size_t *i)
{
    if (c.p[*i] == '\\' && *i + 1 < c.n) {
        (*i)++;
    }
    uint32_t cp;
    *i += char_at(c.p + *i, c.p + c.n, &cp);
    return cp;
}

static bool class_has(struct str c, uint32_t cp)
{
    size_t i = 0;
    bool negated = c.n > 0 && (c.p[0] == '!' || c.p[0] == '^');
    if (negated) {
        i++;
    }
    bool found = false;
    while (i < c.n) {
        uint32_t lo = class_char(c, &i), hi = lo;
        if (i + 1 < c.n && c.p[i] == '-') {
            i++;
            hi = class_char(c, &i);
        }
        found |= cp >= lo && cp <= hi;
    }
    return found != negated;
}

static int match_end(struct matcher *m, const char *s, const struct cont *k)
{
    if (k) {
        return match(m, k->rest, s, k->next);
    }
    return s == m->end;
}

/* `rest` against every end of a run without '/' that begins at s. */
static int match_star(struct matcher *m, struct str rest, const char *s, const struct cont *k)
{
    for (;;) {
        int r = match(m, rest, s, k);
        if (r != 0 || s == m->end || *s == '/') {
            return r;
        }
        uint32_t cp;
        s += char_at(s, m->end, &cp);
    }
}

/* Any number of whole segments, then `rest`, which begins with '/' or is empty. */
static int match_segments(struct matcher *m, struct str rest, const char *s, const struct cont *k)
{
    if (rest.n == 0 && !k) {
        return 1;
    }
    /* "**" and its slash may both be nothing: what follows is tried at the front of each segment.
     * Where the slash is not in this piece of the pattern, it is tried at the end of each. */
    bool at_front = rest.n > 0;
    if (at_front) {
        rest = str_sub(rest, 1, rest.n);
    }
    int r = match(m, rest, s, k);
    while (r == 0 && s < m->end) {
        while (s < m->end && *s != '/') {
            s++;
        }
        if (at_front && s == m->end) {
            return 0;
        }
        r = match(m, rest, at_front ? s + 1 : s, k);
        s += s < m->end;
    }
    return r;
}

/* Cuts the next alternative off *alts, at `sep` outside of groups, classes and escapes. */
static struct str next_alternative(struct str *alts, char sep)
{
    size_t i = 0;
    while (i < alts->n && alts->p[i] != sep) {
        struct str rest = str_sub(*alts, i, alts->n);
        if (rest.p[0] == '\\') {
            i += 2;
        } else if (rest.p[0] == '[') {
            i += class_len(rest);
        } else if (rest.p[0] == '{') {
            i += group_len(rest);
        } else if (rest.p[0] == '!' && rest.n > 1 && rest.p[1] == '(') {
            i += 1 + group_len(str_sub(rest, 1, rest.n));
        } else {
            i++;
        }
    }
    struct str alt = str_sub(*alts, 0, i);
    *alts = i < alts->n ? str_sub(*alts, i + 1, alts->n) : STR_NULL;
    return alt;
}

static int match_either(struct matcher *m, struct str alts, const char *s, const struct cont *k)
{
    do {
        int r = match(m, next_alternative(&alts, ','), s, k);
        if (r != 0) {
            return r;
        }
    } while (alts.p);
    return 0;
}

/* Is the name up to `end` one of the alternatives? */
static int match_any_exactly(struct matcher *m, struct str alts, const char *s, const char *end)
{
    const char *saved = m->end;
    m->end = end;
    int r = 0;
    do {
        r = match(m, next_alternative(&alts, '|'), s, NULL);
    } while (r == 0 && alts.p);
    m->end = saved;
    return r;
}

static int match_neither(struct matcher *m, struct str alts, struct str rest, const char *s,
                         const struct cont *k)
{
    for (const char *to = s;;) {
        int r = match_any_exactly(m, alts, s, to);
        if (r < 0) {
            return r;
        }
        if (r == 0 && (r = match(m, rest, to, k)) != 0) {
            return r;
        }
        if (to == m->end || *to == '/') {
            return 0;
        }
        uint32_t cp;
        to += char_at(to, m->end, &cp);
    }
}

/* Does "**" at p stand for a whole segment? */
static bool is_double_star(const struct matcher *m, struct str p)
{
    if (p.n < 2 || p.p[1] != '*') {
        return false;
    }
    char before = p.p == m->pattern.p ? '/' : p.p[-1];
    return (before == '/' || before == '{' || before == ',') && (p.n == 2 || p.p[2] == '/');
}

static int match_stars(struct matcher *m, struct str p, const char *s, const struct cont *k)
{
    if (is_double_star(m, p)) {
        return match_segments(m, str_sub(p, 2, p.n), s, k);
    }
    size_t n = 1;
    while (n < p.n && p.p[n] == '*') {
        n++;
    }
    return match_star(m, str_sub(p, n, p.n), s, k);
}

/* "{..}" or "!(..)" at the front of p. */
static int match_group(struct matcher *m, struct str p, const char *s, const struct cont *k)
{
    size_t head = p.p[0] == '!' ? 2 : 1;
    size_t n = head - 1 + group_len(str_sub(p, head - 1, p.n));
    struct str alts = str_sub(p, head, n - 1), rest = str_sub(p, n, p.n);
    if (p.p[0] == '!') {
        return match_neither(m, alts, rest, s, k);
    }
    const struct cont after = {rest, k};
    return match_either(m, alts, s, &after);
}

/* One character of the name against the front of p. Returns what it takes of p, 0 for no match. */
static size_t match_char(const struct matcher *m, struct str p, const char **s)
{
    if (*s == m->end) {
        return 0;
    }
    size_t lit = p.p[0] == '\\' ? 1 : 0;
    if (lit || (p.p[0] != '?' && p.p[0] != '[')) {
        return *(*s)++ == p.p[lit] ? lit + 1 : 0;
    }
    uint32_t cp;
    size_t n = char_at(*s, m->end, &cp), take = 1;
    if (cp == '/') {
        return 0;
    }
    if (p.p[0] == '[') {
        take = class_len(p);
        if (!class_has(str_sub(p, 1, take - 1), cp)) {
            return 0;
        }
    }
    *s += n;
    return take;
}

static int match(struct matcher *m, struct str p, const char *s, const struct cont *k)
{
    while (p.n > 0) {
        if (++m->steps > GLOB_MAX_STEPS) {
            return -E2BIG;
        }
        if (p.p[0] == '*') {
            return match_stars(m, p, s, k);
        }
        if (p.p[0] == '{' || p.p[0] == '!') {
            return match_group(m, p, s, k);
        }
        if (s == m->end && !k && str_eq(p, STR("/**"))) {
            return 1; /* "a/" followed by any segments: "a" itself too */
        }
        size_t n = match_char(m, p, &s);
        if (n == 0) {
            return 0;
        }
        p = str_sub(p, n, p.n);
    }
    return match_end(m, s, k);
}

int glob_match(struct str pattern, struct str name)
{
    struct matcher m = {.pattern = pattern, .end = name.p + name.n};
    return match(&m, pattern, name.p, NULL);
}
