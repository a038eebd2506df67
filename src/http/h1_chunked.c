/* Chunked transfer coding (RFC 9112 7.1), decoding.
 *
 * Stricter than the grammar where decoders are known to disagree: no space around the size, no bare
 * CR or LF anywhere, extensions and trailers bounded and free of control bytes, trailers shaped
 * like header lines and then dropped. */

#include <errno.h>

#include "http/chars.h"
#include "http/h1.h"

enum state {
    SIZE, /* zero: the start */
    EXT,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER, /* at the start of a line */
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    END,
};

#define MAX_SIZE_DIGITS 16

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int on_size(struct h1_chunked *c, char ch)
{
    int v = hex_value(ch);
    if (v >= 0) {
        if (c->n_digits >= MAX_SIZE_DIGITS || c->left > (INT64_MAX >> 4)) {
            return -EPROTO;
        }
        c->left = c->left << 4 | (uint64_t)v;
        c->n_digits++;
        return 0;
    }
    if (c->n_digits == 0) {
        return -EPROTO;
    }
    if (ch == '\r') {
        c->state = SIZE_LF;
    } else if (ch == ';') {
        c->state = EXT;
        c->ext_len = 1;
    } else {
        return -EPROTO;
    }
    return 0;
}

static int on_ext(struct h1_chunked *c, char ch)
{
    if (ch == '\r') {
        c->state = SIZE_LF;
        return 0;
    }
    if (!char_is(ch, CHAR_VALUE) || ++c->ext_len > HTTP_MAX_CHUNK_EXT) {
        return -EPROTO;
    }
    return 0;
}

static int on_trailer(struct h1_chunked *c, char ch)
{
    if (++c->trailer_len > HTTP_MAX_TRAILER) {
        return -EPROTO;
    }
    switch ((enum state)c->state) {
    case TRAILER:
        if (ch == '\r') {
            c->state = END_LF;
            return 0;
        }
        c->state = TRAILER_NAME;
        return char_is(ch, CHAR_TOKEN) ? 0 : -EPROTO;
    case TRAILER_NAME:
        if (ch == ':') {
            c->state = TRAILER_VALUE;
            return 0;
        }
        return char_is(ch, CHAR_TOKEN) ? 0 : -EPROTO;
    case TRAILER_VALUE:
        if (ch == '\r') {
            c->state = TRAILER_LF;
            return 0;
        }
        return char_is(ch, CHAR_VALUE) ? 0 : -EPROTO;
    case SIZE:
    case EXT:
    case SIZE_LF:
    case DATA:
    case DATA_CR:
    case DATA_LF:
    case TRAILER_LF:
    case END_LF:
    case END:
        break;
    }
    return -EPROTO;
}

/* The next state after `want`, or the end of everything. */
static int expect(struct h1_chunked *c, char ch, char want, enum state next)
{
    if (ch != want) {
        return -EPROTO;
    }
    c->state = next;
    return 0;
}

static int on_byte(struct h1_chunked *c, char ch)
{
    switch ((enum state)c->state) {
    case SIZE:
        return on_size(c, ch);
    case EXT:
        return on_ext(c, ch);
    case SIZE_LF:
        return expect(c, ch, '\n', c->left > 0 ? DATA : TRAILER);
    case DATA_CR:
        return expect(c, ch, '\r', DATA_LF);
    case DATA_LF:
        c->n_digits = 0;
        c->ext_len = 0;
        return expect(c, ch, '\n', SIZE);
    case TRAILER:
    case TRAILER_NAME:
    case TRAILER_VALUE:
        return on_trailer(c, ch);
    case TRAILER_LF:
        return expect(c, ch, '\n', TRAILER);
    case END_LF:
        return expect(c, ch, '\n', END);
    case DATA:
    case END:
        break;
    }
    return -EPROTO;
}

int h1_chunked_next(struct h1_chunked *c, struct str *in, struct str *ret_data)
{
    for (;;) {
        if (c->state == END) {
            return 2;
        }
        if (in->n == 0) {
            return 0;
        }
        if (c->state == DATA) {
            size_t n = c->left < in->n ? (size_t)c->left : in->n;
            *ret_data = str_n(in->p, n);
            in->p += n;
            in->n -= n;
            c->left -= n;
            if (c->left == 0) {
                c->state = DATA_CR;
            }
            return 1;
        }
        int r = on_byte(c, *in->p);
        if (r < 0) {
            return r;
        }
        in->p++;
        in->n--;
    }
}
