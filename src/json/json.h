#pragma once
/* JSON trees, and a writer. jansson is included only inside this room; its values are seen outside
 * as `struct json`, borrowed from their root unless said otherwise. Strings are UTF-8 without NUL,
 * integers are exact int64, duplicate keys are refused. */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct json;

#define JSON_MAX_DEPTH 64         /* limit: nesting of JSON, TOML and YAML */
#define JSON_MAX_NODES (1u << 20) /* limit: values in one JSON text */

/* ---- reading ---- */
/* The whole text is one value (surrounding white space allowed). Depth at most JSON_MAX_DEPTH,
 * values at most JSON_MAX_NODES.
 * NULL with ERR_INVALID "line 3 column 7: ...". */
struct json *json_parse(struct str text, struct err *e);
/* Only the first value is read, what follows it is ignored (execd's leniency). */
struct json *json_parse_first(struct str text, struct err *e);
void json_free(struct json *root); /* NULL is fine; only what json_parse() or *_new returned */
static inline void json_free_cleanup(struct json **j)
{
    json_free(*j);
}

/* From now on memory of trees is wiped before it is freed: for programs whose JSON holds secrets.
 * Call before any tree is made. */
void json_wipe_freed(void);

bool json_is_object(const struct json *j); /* all false for NULL */
bool json_is_array(const struct json *j);
bool json_is_string(const struct json *j);
bool json_is_int(const struct json *j);
bool json_is_number(const struct json *j);
bool json_is_bool(const struct json *j);
bool json_is_null(const struct json *j);
const char *json_type_name(const struct json *j); /* "object", "string", ... */

struct json *json_get(const struct json *obj, const char *key); /* NULL when missing */
/* Dotted path through objects: json_at(j, "State.Status"). */
struct json *json_at(const struct json *j, const char *path);
struct str json_str(const struct json *j);   /* STR_NULL when not a string */
const char *json_cstr(const struct json *j); /* NULL when not a string */
int64_t json_int(const struct json *j, int64_t fallback);
double json_num(const struct json *j, double fallback);
bool json_bool(const struct json *j, bool fallback);
size_t json_len(const struct json *j); /* array or object */
struct json *json_item(const struct json *arr, size_t i);
/* `void *it = NULL; while (json_next(obj, &it, &key, &value))`, in the order of the text. */
bool json_next(const struct json *obj, void **it, const char **ret_key, struct json **ret_value);

/* ---- building trees (owned by the caller, then by the parent they are put into) ---- */
struct json *json_object_new(void);
struct json *json_array_new(void);
struct json *json_string_new(struct str s); /* invalid UTF-8 is repaired, NUL becomes U+FFFD */
struct json *json_int_new(int64_t v);
struct json *json_num_new(double v); /* null when not finite */
struct json *json_bool_new(bool v);
struct json *json_null_new(void);
void json_set(struct json *obj, const char *key, struct json *take_value);
void json_del(struct json *obj, const char *key);
void json_push(struct json *arr, struct json *take_value);
struct json *json_clone(const struct json *j); /* deep */
/* One more owner of the same value: each calls json_free(). */
struct json *json_ref(struct json *j);
bool json_eq(const struct json *a, const struct json *b);
int json_dump(const struct json *j, struct buf *out, int indent); /* 0: compact; keys in order */

/* ---- writing without a tree: for hot output ---- */
struct json_out {
    struct buf *buf;
    uint64_t first; /* bit per depth: no comma needed yet */
    unsigned depth;
    bool after_key;
};
void json_out_init(struct json_out *o, struct buf *buf);
void json_obj_begin(struct json_out *o);
void json_obj_end(struct json_out *o);
void json_arr_begin(struct json_out *o);
void json_arr_end(struct json_out *o);
void json_key(struct json_out *o, const char *key);
void json_put_str(struct json_out *o, struct str s);
void json_put_cstr(struct json_out *o, const char *s); /* NULL writes null */
void json_put_int(struct json_out *o, int64_t v);
void json_put_num(struct json_out *o, double v);
void json_put_bool(struct json_out *o, bool v);
void json_put_null(struct json_out *o);
void json_put_raw(struct json_out *o, struct str json_text);
void json_put_tree(struct json_out *o, const struct json *j);
/* Just the escaping, without quotes: control characters, '"', '\', U+0085, U+2028, U+2029 are
 * escaped (also as clients that split lines on them need it), each invalid byte becomes U+FFFD. */
int json_escape(struct buf *out, struct str s);
