#pragma once
/* Field tables: one description of a struct that decodes, validates and encodes it.
 *
 *     static const struct json_field mount_fields[] = {
 *         JSON_FIELD(struct mount, path, "path", JSON_F_STR, .required = true, .min_len = 1),
 *         JSON_FIELD(struct mount, read_only, "readOnly", JSON_F_BOOL, .alias = "read_only"),
 *         {0},
 *     };
 *     const struct json_table mount_table = {"Mount", sizeof(struct mount), mount_fields};
 *
 * Decoded memory lives in an arena. Absent optional strings are NULL, absent numbers and booleans
 * have `has` false. All violations are collected, each with the path of the field. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "json/json.h"

struct opt_int {
    bool has;
    int64_t v;
};
struct opt_num {
    bool has;
    double v;
};
struct opt_bool {
    bool has;
    bool v;
};
struct str_list {
    const char **v;
    size_t n;
};
struct str_pair {
    const char *key, *value;
};
struct str_map {
    struct str_pair *v;
    size_t n;
    bool has; /* {} is not the same as absent */
};
/* Array of sub-structs, `v` points to n elements of table->size bytes. */
struct obj_list {
    void *v;
    size_t n;
    bool has;
};

enum json_field_kind {
    JSON_F_END,
    JSON_F_STR,      /* const char * */
    JSON_F_INT,      /* struct opt_int */
    JSON_F_NUM,      /* struct opt_num */
    JSON_F_BOOL,     /* struct opt_bool */
    JSON_F_STR_LIST, /* struct str_list; present but empty has n 0 and v not NULL */
    JSON_F_STR_MAP,  /* struct str_map, string values only */
    JSON_F_OBJ,      /* pointer to a sub-struct in the arena, NULL when absent */
    JSON_F_OBJ_LIST, /* struct obj_list */
    JSON_F_ANY,      /* struct json *, borrowed from the decoded tree */
    JSON_F_TIME,     /* struct opt_int, microseconds; RFC 3339 text outside */
};

struct json_table;

struct json_field {
    const char *name;
    enum json_field_kind kind;
    size_t offset;
    const char *alias; /* accepted as well when decoding (snake_case) */
    const struct json_table *sub;
    const char *const
        *choices; /* NULL-terminated enum of strings; also for each value of a list or map */
    const char
        *pattern;     /* POSIX extended regular expression, anchored by the author; like choices */
    bool required;    /* must be present and not null */
    bool not_null;    /* absent is fine, null is not */
    bool omit_empty;  /* encode: skip empty strings, lists and maps, zero numbers */
    bool encode_null; /* encode: absent as null instead of leaving it out */
    bool ignore_case; /* the key matches in any case */
    bool lenient;     /* INT: also decimal text; BOOL: also words and 0/1; TIME: also Unix
                         seconds and a bare date */
    int64_t min, max; /* INT and NUM; both 0: no range; max below min: no upper bound */
    size_t min_len, max_len; /* STR (characters), lists and maps (entries); max_len 0: no limit */
};

enum json_unknown { JSON_UNKNOWN_IGNORE, JSON_UNKNOWN_ERROR };

struct json_table {
    const char *name; /* of the noun, for messages */
    size_t size;
    const struct json_field *fields; /* ends with kind JSON_F_END */
    enum json_unknown unknown;
    bool ignore_case; /* all keys */
};

#define JSON_FIELD(type, member, key, k, ...)                                                      \
    {                                                                                              \
        .name = (key), .kind = (k), .offset = offsetof(type, member), __VA_ARGS__                  \
    }

enum json_issue_kind {
    JSON_MISSING,
    JSON_BAD_TYPE,
    JSON_OUT_OF_RANGE,
    JSON_BAD_LENGTH,
    JSON_BAD_CHOICE,
    JSON_BAD_PATTERN,
    JSON_UNKNOWN_FIELD,
    JSON_BAD_TIME,
    JSON_BAD_VALUE,
};

struct json_issue {
    enum json_issue_kind kind;
    const char *path; /* "spec.volumes[2].name" */
    const char *msg;  /* "expected string" */
};

#define JSON_MAX_ISSUES 32 /* limit: violations reported of one request */

struct json_issues {
    size_t n;
    struct json_issue v[JSON_MAX_ISSUES];
};

/* Fills `out` (table->size bytes, zeroed first). 0, or -1 with `e` = "path: message" of the first
 * issue and all of them in *issues (may be NULL). */
int json_decode(struct arena *a, const struct json_table *t, const struct json *j, void *out,
                struct json_issues *issues, struct err *e);
/* Adds an issue found by hand-written validation after decoding. */
void json_issue_add(struct arena *a, struct json_issues *is, enum json_issue_kind kind,
                    const char *path, const char *fmt, ...) __attribute__((format(printf, 5, 6)));
void json_encode(struct json_out *o, const struct json_table *t, const void *in);
const char *str_map_get(const struct str_map *m, const char *key);
