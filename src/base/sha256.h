#pragma once
/* SHA-256 (FIPS 180-4) and HMAC over it (RFC 2104), for programs without OpenSSL: messages to and
 * from code kernels are signed with it. */

#include "base/blockhash.h"

#define SHA256_LEN 32

struct sha256 {
    struct blockhash hash;
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, struct str data);
void sha256_done(struct sha256 *s, uint8_t out[SHA256_LEN]);

struct hmac_sha256 {
    struct sha256 inner, outer;
};

void hmac_sha256_init(struct hmac_sha256 *m, struct str key);
void hmac_sha256_add(struct hmac_sha256 *m, struct str data);
void hmac_sha256_done(struct hmac_sha256 *m, uint8_t out[SHA256_LEN]);
