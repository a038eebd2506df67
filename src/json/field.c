/* Decoding and validating a tree into a struct by its field table.
 *
 * The path of a value is a chain of stack frames, turned into text only when there is an issue to
 * report. Memory is asked for before it is taken: input that would overfill the arena is an issue,
 * not an abort. */

#include "json/field.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/must.h"
#include "base/num.h"
#include "base/utf8.h"
#include "json/pattern.h"

#define PATH_KEY_MAX 128u /* bytes of one key shown in a path; unknown keys are the caller's */

struct path {
    const struct path *up;
    const char *key; /* NULL: an index */
    size_t index;
};

struct decoder {
    struct arena *arena;
    struct json_issues *issues;
    bool no_room; /* the arena's maximum was in the way */
};

static void decode_object(struct decoder *d, const struct path *at, const struct json_table *t,
                          const struct json *j, void *out);

static void add_path(struct buf *b, const struct path *at)
{
    if (!at) {
        return;
    }
    add_path(b, at->up);
    if (at->key) {
        struct str key = str_from(at->key);
        bool cut = key.n > PATH_KEY_MAX;
        key.n = utf8_floor(key, MIN(key.n, (size_t)PATH_KEY_MAX));
        (void)buf_printf(b, "%s%.*s%s", b->len ? "." : "", STR_FMT(key), cut ? "..." : "");
    } else {
        (void)buf_printf(b, "[%zu]", at->index);
    }
}

static void issue_v(struct arena *a, struct json_issues *is, enum json_issue_kind kind,
                    struct str path, const char *fmt, va_list ap)
    __attribute__((format(printf, 5, 0)));
static void issue_v(struct arena *a, struct json_issues *is, enum json_issue_kind kind,
                    struct str path, const char *fmt, va_list ap)
{
    if (is->n >= JSON_MAX_ISSUES) {
        return;
    }
    char msg[ERR_MSG_MAX];
    (void)vsnprintf(msg, sizeof(msg), fmt, ap);
    struct str text = str_from(msg);
    text.n = utf8_floor(text, text.n);
    bool fits = arena_room(a) > path.n + text.n + 64;
    is->v[is->n++] = (struct json_issue){
        .kind = kind,
        .path = fits ? arena_str(a, path) : "",
        .msg = fits ? arena_str(a, text) : "too large",
    };
}

void json_issue_add(struct arena *a, struct json_issues *is, enum json_issue_kind kind,
                    const char *path, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    issue_v(a, is, kind, str_from(path), fmt, ap);
    va_end(ap);
}

static void issue(struct decoder *d, const struct path *at, enum json_issue_kind kind,
                  const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void issue(struct decoder *d, const struct path *at, enum json_issue_kind kind,
                  const char *fmt, ...)
{
    struct buf path = BUF_INIT(JSON_MAX_DEPTH * (PATH_KEY_MAX + 32));
    add_path(&path, at);
    va_list ap;
    va_start(ap, fmt);
    issue_v(d->arena, d->issues, kind, buf_str(&path), fmt, ap);
    va_end(ap);
    buf_done(&path);
}

/* n elements of memory, or NULL with an issue. */
static void *take(struct decoder *d, const struct path *at, size_t n, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total) || total + 64 > arena_room(d->arena)) {
        if (!d->no_room) {
            issue(d, at, JSON_BAD_LENGTH, "too large");
        }
        d->no_room = true;
        return NULL;
    }
    return arena_alloc(d->arena, total);
}

static const char *copy_str(struct decoder *d, const struct path *at, struct str s)
{
    char *p = take(d, at, s.n + 1, 1);
    if (p && s.n) {
        memcpy(p, s.p, s.n);
    }
    return p;
}

static bool bad_type(struct decoder *d, const struct path *at, const char *expected,
                     const struct json *j)
{
    issue(d, at, JSON_BAD_TYPE, "expected %s, got %s", expected, json_type_name(j));
    return false;
}

/* ---- single values ---- */

static size_t count_chars(struct str s)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        n += ((unsigned char)s.p[i] & 0xc0) != 0x80;
    }
    return n;
}

static bool check_len(struct decoder *d, const struct path *at, const struct json_field *f,
                      size_t n, const char *unit)
{
    if (n < f->min_len) {
        issue(d, at, JSON_BAD_LENGTH, "must have at least %zu %s, has %zu", f->min_len, unit, n);
        return false;
    }
    if (f->max_len && n > f->max_len) {
        issue(d, at, JSON_BAD_LENGTH, "must have at most %zu %s, has %zu", f->max_len, unit, n);
        return false;
    }
    return true;
}

