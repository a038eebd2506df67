#pragma once
/* Socket addresses: TCP over IPv4/IPv6, or a Unix socket path. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/str.h"

struct io_addr {
    socklen_t len;
    union {
        struct sockaddr sa;
        struct sockaddr_storage ss;
        struct sockaddr_un un;
    };
};

#define IO_ADDR_TEXT_MAX 128

/* Numeric addresses only ("127.0.0.1", "::1", "[::1]"): no name resolution here. 0 or -EINVAL. */
int io_addr_ip(struct str ip, uint16_t port, struct io_addr *ret);
int io_addr_unix(struct str path, struct io_addr *ret); /* -ENAMETOOLONG; leading '@' is abstract */
uint16_t io_addr_port(const struct io_addr *a);
bool io_addr_is_loopback(const struct io_addr *a);
bool io_addr_eq(const struct io_addr *a, const struct io_addr *b);
/* "1.2.3.4:80", "[::1]:80", "unix:/path". */
const char *io_addr_format(const struct io_addr *a, char out[IO_ADDR_TEXT_MAX]);
/* Only the address: "1.2.3.4". */
const char *io_addr_format_ip(const struct io_addr *a, char out[IO_ADDR_TEXT_MAX]);
