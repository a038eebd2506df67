#pragma once
/* Absolute URLs: scheme://[user[:password]@]host[:port][/path][?query]. Views into the input.
 * A fragment is cut off. Only schemes other than http(s) and ws(s) may have an empty host
 * (unix:///x). */
#include "base/str.h"
#include <stdint.h>
struct url {
    struct str scheme, user, password, host; /* host without brackets */
    uint16_t port;                           /* 0: not given */
    struct str path, query;                  /* path begins with '/' or is empty */
};
int url_parse(struct str s,
              struct url *ret); /* 0 or -EINVAL; control bytes and spaces are refused */
/* "host", "host:port", "[v6]:port". */
int authority_parse(struct str s, struct str *ret_host, uint16_t *ret_port);
