/* UTF-8 checking. One table decides what may follow a lead byte; everything else is built on it. */

#include "base/utf8.h"

#include <string.h>

#include "base/must.h"

struct lead {
    uint8_t need, lo, hi; /* continuation bytes, and the range of the first of them */
};

/* Table 3-7 of the Unicode standard: the ranges exclude overlong forms, surrogates and everything
 * above U+10FFFF. need 0 for a byte that begins nothing. */
static const struct lead leads[256] = {
    [0xc2 ... 0xdf] = {1, 0x80, 0xbf}, [0xe0] = {2, 0xa0, 0xbf},
    [0xe1 ... 0xec] = {2, 0x80, 0xbf}, [0xed] = {2, 0x80, 0x9f},
    [0xee ... 0xef] = {2, 0x80, 0xbf}, [0xf0] = {3, 0x90, 0xbf},
    [0xf1 ... 0xf3] = {3, 0x80, 0xbf}, [0xf4] = {3, 0x80, 0x8f},
};

static bool is_continuation(unsigned char c)
{
    return (c & 0xc0) == 0x80;
}

/* What is at the front is no whole sequence: 0 when it never can be, -1 when the end is missing. */
static int broken(const struct lead *l, const unsigned char *p, size_t n)
{
    for (size_t i = 1; i <= l->need; i++) {
        if (i == n) {
            return -1;
        }
        if (i == 1 ? p[1] < l->lo || p[1] > l->hi : !is_continuation(p[i])) {
            return 0;
        }
    }
    return 0;
}

int utf8_next(struct str s, uint32_t *ret_cp)
{
    if (s.n == 0) {
        return -1;
    }
    const unsigned char *p = (const unsigned char *)s.p;
    uint32_t cp = p[0];
    int n = 1;
    if (cp >= 0x80) {
        const struct lead *l = &leads[p[0]];
        if (s.n <= l->need || l->need == 0 || p[1] < l->lo || p[1] > l->hi) {
            return broken(l, p, s.n);
        }
        n = l->need + 1;
        cp = (cp & (0x3fu >> l->need)) << 6 | (p[1] & 0x3fu);
        if (n > 2) {
            if (!is_continuation(p[2])) {
                return 0;
            }
            cp = cp << 6 | (p[2] & 0x3fu);
        }
        if (n > 3) {
            if (!is_continuation(p[3])) {
                return 0;
            }
            cp = cp << 6 | (p[3] & 0x3fu);
        }
    }
    if (ret_cp) {
        *ret_cp = cp;
    }
    return n;
}

/* Length of the ASCII run at the front. */
static size_t ascii_run(const char *p, size_t n)
{
    size_t i = 0;
    while (n - i >= 8) {
        uint64_t w;
        memcpy(&w, p + i, 8);
        if (w & 0x8080808080808080u) {
            break;
        }
        i += 8;
    }
    while (i < n && !((unsigned char)p[i] & 0x80)) {
        i++;
    }
    return i;
}

bool utf8_valid(struct str s)
{
    while (s.n) {
        size_t run = ascii_run(s.p, s.n);
        s = str_n(s.p + run, s.n - run);
        if (s.n) {
            int n = utf8_next(s, NULL);
            if (n <= 0) {
                return false;
            }
            s = str_n(s.p + n, s.n - (size_t)n);
        }
    }
    return true;
}

size_t utf8_tail(struct str s)
{
    for (size_t back = 1; back <= 3 && back <= s.n; back++) {
        unsigned char c = (unsigned char)s.p[s.n - back];
        if ((c & 0xc0) != 0x80) {
            return utf8_next(str_n(s.p + s.n - back, back), NULL) < 0 ? back : 0;
        }
    }
    return 0;
}

int utf8_repair(struct buf *out, struct str s)
{
    int r = 0;
    while (s.n && r == 0) {
        /* The longest valid run in one go, then one bad byte. */
        size_t run = 0;
        while (run < s.n) {
            size_t ascii = ascii_run(s.p + run, s.n - run);
            run += ascii;
            int n = run < s.n ? utf8_next(str_n(s.p + run, s.n - run), NULL) : 0;
            if (n <= 0) {
                break;
            }
            run += (size_t)n;
        }
        r = buf_add(out, s.p, run);
        if (r == 0 && run < s.n) {
            r = buf_add(out, "\xef\xbf\xbd", 3);
            run++;
        }
        s = str_n(s.p + run, s.n - run);
    }
    return r;
}

size_t utf8_floor(struct str s, size_t n)
{
    if (n >= s.n) {
        n = s.n;
    }
    return n - utf8_tail(str_n(s.p, n));
}

bool utf8_check_feed(struct utf8_check *c, struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!c->need) {
            i += ascii_run(s.p + i, s.n - i);
            if (i == s.n) {
                break;
            }
            struct lead l = leads[(unsigned char)s.p[i]];
            if (!l.need) {
                return false;
            }
            *c = (struct utf8_check){l.need, l.lo, l.hi};
            continue;
        }
        unsigned char b = (unsigned char)s.p[i];
        if (b < c->lo || b > c->hi) {
            return false;
        }
        *c = (struct utf8_check){(uint8_t)(c->need - 1), 0x80, 0xbf};
    }
    return true;
}

bool utf8_check_done(const struct utf8_check *c)
{
    return c->need == 0;
}
