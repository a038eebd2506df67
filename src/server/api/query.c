/* Query parameters, path parameters and bodies into values, with errors in the protocol's shape. */

#include <errno.h>

#include "base/codec.h"
#include "base/must.h"
#include "base/num.h"
#include "server/api/api.h"

static int bad_param(struct problem *p, const char *where, const char *key, const char *type,
                     struct str value, const char *msg)
{
    struct buf loc = BUF_INIT(512);
    struct json_out o;
    json_out_init(&o, &loc);
    json_arr_begin(&o);
    json_put_cstr(&o, where);
    json_put_cstr(&o, key);
    json_arr_end(&o);
    (void)problem_invalid(p, type, buf_cstr(&loc), "%s", msg);
    buf_done(&loc);
    (void)snprintf(p->message, sizeof(p->message), "%s.%s: %s, not '%.*s'", where, key, msg,
                   (int)MIN(value.n, 60u), value.p ? value.p : "");
    return -1;
}

int query_int(struct http_req *req, const char *key, int64_t min, int64_t max, int64_t fallback,
              int64_t *ret, struct problem *p)
{
    struct str v = http_req_query_get(req, key, 0);
    if (!v.p) {
        *ret = fallback;
        return 0;
    }
    int64_t n;
    if (parse_i64(str_trim(v), &n) < 0) {
        return bad_param(p, "query", key, "int_parsing", v, "Input should be a valid integer");
    }
    if (n < min || n > max) {
        char msg[96];
        (void)snprintf(msg, sizeof(msg), "Input should be between %lld and %lld", (long long)min,
                       (long long)max);
        return bad_param(p, "query", key, n < min ? "greater_than_equal" : "less_than_equal", v,
                         msg);
    }
    *ret = n;
    return 0;
}

int query_page(struct http_req *req, size_t *ret_page, size_t *ret_size, struct problem *p)
{
    int64_t page, size;
    if (query_int(req, "page", 1, INT64_MAX, 1, &page, p) < 0 ||
        query_int(req, "pageSize", 1, PAGE_SIZE_MAX, PAGE_SIZE_DEFAULT, &size, p) < 0) {
        return -1;
    }
    *ret_page = (size_t)page;
    *ret_size = (size_t)size;
    return 0;
}

#define STATE_FILTERS_MAX 32u

const struct str *query_states(struct http_req *req, size_t *ret_n)
{
    struct str *states = arena_array(http_req_arena(req), STATE_FILTERS_MAX, sizeof(*states)), v;
    size_t n = 0;
    while (n < STATE_FILTERS_MAX && (v = http_req_query_get(req, "state", n)).p) {
        states[n++] = v;
    }
    *ret_n = n;
    return states;
}

int query_bool(struct http_req *req, const char *key, bool fallback, bool *ret, struct problem *p)
{
    struct str v = http_req_query_get(req, key, 0);
    *ret = fallback;
    if (!v.p) {
        return 0;
    }
    if (str_eq_nocase(v, STR("t")) || str_eq_nocase(v, STR("y"))) {
        *ret = true;
    } else if (str_eq_nocase(v, STR("f")) || str_eq_nocase(v, STR("n"))) {
        *ret = false;
    } else if (parse_bool(v, ret) < 0) {
        return bad_param(p, "query", key, "bool_parsing", v, "Input should be a valid boolean");
    }
    return 0;
}

static int bad_filter(struct problem *p)
{
    return problem_set(p, 400, "INVALID_METADATA_FORMAT",
                       "metadata must look like key=value&key2=value2, form-encoded");
}

int query_metadata(struct arena *a, struct str value, struct str_map *ret, struct problem *p)
{
    size_t most = 1;
    for (size_t i = 0; i < value.n; i++) {
        most += value.p[i] == '&';
    }
    struct str_map m = {.v = arena_array(a, most, sizeof(*m.v)), .has = true};
    struct str rest = value;
    while (rest.p) {
        struct str v = str_cut(&rest, '&');
        ptrdiff_t eq = str_find(v, '=');
        struct buf key = BUF_INIT(v.n + 1), val = BUF_INIT(v.n + 1);
        bool good = eq > 0 && percent_decode(&key, str_sub(v, 0, (size_t)eq), true) == 0 &&
                    percent_decode(&val, str_sub(v, (size_t)eq + 1, v.n), true) == 0 &&
                    !memchr(buf_cstr(&key), 0, key.len) && !memchr(buf_cstr(&val), 0, val.len);
        if (good) {
            const char *k = arena_str(a, buf_str(&key)), *w = arena_str(a, buf_str(&val));
            size_t i = 0;
            while (i < m.n && strcmp(m.v[i].key, k) != 0) {
                i++;
            }
            m.v[i] = (struct str_pair){k, w}; /* the last of equal keys counts */
            m.n = MAX(m.n, i + 1);
        }
        buf_done(&key);
        buf_done(&val);
        if (!good) {
            return bad_filter(p);
        }
    }
    *ret = m;
    return 0;
}

int param_port(struct http_req *req, uint16_t *ret, struct problem *p)
{
    struct str v = http_req_param(req, "port");
    int64_t n;
    if (parse_i64(v, &n) < 0) {
        return bad_param(p, "path", "port", "int_parsing", v, "Input should be a valid integer");
    }
    if (n < 1 || n > 65535) {
        return problem_set(p, 400, "DOCKER::INVALID_PORT", "port %lld is not between 1 and 65535",
                           (long long)n);
    }
    *ret = (uint16_t)n;
    return 0;
}

/* application/json and application/anything+json, with or without parameters. */
bool is_json_request(const struct http_req *req)
{
    struct str rest = http_req_header(req, STR("Content-Type"));
    struct str type = str_trim(str_cut(&rest, ';'));
    if (!str_starts_nocase(type, STR("application/"))) {
        return false;
    }
    struct str sub = str_sub(type, strlen("application/"), type.n);
    return str_eq_nocase(sub, STR("json")) ||
           (sub.n > 5 && str_eq_nocase(str_sub(sub, sub.n - 5, sub.n), STR("+json")));
}

int body_json(struct http_req *req, struct str body, struct json **ret, struct problem *p)
{
    if (str_trim(body).n == 0) {
        return problem_invalid(p, "missing", "[\"body\"]", "Field required");
    }
    if (!is_json_request(req)) {
        return problem_invalid(p, "model_attributes_type", "[\"body\"]",
                               "Input should be a JSON object: send Content-Type application/json");
    }
    struct err e = {0};
    struct json *j = json_parse(body, &e);
    if (!j) {
        return problem_invalid(p, "json_invalid", "[\"body\",0]", "JSON decode error: %s", e.msg);
    }
    if (!json_is_object(j)) {
        json_free(j);
        return problem_invalid(p, "dict_type", "[\"body\"]", "Input should be a valid dictionary");
    }
    *ret = j;
    return 0;
}

struct pagination query_pages(size_t page, size_t page_size, size_t total)
{
    int64_t pages = (int64_t)((total + page_size - 1) / page_size);
    return (struct pagination){
        .page = {true, (int64_t)page},
        .page_size = {true, (int64_t)page_size},
        .total_items = {true, (int64_t)total},
        .total_pages = {true, pages},
        .has_next_page = {true, (int64_t)page < pages},
    };
}
