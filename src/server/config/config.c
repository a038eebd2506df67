/* Reading the configuration: TOML into struct config through the option table. What is wrong stops
 * the load with file, line and reason; what is unknown is noted. */

#include "server/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "server/config/option.h"
#include "server/limits.h"
#include "json/toml.h"

DEFINE_CLEANUP(struct config *, config_unref)

struct load {
    struct config *c;
    const char *name; /* of the file */
    struct json *lines;
    struct config_notes *notes;
};

void config_notes_done(struct config_notes *n)
{
    for (size_t i = 0; i < n->n; i++) {
        free(n->v[i]);
    }
    *n = (struct config_notes){0};
}

static void note(struct config_notes *n, char *take_text)
{
    if (n && n->n < CONFIG_MAX_NOTES) {
        n->v[n->n++] = take_text;
        return;
    }
    if (n) {
        n->n_dropped++;
    }
    free(take_text);
}

static void *option_at(struct config *c, const struct option *o)
{
    return (char *)c + o->offset;
}

/* "file:12: " or "file: ". */
static const char *where(struct load *l, const char *key)
{
    int64_t line = l->lines ? json_int(json_get(l->lines, key), 0) : 0;
    if (line > 0) {
        return arena_printf(&l->c->arena, "%s:%lld", l->name, (long long)line);
    }
    return l->name;
}

static const char *home_dir(void)
{
    const char *h = getenv("HOME");
    return h && *h ? h : "/root";
}

static const char *path_expand(struct arena *a, const char *s)
{
    if (s[0] == '~' && (s[1] == '/' || s[1] == '\0')) {
        return arena_printf(a, "%s%s", home_dir(), s + 1);
    }
    return s;
}

static int set_str(struct config *c, const struct option *o, const struct json *v, struct err *e)
{
    const char *s = json_cstr(v);
    if (!s) {
        return err_set(e, ERR_INVALID, "expected a string, not %s", json_type_name(v));
    }
    if (o->not_empty && !*s) {
        return err_set(e, ERR_INVALID, "must not be empty");
    }
    if (o->choices) {
        bool found = false;
        struct buf all = BUF_INIT(1024);
        for (size_t i = 0; o->choices[i]; i++) {
            found |= !strcmp(o->choices[i], s);
            (void)buf_printf(&all, "%s\"%s\"", i ? ", " : "", o->choices[i]);
        }
        if (!found) {
            (void)err_set(e, ERR_INVALID, "\"%s\" is not one of %s", s, buf_cstr(&all));
        }
        buf_done(&all);
        if (!found) {
            return -1;
        }
    }
    s = arena_strdup(&c->arena, s);
    if (o->kind == OPT_PATH && *s) {
        s = path_expand(&c->arena, s);
        if (*s != '/') {
            return err_set(e, ERR_INVALID, "\"%s\" is not an absolute path", s);
        }
    }
    *(const char **)option_at(c, o) = s;
    return 0;
}

static int set_int(struct config *c, const struct option *o, const struct json *v, struct err *e)
{
    int64_t n;
    if (o->kind == OPT_BYTES && json_is_string(v)) {
        uint64_t u;
        if (parse_quantity_bytes(json_str(v), &u) < 0 || u > INT64_MAX) {
            return err_set(e, ERR_INVALID, "\"%s\" is no size such as 64Mi", json_cstr(v));
        }
        n = (int64_t)u;
    } else if (json_is_int(v)) {
        n = json_int(v, 0);
    } else {
        return err_set(e, ERR_INVALID, "expected %s, not %s",
                       o->kind == OPT_BYTES ? "a size" : "an integer", json_type_name(v));
    }
    if ((o->min || o->max) && (n < o->min || n > o->max)) {
        return err_set(e, ERR_INVALID, "%lld is not between %lld and %lld", (long long)n,
                       (long long)o->min, (long long)o->max);
    }
    *(int64_t *)option_at(c, o) = n;
    return 0;
}

static int set_list(struct config *c, const struct option *o, const struct json *v, struct err *e)
{
    if (!json_is_array(v)) {
        return err_set(e, ERR_INVALID, "expected an array of strings, not %s", json_type_name(v));
    }
    struct str_list l = {.n = json_len(v)};
    l.v = arena_array(&c->arena, l.n + 1, sizeof(*l.v));
    for (size_t i = 0; i < l.n; i++) {
        const char *s = json_cstr(json_item(v, i));
        if (!s) {
            return err_set(e, ERR_INVALID, "entry %zu is not a string", i + 1);
        }
        l.v[i] = arena_strdup(&c->arena, s);
    }
    *(struct str_list *)option_at(c, o) = l;
    return 0;
}

