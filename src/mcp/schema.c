#include "mcp/schema.h"

#include <math.h>
#include <string.h>

#include "base/must.h"
#include "base/num.h"
#include "base/utf8.h"

/* Where in the arguments we are, for messages: a chain on the stack. */
struct place {
    const struct place *up;
    const char *key; /* or, when NULL, an index */
    size_t index;
};

static void place_text(struct buf *b, const struct place *p)
{
    if (!p) {
        return;
    }
    place_text(b, p->up);
    if (p->key) {
        (void)buf_printf(b, "%s%.80s", b->len ? "." : "", p->key);
    } else {
        (void)buf_printf(b, "[%zu]", p->index);
    }
}

static struct json *refuse(const struct place *p, struct err *e, const char *what)
{
    struct buf b = BUF_INIT(400);
    place_text(&b, p);
    (void)err_set(e, ERR_INVALID, "%s%s%s", b.len ? buf_cstr(&b) : "", b.len ? ": " : "", what);
    buf_done(&b);
    return NULL;
}

static struct json *fit(const struct json *schema, const struct json *v, const struct place *at,
                        struct err *e);

static bool in_enum(const struct json *schema, const struct json *v)
{
    const struct json *choices = json_get(schema, "enum");
    for (size_t i = 0; i < json_len(choices); i++) {
        if (json_eq(json_item(choices, i), v)) {
            return true;
        }
    }
    return !choices;
}

static struct json *fit_string(const struct json *schema, const struct json *v,
                               const struct place *at, struct err *e)
{
    struct str s = json_str(v);
    if (!json_is_string(v)) {
        return refuse(at, e, "expected a string");
    }
    if (s.n < (size_t)json_int(json_get(schema, "minLength"), 0)) {
        return refuse(at, e, "must not be empty");
    }
    if (!in_enum(schema, v)) {
        struct buf b = BUF_INIT(300);
        (void)buf_add_cstr(&b, "must be one of ");
        (void)json_dump(json_get(schema, "enum"), &b, 0);
        struct json *none = refuse(at, e, buf_cstr(&b));
        buf_done(&b);
        return none;
    }
    return json_clone(v);
}

static struct json *fit_number(const struct json *schema, const struct json *v, bool whole,
                               const struct place *at, struct err *e)
{
    double n = json_num(v, 0);
    bool ok = json_is_number(v) ||
              (json_is_string(v) && parse_double(str_trim(json_str(v)), &n) == 0 && isfinite(n));
    if (!ok || (whole && (n != floor(n) || fabs(n) > 9e15))) {
        return refuse(at, e, whole ? "expected an integer" : "expected a number");
    }
    const struct json *min = json_get(schema, "minimum"), *max = json_get(schema, "maximum");
    const struct json *above = json_get(schema, "exclusiveMinimum");
    char what[96];
    if ((min && n < json_num(min, 0)) || (max && n > json_num(max, 0)) ||
        (above && n <= json_num(above, 0))) {
        (void)snprintf(what, sizeof(what), "out of range: %s %.0f and at most %.0f",
                       above ? "above" : "at least", json_num(above ? above : min, 0),
                       json_num(max, 9e15));
        return refuse(at, e, what);
    }
    return whole ? json_int_new((int64_t)n) : json_num_new(n);
}

static struct json *fit_bool(const struct json *v, const struct place *at, struct err *e)
{
    bool b = json_bool(v, false);
    if (!json_is_bool(v) && (!json_is_string(v) || parse_bool(json_str(v), &b) < 0)) {
        return refuse(at, e, "expected true or false");
    }
    return json_bool_new(b);
}

static struct json *fit_array(const struct json *schema, const struct json *v,
                              const struct place *at, struct err *e)
{
    size_t n = json_len(v);
    if (!json_is_array(v)) {
        return refuse(at, e, "expected a list");
    }
    if (n < (size_t)json_int(json_get(schema, "minItems"), 0)) {
        return refuse(at, e, "must not be empty");
    }
    if (n > (size_t)json_int(json_get(schema, "maxItems"), INT32_MAX)) {
        return refuse(at, e, "too many items");
    }
    struct json *out = json_array_new();
    for (size_t i = 0; i < n; i++) {
        struct place here = {.up = at, .index = i};
        struct json *item = fit(json_get(schema, "items"), json_item(v, i), &here, e);
        if (!item) {
            json_free(out);
            return NULL;
        }
        json_push(out, item);
    }
    return out;
}