static bool check_choice(struct decoder *d, const struct path *at, const struct json_field *f,
                         const char *s)
{
    if (!f->choices) {
        return true;
    }
    struct buf all = BUF_INIT(ERR_MSG_MAX / 2);
    for (const char *const *c = f->choices; *c; c++) {
        if (strcmp(*c, s) == 0) {
            buf_done(&all);
            return true;
        }
        (void)buf_printf(&all, "%s%s", c == f->choices ? "" : ", ", *c);
    }
    issue(d, at, JSON_BAD_CHOICE, "must be one of: %s", buf_cstr(&all));
    buf_done(&all);
    return false;
}

/* What holds for a string wherever it stands: choices and pattern. */
static bool check_text(struct decoder *d, const struct path *at, const struct json_field *f,
                       const char *s)
{
    if (!check_choice(d, at, f, s)) {
        return false;
    }
    if (f->pattern && !pattern_match(f->pattern, s)) {
        issue(d, at, JSON_BAD_PATTERN, "must match %s", f->pattern);
        return false;
    }
    return true;
}

static void decode_str(struct decoder *d, const struct path *at, const struct json_field *f,
                       const struct json *j, const char **out)
{
    if (!json_is_string(j)) {
        (void)bad_type(d, at, "string", j);
        return;
    }
    if (check_len(d, at, f, count_chars(json_str(j)), "characters") &&
        check_text(d, at, f, json_cstr(j))) {
        *out = copy_str(d, at, json_str(j));
    }
}

static bool has_range(const struct json_field *f)
{
    return f->min != 0 || f->max != 0;
}

static bool has_max(const struct json_field *f)
{
    return has_range(f) && f->max >= f->min && f->max != INT64_MAX;
}

static bool out_of_range(struct decoder *d, const struct path *at, const struct json_field *f)
{
    if (has_max(f)) {
        issue(d, at, JSON_OUT_OF_RANGE, "must be between %lld and %lld", (long long)f->min,
              (long long)f->max);
    } else {
        issue(d, at, JSON_OUT_OF_RANGE, "must be at least %lld", (long long)f->min);
    }
    return false;
}

/* 60.0 is the same number as 60 to JSON; beyond 2^53 a double has lost digits already. */
static bool whole_number(const struct json *j, int64_t *ret)
{
    if (json_is_int(j)) {
        *ret = json_int(j, 0);
        return true;
    }
    double v = json_num(j, NAN);
    if (!(fabs(v) <= 9007199254740992.0) || v != (double)(int64_t)v) {
        return false;
    }
    *ret = (int64_t)v;
    return true;
}

static void decode_int(struct decoder *d, const struct path *at, const struct json_field *f,
                       const struct json *j, struct opt_int *out)
{
    int64_t v;
    bool from_text = f->lenient && json_is_string(j) && parse_i64(str_trim(json_str(j)), &v) == 0;
    if (!from_text && !whole_number(j, &v)) {
        (void)bad_type(d, at, "integer", j);
        return;
    }
    if (has_range(f) && (v < f->min || (has_max(f) && v > f->max))) {
        (void)out_of_range(d, at, f);
        return;
    }
    *out = (struct opt_int){true, v};
}

static void decode_num(struct decoder *d, const struct path *at, const struct json_field *f,
                       const struct json *j, struct opt_num *out)
{
    if (!json_is_number(j)) {
        (void)bad_type(d, at, "number", j);
        return;
    }
    double v = json_num(j, 0);
    if (has_range(f) && (v < (double)f->min || (has_max(f) && v > (double)f->max))) {
        (void)out_of_range(d, at, f);
        return;
    }
    *out = (struct opt_num){true, v};
}

/* true, "yes", 1, ... as people write them. */
static bool lenient_bool(const struct json *j, bool *ret)
{
    struct str s = json_str(j);
    int64_t v = json_int(j, -1);
    if (json_is_int(j) && (v == 0 || v == 1)) {
        *ret = v == 1;
        return true;
    }
    if (str_eq_nocase(s, STR("t")) || str_eq_nocase(s, STR("y"))) {
        *ret = true;
        return true;
    }
    if (str_eq_nocase(s, STR("f")) || str_eq_nocase(s, STR("n"))) {
        *ret = false;
        return true;
    }
    return json_is_string(j) && parse_bool(s, ret) == 0;
}

