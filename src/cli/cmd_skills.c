/* osb skills: teach coding agents to use osb. */

#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/skills.h"

#define TARGETS "claude|cursor|codex|copilot|windsurf|cline|opencode|all"

/* ---- list ---- */

static struct json *skill_model(const struct skill *s)
{
    cleanup_free char *file = xasprintf("%s.md", s->slug);
    cleanup_free char *marker = xasprintf("opensandbox-%s", s->slug);
    cleanup_free char *source = xasprintf("builtin:%s.md", s->slug);
    return jobject("slug", s->slug, "package_file", file, "title", s->title, "summary", s->summary,
                   "trigger_hint", s->trigger, "marker_id", marker, "area", s->area, "source_path",
                   source, NULL);
}

static struct json *target_model(const struct skill_target *t, bool global)
{
    struct json *j = jobject("target", t->name, "scope", global ? "global" : "project", "label",
                             t->label, "layout", t->append ? "append" : "copy", NULL);
    struct json *list = json_array_new();
    for (const struct skill *s = skills; s->slug; s++) {
        cleanup_free char *path = skill_path(s, t, global);
        bool there = skill_look(s, t, path) != SKILL_ABSENT;
        json_push(list, jobject("skill", s->slug, "status", there ? "installed" : "not_installed",
                                "path", path, NULL));
    }
    json_set(j, "skills", list);
    return j;
}

static int run_list(struct cli *x)
{
    cleanup_(json_free) struct json *j = json_object_new();
    struct json *list = json_array_new(), *targets = json_array_new();
    for (const struct skill *s = skills; s->slug; s++) {
        json_push(list, skill_model(s));
    }
    for (const struct skill_target *t = skill_targets; t->name; t++) {
        json_push(targets, target_model(t, false));
        json_push(targets, target_model(t, true));
    }
    json_set(j, "skills", list);
    json_set(j, "targets", targets);
    if (x->out.format != OUT_TABLE) {
        out_tree(&x->out, j);
        return 0;
    }
    out_line(&x->out, "Bundled skills\n");
    for (const struct skill *s = skills; s->slug; s++) {
        out_line(&x->out, "  %-26s [%s] %s", s->slug, s->area, s->summary);
    }
    out_line(&x->out, "\nSupported targets\n");
    for (size_t i = 0; i < json_len(targets); i++) {
        const struct json *t = json_item(targets, i), *per = json_get(t, "skills");
        size_t n = 0;
        for (size_t k = 0; k < json_len(per); k++) {
            n += strcmp(json_cstr(json_get(json_item(per, k), "status")), "installed") == 0;
        }
        out_line(&x->out, "  %-10s %-8s %zu of %zu installed", json_cstr(json_get(t, "target")),
                 json_cstr(json_get(t, "scope")), n, json_len(per));
    }
    return 0;
}

/* ---- show ---- */

/* The text below "## heading" up to the next one. */
static struct str section(struct str body, const char *heading)
{
    cleanup_free char *mark = xasprintf("## %s\n", heading);
    ptrdiff_t at = str_find_str(body, str_from(mark));
    if (at < 0) {
        return STR_NULL;
    }
    struct str rest = str_sub(body, (size_t)at + strlen(mark), body.n);
    ptrdiff_t end = str_find_str(rest, STR("\n## "));
    rest = end < 0 ? rest : str_sub(rest, 0, (size_t)end);
    while (rest.n && rest.p[0] == '\n') {
        rest = str_sub(rest, 1, rest.n);
    }
    while (rest.n && rest.p[rest.n - 1] == '\n') {
        rest.n--;
    }
    return rest;
}

static struct json *text_of(struct str s)
{
    return s.n ? json_string_new(s) : json_null_new();
}

static const struct skill *known(struct cli *x, const char *name)
{
    const char *names[16] = {0};
    size_t n = 0;
    const struct skill *s = skill_find(name);
    if (!s) {
        for (const struct skill *k = skills; k->slug; k++) {
            names[n++] = k->slug;
        }
        const char *near = arg_nearest(name, names);
        (void)(near ? cli_usage(x, "Unknown skill '%s'. Did you mean '%s'?", name, near)
                    : cli_usage(x, "Unknown skill '%s'. See `osb skills list`.", name));
    }
    return s;
}

static int run_show(struct cli *x)
{
    const struct skill *s = known(x, x->args.pos[0]);
    if (!s) {
        return EXIT_USAGE;
    }
    struct str body = skill_body(s);
    struct str when = section(body, "When To Use"), quick = section(body, "Quick Start"),
               shapes = section(body, "JSON Shapes");
    if (x->out.format == OUT_TABLE) {
        out_line(&x->out,
                 "%s (%s)\n%s\n\nWhen To Use\n%.*s\n\nQuick Start\n%.*s\n\nJSON Shapes\n%.*s\n",
                 s->title, s->area, s->summary, STR_FMT(when), STR_FMT(quick), STR_FMT(shapes));
        (void)out_write(&x->out, str_from(skill_text(s)));
        return 0;
    }
    cleanup_(json_free) struct json *j =
        jobject("skill", s->slug, "title", s->title, "area", s->area, "summary", s->summary,
                "trigger_hint", s->trigger, NULL);
    json_set(j, "when_to_use", text_of(when));
    json_set(j, "quick_start", text_of(quick));
    json_set(j, "json_shapes", text_of(shapes));
    json_set(j, "content", jtext(skill_text(s)));
    out_tree(&x->out, j);
    return 0;
}

/* ---- install, uninstall ---- */

