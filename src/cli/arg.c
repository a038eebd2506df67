#include "cli/arg.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "base/num.h"
#include "cli/duration.h"

static const struct cli_opt no_opts[] = {{0}};

static const struct cli_opt *opts_of(const struct cli_cmd *cmd)
{
    return cmd->opts ? cmd->opts : no_opts;
}

static bool takes_value(const struct cli_opt *o)
{
    return o->type != ARG_FLAG && o->type != ARG_SWITCH;
}

__attribute__((format(printf, 2, 3))) static int refuse(struct args *a, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(a->message, sizeof(a->message), fmt, ap);
    va_end(ap);
    return -1;
}

void opt_hint(struct buf *out, const struct cli_opt *o)
{
    if (o->letter) {
        (void)buf_printf(out, "'-%c' / ", o->letter);
    }
    (void)buf_printf(out, "'--%s'", o->name);
}

/* ---- what a word may be ---- */

static bool choice_has(const char *choices, const char *word)
{
    struct str rest = str_from(choices);
    while (rest.p) {
        if (str_eq(str_cut(&rest, '|'), str_from(word))) {
            return true;
        }
    }
    return false;
}

static void choices_text(struct buf *out, const char *choices)
{
    struct str rest = str_from(choices);
    for (bool first = true; rest.p; first = false) {
        struct str word = str_cut(&rest, '|');
        (void)buf_printf(out, "%s'%.*s'", first ? "" : ", ", STR_FMT(word));
    }
}

static bool mode_valid(const char *v)
{
    size_t n = strlen(v);
    return n > 0 && n <= 4 && strspn(v, "01234567") == n;
}

static bool rule_valid(const char *v)
{
    struct str s = str_from(v);
    ptrdiff_t eq = str_find(s, '=');
    struct str action = str_sub(s, 0, eq < 0 ? 0 : (size_t)eq);
    return eq > 0 && (size_t)eq + 1 < s.n &&
           (str_eq_nocase(action, STR("allow")) || str_eq_nocase(action, STR("deny")));
}

static int check_int(const struct cli_opt *o, const char *v, struct buf *why)
{
    int64_t n;
    if (parse_i64(str_from(v), &n) < 0) {
        return buf_printf(why, "'%s' is not a valid integer.", v), -1;
    }
    if (o->max && (n < o->min || n > o->max)) {
        if (o->max == INT64_MAX) {
            (void)buf_printf(why, "%s is not in the range x>=%lld.", v, (long long)o->min);
        } else {
            (void)buf_printf(why, "%s is not in the range %lld<=x<=%lld.", v, (long long)o->min,
                             (long long)o->max);
        }
        return -1;
    }
    return 0;
}

static int check_choice(const struct cli_opt *o, const char *v, struct buf *why)
{
    if (choice_has(o->choices, v)) {
        return 0;
    }
    (void)buf_printf(why, "'%s' is not one of ", v);
    choices_text(why, o->choices);
    (void)buf_add_char(why, '.');
    return -1;
}

/* 0, or -1 and the sentence after "Invalid value for ...: ". */
static int check_value(const struct cli_opt *o, const char *v, struct buf *why)
{
    int64_t n;
    switch (o->type) {
    case ARG_INT:
        return check_int(o, v, why);
    case ARG_CHOICE:
        return check_choice(o, v, why);
    case ARG_LIFETIME:
        if (duration_is_none(v)) {
            return 0;
        }
        __attribute__((fallthrough));
    case ARG_DURATION:
        return duration_parse(v, &n) == 0 ? 0
                                          : (buf_printf(why,
                                                        "Invalid duration '%s'. Use seconds or a "
                                                        "form such as 10m, 1h30m, 90s.",
                                                        v),
                                             -1);
    case ARG_PAIR:
        return strchr(v, '=') && v[0] != '=' ? 0
                                             : (buf_printf(why, "'%s' is not KEY=VALUE.", v), -1);
    case ARG_MODE:
        return mode_valid(v)
                   ? 0
                   : (buf_printf(why, "'%s' is not a permission mode such as 644 or 0755.", v), -1);
    case ARG_RULE:
        return rule_valid(v) ? 0
                             : (buf_printf(why, "'%s' is not allow=TARGET or deny=TARGET.", v), -1);
    case ARG_FILE:
        return strcmp(v, "-") == 0 || access(v, R_OK) == 0
                   ? 0
                   : (buf_printf(why, "File '%s' does not exist.", v), -1);
    case ARG_FLAG:
    case ARG_SWITCH:
    case ARG_TEXT:
        break;
    }
    return 0;
}

