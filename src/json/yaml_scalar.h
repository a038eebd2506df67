#pragma once
/* Inside the json room only: what a plain (unquoted) YAML scalar means. */

#include "json/json.h"

/* The value of a plain scalar: null, boolean, number or string. NULL for an integer that does not
 * fit 64 bits. */
struct json *yaml_plain(struct str s);
/* Whether some reader of YAML, 1.1 or 1.2, may take the plain scalar for something else than a
 * string. */
bool yaml_is_ambiguous(struct str s);
/* Characters that YAML allows in the text as they are. */
bool yaml_is_printable(uint32_t cp);
