/* From what a client sent to what is stored: trimmed, lower case where case has no meaning,
 * defaults filled in, duplicates removed. What could be misunderstood later is refused here. */

#include <string.h>

#include "base/must.h"
#include "egress/vault/internal.h"
#include "egress/vault/limits.h"
#include "http/h1.h"
#include "net/cidr.h"

struct str vault_trim(const char *s)
{
    return str_trim_space(str_from(s ? s : ""));
}

static int take_name(struct arena *a, const char *what, const char *in, const char **out,
                     struct err *e)
{
    struct str s = vault_trim(in);
    if (s.n == 0) {
        return err_set(e, ERR_INVALID, "%s is required", what);
    }
    if (s.n > VAULT_MAX_NAME) {
        return err_set(e, ERR_INVALID, "%s is longer than %d bytes", what, VAULT_MAX_NAME);
    }
    *out = arena_str(a, s);
    return 0;
}

int vault_normalize_credential(struct arena *a, const struct vault_in_credential *in,
                               struct vault_credential *out, struct err *e)
{
    *out = (struct vault_credential){0};
    if (take_name(a, "credential name", in->name, &out->name, e) < 0) {
        return -1;
    }
    struct str type = vault_trim(in->source ? in->source->type : NULL);
    if (type.n && !str_eq(type, STR("inline"))) {
        return err_set(e, ERR_INVALID, "credential \"%s\": source type must be inline", out->name);
    }
    out->value = str_from(in->source && in->source->value ? in->source->value : "");
    if (out->value.n == 0) {
        return err_set(e, ERR_INVALID, "credential \"%s\": value must not be empty", out->name);
    }
    if (out->value.n > VAULT_MAX_VALUE) {
        return err_set(e, ERR_INVALID, "credential \"%s\": value is longer than %u bytes",
                       out->name, VAULT_MAX_VALUE);
    }
    if (!h1_is_field_value(out->value) || str_trim(out->value).n != out->value.n) {
        return err_set(e, ERR_INVALID,
                       "credential \"%s\": value has control characters or surrounding space",
                       out->name);
    }
    return 0;
}

/* ---- lists ---- */

static bool list_has(const struct vault_list *l, struct str s)
{
    for (size_t i = 0; i < l->n; i++) {
        if (str_eq(str_from(l->v[i]), s)) {
            return true;
        }
    }
    return false;
}

static char *lower(struct arena *a, struct str s)
{
    char *out = arena_str(a, s);
    for (char *p = out; *p; p++) {
        *p = (char)(*p >= 'A' && *p <= 'Z' ? *p | 0x20 : *p);
    }
    return out;
}

static char *upper(struct arena *a, struct str s)
{
    char *out = arena_str(a, s);
    for (char *p = out; *p; p++) {
        *p = (char)(*p >= 'a' && *p <= 'z' ? *p & ~0x20 : *p);
    }
    return out;
}

typedef const char *normalize_fn(struct arena *a, struct str s, struct err *e);

/* Each entry through fn, without duplicates, in order; `defaults` when there is none. */
static int take_list(struct arena *a, const struct str_list *in, normalize_fn *fn,
                     const struct vault_list *defaults, struct vault_list *out, struct err *e)
{
    if (in->n == 0) {
        *out = *defaults;
        return 0;
    }
    out->v = arena_array(a, in->n, sizeof(*out->v));
    out->n = 0;
    for (size_t i = 0; i < in->n; i++) {
        struct str s = vault_trim(in->v[i]);
        if (s.n > VAULT_MAX_TEXT) {
            return err_set(e, ERR_INVALID, "an entry is longer than %d bytes", VAULT_MAX_TEXT);
        }
        const char *t = fn(a, s, e);
        if (!t) {
            return -1;
        }
        if (!list_has(out, str_from(t))) {
            out->v[out->n++] = t;
        }
    }
    return 0;
}

static const char *normalize_scheme(struct arena *a, struct str s, struct err *e)
{
    const char *t = lower(a, s);
    if (strcmp(t, "http") != 0 && strcmp(t, "https") != 0) {
        (void)err_set(e, ERR_INVALID, "scheme must be http or https");
        return NULL;
    }
    return t;
}

