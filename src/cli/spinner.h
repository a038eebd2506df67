#pragma once
/* A sign of life on stderr while something takes a moment: only on a terminal, only in colour, only
 * for people (table output). It waits a little before it shows, so that what is quick stays quiet,
 * and leaves nothing behind. */

#include "cli/out.h"

struct spinner;

/* NULL when none is wanted; every function takes that. `text` is copied. */
struct spinner *spinner_start(const struct out *o, const char *text);
/* Says something else from now on. */
void spinner_text(struct spinner *s, const char *text);
void spinner_stop(struct spinner *s);
static inline void spinner_stop_cleanup(struct spinner **s)
{
    spinner_stop(*s);
}
