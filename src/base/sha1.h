#pragma once
/* SHA-1 (FIPS 180-4). Broken for signatures, and used for none here: the WebSocket handshake asks
 * for it (RFC 6455 section 1.3), and programs without OpenSSL speak WebSocket too. */

#include <stdint.h>

#include "base/str.h"

#define SHA1_LEN 20

struct sha1 {
    uint32_t h[5];
    uint64_t n;        /* bytes hashed so far */
    uint8_t block[64]; /* the unfinished block */
};

void sha1_init(struct sha1 *s);
void sha1_add(struct sha1 *s, struct str data);
void sha1_done(struct sha1 *s, uint8_t out[SHA1_LEN]);
