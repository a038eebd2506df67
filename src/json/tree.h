#pragma once
/* Inside the json room only: the border between `struct json` and jansson's json_t. */

#include <jansson.h>
#include <stdint.h>

/* Our functions of the same names take `struct json`. */
#undef json_is_object
#undef json_is_array
#undef json_is_string
#undef json_is_number
#undef json_is_null

#include "json/json.h"

/* jansson counts references in the value, so even reading takes a non-const pointer. */
static inline json_t *json_raw(const struct json *j)
{
    return (json_t *)(uintptr_t)j;
}

static inline struct json *json_wrap(json_t *j)
{
    return (struct json *)j;
}