static int set_map(struct config *c, const struct option *o, const struct json *v, struct err *e)
{
    if (!json_is_object(v)) {
        return err_set(e, ERR_INVALID, "expected a table of strings, not %s", json_type_name(v));
    }
    struct str_map m = {.has = true};
    m.v = arena_array(&c->arena, json_len(v) + 1, sizeof(*m.v));
    void *it = NULL;
    const char *key;
    struct json *item;
    while (json_next(v, &it, &key, &item)) {
        const char *s = json_cstr(item);
        if (!s) {
            return err_set(e, ERR_INVALID, "%s is not a string", key);
        }
        m.v[m.n++] = (struct str_pair){arena_strdup(&c->arena, key),
                                       arena_strdup(&c->arena, path_expand(&c->arena, s))};
    }
    *(struct str_map *)option_at(c, o) = m;
    return 0;
}

/* Names that can be part of an address; what the tables hold is checked by whoever reads them. */
static int set_tables(struct config *c, const struct option *o, const struct json *v, struct err *e)
{
    void *it = NULL;
    const char *name;
    struct json *table;
    if (!json_is_object(v)) {
        return err_set(e, ERR_INVALID, "expected tables [%s.NAME], not %s", o->key,
                       json_type_name(v));
    }
    while (json_next(v, &it, &name, &table)) {
        size_t n = strlen(name);
        if (!json_is_object(table)) {
            return err_set(e, ERR_INVALID, "%s must be in a table [%s.NAME]", name, o->key);
        }
        if (n == 0 || n > 253 || name[0] == '-' || name[n - 1] == '-' ||
            strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != n) {
            return err_set(e, ERR_INVALID, "\"%s\" may hold only a-z, 0-9 and '-' inside", name);
        }
    }
    struct buf b = BUF_INIT(CONFIG_FILE_MAX);
    int r = json_dump(v, &b, 0);
    if (r == 0) {
        *(const char **)option_at(c, o) = arena_str(&c->arena, buf_str(&b));
    }
    buf_done(&b);
    return r < 0 ? err_set(e, ERR_LIMIT, "too long") : 0;
}

static int option_set(struct config *c, const struct option *o, const struct json *v, struct err *e)
{
    int r = -1;
    switch (o->kind) {
    case OPT_STR:
    case OPT_PATH:
        r = set_str(c, o, v, e);
        break;
    case OPT_INT:
    case OPT_BYTES:
        r = set_int(c, o, v, e);
        break;
    case OPT_BOOL:
        if (!json_is_bool(v)) {
            return err_set(e, ERR_INVALID, "expected true or false, not %s", json_type_name(v));
        }
        *(bool *)option_at(c, o) = json_bool(v, false);
        r = 0;
        break;
    case OPT_LIST:
        r = set_list(c, o, v, e);
        break;
    case OPT_MAP:
        r = set_map(c, o, v, e);
        break;
    case OPT_TABLES:
        r = set_tables(c, o, v, e);
        break;
    }
    if (r == 0 && o->check) {
        r = o->check(option_at(c, o), e);
    }
    return r;
}

static void set_defaults(struct config *c)
{
    for (const struct option *o = config_options; o->key; o++) {
        if (!o->def) {
            continue;
        }
        struct err e = {0};
        cleanup_free char *text = xasprintf("v = %s\n", o->def);
        cleanup_(json_free) struct json *j = toml_parse(str_from(text), &e);
        must(j && option_set(c, o, json_get(j, "v"), &e) == 0);
    }
}

static void note_unknown(struct load *l, const char *key)
{
    const char *why = option_foreign_section(key);
    const struct option *near = why ? NULL : option_nearest(key);
    note(l->notes,
         why ? xasprintf("%s: %s has no effect here: it %s", where(l, key), key, why)
             : xasprintf("%s: %s is no option of this server%s%s%s", where(l, key), key,
                         near ? "; did you mean " : "", near ? near->key : "", near ? "?" : ""));
}

