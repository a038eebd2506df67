#pragma once
/* Arguments of a tool against its input schema.
 *
 * The subset of JSON Schema that our tools use: type, properties, required, additionalProperties,
 * items, enum, anyOf, default, minimum, maximum, exclusiveMinimum, minLength, minItems, maxItems.
 * One description serves both sides: clients are shown it, and calls are held to it. */

#include "base/err.h"
#include "json/json.h"

/* A new tree with the defaults filled in, or NULL with ERR_INVALID "entries[2].path: ...". Numbers
 * and booleans written as strings are read as what they say, as models often send them so. */
struct json *schema_fit(const struct json *schema, const struct json *value, struct err *e);
