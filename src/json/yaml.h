#pragma once
/* YAML 1.1 (libyaml) core schema into the same tree as JSON. Anchors are expanded within a limit
 * (YAML_MAX_NODES in all), merge keys and custom tags are refused. A leading zero means octal
 * (0644); yes/no/on/off are strings. Text at most YAML_MAX_TEXT, depth at most JSON_MAX_DEPTH. */
#include "json/json.h"
#define YAML_MAX_NODES 100000u   /* limit: nodes of a YAML stream, aliases expanded */
#define YAML_MAX_TEXT (4u << 20) /* limit: bytes of a YAML stream */
/* One document; an empty text is null. NULL with ERR_INVALID "line 3 column 5: ...". */
struct json *yaml_parse(struct str text, struct err *e);
/* All documents of a stream as an array. */
struct json *yaml_parse_all(struct str text, struct err *e);
/* Block style, for people. */
int yaml_dump(const struct json *j, struct buf *out);
