#pragma once
/* Durations as people type them: seconds, or [Nh][Nm][Ns] in that order. */

#include <stdbool.h>
#include <stdint.h>

struct buf;

/* 0, or -EINVAL: '', "10x", "m10", a sign, or more than 100 years. */
int duration_parse(const char *text, int64_t *ret_seconds);
bool duration_is_none(const char *text); /* "none" in any case */
/* "0:10:00", "1 day, 1:30:00". */
void duration_format(struct buf *out, int64_t seconds);
