/* UTF-8 checking. One table decides what may follow a lead byte; everything else is built on it. */

#include "base/utf8.h"

#include <string.h>

#include "base/must.h"

struct lead {
    uint8_t need, lo, hi; /* continuation bytes, and the range of the first of them */
};

/* Table 3-7 of the Unicode standard: the ranges exclude overlong forms, surrogates and everything
 * above U+10FFFF. need 0 for a byte that begins nothing. */
static struct lead lead_of(unsigned char c)
{
    if (c < 0xc2) {
        return (struct lead){0};
    }
    if (c < 0xe0) {
        return (struct lead){1, 0x80, 0xbf};
    }
    if (c < 0xf0) {
        return (struct lead){2, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf};
    }
    if (c < 0xf5) {
        return (struct lead){3, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf};
    }
    return (struct lead){0};
}

int utf8_next(struct str s, uint32_t *ret_cp)
{
    if (s.n == 0) {
        return -1;
    }
    const unsigned char *p = (const unsigned char *)s.p;
    if (p[0] < 0x80) {
        if (ret_cp) {
            *ret_cp = p[0];
        }
        return 1;
    }
    struct lead l = lead_of(p[0]);
    if (!l.need) {
        return 0;
    }
    uint32_t cp = p[0] & (0x3fu >> l.need);
    for (unsigned i = 1; i <= l.need; i++) {
        if (i >= s.n) {
            return -1;
        }
        if (p[i] < l.lo || p[i] > l.hi) {
            return 0;
        }
        cp = cp << 6 | (p[i] & 0x3fu);
        l.lo = 0x80;
        l.hi = 0xbf;
    }
    if (ret_cp) {
        *ret_cp = cp;
    }
    return l.need + 1;
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
            struct lead l = lead_of((unsigned char)s.p[i]);
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