static bool is_label(struct str s)
{
    if (s.n == 0 || s.n > 63 || s.p[0] == '-' || s.p[s.n - 1] == '-') {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        char c = s.p[i];
        if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-')) {
            return false;
        }
    }
    return true;
}

static const char *normalize_host(struct arena *a, struct str s, struct err *e)
{
    struct ip ip;

    if (str_ends(s, STR("."))) {
        s.n--;
    }
    const char *t = lower(a, s);
    struct str name = str_from(t);
    if (str_starts(name, STR("*."))) {
        name = str_sub(name, 2, name.n);
    }
    bool ok = name.n > 0 && name.n <= 253 && str_find(name, '.') >= 0 && ip_parse(name, &ip) < 0;
    for (struct str rest = name; ok && rest.p;) {
        ok = is_label(str_cut(&rest, '.'));
    }
    if (!ok) {
        (void)err_set(e, ERR_INVALID,
                      "host \"%s\" is not a name like api.example.com or "
                      "*.example.com",
                      t);
        return NULL;
    }
    return t;
}

static const char *normalize_method(struct arena *a, struct str s, struct err *e)
{
    if (!h1_is_token(s) || s.n > HTTP_MAX_METHOD) {
        (void)err_set(e, ERR_INVALID, "a method is empty or malformed");
        return NULL;
    }
    return upper(a, s);
}

static const char *normalize_path(struct arena *a, struct str s, struct err *e)
{
    if (s.n == 0 || s.p[0] != '/') {
        (void)err_set(e, ERR_INVALID, "a path must begin with /");
        return NULL;
    }
    return arena_str(a, s);
}

static int take_ports(struct arena *a, const struct json *in, struct vault_binding *b,
                      struct err *e)
{
    size_t n = in ? json_len(in) : 0;
    if (in && !json_is_null(in) && !json_is_array(in)) {
        return err_set(e, ERR_INVALID, "ports must be an array of integers");
    }
    if (n > VAULT_MAX_LIST) {
        return err_set(e, ERR_INVALID, "more than %d ports", VAULT_MAX_LIST);
    }
    b->ports = arena_array(a, n ? n : 1, sizeof(*b->ports));
    b->n_ports = n ? 0 : 1;
    b->ports[0] = 443;
    for (size_t i = 0; i < n; i++) {
        const struct json *j = json_item(in, i);
        int64_t v = json_int(j, 0);
        if (!json_is_int(j) || v < 1 || v > 65535) {
            return err_set(e, ERR_INVALID, "ports must be integers from 1 to 65535");
        }
        if (v != 80 && v != 443) {
            return err_set(e, ERR_INVALID, "port %d is not intercepted; only 80 and 443 are",
                           (int)v);
        }
        bool known = false;
        for (size_t k = 0; k < b->n_ports; k++) {
            known |= b->ports[k] == v;
        }
        if (!known) {
            b->ports[b->n_ports++] = (uint16_t)v;
        }
    }
    return 0;
}

static int take_match(struct arena *a, const struct vault_in_match *in, struct vault_binding *b,
                      struct err *e)
{
    static const char *https[] = {"https"}, *any[] = {"/*"};
    static const char *methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    static const struct vault_in_match nothing;

    in = in ? in : &nothing;
    if (in->hosts.n == 0) {
        return err_set(e, ERR_INVALID, "match.hosts is required");
    }
    if (take_list(a, &in->schemes, normalize_scheme, &(struct vault_list){https, 1},
                  &b->scheme_names, e) < 0 ||
        take_ports(a, in->ports, b, e) < 0 ||
        take_list(a, &in->hosts, normalize_host, &(struct vault_list){0}, &b->hosts, e) < 0 ||
        take_list(a, &in->methods, normalize_method,
                  &(struct vault_list){methods, ARRAY_LEN(methods)}, &b->methods, e) < 0 ||
        take_list(a, &in->paths, normalize_path, &(struct vault_list){any, 1}, &b->paths, e) < 0) {
        return -1;
    }
    b->schemes = (list_has(&b->scheme_names, STR("http")) ? VAULT_HTTP : 0u) |
                 (list_has(&b->scheme_names, STR("https")) ? VAULT_HTTPS : 0u);
    return 0;
}

