#pragma once
/* The first message of a TLS client, as far as a gateway must understand it: which server is meant.
 * Works on the raw bytes of the connection, also when the message is spread over several records;
 * allocates nothing. */

#include <stdbool.h>

#include "base/str.h"
#include "net/domain.h"

#define CLIENT_HELLO_MAX (32u << 10) /* limit: bytes of a ClientHello with its record headers */

enum hello_result {
    HELLO_NEED_MORE,
    HELLO_DONE,
    HELLO_NOT_TLS, /* something else, malformed, or longer than CLIENT_HELLO_MAX */
};

struct client_hello {
    char server_name[DOMAIN_MAX + 1]; /* lower case, no final dot; "" when absent or not a name */
    bool has_h2;                      /* offers HTTP/2 by ALPN */
    bool has_http1;                   /* offers HTTP/1.1 by ALPN, or names no protocol at all */
    bool has_ech;                     /* an encrypted inner hello may name another server */
};

enum hello_result client_hello_parse(struct str in, struct client_hello *ret);
