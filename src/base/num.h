#pragma once
/* Numbers out of text: whole string or nothing, no sign surprises, no locale, no leading spaces.
 * All return 0, -EINVAL (not a number) or -ERANGE. */

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

int parse_u64(struct str s, uint64_t *ret);     /* digits only */
int parse_u64_hex(struct str s, uint64_t *ret); /* 1 to 16 hex digits, no 0x */
int parse_i64(struct str s, int64_t *ret);      /* optional single '-' */
int parse_u32(struct str s, uint32_t *ret);
int parse_port(struct str s, uint16_t *ret); /* 1..65535, no leading zero */
/* JSON number grammar; -ERANGE also for texts longer than PARSE_DOUBLE_MAX_LEN. */
#define PARSE_DOUBLE_MAX_LEN 511 /* limit: characters of a decimal number */
int parse_double(struct str s, double *ret);
int parse_bool(struct str s, bool *ret); /* true false 1 0 yes no on off, any case */
/* Go-style duration "1h30m", "500ms", "2s" (also a bare "0") in milliseconds, rounded up. No sign.
 */
int parse_duration_ms(struct str s, int64_t *ret);
/* Kubernetes quantities. Bytes: "512Mi", "1G", "1.5Gi", "1e3", plain digits. CPU: "500m", "0.5",
 * "2" in thousandths of a core. Fractions are rounded up, at most 18 decimal places. Zero and
 * negative are -EINVAL for CPU, -ERANGE when too large. */
int parse_quantity_bytes(struct str s, uint64_t *ret);
int parse_quantity_millicpu(struct str s, uint64_t *ret);