/* ---- auth ---- */

/* "PRIVATE-TOKEN" becomes "Private-Token": the form in which headers are shown. */
static char *canonical_header(struct arena *a, struct str s)
{
    char *out = lower(a, s);
    for (char *p = out; *p; p++) {
        if ((p == out || p[-1] == '-') && *p >= 'a' && *p <= 'z') {
            *p = (char)(*p & ~0x20);
        }
    }
    return out;
}

static bool is_reserved(struct str name)
{
    static const char *const reserved[] = {
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
        "upgrade",
        "te",
        "trailer",
        "proxy-authorization",
        "proxy-authenticate",
        "forwarded",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "expect",
        "keep-alive",
        "proxy-connection",
        "http2-settings",
    };
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++) {
        if (str_eq_nocase(name, str_from(reserved[i]))) {
            return true;
        }
    }
    return false;
}

static int take_header(struct arena *a, const char *name, const char *credential,
                       struct vault_binding *b, struct err *e)
{
    struct str s = vault_trim(name);
    if (s.n > VAULT_MAX_TEXT || !h1_is_token(s)) {
        return err_set(e, ERR_INVALID, "header name is missing or malformed");
    }
    if (is_reserved(s)) {
        return err_set(e, ERR_INVALID, "header \"%.*s\" must not be set by a binding", STR_FMT(s));
    }
    struct vault_header *h = &b->headers[b->n_headers];
    h->name = canonical_header(a, s);
    for (size_t i = 0; i < b->n_headers; i++) {
        if (strcmp(b->headers[i].name, h->name) == 0) {
            return err_set(e, ERR_INVALID, "header \"%s\" is named twice", h->name);
        }
    }
    b->n_headers++;
    return take_name(a, "credential", credential, &h->credential, e);
}

static int take_surfaces(const struct str_list *in, unsigned *ret, struct err *e)
{
    static const struct {
        const char *name;
        unsigned surface;
    } known[] = {{"path", VAULT_PATH},
                 {"query", VAULT_QUERY},
                 {"header", VAULT_HEADER},
                 {"body", VAULT_BODY}};

    *ret = 0;
    for (size_t i = 0; i < in->n; i++) {
        unsigned found = 0;
        for (size_t k = 0; k < ARRAY_LEN(known); k++) {
            if (str_eq(vault_trim(in->v[i]), str_from(known[k].name))) {
                found = known[k].surface;
            }
        }
        if (!found) {
            return err_set(e, ERR_INVALID,
                           "substitutions.in must name path, query, header or body");
        }
        *ret |= found;
    }
    return *ret ? 0 : err_set(e, ERR_INVALID, "substitutions.in must not be empty");
}

static int take_substitution(struct arena *a, const struct vault_in_substitution *in,
                             struct vault_binding *b, struct err *e)
{
    struct vault_substitution *s = &b->substitutions[b->n_substitutions];
    struct str placeholder = str_from(in->placeholder ? in->placeholder : "");

    if (placeholder.n < VAULT_MIN_PLACEHOLDER || placeholder.n > VAULT_MAX_PLACEHOLDER) {
        return err_set(e, ERR_INVALID, "a placeholder must have %d to %d characters",
                       VAULT_MIN_PLACEHOLDER, VAULT_MAX_PLACEHOLDER);
    }
    for (size_t i = 0; i < placeholder.n; i++) {
        if (placeholder.p[i] <= ' ' || placeholder.p[i] > '~') {
            return err_set(e, ERR_INVALID, "a placeholder must be visible ASCII characters");
        }
    }
    for (size_t i = 0; i < b->n_substitutions; i++) {
        struct str other = str_from(b->substitutions[i].placeholder);
        if (str_find_str(other, placeholder) >= 0 || str_find_str(placeholder, other) >= 0) {
            return err_set(e, ERR_INVALID, "a placeholder contains another of the same binding");
        }
    }
    s->placeholder = arena_str(a, placeholder);
    b->n_substitutions++;
    if (take_name(a, "credential", in->credential, &s->credential, e) < 0) {
        return -1;
    }
    return take_surfaces(&in->in, &s->in, e);
}

