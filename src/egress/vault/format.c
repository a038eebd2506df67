/* The vault as JSON: what the API shows, and what is kept over a crash. */

#include <errno.h>

#include "egress/vault/internal.h"
#include "egress/vault/limits.h"

static void put_list(struct json_out *o, const char *key, const struct vault_list *l)
{
    json_key(o, key);
    json_arr_begin(o);
    for (size_t i = 0; i < l->n; i++) {
        json_put_cstr(o, l->v[i]);
    }
    json_arr_end(o);
}

static void put_match(struct json_out *o, const struct vault_binding *b)
{
    json_key(o, "match");
    json_obj_begin(o);
    put_list(o, "schemes", &b->scheme_names);
    json_key(o, "ports");
    json_arr_begin(o);
    for (size_t i = 0; i < b->n_ports; i++) {
        json_put_int(o, b->ports[i]);
    }
    json_arr_end(o);
    put_list(o, "hosts", &b->hosts);
    put_list(o, "methods", &b->methods);
    put_list(o, "paths", &b->paths);
    json_obj_end(o);
}

static void put_credential(struct json_out *o, const struct vault_credential *c)
{
    json_obj_begin(o);
    json_key(o, "name");
    json_put_cstr(o, c->name);
    json_key(o, "sourceType");
    json_put_cstr(o, "inline");
    json_key(o, "revision");
    json_put_int(o, (int64_t)c->revision);
    json_obj_end(o);
}

static void put_binding(struct json_out *o, const struct vault_state *s,
                        const struct vault_binding *b)
{
    json_obj_begin(o);
    json_key(o, "name");
    json_put_cstr(o, b->name);
    json_key(o, "revision");
    json_put_int(o, (int64_t)s->revision);
    put_match(o, b);
    json_key(o, "auth");
    json_obj_begin(o);
    json_key(o, "type");
    json_put_cstr(o, vault_auth_name(b->auth));
    if (b->auth == VAULT_API_KEY) {
        json_key(o, "name");
        json_put_cstr(o, b->headers[0].name);
    }
    json_obj_end(o);
    json_obj_end(o);
}

static void put_credentials(struct json_out *o, const struct vault_state *s)
{
    json_key(o, "credentials");
    json_arr_begin(o);
    for (size_t i = 0; i < s->n_credentials; i++) {
        put_credential(o, &s->credentials[i]);
    }
    json_arr_end(o);
}

static void put_bindings(struct json_out *o, const struct vault_state *s)
{
    json_key(o, "bindings");
    json_arr_begin(o);
    for (size_t i = 0; i < s->n_bindings; i++) {
        put_binding(o, s, &s->bindings[i]);
    }
    json_arr_end(o);
}

static void put_state(const struct vault_state *s, struct buf *out, bool credentials, bool bindings)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "revision");
    json_put_int(&o, (int64_t)s->revision);
    if (credentials) {
        put_credentials(&o, s);
    }
    if (bindings) {
        put_bindings(&o, s);
    }
    json_obj_end(&o);
}

void vault_format(const struct vault_state *s, struct buf *out)
{
    put_state(s, out, true, true);
}

void vault_format_credentials(const struct vault_state *s, struct buf *out)
{
    put_state(s, out, true, false);
}

void vault_format_bindings(const struct vault_state *s, struct buf *out)
{
    put_state(s, out, false, true);
}

int vault_format_credential(const struct vault_state *s, struct str name, struct buf *out)
{
    struct json_out o;
    for (size_t i = 0; i < s->n_credentials; i++) {
        if (str_eq(str_from(s->credentials[i].name), name)) {
            json_out_init(&o, out);
            put_credential(&o, &s->credentials[i]);
            return 0;
        }
    }
    return -ENOENT;
}

int vault_format_binding(const struct vault_state *s, struct str name, struct buf *out)
{
    struct json_out o;
    for (size_t i = 0; i < s->n_bindings; i++) {
        if (str_eq(str_from(s->bindings[i].name), name)) {
            json_out_init(&o, out);
            put_binding(&o, s, &s->bindings[i]);
            return 0;
        }
    }
    return -ENOENT;
}

/* ---- whole, for vault_restore() ---- */

static void put_pair(struct json_out *o, const char *key, const char *value)
{
    json_key(o, key);
    json_put_cstr(o, value);
}

static void put_kept_substitution(struct json_out *o, const struct vault_substitution *u)
{
    static const char *const names[] = {"path", "query", "header", "body"};

    json_obj_begin(o);
    put_pair(o, "credential", u->credential);
    put_pair(o, "placeholder", u->placeholder);
    json_key(o, "in");
    json_arr_begin(o);
    for (unsigned i = 0; i < 4; i++) {
        if (u->in & 1u << i) {
            json_put_cstr(o, names[i]);
        }
    }
    json_arr_end(o);
    json_obj_end(o);
}

static void put_kept_auth(struct json_out *o, const struct vault_binding *b)
{
    json_key(o, "auth");
    json_obj_begin(o);
    put_pair(o, "type", vault_auth_name(b->auth));
    if (b->auth == VAULT_CUSTOM_HEADERS) {
        json_key(o, "headers");
        json_arr_begin(o);
        for (size_t i = 0; i < b->n_headers; i++) {
            json_obj_begin(o);
            put_pair(o, "name", b->headers[i].name);
            put_pair(o, "credential", b->headers[i].credential);
            json_obj_end(o);
        }
        json_arr_end(o);
    } else if (b->auth != VAULT_PASSTHROUGH) {
        put_pair(o, "credential", b->headers[0].credential);
        if (b->auth == VAULT_API_KEY) {
            put_pair(o, "name", b->headers[0].name);
        }
    }
    json_key(o, "substitutions");
    json_arr_begin(o);
    for (size_t i = 0; i < b->n_substitutions; i++) {
        put_kept_substitution(o, &b->substitutions[i]);
    }
    json_arr_end(o);
    json_obj_end(o);
}

int vault_serialize(const struct vault_state *s, struct buf *out)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "revision");
    json_put_int(&o, (int64_t)s->revision);
    json_key(&o, "credentials");
    json_arr_begin(&o);
    for (size_t i = 0; i < s->n_credentials; i++) {
        const struct vault_credential *c = &s->credentials[i];
        json_obj_begin(&o);
        put_pair(&o, "name", c->name);
        json_key(&o, "revision");
        json_put_int(&o, (int64_t)c->revision);
        json_key(&o, "source");
        json_obj_begin(&o);
        json_key(&o, "value");
        json_put_str(&o, c->value);
        json_obj_end(&o);
        json_obj_end(&o);
    }
    json_arr_end(&o);
    json_key(&o, "bindings");
    json_arr_begin(&o);
    for (size_t i = 0; i < s->n_bindings; i++) {
        json_obj_begin(&o);
        put_pair(&o, "name", s->bindings[i].name);
        put_match(&o, &s->bindings[i]);
        put_kept_auth(&o, &s->bindings[i]);
        json_obj_end(&o);
    }
    json_arr_end(&o);
    json_obj_end(&o);
    return buf_failed(out) ? -ENOSPC : 0;
}
