/* Environments and path expansion. */

#include "execd/env.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "execd/limits.h"

extern char **environ;

#define EXPANDED_MAX (1u << 20)

void env_init_empty(struct env *env, struct arena *a)
{
    *env = (struct env){.arena = a, .cap = 32};
    env->v = arena_array(a, env->cap + 1, sizeof(*env->v));
}

static void env_append(struct env *env, const char *entry)
{
    if (env->n == env->cap) {
        const char **bigger = arena_array(env->arena, 2 * env->cap + 1, sizeof(*bigger));
        memcpy(bigger, env->v, env->n * sizeof(*bigger));
        env->v = bigger;
        env->cap *= 2;
    }
    env->v[env->n++] = entry;
}

void env_init(struct env *env, struct arena *a)
{
    env_init_empty(env, a);
    for (char **e = environ; e && *e; e++) {
        env_append(env, *e);
    }
}

static bool has_name(const char *entry, struct str name)
{
    return strncmp(entry, name.p, name.n) == 0 && entry[name.n] == '=';
}

const char *env_get(const struct env *env, struct str name)
{
    for (size_t i = env->n; i-- > 0;) {
        if (has_name(env->v[i], name)) {
            return env->v[i] + name.n + 1;
        }
    }
    return NULL;
}

void env_put(struct env *env, const char *entry)
{
    const char *eq = strchr(entry, '=');
    struct str name = str_n(entry, eq ? (size_t)(eq - entry) : strlen(entry));
    for (size_t i = 0; eq && i < env->n; i++) {
        if (has_name(env->v[i], name)) {
            env->v[i] = entry;
            return;
        }
    }
    env_append(env, entry);
}

void env_set(struct env *env, struct str name, struct str value)
{
    env_put(env, arena_printf(env->arena, "%.*s=%.*s", STR_FMT(name), STR_FMT(value)));
}

void env_add_map(struct env *env, const struct str_map *m)
{
    for (size_t i = 0; i < m->n; i++) {
        env_set(env, str_from(m->v[i].key), str_from(m->v[i].value));
    }
}

static bool is_name_char(char c, bool first)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
}

/* The variable that s (behind a '$') begins with, and how many bytes it took; 0: none. */
static size_t cut_name(struct str s, struct str *ret_name)
{
    bool braces = s.n && s.p[0] == '{';
    size_t from = braces, to = from;
    while (to < s.n && is_name_char(s.p[to], to == from)) {
        to++;
    }
    if (to == from || (braces && (to == s.n || s.p[to] != '}'))) {
        return 0;
    }
    *ret_name = str_n(s.p + from, to - from);
    return to + braces;
}

/* Appends s with its variables replaced. Names without a value go to `missing` when given. */
static void expand(struct buf *out, struct str s, const struct env *env, struct buf *missing)
{
    while (s.n) {
        ptrdiff_t at = str_find(s, '$');
        size_t plain = at < 0 ? s.n : (size_t)at;
        (void)buf_add(out, s.p, plain);
        s = str_sub(s, plain, s.n);
        if (s.n == 0) {
            return;
        }
        struct str name;
        size_t used = cut_name(str_sub(s, 1, s.n), &name);
        if (!used) {
            (void)buf_add_char(out, '$');
            s = str_sub(s, 1, s.n);
            continue;
        }
        const char *value = env_get(env, name);
        if (value) {
            (void)buf_add_cstr(out, value);
        } else if (missing) {
            (void)buf_printf(missing, "%s%.*s", missing->len ? "," : "", STR_FMT(name));
        }
        s = str_sub(s, 1 + used, s.n);
    }
}

static struct str trim_line(struct str s)
{
    while (s.n && strchr(" \t\r\v\f", s.p[0])) {
        s = str_sub(s, 1, s.n);
    }
    while (s.n && strchr(" \t\r\v\f", s.p[s.n - 1])) {
        s.n--;
    }
    return s;
}