static int add_value(struct args *a, const struct cli_opt *o, const char *v)
{
    cleanup_(buf_done) struct buf why = BUF_INIT(1024), hint = BUF_INIT(128);
    if (takes_value(o) && check_value(o, v, &why) < 0) {
        opt_hint(&hint, o);
        return refuse(a, "Invalid value for %s: %s", buf_cstr(&hint), buf_cstr(&why));
    }
    a->values = xreallocarray(a->values, a->n_values + 1, sizeof(*a->values));
    a->values[a->n_values++] = (struct arg_value){o, v};
    return 0;
}

/* ---- nearest ---- */

const char *arg_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    size_t best_d = MAX((size_t)1, MIN((size_t)2, strlen(word) / 2)) + 1;
    for (; *names; names++) {
        bool begins = strlen(word) >= 2 && strncmp(*names, word, strlen(word)) == 0;
        size_t d = begins ? 1 : str_distance(word, *names);
        if (d < best_d) {
            best = *names;
            best_d = d;
        }
    }
    return best;
}

const char *cmd_nearest(const struct cli_cmd *group, const char *name)
{
    const char *names[64] = {0};
    size_t n = 0;
    for (const struct cli_cmd *const *c = group->subs; c && *c && n + 1 < ARRAY_LEN(names); c++) {
        names[n++] = (*c)->name;
    }
    return arg_nearest(name, names);
}

const struct cli_cmd *cmd_find(const struct cli_cmd *group, const char *name)
{
    for (const struct cli_cmd *const *c = group->subs; c && *c; c++) {
        if (strcmp((*c)->name, name) == 0) {
            return *c;
        }
    }
    return NULL;
}

static int unknown_option(struct args *a, const char *word)
{
    const char *names[64] = {0}, *name = word + 2;
    size_t n = 0;
    if (word[1] == '-') {
        for (const struct cli_opt *o = opts_of(a->cmd); o->name && n + 2 < ARRAY_LEN(names); o++) {
            names[n++] = o->name;
        }
        names[n++] = "help";
    }
    size_t len = strcspn(name, "=");
    cleanup_free char *bare = xstrndup(name, len);
    const char *near = n ? arg_nearest(bare, names) : NULL;
    int shown = word[1] == '-' ? (int)(len + 2) : 2;
    return near ? refuse(a, "No such option: %.*s Did you mean --%s?", shown, word, near)
                : refuse(a, "No such option: %.*s", shown, word);
}

/* ---- reading ---- */

static const struct cli_opt *opt_by_name(const struct cli_cmd *cmd, struct str name, bool *ret_off)
{
    *ret_off = false;
    for (const struct cli_opt *o = opts_of(cmd); o->name; o++) {
        if (str_eq(name, str_from(o->name))) {
            return o;
        }
        if (o->type == ARG_SWITCH && str_starts(name, STR("no-")) &&
            str_eq(str_sub(name, 3, name.n), str_from(o->name))) {
            *ret_off = true;
            return o;
        }
    }
    return NULL;
}

static const struct cli_opt *opt_by_letter(const struct cli_cmd *cmd, char letter)
{
    for (const struct cli_opt *o = opts_of(cmd); o->name; o++) {
        if (o->letter && o->letter == letter) {
            return o;
        }
    }
    return NULL;
}

/* "--name", "--name=value", "--name value". Moves *i past what it used. */
static int take_long(struct args *a, char **argv, int argc, int *i)
{
    const char *word = argv[*i];
    struct str name = str_from(word + 2);
    ptrdiff_t eq = str_find(name, '=');
    bool off;
    if (eq >= 0) {
        name = str_sub(name, 0, (size_t)eq);
    }
    if (str_eq(name, STR("help"))) {
        a->help = true;
        return 0;
    }
    const struct cli_opt *o = opt_by_name(a->cmd, name, &off);
    if (!o) {
        return unknown_option(a, word);
    }
    if (!takes_value(o)) {
        return eq >= 0 ? refuse(a, "Option '--%s' does not take a value.", o->name)
                       : add_value(a, o, off ? "0" : "1");
    }
    if (eq >= 0) {
        return add_value(a, o, word + 2 + eq + 1);
    }
    if (*i + 1 >= argc) {
        return refuse(a, "Option '--%s' requires an argument.", o->name);
    }
    return add_value(a, o, argv[++*i]);
}

