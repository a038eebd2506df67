/* The growing byte buffer. One byte more than cap is always allocated, for buf_cstr(). */

#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"

#define BUF_FIRST_CAP 64u

void buf_init(struct buf *b, size_t max)
{
    *b = BUF_INIT(max);
}

void buf_done(struct buf *b)
{
    free(b->p);
    *b = BUF_INIT(b->max);
}

int buf_reserve(struct buf *b, size_t n)
{
    if (n > b->max - b->len) {
        return -ENOSPC;
    }
    size_t need = b->len + n;
    if (b->p && need <= b->cap) {
        return 0;
    }
    size_t cap = b->cap > b->max / 2 ? b->max : b->cap * 2;
    cap = MIN(MAX(MAX(cap, need), BUF_FIRST_CAP), b->max);
    must(cap < SIZE_MAX);
    b->p = xrealloc(b->p, cap + 1);
    b->cap = cap;
    return 0;
}

static int fail(struct buf *b)
{
    b->failed = true;
    return -ENOSPC;
}

int buf_add(struct buf *b, const void *p, size_t n)
{
    /* What follows a lost piece is lost too: half a text must not look like a whole one. */
    if (b->failed || buf_reserve(b, n) < 0) {
        return fail(b);
    }
    if (n) {
        memcpy(b->p + b->len, p, n);
        b->len += n;
    }
    return 0;
}

int buf_add_str(struct buf *b, struct str s)
{
    return buf_add(b, s.p, s.n);
}

int buf_add_cstr(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_add_char(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

int buf_add_u64(struct buf *b, uint64_t v)
{
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    return buf_add(b, digits + at, sizeof(digits) - at);
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int r = buf_vprintf(b, fmt, ap);
    va_end(ap);
    return r;
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
    if (b->failed) {
        return -ENOSPC;
    }
    size_t room = b->p ? b->cap - b->len + 1 : 0;
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(b->p ? b->p + b->len : NULL, room, fmt, ap);
    int r = 0;
    if (n < 0 || buf_reserve(b, (size_t)n) < 0) {
        r = fail(b);
    } else {
        if ((size_t)n >= room) {
            (void)vsnprintf(b->p + b->len, (size_t)n + 1, fmt, again);
        }
        b->len += (size_t)n;
    }
    va_end(again);
    return r;
}

void buf_consume(struct buf *b, size_t n)
{
    must(n <= b->len);
    if (n == 0) {
        return;
    }
    b->len -= n;
    if (b->len) {
        memmove(b->p, b->p + n, b->len);
    }
}

const char *buf_cstr(struct buf *b)
{
    if (!b->p) {
        return "";
    }
    b->p[b->len] = 0;
    return b->p;
}

char *buf_take(struct buf *b)
{
    if (!b->p) {
        b->p = xmalloc(1);
    }
    b->p[b->len] = 0;
    char *taken = b->p;
    b->p = NULL;
    buf_done(b);
    return taken;
}

int buf_read_fd(struct buf *b, int fd)
{
    for (;;) {
        char probe;
        char *into = &probe;
        size_t room = 1; /* full: only the end of the file is welcome */
        if (b->len < b->max) {
            (void)buf_reserve(b, MIN(b->max - b->len, 4096u));
            into = b->p + b->len;
            room = b->cap - b->len;
        }
        ssize_t n = read(fd, into, room);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            return -errno;
        }
        if (n == 0) {
            return 0;
        }
        if (into == &probe) {
            return fail(b);
        }
        b->len += (size_t)n;
    }
}