/* How long the quoted value is that s begins with, quotes included; it may go over lines. 0: none,
 * not closed, or followed by something. */
static size_t quoted_length(struct str s)
{
    char quote = s.n ? s.p[0] : 0;
    if (quote != '\'' && quote != '"') {
        return 0;
    }
    size_t i = 1;
    while (i < s.n && s.p[i] != quote) {
        i += quote == '"' && s.p[i] == '\\' ? 2 : 1;
    }
    if (i >= s.n || memchr(s.p, 0, i)) {
        return 0;
    }
    struct str rest = str_sub(s, i + 1, s.n);
    return trim_line(str_cut(&rest, '\n')).n == 0 ? i + 1 : 0;
}

static void add_unescaped(struct buf *out, struct str s)
{
    static const char from[] = "nrt\\\"", to[] = "\n\r\t\\\"";
    for (size_t i = 0; i < s.n; i++) {
        const char *at = s.p[i] == '\\' && i + 1 < s.n ? strchr(from, s.p[i + 1]) : NULL;
        (void)buf_add_char(out, at ? to[at - from] : s.p[i]);
        i += at != NULL;
    }
}

/* What stands after the '=': 'as it is', "with escapes and $NAME", or the rest of the line with
 * $NAME. */
static void add_value(struct buf *out, struct str value, size_t quoted, const struct env *ours)
{
    struct str inner = quoted ? str_sub(value, 1, quoted - 1) : value;
    if (quoted && value.p[0] == '\'') {
        (void)buf_add(out, inner.p, inner.n);
        return;
    }
    cleanup_(buf_done) struct buf plain = BUF_INIT(EXPANDED_MAX);
    if (quoted) {
        add_unescaped(&plain, inner);
    }
    expand(out, quoted ? buf_str(&plain) : inner, ours, NULL);
}

void env_add_lines(struct env *env, struct str text)
{
    struct env ours;
    env_init(&ours, env->arena);
    while (text.p) {
        const char *end = text.p + text.n;
        struct str line = trim_line(str_cut(&text, '\n'));
        ptrdiff_t eq = str_find(line, '=');
        if (eq <= 0 || line.p[0] == '#' || memchr(line.p, 0, line.n)) {
            continue;
        }
        struct str name = trim_line(str_sub(line, 0, (size_t)eq));
        struct str value = str_sub(line, (size_t)eq + 1, line.n);
        struct str all = str_n(value.p, (size_t)(end - value.p));
        size_t quoted = quoted_length(all);
        if (quoted) {
            value = all;
            text = str_sub(all, quoted, all.n);
            (void)str_cut(&text, '\n');
        }
        cleanup_(buf_done) struct buf out = BUF_INIT(EXPANDED_MAX);
        add_value(&out, value, quoted, &ours);
        if (name.n && !buf_failed(&out)) {
            env_set(env, name, buf_str(&out));
        }
    }
}

void env_add_file(struct env *env, const char *path)
{
    if (!path || !*path) {
        return;
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(EXECD_ENVS_MAX);
    if (file_read_regular(AT_FDCWD, path, &text) == 0) {
        env_add_lines(env, buf_str(&text));
    }
}

const char *env_expand_path(const struct env *env, const char *path, struct err *e)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(EXPANDED_MAX);
    cleanup_(buf_done) struct buf missing = BUF_INIT(EXPANDED_MAX);
    expand(&out, str_from(path), env, &missing);
    if (missing.len) {
        err_set(e, ERR_INVALID, "path references undefined environment variables: %s",
                buf_cstr(&missing));
        return NULL;
    }
    const char *text = arena_str(env->arena, buf_str(&out));
    if (text[0] != '~' || (text[1] && text[1] != '/')) {
        return text;
    }
    const char *home = env_get(env, STR("HOME"));
    if (!home || !*home) {
        err_set(e, ERR_INVALID, "path begins with ~ and HOME is not set");
        return NULL;
    }
    return arena_printf(env->arena, "%s%s", home, text + 1);
}