/* A key that no property has: refused, or fitted to the schema of the others. */
static int fit_other(const struct json *schema, const char *key, const struct json *v,
                     struct json *out, const struct place *at, struct err *e)
{
    const struct json *others = json_get(schema, "additionalProperties"),
                      *known = json_get(schema, "properties");
    struct place here = {.up = at, .key = key};
    if (json_is_object(others)) {
        struct json *fitted = fit(others, v, &here, e);
        if (fitted) {
            json_set(out, key, fitted);
        }
        return fitted ? 0 : -1;
    }
    if (json_is_bool(others) && !json_bool(others, true)) {
        struct buf b = BUF_INIT(400);
        void *it = NULL;
        const char *name;
        struct json *ignored;
        (void)buf_add_cstr(&b, "no such argument; there are");
        while (json_next(known, &it, &name, &ignored)) {
            (void)buf_printf(&b, " %s", name);
        }
        (void)refuse(&here, e, buf_cstr(&b));
        buf_done(&b);
        return -1;
    }
    json_set(out, key, json_clone(v));
    return 0;
}

static int fit_properties(const struct json *schema, const struct json *v, struct json *out,
                          const struct place *at, struct err *e)
{
    void *it = NULL;
    const char *key;
    struct json *sub;
    while (json_next(json_get(schema, "properties"), &it, &key, &sub)) {
        struct place here = {.up = at, .key = key};
        const struct json *given = json_get(v, key), *fallback = json_get(sub, "default");
        if (given) {
            struct json *fitted = fit(sub, given, &here, e);
            if (!fitted) {
                return -1;
            }
            json_set(out, key, fitted);
        } else if (fallback) {
            json_set(out, key, json_clone(fallback));
        }
    }
    return 0;
}

static struct json *fit_object(const struct json *schema, const struct json *v,
                               const struct place *at, struct err *e)
{
    if (!json_is_object(v)) {
        return refuse(at, e, "expected an object");
    }
    struct json *out = json_object_new(), *given;
    const struct json *known = json_get(schema, "properties"),
                      *required = json_get(schema, "required");
    bool ok = fit_properties(schema, v, out, at, e) == 0;
    void *it = NULL;
    const char *key;
    while (ok && json_next(v, &it, &key, &given)) {
        ok = json_get(known, key) || fit_other(schema, key, given, out, at, e) == 0;
    }
    for (size_t i = 0; ok && i < json_len(required); i++) {
        struct place here = {.up = at, .key = json_cstr(json_item(required, i))};
        if (!json_get(v, here.key)) {
            (void)refuse(&here, e, "is required");
            ok = false;
        }
    }
    if (!ok) {
        json_free(out);
        return NULL;
    }
    return out;
}

/* The message of the first alternative is shown: with "... or null" it is the one that helps. */
static struct json *fit_any(const struct json *choices, const struct json *v,
                            const struct place *at, struct err *e)
{
    struct err first = {0};
    for (size_t i = 0; i < json_len(choices); i++) {
        struct err why = {0};
        struct json *out = fit(json_item(choices, i), v, at, &why);
        if (out) {
            return out;
        }
        if (i == 0) {
            first = why;
        }
    }
    *e = first;
    return NULL;
}

static struct json *fit(const struct json *schema, const struct json *v, const struct place *at,
                        struct err *e)
{
    const struct json *any = json_get(schema, "anyOf");
    const char *type = json_cstr(json_get(schema, "type"));
    if (any) {
        return fit_any(any, v, at, e);
    }
    if (!type) {
        return json_clone(v);
    }
    if (strcmp(type, "object") == 0) {
        return fit_object(schema, v, at, e);
    }
    if (strcmp(type, "array") == 0) {
        return fit_array(schema, v, at, e);
    }
    if (strcmp(type, "string") == 0) {
        return fit_string(schema, v, at, e);
    }
    if (strcmp(type, "boolean") == 0) {
        return fit_bool(v, at, e);
    }
    if (strcmp(type, "null") == 0) {
        return json_is_null(v) ? json_null_new() : refuse(at, e, "expected null");
    }
    return fit_number(schema, v, strcmp(type, "integer") == 0, at, e);
}

struct json *schema_fit(const struct json *schema, const struct json *value, struct err *e)
{
    struct err local = {0};
    return fit(schema, value, NULL, e ? e : &local);
}
