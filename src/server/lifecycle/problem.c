/* See problem.h. The entries of `detail` have the shape clients of the protocol know: type, loc,
 * msg, input. */

#include "server/lifecycle/problem.h"

#include "base/must.h"
#include "base/num.h"

void problem_done(struct problem *p)
{
    free(p->detail);
    *p = (struct problem){0};
}

__attribute__((format(printf, 4, 0))) static void
problem_vset(struct problem *p, int status, const char *code, const char *fmt, va_list ap)
{
    problem_done(p);
    p->status = status;
    p->code = code;
    (void)vsnprintf(p->message, sizeof(p->message), fmt, ap);
}

int problem_set(struct problem *p, int status, const char *code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    problem_vset(p, status, code, fmt, ap);
    va_end(ap);
    return -1;
}

int problem_err(struct problem *p, int status, const char *code, const struct err *e)
{
    static const int by_code[ERR__COUNT] = {
        [ERR_INVALID] = 400, [ERR_NOT_FOUND] = 404,   [ERR_CONFLICT] = 409, [ERR_UNSUPPORTED] = 400,
        [ERR_TIMEOUT] = 504, [ERR_UNAVAILABLE] = 503, [ERR_LIMIT] = 503,
    };
    int retry = 0;
    if (status == 0) {
        status = by_code[e->code] ? by_code[e->code] : 500;
    }
    if (e->code == ERR_UNAVAILABLE || e->code == ERR_LIMIT) {
        status = 503;
        retry = 5;
    }
    (void)problem_set(p, status, code, "%s", e->msg);
    p->retry_after_s = retry;
    return -1;
}

/* Type names as the protocol's validation errors have them. */
static const char *issue_type(const struct json_issue *is)
{
    switch (is->kind) {
    case JSON_MISSING:
        return "missing";
    case JSON_BAD_TYPE:
        if (strstr(is->msg, "string")) {
            return "string_type";
        }
        if (strstr(is->msg, "integer")) {
            return "int_type";
        }
        if (strstr(is->msg, "number")) {
            return "float_type";
        }
        if (strstr(is->msg, "bool")) {
            return "bool_type";
        }
        return strstr(is->msg, "array") ? "list_type" : "dict_type";
    case JSON_OUT_OF_RANGE:
        return "greater_than_equal";
    case JSON_BAD_LENGTH:
        return "too_short";
    case JSON_BAD_CHOICE:
        return "literal_error";
    case JSON_BAD_PATTERN:
        return "string_pattern_mismatch";
    case JSON_UNKNOWN_FIELD:
        return "extra_forbidden";
    case JSON_BAD_TIME:
        return "datetime_parsing";
    case JSON_BAD_VALUE:
        break;
    }
    return "value_error";
}

/* "volumes[2].name" -> "volumes", 2, "name", and the value found on the way. */
static const struct json *write_loc(struct json_out *o, const char *path, const struct json *at)
{
    struct str rest = str_from(path);
    while (rest.p && rest.n) {
        size_t n = 0;
        if (rest.p[0] == '[') {
            uint64_t i = 0;
            ptrdiff_t close = str_find(rest, ']');
            if (close < 0 || parse_u64(str_sub(rest, 1, (size_t)close), &i) < 0) {
                break;
            }
            json_put_int(o, (int64_t)i);
            at = json_is_array(at) ? json_item(at, (size_t)i) : NULL;
            n = (size_t)close + 1;
        } else {
            while (n < rest.n && rest.p[n] != '.' && rest.p[n] != '[') {
                n++;
            }
            struct str key = str_sub(rest, 0, n);
            json_put_str(o, key);
            char name[256];
            at = json_is_object(at) && str_to_cstr(key, name, sizeof(name)) == 0
                     ? json_get(at, name)
                     : NULL;
        }
        if (n < rest.n && rest.p[n] == '.') {
            n++;
        }
        rest = str_sub(rest, n, rest.n);
    }
    return at;
}

static void write_issue(struct json_out *o, const char *where, const struct json_issue *is,
                        const struct json *root)
{
    json_obj_begin(o);
    json_key(o, "type");
    json_put_cstr(o, issue_type(is));
    json_key(o, "loc");
    json_arr_begin(o);
    json_put_cstr(o, where);
    const struct json *input = write_loc(o, is->path, root);
    json_arr_end(o);
    json_key(o, "msg");
    json_put_cstr(o, is->kind == JSON_MISSING ? "Field required" : is->msg);
    if (input && is->kind != JSON_MISSING && !json_is_object(input) && !json_is_array(input)) {
        json_key(o, "input");
        json_put_tree(o, input);
    }
    if (is->kind == JSON_BAD_VALUE) {
        json_key(o, "ctx");
        json_put_raw(o, STR("{\"error\":{}}"));
    }
    json_obj_end(o);
}

int problem_issues(struct problem *p, const char *where, const struct json_issues *is,
                   const struct json *root)
{
    const struct json_issue *first = &is->v[0];
    if (is->n && first->path && *first->path) {
        (void)problem_set(p, 422, CODE_INVALID, "%s.%s: %s", where, first->path, first->msg);
    } else {
        (void)problem_set(p, 422, CODE_INVALID, "%s: %s", where,
                          is->n ? first->msg : "the request does not fit its schema");
    }
    struct buf b = BUF_INIT(256u << 10);
    struct json_out o;
    json_out_init(&o, &b);
    json_arr_begin(&o);
    for (size_t i = 0; i < is->n; i++) {
        write_issue(&o, where, &is->v[i], root);
    }
    json_arr_end(&o);
    p->detail = buf_failed(&b) ? NULL : buf_take(&b);
    buf_done(&b);
    return -1;
}

int problem_invalid(struct problem *p, const char *type, const char *loc_json, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    problem_vset(p, 422, CODE_INVALID, fmt, ap);
    va_end(ap);
    struct buf b = BUF_INIT(64u << 10);
    struct json_out o;
    json_out_init(&o, &b);
    json_arr_begin(&o);
    json_obj_begin(&o);
    json_key(&o, "type");
    json_put_cstr(&o, type);
    json_key(&o, "loc");
    json_put_raw(&o, str_from(loc_json));
    json_key(&o, "msg");
    json_put_cstr(&o, p->message);
    json_obj_end(&o);
    json_arr_end(&o);
    p->detail = buf_take(&b);
    buf_done(&b);
    return -1;
}
