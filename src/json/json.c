/* JSON trees: jansson behind our own names. Writing is in json_out.c. */

#include "json/json.h"

#include <malloc.h>
#include <string.h>

#include "base/must.h"
#include "base/utf8.h"
#include "json/tree.h"

/* ---- reading ---- */

/* jansson recurses up to 2048 levels, and makes some 250 bytes of a value that was three in the
 * text. So depth and number of values are counted before it runs; broken text is left for it to
 * complain about. */
static int check_shape(struct str text, struct err *e)
{
    unsigned depth = 0;
    size_t n_nodes = 1;
    bool in_string = false;
    for (size_t i = 0; i < text.n; i++) {
        char c = text.p[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            n_nodes++;
            if (++depth > JSON_MAX_DEPTH) {
                return err_set(e, ERR_INVALID, "nested deeper than %d levels", JSON_MAX_DEPTH);
            }
        } else if (c == ',' && ++n_nodes > JSON_MAX_NODES) {
            return err_set(e, ERR_INVALID, "more than %u values", JSON_MAX_NODES);
        } else if ((c == '}' || c == ']') && (depth == 0 || --depth == 0)) {
            return 0; /* end of the first value */
        }
    }
    return 0;
}

static struct json *parse(struct str text, size_t flags, struct err *e)
{
    if (check_shape(text, e) < 0) {
        return NULL;
    }
    json_error_t why = {0};
    json_t *j = json_loadb(text.n ? text.p : "", text.n,
                           flags | JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!j) {
        err_set(e, ERR_INVALID, "line %d column %d: %s", why.line, why.column, why.text);
    }
    return json_wrap(j);
}

struct json *json_parse(struct str text, struct err *e)
{
    /* jansson takes a NUL behind the value for the end of the text. */
    if (str_find(text, 0) >= 0) {
        err_set(e, ERR_INVALID, "NUL in the text");
        return NULL;
    }
    return parse(text, 0, e);
}

struct json *json_parse_first(struct str text, struct err *e)
{
    return parse(text, JSON_DISABLE_EOF_CHECK, e);
}

void json_free(struct json *root)
{
    json_decref(json_raw(root));
}

static void wiping_free(void *p)
{
    if (p) {
        explicit_bzero(p, malloc_usable_size(p));
        free(p);
    }
}

void json_wipe_freed(void)
{
    json_set_alloc_funcs(xmalloc, wiping_free); /* jansson never reallocates */
}

bool json_is_object(const struct json *j)
{
    return j && json_typeof(json_raw(j)) == JSON_OBJECT;
}

bool json_is_array(const struct json *j)
{
    return j && json_typeof(json_raw(j)) == JSON_ARRAY;
}

bool json_is_string(const struct json *j)
{
    return j && json_typeof(json_raw(j)) == JSON_STRING;
}

bool json_is_int(const struct json *j)
{
    return j && json_typeof(json_raw(j)) == JSON_INTEGER;
}

bool json_is_number(const struct json *j)
{
    return json_is_int(j) || (j && json_typeof(json_raw(j)) == JSON_REAL);
}

bool json_is_bool(const struct json *j)
{
    return j && (json_typeof(json_raw(j)) == JSON_TRUE || json_typeof(json_raw(j)) == JSON_FALSE);
}

bool json_is_null(const struct json *j)
{
    return j && json_typeof(json_raw(j)) == JSON_NULL;
}

const char *json_type_name(const struct json *j)
{
    if (!j) {
        return "nothing";
    }
    switch (json_typeof(json_raw(j))) {
    case JSON_OBJECT:
        return "object";
    case JSON_ARRAY:
        return "array";
    case JSON_STRING:
        return "string";
    case JSON_INTEGER:
        return "integer";
    case JSON_REAL:
        return "number";
    case JSON_TRUE:
    case JSON_FALSE:
        return "boolean";
    case JSON_NULL:
        return "null";
    default:
        return "nothing";
    }
}

struct json *json_get(const struct json *obj, const char *key)
{
    return json_wrap(json_object_get(json_raw(obj), key));
}

struct json *json_at(const struct json *j, const char *path)
{
    json_t *at = json_raw(j);
    struct str rest = str_from(path);
    while (rest.p && at) {
        struct str key = str_cut(&rest, '.');
        at = json_object_getn(at, key.p, key.n);
    }
    return json_wrap(at);
}