static int take_substitutions(struct arena *a, const struct vault_in_binding *in,
                              struct vault_binding *b, struct err *e)
{
    const struct obj_list *l = &in->auth->substitutions;
    if (l->n && in->substitutions.n) {
        return err_set(e, ERR_INVALID, "substitutions are given twice");
    }
    l = l->n ? l : &in->substitutions;
    b->substitutions = arena_array(a, l->n ? l->n : 1, sizeof(*b->substitutions));
    for (size_t i = 0; i < l->n; i++) {
        if (take_substitution(a, (const struct vault_in_substitution *)l->v + i, b, e) < 0) {
            return -1;
        }
    }
    if (b->auth == VAULT_PASSTHROUGH && l->n == 0) {
        return err_set(e, ERR_INVALID, "passthrough needs substitutions");
    }
    return 0;
}

static int take_auth_type(const char *in, enum vault_auth *ret, struct err *e)
{
    struct str type = vault_trim(in);
    for (int i = 0; i < VAULT_AUTH__COUNT; i++) {
        if (str_eq(type, str_from(vault_auth_name((enum vault_auth)i)))) {
            *ret = (enum vault_auth)i;
            return 0;
        }
    }
    return err_set(e, ERR_INVALID,
                   "auth.type must be bearer, basic, apiKey, customHeaders or passthrough");
}

/* A field that this type of auth would ignore is a misunderstanding, not a detail. */
static int refuse_extra(const struct vault_in_auth *in, enum vault_auth type, struct err *e)
{
    bool one = type == VAULT_BEARER || type == VAULT_BASIC || type == VAULT_API_KEY;
    if ((!one && vault_trim(in->credential).n) ||
        (type != VAULT_API_KEY && vault_trim(in->name).n) ||
        (type != VAULT_CUSTOM_HEADERS && in->headers.n)) {
        return err_set(e, ERR_INVALID, "auth of type %s has a field that belongs to another type",
                       vault_auth_name(type));
    }
    return 0;
}

static int take_auth(struct arena *a, const struct vault_in_binding *in, struct vault_binding *b,
                     struct err *e)
{
    const struct vault_in_auth *auth = in->auth;
    if (!auth) {
        return err_set(e, ERR_INVALID, "auth is required");
    }
    if (take_auth_type(auth->type, &b->auth, e) < 0 || refuse_extra(auth, b->auth, e) < 0) {
        return -1;
    }
    size_t n = b->auth == VAULT_CUSTOM_HEADERS ? auth->headers.n : 1;
    b->headers = arena_array(a, n ? n : 1, sizeof(*b->headers));
    int r = 0;
    switch (b->auth) {
    case VAULT_BEARER:
    case VAULT_BASIC:
        r = take_header(a, "Authorization", auth->credential, b, e);
        break;
    case VAULT_API_KEY:
        r = take_header(a, auth->name, auth->credential, b, e);
        break;
    case VAULT_CUSTOM_HEADERS:
        r = n ? 0 : err_set(e, ERR_INVALID, "customHeaders needs at least one header");
        for (size_t i = 0; r == 0 && i < n; i++) {
            const struct vault_in_header *h = (const struct vault_in_header *)auth->headers.v + i;
            r = take_header(a, h->name, h->credential, b, e);
        }
        break;
    case VAULT_PASSTHROUGH:
    case VAULT_AUTH__COUNT:
    default:
        break;
    }
    return r < 0 ? r : take_substitutions(a, in, b, e);
}

int vault_normalize_binding(struct arena *a, const struct vault_in_binding *in,
                            struct vault_binding *out, struct err *e)
{
    *out = (struct vault_binding){0};
    if (take_name(a, "binding name", in->name, &out->name, e) < 0) {
        return -1;
    }
    if (take_match(a, in->match, out, e) < 0 || take_auth(a, in, out, e) < 0) {
        return err_wrap(e, "binding \"%s\"", out->name);
    }
    return 0;
}
