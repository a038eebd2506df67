/* Absolute URLs. Strict where leniency lets two programs see two hosts: one '@' at most, no
 * backslash, no escapes or non-ASCII bytes in the host, a port of digits without leading zeros. */

#include "net/url.h"

#include <errno.h>

#include "base/num.h"

static bool is_alpha(char c)
{
    return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* RFC 3986 §3.1. */
static bool scheme_valid(struct str s)
{
    if (s.n == 0 || !is_alpha(s.p[0])) {
        return false;
    }
    for (size_t i = 1; i < s.n; i++) {
        char c = s.p[i];
        if (!is_alpha(c) && !is_digit(c) && c != '+' && c != '-' && c != '.') {
            return false;
        }
    }
    return true;
}

static bool host_valid(struct str s, bool bracketed)
{
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        bool ok = bracketed ? is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') || c == ':' ||
                                  c == '.'
                            : is_alpha(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
        if (!ok) {
            return false;
        }
    }
    return s.n > 0 && (!bracketed || str_find(s, ':') >= 0);
}

int authority_parse(struct str s, struct str *ret_host, uint16_t *ret_port)
{
    struct str host = s;
    struct str rest = STR_NULL; /* what follows the host, with its colon */
    bool bracketed = s.n && s.p[0] == '[';
    ptrdiff_t end = str_find(s, bracketed ? ']' : ':');
    if (bracketed && end < 0) {
        return -EINVAL;
    }
    if (bracketed) {
        host = str_sub(s, 1, (size_t)end);
        rest = str_sub(s, (size_t)end + 1, s.n);
    } else if (end >= 0) {
        host = str_sub(s, 0, (size_t)end);
        rest = str_sub(s, (size_t)end, s.n);
    }
    uint16_t port = 0;
    if (!host_valid(host, bracketed) ||
        (rest.n && (rest.p[0] != ':' || parse_port(str_sub(rest, 1, rest.n), &port) < 0))) {
        return -EINVAL;
    }
    *ret_host = host;
    *ret_port = port;
    return 0;
}

static bool has_bad_bytes(struct str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c <= ' ' || c == 0x7f) {
            return true;
        }
    }
    return false;
}

/* unix:///run/docker.sock and file:///x have no host; what is spoken over TCP needs one. */
static bool needs_host(struct str scheme)
{
    return str_eq_nocase(scheme, STR("http")) || str_eq_nocase(scheme, STR("https")) ||
           str_eq_nocase(scheme, STR("ws")) || str_eq_nocase(scheme, STR("wss"));
}

static int userinfo_parse(struct str *authority, struct url *u)
{
    ptrdiff_t at = str_find(*authority, '@');
    if (at < 0) {
        return 0;
    }
    if (str_rfind(*authority, '@') != at) {
        return -EINVAL;
    }
    struct str rest = str_sub(*authority, 0, (size_t)at);
    u->user = str_cut(&rest, ':');
    u->password = rest;
    *authority = str_sub(*authority, (size_t)at + 1, authority->n);
    return 0;
}

int url_parse(struct str s, struct url *ret)
{
    struct url u = {0};
    ptrdiff_t at = str_find_str(s, STR("://"));
    if (at < 0 || has_bad_bytes(s)) {
        return -EINVAL;
    }
    u.scheme = str_sub(s, 0, (size_t)at);
    s = str_sub(s, (size_t)at + 3, s.n);
    at = str_find(s, '#'); /* never sent anywhere */
    s = at >= 0 ? str_sub(s, 0, (size_t)at) : s;

    size_t end = 0;
    while (end < s.n && s.p[end] != '/' && s.p[end] != '?') {
        end++;
    }
    struct str authority = str_sub(s, 0, end);
    struct str rest = str_sub(s, end, s.n);
    u.path = str_cut(&rest, '?');
    u.query = rest;
    if (!scheme_valid(u.scheme) || str_find(authority, '\\') >= 0 ||
        userinfo_parse(&authority, &u) < 0) {
        return -EINVAL;
    }
    if (authority.n == 0 && !u.user.p && u.path.n && !needs_host(u.scheme)) {
        u.host = STR("");
    } else if (authority_parse(authority, &u.host, &u.port) < 0) {
        return -EINVAL;
    }
    *ret = u;
    return 0;
}
