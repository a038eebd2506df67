#pragma once
/* Randomness from getrandom(2) only. */

#include <stddef.h>
#include <stdint.h>

void rand_bytes(void *p, size_t n);
uint64_t rand_u64(void);
uint64_t rand_below(uint64_t n); /* uniform in [0, n) */
/* 32 lower-case hex digits of a version 4 UUID, or with dashes. */
#define ID_HEX_LEN 32
#define UUID_LEN 36
void rand_id_hex(char out[ID_HEX_LEN + 1]);
void rand_uuid(char out[UUID_LEN + 1]);
/* n characters of [0-9A-Za-z] and a NUL, for keys and tokens. */
void rand_token(char *out, size_t n);
