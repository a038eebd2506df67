/* Bytes to text and back. */

#include "base/codec.h"

#include <errno.h>

#include "base/must.h"

static const char hex_digits[] = "0123456789abcdef";
static const char b64_std[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char b64_url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int hex_encode(struct buf *out, const void *p, size_t n)
{
    const uint8_t *from = p;
    must(n <= SIZE_MAX / 2);
    if (buf_failed(out) || buf_reserve(out, n * 2) < 0) {
        out->failed = true;
        return -ENOSPC;
    }
    char *at = out->p + out->len;
    for (size_t i = 0; i < n; i++) {
        *at++ = hex_digits[from[i] >> 4];
        *at++ = hex_digits[from[i] & 15];
    }
    out->len += n * 2;
    return 0;
}

ssize_t hex_decode(struct str s, void *out, size_t out_len)
{
    uint8_t *to = out;
    if (s.n % 2) {
        return -EINVAL;
    }
    for (size_t i = 0; i < s.n; i += 2) {
        int hi = hex_value(s.p[i]);
        int lo = hex_value(s.p[i + 1]);
        if (hi < 0 || lo < 0) {
            return -EINVAL;
        }
        if (i / 2 >= out_len) {
            return -ENOSPC;
        }
        to[i / 2] = (uint8_t)(hi << 4 | lo);
    }
    return (ssize_t)(s.n / 2);
}

static int b64_encode(struct buf *out, const uint8_t *p, size_t n, const char *alphabet, bool pad)
{
    must(n <= SIZE_MAX / 2);
    size_t len = pad ? (n + 2) / 3 * 4 : n / 3 * 4 + (n % 3 ? n % 3 + 1 : 0);
    if (buf_failed(out) || buf_reserve(out, len) < 0) {
        out->failed = true;
        return -ENOSPC;
    }
    char *at = out->p + out->len;
    for (; n >= 3; n -= 3, p += 3) {
        uint32_t v = (uint32_t)p[0] << 16 | (uint32_t)p[1] << 8 | p[2];
        *at++ = alphabet[v >> 18];
        *at++ = alphabet[v >> 12 & 63];
        *at++ = alphabet[v >> 6 & 63];
        *at++ = alphabet[v & 63];
    }
    if (n) {
        uint32_t v = (uint32_t)p[0] << 16 | (n == 2 ? (uint32_t)p[1] << 8 : 0);
        *at++ = alphabet[v >> 18];
        *at++ = alphabet[v >> 12 & 63];
        if (n == 2) {
            *at++ = alphabet[v >> 6 & 63];
        } else if (pad) {
            *at++ = '=';
        }
        if (pad) {
            *at++ = '=';
        }
    }
    out->len += len;
    return 0;
}

static int b64_value(char c, bool url)
{
    if (c >= 'A' && c <= 'Z') {
        return c - 'A';
    }
    if (c >= 'a' && c <= 'z') {
        return c - 'a' + 26;
    }
    if (c >= '0' && c <= '9') {
        return c - '0' + 52;
    }
    if (c == (url ? '-' : '+')) {
        return 62;
    }
    return c == (url ? '_' : '/') ? 63 : -1;
}

/* s is without padding. */
static ssize_t b64_decode(struct str s, uint8_t *out, size_t out_len, bool url)
{
    if (s.n % 4 == 1) {
        return -EINVAL;
    }
    size_t n = 0;
    uint32_t acc = 0;
    unsigned bits = 0;
    for (size_t i = 0; i < s.n; i++) {
        int v = b64_value(s.p[i], url);
        if (v < 0) {
            return -EINVAL;
        }
        acc = acc << 6 | (uint32_t)v;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            if (n == out_len) {
                return -ENOSPC;
            }
            out[n++] = (uint8_t)(acc >> bits);
            acc &= (1u << bits) - 1;
        }
    }
    return acc ? -EINVAL : (ssize_t)n; /* bits left over must be zero: one text per value */
}

int base64_encode(struct buf *out, const void *p, size_t n)
{
    return b64_encode(out, p, n, b64_std, true);
}

ssize_t base64_decode(struct str s, void *out, size_t out_len)
{
    if (s.n % 4) {
        return -EINVAL;
    }
    for (int i = 0; i < 2 && s.n && s.p[s.n - 1] == '='; i++) {
        s.n--;
    }
    return b64_decode(s, out, out_len, false);
}

int base64url_encode(struct buf *out, const void *p, size_t n)
{
    return b64_encode(out, p, n, b64_url, false);
}

ssize_t base64url_decode(struct str s, void *out, size_t out_len)
{
    return b64_decode(s, out, out_len, true);
}

int base36_encode(struct buf *out, uint64_t v)
{
    char digits[13];
    size_t at = sizeof(digits);
    do {
        digits[--at] = "0123456789abcdefghijklmnopqrstuvwxyz"[v % 36];
        v /= 36;
    } while (v);
    return buf_add(out, digits + at, sizeof(digits) - at);
}

int base36_decode(struct str s, uint64_t *ret)
{
    if (s.n == 0) {
        return -EINVAL;
    }
    uint64_t v = 0;
    bool over = false;
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        unsigned digit;
        if (c >= '0' && c <= '9') {
            digit = (unsigned)(c - '0');
        } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') {
            digit = (unsigned)((c | 0x20) - 'a' + 10);
        } else {
            return -EINVAL;
        }
        over = over || __builtin_mul_overflow(v, 36u, &v) || __builtin_add_overflow(v, digit, &v);
    }
    if (over) {
        return -ERANGE;
    }
    *ret = v;
    return 0;
}

int percent_decode(struct buf *out, struct str s, bool plus_is_space)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (c == '%') {
            int hi = i + 2 < s.n ? hex_value(s.p[i + 1]) : -1;
            int lo = i + 2 < s.n ? hex_value(s.p[i + 2]) : -1;
            if (hi < 0 || lo < 0) {
                return -EINVAL;
            }
            c = (char)(hi << 4 | lo);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (buf_add_char(out, c) < 0) {
            return -ENOSPC;
        }
    }
    return 0;
}

static bool is_unreserved(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

int percent_encode(struct buf *out, struct str s, bool keep_slash)
{
    int r = 0;
    for (size_t i = 0; i < s.n && r == 0; i++) {
        char c = s.p[i];
        if (is_unreserved(c) || (c == '/' && keep_slash)) {
            r = buf_add_char(out, c);
        } else {
            unsigned char u = (unsigned char)c;
            char esc[3] = {'%', "0123456789ABCDEF"[u >> 4], "0123456789ABCDEF"[u & 15]};
            r = buf_add(out, esc, 3);
        }
    }
    return r;
}
