#pragma once
/* The command line: a tree of commands, each with a table of options and a list of arguments.
 *
 * Options may stand between arguments, "--" ends them, the last of a repeated option counts unless
 * it is declared `many`. A group reads its options only up to the name of the command. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct cli;

#define ARG_MAX_POSITIONAL 4 /* declared arguments of one command */
#define ARG_MAX_DEPTH 4      /* groups within groups */
#define ARG_MESSAGE_MAX 512

enum arg_type {
    ARG_FLAG,     /* no value */
    ARG_SWITCH,   /* --x and --no-x: "1" and "0" */
    ARG_TEXT,     /* anything */
    ARG_INT,      /* min..max when max is not 0 */
    ARG_DURATION, /* "90", "1h30m" */
    ARG_LIFETIME, /* a duration, or "none" */
    ARG_PAIR,     /* KEY=VALUE */
    ARG_CHOICE,   /* one of `choices`, separated by '|' */
    ARG_MODE,     /* octal digits: 755 */
    ARG_FILE,     /* of this machine; must exist, "-" is stdin */
    ARG_RULE,     /* allow=TARGET or deny=TARGET */
};

struct cli_opt {
    const char *name; /* without dashes; NULL ends a table */
    char letter;
    enum arg_type type;
    const char *choices;
    bool many, required;
    int64_t min, max;
    const char *fallback; /* shown in the help only */
    const char *help;
};

/* The option every command that prints something has. */
#define OPT_OUTPUT(list)                                                                           \
    {                                                                                              \
        .name = "output", .letter = 'o', .type = ARG_CHOICE, .choices = (list),                    \
        .help = "Output format."                                                                   \
    }

struct cli_cmd {
    const char *name, *help;
    const struct cli_opt *opts;
    /* "NAME", "[NAME]" optional, "NAME..." one or more, "[NAME]..." any number. */
    const char *args[ARG_MAX_POSITIONAL];
    const struct cli_cmd *const *subs; /* a group; NULL-terminated */
    int (*run)(struct cli *x);
    unsigned verbatim_after; /* from so many arguments on everything is one: for command lines */
    bool hidden;
};

/* A command without commands below it; the last arguments name its own. */
#define LEAF(var, word, text, options, fn, ...)                                                    \
    static const struct cli_cmd var = {                                                            \
        .name = (word), .help = (text), .opts = (options), .args = {__VA_ARGS__}, .run = (fn)}

struct arg_value {
    const struct cli_opt *opt;
    const char *text;
};

struct args {
    const struct cli_cmd *cmd;
    struct arg_value *values;
    size_t n_values;
    const char **pos; /* NULL-terminated */
    size_t n_pos;
    int used;                      /* words read; a group stops at the name of a command */
    bool help;                     /* -h was given */
    char message[ARG_MESSAGE_MAX]; /* why not */
};

/* Reads argv[0..argc). 0, or -1 with ret->message. `ret` is to be ended with args_done() either
 * way; it points into argv. */
int args_parse(const struct cli_cmd *cmd, char **argv, int argc, struct args *ret);
void args_done(struct args *a);

const char *arg_get(const struct args *a, const char *name); /* the last one, or NULL */
bool arg_has(const struct args *a, const char *name);
int64_t arg_int(const struct args *a, const char *name, int64_t fallback);
/* Seconds of a duration option, or the fallback. */
int64_t arg_seconds(const struct args *a, const char *name, int64_t fallback);
/* All values of an option, NULL-terminated; the caller frees the list, not the texts. */
const char **arg_list(const struct args *a, const char *name);

const struct cli_cmd *cmd_find(const struct cli_cmd *group, const char *name);
/* What was probably meant: the nearest of the names, or NULL. */
const char *arg_nearest(const char *word, const char *const *names);
const char *cmd_nearest(const struct cli_cmd *group, const char *name);

/* "Usage: osb sandbox get [OPTIONS] SANDBOX_ID" with a line end. */
void cmd_usage(struct buf *out, const char *path, const struct cli_cmd *cmd);
void cmd_help(struct buf *out, const char *path, const struct cli_cmd *cmd);
/* "'-p' / '--port'" */
void opt_hint(struct buf *out, const struct cli_opt *o);