static void decode_bool(struct decoder *d, const struct path *at, const struct json_field *f,
                        const struct json *j, struct opt_bool *out)
{
    bool v = json_bool(j, false);
    if (!json_is_bool(j) && !(f->lenient && lenient_bool(j, &v))) {
        (void)bad_type(d, at, "boolean", j);
        return;
    }
    *out = (struct opt_bool){true, v};
}

#define TIME_MAX_S INT64_C(253402300799) /* the last second of the year 9999 */

/* Unix seconds, or a date without a time. */
static bool lenient_time(const struct json *j, int64_t *ret)
{
    int64_t s;
    if (json_is_number(j) && whole_number(j, &s) && s >= 0 && s <= TIME_MAX_S) {
        *ret = s * 1000000;
        return true;
    }
    struct str text = json_str(j);
    if (text.n != strlen("2026-01-02")) {
        return false;
    }
    char full[32];
    (void)snprintf(full, sizeof(full), "%.*sT00:00:00Z", STR_FMT(text));
    return rfc3339_parse(str_from(full), ret) == 0;
}

static void decode_time(struct decoder *d, const struct path *at, const struct json_field *f,
                        const struct json *j, struct opt_int *out)
{
    int64_t us;
    if (f->lenient && lenient_time(j, &us)) {
        *out = (struct opt_int){true, us};
    } else if (!json_is_string(j)) {
        (void)bad_type(d, at, "date-time string", j);
    } else if (rfc3339_parse(json_str(j), &us) < 0) {
        issue(d, at, JSON_BAD_TIME, "must be an RFC 3339 date-time");
    } else {
        *out = (struct opt_int){true, us};
    }
}

/* ---- lists and maps ---- */

static void decode_str_list(struct decoder *d, const struct path *at, const struct json_field *f,
                            const struct json *j, struct str_list *out)
{
    if (!json_is_array(j)) {
        (void)bad_type(d, at, "array of strings", j);
        return;
    }
    size_t n = json_len(j);
    const char **v = NULL;
    if (!check_len(d, at, f, n, "entries") || !(v = take(d, at, n, sizeof(*v)))) {
        return;
    }
    for (size_t i = 0; i < n && !d->no_room; i++) {
        struct path here = {at, NULL, i};
        const struct json *item = json_item(j, i);
        v[i] = "";
        if (!json_is_string(item)) {
            (void)bad_type(d, &here, "string", item);
        } else if (check_text(d, &here, f, json_cstr(item))) {
            v[i] = copy_str(d, &here, json_str(item));
        }
    }
    *out = (struct str_list){v, n};
}

static void decode_str_map(struct decoder *d, const struct path *at, const struct json_field *f,
                           const struct json *j, struct str_map *out)
{
    if (!json_is_object(j)) {
        (void)bad_type(d, at, "object with string values", j);
        return;
    }
    size_t n = 0;
    struct str_pair *v = NULL;
    if (!check_len(d, at, f, json_len(j), "entries") ||
        !(v = take(d, at, json_len(j), sizeof(*v)))) {
        return;
    }
    void *it = NULL;
    const char *key;
    struct json *value;
    while (!d->no_room && json_next(j, &it, &key, &value)) {
        struct path here = {at, key, 0};
        if (!json_is_string(value)) {
            (void)bad_type(d, &here, "string", value);
        } else if (check_text(d, &here, f, json_cstr(value))) {
            v[n].key = copy_str(d, &here, str_from(key));
            v[n].value = copy_str(d, &here, json_str(value));
            n++;
        }
    }
    *out = (struct str_map){v, n, true};
}

static void decode_obj(struct decoder *d, const struct path *at, const struct json_field *f,
                       const struct json *j, void **out)
{
    void *sub = take(d, at, 1, f->sub->size);
    if (sub) {
        decode_object(d, at, f->sub, j, sub);
        *out = sub;
    }
}

static void decode_obj_list(struct decoder *d, const struct path *at, const struct json_field *f,
                            const struct json *j, struct obj_list *out)
{
    if (!json_is_array(j)) {
        (void)bad_type(d, at, "array", j);
        return;
    }
    size_t n = json_len(j);
    char *v = NULL;
    if (!check_len(d, at, f, n, "entries") || !(v = take(d, at, n, f->sub->size))) {
        return;
    }
    for (size_t i = 0; i < n && !d->no_room; i++) {
        struct path here = {at, NULL, i};
        decode_object(d, &here, f->sub, json_item(j, i), v + i * f->sub->size);
    }
    *out = (struct obj_list){v, n, true};
}

/* ---- objects ---- */

