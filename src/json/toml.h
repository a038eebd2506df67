#pragma once
/* TOML 1.0 into the same tree as JSON. Date-times become strings (RFC 3339 with "T" and "Z"), and
 * so do inf and nan. A NUL character (\u0000) is refused. */
#include "json/json.h"
#define TOML_MAX_TEXT (1u << 20) /* limit: bytes of a TOML text */
#define TOML_MAX_KEY 1024u       /* limit: bytes of one part of a TOML key */
/* NULL with ERR_INVALID "line 12: ...". Input at most TOML_MAX_TEXT, depth at most JSON_MAX_DEPTH.
 */
struct json *toml_parse(struct str text, struct err *e);
/* Line on which a dotted key was defined ("server.port", "volumes[2].name"): an object from path to
 * line, for messages about values. The caller frees it; *ret_lines is set only on success. */
struct json *toml_parse_lines(struct str text, struct json **ret_lines, struct err *e);
