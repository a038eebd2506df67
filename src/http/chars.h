#pragma once
/* Character classes of HTTP (RFC 9110, RFC 9112), one table look-up each. Private to the room. */

#include <stdint.h>

enum {
    CHAR_TOKEN = 1,   /* field names, methods */
    CHAR_TARGET = 2,  /* request target: visible ASCII but '#' */
    CHAR_VALUE = 4,   /* field values: everything but control bytes; HTAB is allowed */
    CHAR_REGNAME = 8, /* registered names and IPv4 addresses in Host */
    CHAR_DIGIT = 16,
    CHAR_HEX = 32,
};

extern const uint8_t http_chars[256];

static inline int char_is(char c, int class)
{
    return http_chars[(uint8_t)c] & class;
}
