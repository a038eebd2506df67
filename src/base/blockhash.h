#pragma once
/* What SHA-1 and SHA-256 have in common (FIPS 180-4 section 5): a message is cut into blocks of 64
 * bytes, and its end is padded with its length. */

#include <stdint.h>

#include "base/str.h"

#define BLOCKHASH_BLOCK 64
#define BLOCKHASH_WORDS_MAX 8

struct blockhash {
    uint32_t h[BLOCKHASH_WORDS_MAX];
    uint64_t n;                     /* bytes hashed so far */
    uint8_t block[BLOCKHASH_BLOCK]; /* the unfinished block */
};

/* Takes one block into h. */
typedef void blockhash_fn(uint32_t *h, const uint8_t *block);

void blockhash_add(struct blockhash *b, blockhash_fn *fn, struct str data);
/* Pads, and writes the first n_words of h. */
void blockhash_done(struct blockhash *b, blockhash_fn *fn, uint8_t *out, size_t n_words);

uint32_t blockhash_load(const uint8_t *p); /* big-endian */