static void decode_value(struct decoder *d, const struct path *at, const struct json_field *f,
                         const struct json *j, void *out)
{
    switch (f->kind) {
    case JSON_F_STR:
        decode_str(d, at, f, j, out);
        break;
    case JSON_F_INT:
        decode_int(d, at, f, j, out);
        break;
    case JSON_F_NUM:
        decode_num(d, at, f, j, out);
        break;
    case JSON_F_BOOL:
        decode_bool(d, at, f, j, out);
        break;
    case JSON_F_STR_LIST:
        decode_str_list(d, at, f, j, out);
        break;
    case JSON_F_STR_MAP:
        decode_str_map(d, at, f, j, out);
        break;
    case JSON_F_OBJ:
        decode_obj(d, at, f, j, out);
        break;
    case JSON_F_OBJ_LIST:
        decode_obj_list(d, at, f, j, out);
        break;
    case JSON_F_ANY:
        *(const struct json **)out = j;
        break;
    case JSON_F_TIME:
        decode_time(d, at, f, j, out);
        break;
    case JSON_F_END:
        break;
    }
}

static bool key_matches(const struct json_table *t, const struct json_field *f, const char *key)
{
    if (strcmp(key, f->name) == 0 || (f->alias && strcmp(key, f->alias) == 0)) {
        return true;
    }
    if (!t->ignore_case && !f->ignore_case) {
        return false;
    }
    struct str k = str_from(key);
    return str_eq_nocase(k, str_from(f->name)) ||
           (f->alias && str_eq_nocase(k, str_from(f->alias)));
}

/* The value of a field: under its name, else its alias, else (if allowed) in another case. */
static const struct json *field_find(const struct json_table *t, const struct json_field *f,
                                     const struct json *j, const char **ret_key)
{
    const struct json *value = json_get(j, f->name);
    *ret_key = f->name;
    if (!value && f->alias && (value = json_get(j, f->alias))) {
        *ret_key = f->alias;
    }
    if (value || (!t->ignore_case && !f->ignore_case)) {
        return value;
    }
    void *it = NULL;
    const char *key;
    struct json *v;
    while (json_next(j, &it, &key, &v)) {
        if (key_matches(t, f, key)) {
            *ret_key = key;
            return v;
        }
    }
    return NULL;
}

static void check_unknown(struct decoder *d, const struct path *at, const struct json_table *t,
                          const struct json *j)
{
    void *it = NULL;
    const char *key;
    while (json_next(j, &it, &key, NULL)) {
        const struct json_field *f = t->fields;
        while (f->kind != JSON_F_END && !key_matches(t, f, key)) {
            f++;
        }
        if (f->kind == JSON_F_END) {
            struct path here = {at, key, 0};
            issue(d, &here, JSON_UNKNOWN_FIELD, "unknown field");
        }
    }
}

static void decode_object(struct decoder *d, const struct path *at, const struct json_table *t,
                          const struct json *j, void *out)
{
    if (!json_is_object(j)) {
        (void)bad_type(d, at, "object", j);
        return;
    }
    for (const struct json_field *f = t->fields; f->kind != JSON_F_END && !d->no_room; f++) {
        const char *key;
        const struct json *value = field_find(t, f, j, &key);
        struct path here = {at, key, 0};
        if (!value) {
            if (f->required) {
                issue(d, &here, JSON_MISSING, "is required");
            }
        } else if (json_is_null(value)) {
            if (f->required || f->not_null) {
                issue(d, &here, JSON_BAD_TYPE, "must not be null");
            }
        } else {
            decode_value(d, &here, f, value, (char *)out + f->offset);
        }
    }
    if (t->unknown == JSON_UNKNOWN_ERROR) {
        check_unknown(d, at, t, j);
    }
}

int json_decode(struct arena *a, const struct json_table *t, const struct json *j, void *out,
                struct json_issues *issues, struct err *e)
{
    struct json_issues own;
    struct decoder d = {.arena = a, .issues = issues ? issues : &own};
    d.issues->n = 0;
    memset(out, 0, t->size);
    decode_object(&d, NULL, t, j, out);
    if (d.issues->n == 0) {
        return 0;
    }
    const struct json_issue *first = &d.issues->v[0];
    return err_set(e, d.no_room ? ERR_LIMIT : ERR_INVALID, "%s%s%s", first->path,
                   first->path[0] ? ": " : "", first->msg);
}

const char *str_map_get(const struct str_map *m, const char *key)
{
    for (size_t i = 0; i < m->n; i++) {
        if (strcmp(m->v[i].key, key) == 0) {
            return m->v[i].value;
        }
    }
    return NULL;
}
