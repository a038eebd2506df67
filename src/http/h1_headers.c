/* Character classes and header look-up, shared by parser, server, client and proxy. */

#include "http/chars.h"
#include "http/h1.h"

enum {
    V = CHAR_VALUE,
    VT = CHAR_VALUE | CHAR_TARGET,
    TOK = VT | CHAR_TOKEN, /* token characters that Host may not contain: ^ ` | # */
    NAME = TOK | CHAR_REGNAME,
    DIG = NAME | CHAR_DIGIT | CHAR_HEX,
    HEX = NAME | CHAR_HEX,
};

const uint8_t http_chars[256] = {
    ['\t'] = V,
    [' '] = V,
    ['!'] = NAME,
    ['"'] = VT,
    ['#'] = CHAR_VALUE | CHAR_TOKEN, /* a fragment is never sent; others cut the target there */
    ['$' ... '\''] = NAME,
    ['(' ... ')'] = VT | CHAR_REGNAME,
    ['*' ... '+'] = NAME,
    [','] = VT | CHAR_REGNAME,
    ['-' ... '.'] = NAME,
    ['/'] = VT,
    ['0' ... '9'] = DIG,
    [':'] = VT,
    [';'] = VT | CHAR_REGNAME,
    ['<'] = VT,
    ['='] = VT | CHAR_REGNAME,
    ['>' ... '@'] = VT,
    ['A' ... 'F'] = HEX,
    ['G' ... 'Z'] = NAME,
    ['[' ... ']'] = VT,
    ['^'] = TOK,
    ['_'] = NAME,
    ['`'] = TOK,
    ['a' ... 'f'] = HEX,
    ['g' ... 'z'] = NAME,
    ['{'] = VT,
    ['|'] = TOK,
    ['}'] = VT,
    ['~'] = NAME,
    [0x80 ... 0xff] = V,
};

struct str h1_header_get(const struct h1_header *h, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++) {
        if (h[i].name.n == name.n && str_eq_nocase(h[i].name, name)) {
            return h[i].value;
        }
    }
    return STR_NULL;
}

static bool list_has_token(struct str list, struct str token)
{
    while (list.p) {
        if (str_eq_nocase(str_trim(str_cut(&list, ',')), token)) {
            return true;
        }
    }
    return false;
}

bool h1_header_has_token(const struct h1_header *h, size_t n, struct str name, struct str token)
{
    for (size_t i = 0; i < n; i++) {
        if (h[i].name.n == name.n && str_eq_nocase(h[i].name, name) &&
            list_has_token(h[i].value, token)) {
            return true;
        }
    }
    return false;
}

bool h1_is_token(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!char_is(s.p[i], CHAR_TOKEN)) {
            return false;
        }
    }
    return s.n > 0;
}

bool h1_is_field_value(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        if (!char_is(s.p[i], CHAR_VALUE)) {
            return false;
        }
    }
    return true;
}
