#pragma once
/* TOML 1.0 into the same tree as JSON. Date-times become strings. */
#include "json/json.h"
/* NULL with ERR_INVALID "line 12: ...". Input at most 1 MB, depth at most JSON_MAX_DEPTH. */
struct json *toml_parse(struct str text, struct err *e);
/* Line on which a dotted key was defined ("server.port"), 0 when unknown: for messages about values.
 * Only valid for trees from toml_parse_lines(), which records them into `lines` (json object). */
struct json *toml_parse_lines(struct str text, struct json **ret_lines, struct err *e);
