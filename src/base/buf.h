#pragma once
/* A growing byte buffer with a mandatory maximum.
 *
 * Invariant: len <= cap <= max (+1 for the hidden NUL of buf_cstr). Appending beyond max appends
 * nothing, marks the buffer as failed and returns -ENOSPC, and so does every append after it; a
 * chain of appends can be checked once at the end with buf_failed(). Memory is allocated on first
 * use and returned by buf_done(). */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct buf {
    char *p;
    size_t len, cap, max;
    bool failed;
};

#define BUF_INIT(maximum) ((struct buf){.max = (maximum)})

void buf_init(struct buf *b, size_t max);
void buf_done(struct buf *b); /* frees; the buffer may be used again */
static inline void buf_done_cleanup(struct buf *b)
{
    buf_done(b);
}
static inline void buf_clear(struct buf *b) /* keeps the memory */
{
    b->len = 0;
    b->failed = false;
}
static inline bool buf_failed(const struct buf *b)
{
    return b->failed;
}
static inline struct str buf_str(const struct buf *b)
{
    return (struct str){b->p, b->len};
}

int buf_add(struct buf *b, const void *p, size_t n);
int buf_add_str(struct buf *b, struct str s);
int buf_add_cstr(struct buf *b, const char *s);
int buf_add_char(struct buf *b, char c);
int buf_add_u64(struct buf *b, uint64_t v);
int buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vprintf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* Room for at least n more bytes at b->p + b->len; the caller then adds what it wrote to b->len.
 * Returns 0 or -ENOSPC, which does not mark the buffer as failed. */
int buf_reserve(struct buf *b, size_t n);
/* Drops n bytes from the front (moves the rest). */
void buf_consume(struct buf *b, size_t n);
/* NUL-terminated view of the content, valid until the next change. Never NULL. */
const char *buf_cstr(struct buf *b);
/* Moves the bytes out as a NUL-terminated heap string and empties the buffer. */
char *buf_take(struct buf *b);
/* Reads fd to its end, or to the maximum (-ENOSPC). */
int buf_read_fd(struct buf *b, int fd);
