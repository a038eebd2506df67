#pragma once
/* File name patterns of /files/search. Pure.
 *
 *   *        any characters but '/'              ?       one character but '/'
 *   [a-z_]   one of these, [!..] or [^..] not    {a,b}   either, nested
 *   **       as a whole segment: any segments    !(a|b)  a segment piece that is neither
 *   \c       the character itself
 *
 * Names are bytes; '?' and classes take one UTF-8 character, or one byte where there is none. */

#include <stdbool.h>

#include "base/str.h"

/* 0, -EINVAL for a malformed pattern, -E2BIG beyond the limits. */
int glob_check(struct str pattern);
/* 1 or 0; -E2BIG when the pattern needs more than GLOB_MAX_STEPS for this name. The pattern must
 * have passed glob_check(). */
int glob_match(struct str pattern, struct str name);
