#pragma once
/* Two clocks: wall time for what users see and what is stored, monotonic time for waiting. */

#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

int64_t clock_wall_ms(void); /* since the epoch */
int64_t clock_wall_us(void);
uint64_t clock_mono_ms(void);
uint64_t clock_mono_us(void);

#define RFC3339_MAX 40
/* "2026-01-02T03:04:05.678901Z"; digits of fraction: 0, 3 or 6. */
void rfc3339_format(int64_t wall_us, int fraction_digits, char out[RFC3339_MAX]);
/* Accepts "Z", offsets, a lower-case t/z, any number of fraction digits; without an offset the time
 * is UTC. Returns 0 or -EINVAL. */
int rfc3339_parse(struct str s, int64_t *ret_wall_us);
/* IMF-fixdate for HTTP: "Sun, 06 Nov 1994 08:49:37 GMT". */
#define HTTP_DATE_LEN 29
void http_date_format(int64_t wall_s, char out[HTTP_DATE_LEN + 1]);
int http_date_parse(struct str s, int64_t *ret_wall_s);