static int apply(struct load *l, const char *prefix, const struct json *table, struct err *e)
{
    void *it = NULL;
    const char *name;
    struct json *v;
    while (json_next(table, &it, &name, &v)) {
        const char *key = arena_printf(&l->c->arena, "%s%s%s", prefix, *prefix ? "." : "", name);
        const struct option *o = option_find(key);
        if (o) {
            if (option_set(l->c, o, v, e) < 0) {
                return err_wrap(e, "%s: %s", where(l, key), key);
            }
        } else if (json_is_object(v)) {
            if (apply(l, key, v, e) < 0) {
                return -1;
            }
        } else {
            note_unknown(l, key);
        }
    }
    return 0;
}

static void apply_env(struct config *c)
{
    const char *key = getenv("OPENSANDBOX_SERVER_API_KEY");
    if (key) {
        c->server.api_key = arena_strdup(&c->arena, key);
        c->server.api_keys = (struct str_list){0};
    }
}

struct config *config_parse(const char *name, struct str text, struct config_notes *notes,
                            struct err *e)
{
    cleanup_(config_unref) struct config *c = NEW(struct config);
    c->refs = 1;
    set_defaults(c);
    cleanup_(json_free) struct json *lines = NULL;
    cleanup_(json_free) struct json *tree = toml_parse_lines(text, &lines, e);
    if (!tree) {
        (void)err_wrap(e, "%s", name);
        return NULL;
    }
    struct load l = {c, name, lines, notes};
    if (apply(&l, "", tree, e) < 0) {
        return NULL;
    }
    apply_env(c);
    const char *key = NULL;
    if (config_check(c, &key, e) < 0) {
        (void)(key ? err_wrap(e, "%s: %s", where(&l, key), key) : err_wrap(e, "%s", name));
        return NULL;
    }
    return take_ptr(&c);
}

struct config *config_load(const char *path, struct config_notes *notes, struct err *e)
{
    bool named = true;
    if (!path) {
        path = getenv("SANDBOX_CONFIG_PATH");
    }
    if (!path || !*path) {
        path = "~/.sandbox.toml";
        named = false;
    }
    struct arena a = {0};
    const char *full = path_expand(&a, path);
    struct buf text = BUF_INIT(CONFIG_FILE_MAX);
    struct config *c = NULL;
    int r = file_read(AT_FDCWD, full, &text);
    if (r == -ENOENT && !named) {
        c = config_parse("built-in defaults", STR_NULL, notes, e);
    } else if (r < 0) {
        (void)err_sys(e, r, "cannot read the configuration %s", full);
    } else {
        c = config_parse(full, buf_str(&text), notes, e);
        if (c) {
            c->path = arena_strdup(&c->arena, full);
        }
    }
    buf_done(&text);
    arena_done(&a);
    return c;
}

struct config *config_ref(struct config *c)
{
    __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

void config_unref(struct config *c)
{
    if (c && __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) == 0) {
        arena_done(&c->arena);
        free(c);
    }
}

static bool option_eq(const struct config *a, const struct config *b, const struct option *o)
{
    const void *x = (const char *)a + o->offset, *y = (const char *)b + o->offset;
    switch (o->kind) {
    case OPT_STR:
    case OPT_TABLES:
    case OPT_PATH: {
        const char *s = *(const char *const *)x, *t = *(const char *const *)y;
        return s && t ? !strcmp(s, t) : s == t;
    }
    case OPT_INT:
    case OPT_BYTES:
        return *(const int64_t *)x == *(const int64_t *)y;
    case OPT_BOOL:
        return *(const bool *)x == *(const bool *)y;
    case OPT_LIST: {
        const struct str_list *l = x, *m = y;
        for (size_t i = 0; i < l->n && l->n == m->n; i++) {
            if (strcmp(l->v[i], m->v[i]) != 0) {
                return false;
            }
        }
        return l->n == m->n;
    }
    case OPT_MAP: {
        const struct str_map *l = x, *m = y;
        for (size_t i = 0; i < l->n; i++) {
            const char *v = str_map_get(m, l->v[i].key);
            if (!v || strcmp(l->v[i].value, v) != 0) {
                return false;
            }
        }
        return l->n == m->n;
    }
    }
    return false;
}

int config_needs_restart(const struct config *old, const struct config *new, struct buf *out)
{
    int n = 0;
    for (const struct option *o = config_options; o->key; o++) {
        if (!o->reload && !option_eq(old, new, o)) {
            (void)buf_printf(out, "%s%s", n++ ? ", " : "", o->key);
        }
    }
    return n;
}