struct str json_str(const struct json *j)
{
    return json_is_string(j)
               ? str_n(json_string_value(json_raw(j)), json_string_length(json_raw(j)))
               : STR_NULL;
}

const char *json_cstr(const struct json *j)
{
    return json_string_value(json_raw(j));
}

int64_t json_int(const struct json *j, int64_t fallback)
{
    return json_is_int(j) ? (int64_t)json_integer_value(json_raw(j)) : fallback;
}

double json_num(const struct json *j, double fallback)
{
    return json_is_number(j) ? json_number_value(json_raw(j)) : fallback;
}

bool json_bool(const struct json *j, bool fallback)
{
    return json_is_bool(j) ? json_typeof(json_raw(j)) == JSON_TRUE : fallback;
}

size_t json_len(const struct json *j)
{
    return json_is_array(j) ? json_array_size(json_raw(j)) : json_object_size(json_raw(j));
}

struct json *json_item(const struct json *arr, size_t i)
{
    return json_wrap(json_array_get(json_raw(arr), i));
}

bool json_next(const struct json *obj, void **it, const char **ret_key, struct json **ret_value)
{
    json_t *o = json_raw(obj);
    *it = *it ? json_object_iter_next(o, *it) : json_object_iter(o);
    if (!*it) {
        return false;
    }
    if (ret_key) {
        *ret_key = json_object_iter_key(*it);
    }
    if (ret_value) {
        *ret_value = json_wrap(json_object_iter_value(*it));
    }
    return true;
}

/* ---- building ---- */

static struct json *made(json_t *j)
{
    must(j); /* out of memory, or a value that the callers below have excluded */
    return json_wrap(j);
}

struct json *json_object_new(void)
{
    return made(json_object());
}

struct json *json_array_new(void)
{
    return made(json_array());
}

static bool is_clean(struct str s)
{
    return utf8_valid(s) && str_find(s, 0) < 0;
}

/* Valid UTF-8 without NUL; the caller frees. */
static char *cleaned(struct str s, size_t *ret_len)
{
    struct buf b = BUF_INIT(SIZE_MAX / 2);
    while (s.p) {
        bool more = str_find(s, 0) >= 0;
        must(utf8_repair(&b, str_cut(&s, 0)) == 0);
        if (more) {
            must(buf_add_cstr(&b, "\xef\xbf\xbd") == 0);
        }
    }
    *ret_len = b.len;
    return buf_take(&b);
}

struct json *json_string_new(struct str s)
{
    if (is_clean(s)) {
        return made(json_stringn_nocheck(s.n ? s.p : "", s.n));
    }
    size_t n;
    char *text = cleaned(s, &n);
    struct json *j = made(json_stringn_nocheck(text, n));
    free(text);
    return j;
}

struct json *json_int_new(int64_t v)
{
    return made(json_integer(v));
}

struct json *json_num_new(double v)
{
    json_t *j = json_real(v); /* refuses NaN and infinity, which JSON cannot say */
    return j ? json_wrap(j) : json_null_new();
}

struct json *json_bool_new(bool v)
{
    return made(json_boolean(v));
}

struct json *json_null_new(void)
{
    return made(json_null());
}

void json_set(struct json *obj, const char *key, struct json *take_value)
{
    must(take_value && take_value != obj);
    struct str k = str_from(key);
    if (is_clean(k)) {
        must(json_object_set_new_nocheck(json_raw(obj), key, json_raw(take_value)) == 0);
        return;
    }
    size_t n;
    char *text = cleaned(k, &n);
    must(json_object_set_new_nocheck(json_raw(obj), text, json_raw(take_value)) == 0);
    free(text);
}

void json_del(struct json *obj, const char *key)
{
    (void)json_object_del(json_raw(obj), key); /* missing is fine */
}

void json_push(struct json *arr, struct json *take_value)
{
    must(take_value && take_value != arr);
    must(json_array_append_new(json_raw(arr), json_raw(take_value)) == 0);
}

struct json *json_clone(const struct json *j)
{
    return j ? made(json_deep_copy(json_raw(j))) : NULL;
}

struct json *json_ref(struct json *j)
{
    return json_wrap(json_incref(json_raw(j)));
}

bool json_eq(const struct json *a, const struct json *b)
{
    return a == b || (a && b && json_equal(json_raw(a), json_raw(b)));
}
