#pragma once
/* UTF-8 as in RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

/* Length (1..4) of the valid sequence at the front of s and its code point; 0 when the first byte
 * begins no valid sequence; -1 when s ends inside one that is valid so far. */
int utf8_next(struct str s, uint32_t *ret_cp);
bool utf8_valid(struct str s);
/* Number of bytes at the end of s that are a valid but unfinished sequence (0..3). */
size_t utf8_tail(struct str s);
/* Copies s, each invalid byte replaced by U+FFFD. */
int utf8_repair(struct buf *out, struct str s);
/* Largest n' <= n that does not cut a character of s in half. */
size_t utf8_floor(struct str s, size_t n);

/* Incremental validator for WebSocket text that arrives in pieces. Zero is the start state. */
struct utf8_check {
    uint8_t need, lo, hi; /* continuation bytes to come, and the range of the next one */
};
bool utf8_check_feed(struct utf8_check *c, struct str s); /* false: invalid for good */
bool utf8_check_done(const struct utf8_check *c);         /* false: ended inside a character */
