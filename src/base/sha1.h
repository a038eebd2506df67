#pragma once
/* SHA-1 (FIPS 180-4). Broken for signatures, and used for none here: the WebSocket handshake asks
 * for it (RFC 6455 section 1.3), and programs without OpenSSL speak WebSocket too. */

#include "base/blockhash.h"

#define SHA1_LEN 20

struct sha1 {
    struct blockhash hash;
};

void sha1_init(struct sha1 *s);
void sha1_add(struct sha1 *s, struct str data);
void sha1_done(struct sha1 *s, uint8_t out[SHA1_LEN]);