/* "-x", "-xvalue", "-x value", "-xyz" of flags. */
static int take_short(struct args *a, char **argv, int argc, int *i)
{
    for (const char *p = argv[*i] + 1; *p; p++) {
        if (*p == 'h' && !opt_by_letter(a->cmd, 'h')) {
            a->help = true;
            continue;
        }
        const struct cli_opt *o = opt_by_letter(a->cmd, *p);
        if (!o) {
            const char word[] = {'-', *p, '\0'};
            return unknown_option(a, word);
        }
        if (!takes_value(o)) {
            if (add_value(a, o, "1") < 0) {
                return -1;
            }
            continue;
        }
        if (p[1]) {
            return add_value(a, o, p + 1);
        }
        if (*i + 1 >= argc) {
            return refuse(a, "Option '-%c' requires an argument.", o->letter);
        }
        return add_value(a, o, argv[++*i]);
    }
    return 0;
}

static void add_pos(struct args *a, const char *word)
{
    a->pos = xreallocarray(a->pos, a->n_pos + 2, sizeof(*a->pos));
    a->pos[a->n_pos++] = word;
    a->pos[a->n_pos] = NULL;
}

/* ---- are they all there ---- */

static void bare_name(const char *spec, char out[64])
{
    size_t n = 0;
    for (; *spec && *spec != '.' && n < 63; spec++) {
        if (*spec != '[' && *spec != ']') {
            out[n++] = *spec;
        }
    }
    out[n] = '\0';
}

static int check_positional(struct args *a)
{
    size_t want = 0, most = 0;
    char name[64];
    bool any = false;
    for (size_t i = 0; i < ARG_MAX_POSITIONAL && a->cmd->args[i]; i++) {
        const char *spec = a->cmd->args[i];
        want += spec[0] != '[';
        most++;
        any = any || strstr(spec, "...") != NULL;
        if (a->n_pos < want) {
            bare_name(spec, name);
            return refuse(a, "Missing argument '%s'.", name);
        }
    }
    if (!any && a->n_pos > most) {
        return refuse(a, "Got unexpected extra argument%s (%s%s)", a->n_pos - most > 1 ? "s" : "",
                      a->pos[most], a->n_pos - most > 1 ? " ..." : "");
    }
    return 0;
}

static int check_required(struct args *a)
{
    for (const struct cli_opt *o = opts_of(a->cmd); o->name; o++) {
        if (o->required && !arg_has(a, o->name)) {
            cleanup_(buf_done) struct buf hint = BUF_INIT(128);
            opt_hint(&hint, o);
            return refuse(a, "Missing option %s.", buf_cstr(&hint));
        }
    }
    return 0;
}

int args_parse(const struct cli_cmd *cmd, char **argv, int argc, struct args *ret)
{
    *ret = (struct args){.cmd = cmd};
    ret->pos = xcalloc(1, sizeof(*ret->pos));
    bool only_words = false;
    int i = 0, r = 0;
    for (; i < argc && r == 0; i++) {
        const char *w = argv[i];
        if (only_words || w[0] != '-' || !w[1]) {
            if (cmd->subs) {
                break;
            }
            add_pos(ret, w);
            only_words = only_words || (cmd->verbatim_after && ret->n_pos >= cmd->verbatim_after);
        } else if (strcmp(w, "--") == 0) {
            only_words = true;
        } else {
            r = w[1] == '-' ? take_long(ret, argv, argc, &i) : take_short(ret, argv, argc, &i);
        }
    }
    ret->used = i;
    if (r < 0 || ret->help || cmd->subs) {
        return r;
    }
    return check_positional(ret) < 0 || check_required(ret) < 0 ? -1 : 0;
}

void args_done(struct args *a)
{
    free(a->values);
    free(a->pos);
    *a = (struct args){0};
}

/* ---- asking ---- */

const char *arg_get(const struct args *a, const char *name)
{
    for (size_t i = a->n_values; i > 0; i--) {
        if (strcmp(a->values[i - 1].opt->name, name) == 0) {
            return a->values[i - 1].text;
        }
    }
    return NULL;
}

bool arg_has(const struct args *a, const char *name)
{
    const char *v = arg_get(a, name);
    return v != NULL;
}

int64_t arg_int(const struct args *a, const char *name, int64_t fallback)
{
    const char *v = arg_get(a, name);
    int64_t n = fallback;
    if (v) {
        (void)parse_i64(str_from(v), &n);
    }
    return n;
}

int64_t arg_seconds(const struct args *a, const char *name, int64_t fallback)
{
    const char *v = arg_get(a, name);
    int64_t n = fallback;
    if (v) {
        (void)duration_parse(v, &n);
    }
    return n;
}

const char **arg_list(const struct args *a, const char *name)
{
    const char **out = xcalloc(a->n_values + 1, sizeof(*out));
    size_t n = 0;
    for (size_t i = 0; i < a->n_values; i++) {
        if (strcmp(a->values[i].opt->name, name) == 0) {
            out[n++] = a->values[i].text;
        }
    }
    return out;
}
