/* Help texts, made from the tables of the commands. */

#include <ctype.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "cli/arg.h"

#define COLUMN_MAX 30 /* a longer left side gets a line of its own */

static const char *const metavars[] = {
    [ARG_FLAG] = "",
    [ARG_SWITCH] = "",
    [ARG_TEXT] = " TEXT",
    [ARG_INT] = " INTEGER",
    [ARG_DURATION] = " DURATION",
    [ARG_LIFETIME] = " DURATION",
    [ARG_PAIR] = " KEY=VALUE",
    [ARG_CHOICE] = " ",
    [ARG_MODE] = " MODE",
    [ARG_FILE] = " FILE",
    [ARG_RULE] = " ACTION=TARGET",
};

void cmd_usage(struct buf *out, const char *path, const struct cli_cmd *cmd)
{
    (void)buf_printf(out, "Usage: %s [OPTIONS]", path);
    if (cmd->subs) {
        (void)buf_add_cstr(out, " COMMAND [ARGS]...");
    }
    for (size_t i = 0; i < ARG_MAX_POSITIONAL && cmd->args[i]; i++) {
        (void)buf_printf(out, " %s", cmd->args[i]);
    }
    (void)buf_add_char(out, '\n');
}

static void left_side(struct buf *b, const struct cli_opt *o)
{
    if (o->letter) {
        (void)buf_printf(b, "-%c, ", o->letter);
    }
    (void)buf_printf(b, "--%s", o->name);
    if (o->type == ARG_SWITCH) {
        (void)buf_printf(b, " / --no-%s", o->name);
    } else if (o->type == ARG_CHOICE) {
        (void)buf_printf(b, " [%s]", o->choices);
    } else {
        (void)buf_add_cstr(b, metavars[o->type]);
    }
}

static void entry(struct buf *out, size_t column, const char *left, const char *right,
                  const char *note)
{
    size_t n = strlen(left);
    (void)buf_printf(out, "  %s", left);
    if (n > column) {
        (void)buf_add_char(out, '\n');
        n = 0;
        (void)buf_add_cstr(out, "  ");
    }
    (void)buf_printf(out, "%*s  %s%s\n", (int)(column - n), "", right ? right : "",
                     note ? note : "");
}

static void help_options(struct buf *out, const struct cli_cmd *cmd)
{
    size_t column = strlen("-h, --help");
    cleanup_(buf_done) struct buf b = BUF_INIT(512);
    for (const struct cli_opt *o = cmd->opts; o && o->name; o++) {
        buf_clear(&b);
        left_side(&b, o);
        column = MAX(column, MIN(b.len, (size_t)COLUMN_MAX));
    }
    (void)buf_add_cstr(out, "\nOptions:\n");
    for (const struct cli_opt *o = cmd->opts; o && o->name; o++) {
        cleanup_free char *note = o->required   ? xstrdup("  [required]")
                                  : o->fallback ? xasprintf("  [default: %s]", o->fallback)
                                                : NULL;
        buf_clear(&b);
        left_side(&b, o);
        entry(out, column, buf_cstr(&b), o->help, note);
    }
    entry(out, column, "-h, --help", "Show this message and exit.", NULL);
}

static void help_commands(struct buf *out, const struct cli_cmd *cmd)
{
    size_t column = 0;
    for (const struct cli_cmd *const *c = cmd->subs; *c; c++) {
        column = MAX(column, strlen((*c)->name));
    }
    (void)buf_add_cstr(out, "\nCommands:\n");
    for (const struct cli_cmd *const *c = cmd->subs; *c; c++) {
        if (!(*c)->hidden) {
            /* The first sentence is the summary. */
            const char *end = strstr((*c)->help, "\n");
            cleanup_free char *first =
                end ? xstrndup((*c)->help, (size_t)(end - (*c)->help)) : xstrdup((*c)->help);
            entry(out, column, (*c)->name, first, NULL);
        }
    }
}

void cmd_help(struct buf *out, const char *path, const struct cli_cmd *cmd)
{
    cmd_usage(out, path, cmd);
    struct str rest = str_from(cmd->help);
    (void)buf_add_char(out, '\n');
    while (rest.p) {
        struct str line = str_cut(&rest, '\n');
        (void)buf_printf(out, "%s%.*s\n", line.n ? "  " : "", STR_FMT(line));
    }
    help_options(out, cmd);
    if (cmd->subs) {
        help_commands(out, cmd);
    }
}