typedef const char *change_fn(struct cli *x, const struct skill *s, const struct skill_target *t,
                              const char *path);

static const char *install_one(struct cli *x, const struct skill *s, const struct skill_target *t,
                               const char *path)
{
    enum skill_status before = skill_look(s, t, path);
    if (before == SKILL_PRESENT) {
        return "already_present";
    }
    int r = skill_install(s, t, path);
    if (r < 0) {
        (void)cli_fail(x, "%s: %s", path, strerror(-r));
        return NULL;
    }
    return before == SKILL_ABSENT ? "installed" : "updated";
}

static const char *uninstall_one(struct cli *x, const struct skill *s, const struct skill_target *t,
                                 const char *path)
{
    if (skill_look(s, t, path) == SKILL_ABSENT) {
        return "not_installed";
    }
    int r = skill_uninstall(s, t, path);
    if (r < 0) {
        (void)cli_fail(x, "%s: %s", path, strerror(-r));
        return NULL;
    }
    return "removed";
}

static int change_all(struct cli *x, const struct skill *only, change_fn *change,
                      struct json *operations, bool *ret_restart)
{
    const char *target = arg_get(&x->args, "target");
    bool global = strcmp(arg_get(&x->args, "scope"), "global") == 0;
    for (const struct skill_target *t = skill_targets; t->name; t++) {
        if (strcmp(target, "all") != 0 && strcmp(target, t->name) != 0) {
            continue;
        }
        for (const struct skill *s = skills; s->slug; s++) {
            if (only && s != only) {
                continue;
            }
            cleanup_free char *path = skill_path(s, t, global);
            const char *status = change(x, s, t, path);
            if (!status) {
                return 1;
            }
            bool changed =
                strcmp(status, "already_present") != 0 && strcmp(status, "not_installed") != 0;
            struct json *j =
                jobject("skill", s->slug, "target", t->name, "target_label", t->label, "scope",
                        global ? "global" : "project", "path", path, "status", status, NULL);
            json_set(j, "requires_restart", json_bool_new(changed));
            *ret_restart = *ret_restart || changed;
            json_push(operations, j);
        }
    }
    return 0;
}

static int run_change(struct cli *x, const struct skill *only, change_fn *change, const char *title)
{
    if (!arg_has(&x->args, "target") || !arg_has(&x->args, "scope")) {
        return cli_usage(x, "Say for whom and where: --target %s and --scope project|global.",
                         TARGETS);
    }
    cleanup_(json_free) struct json *j = json_object_new();
    struct json *operations = json_array_new();
    bool restart = false;
    int r = change_all(x, only, change, operations, &restart);
    json_set(j, "operations", operations);
    json_set(j, "requires_restart", json_bool_new(restart));
    if (r == 0) {
        out_rows_tree(&x->out, title, "skill,target,scope,status,path", operations, j);
    }
    if (r == 0 && restart && x->out.format == OUT_TABLE) {
        out_info(&x->out, "Restart the agent, so that it sees the change.");
    }
    return r;
}

static int run_install(struct cli *x)
{
    const char *name = x->args.pos[0];
    bool all = arg_has(&x->args, "all-builtins");
    if (!name == !all) {
        return cli_usage(x, "Give the name of a skill, or --all-builtins.");
    }
    const struct skill *s = name ? known(x, name) : NULL;
    return name && !s ? EXIT_USAGE : run_change(x, s, install_one, "Installed Skills");
}

static int run_uninstall(struct cli *x)
{
    const char *name = x->args.pos[0];
    const struct skill *s = known(x, name ? name : skills[0].slug);
    return s ? run_change(x, s, uninstall_one, "Uninstalled Skills") : EXIT_USAGE;
}

#define WHERE_OPTIONS                                                                              \
    {.name = "target",                                                                             \
     .letter = 't',                                                                                \
     .type = ARG_CHOICE,                                                                           \
     .choices = TARGETS,                                                                           \
     .help = "Whose skill directory."},                                                            \
        {.name = "scope",                                                                          \
         .type = ARG_CHOICE,                                                                       \
         .choices = "project|global",                                                              \
         .help = "This directory, or your home."},                                                 \
        OPT_OUTPUT("table|json|yaml")

static const struct cli_opt output[] = {OPT_OUTPUT("table|json|yaml"), {0}};
static const struct cli_opt install_opts[] = {
    {.name = "all-builtins", .type = ARG_FLAG, .help = "All bundled skills."},
    {.name = "force", .letter = 'f', .type = ARG_FLAG, .help = "No effect: always up to date."},
    WHERE_OPTIONS,
    {0},
};
static const struct cli_opt uninstall_opts[] = {WHERE_OPTIONS, {0}};
static const struct cli_cmd list = {
    .name = "list", .help = "Bundled skills and where they are.", .opts = output, .run = run_list};
static const struct cli_cmd show = {
    .name = "show", .help = "Print one skill.", .opts = output, .args = {"NAME"}, .run = run_show};
static const struct cli_cmd install = {.name = "install",
                                       .help = "Install a skill for an agent.",
                                       .opts = install_opts,
                                       .args = {"[NAME]"},
                                       .run = run_install};
static const struct cli_cmd uninstall = {.name = "uninstall",
                                         .help = "Remove an installed skill.",
                                         .opts = uninstall_opts,
                                         .args = {"[NAME]"},
                                         .run = run_uninstall};
static const struct cli_cmd *const subs[] = {&list, &show, &install, &uninstall, NULL};
const struct cli_cmd cmd_skills = {
    .name = "skills", .help = "Teach coding agents to use osb.", .subs = subs};
