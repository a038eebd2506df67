/* osb completion: scripts for shells. They ask osb itself (`osb __complete WORDS...`), so that they
 * never know less than the program. */

#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/limits.h"

static const char bash_script[] =
    "_osb() {\n"
    "    local IFS=$'\\n'\n"
    "    COMPREPLY=($(osb __complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null))\n"
    "}\n"
    "complete -o default -F _osb osb opensandbox\n";

static const char zsh_script[] =
    "#compdef osb opensandbox\n"
    "_osb() {\n"
    "    local -a found\n"
    "    found=(${(f)\"$(osb __complete -- \"${(@)words[2,CURRENT]}\" 2>/dev/null)\"})\n"
    "    if (( $#found )); then compadd -a found; else _files; fi\n"
    "}\n"
    "compdef _osb osb opensandbox\n";

static const char fish_script[] = "function __osb_complete\n"
                                  "    set -l words (commandline -opc) (commandline -ct)\n"
                                  "    osb __complete -- $words[2..-1] 2>/dev/null\n"
                                  "end\n"
                                  "complete -c osb -a '(__osb_complete)'\n"
                                  "complete -c opensandbox -a '(__osb_complete)'\n";

static int run_completion(struct cli *x)
{
    static const struct {
        const char *shell, *script;
    } scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};
    for (size_t i = 0; i < ARRAY_LEN(scripts); i++) {
        if (strcmp(x->args.pos[0], scripts[i].shell) == 0) {
            (void)out_write(&x->out, str_from(scripts[i].script));
            return 0;
        }
    }
    return cli_usage(x, "Invalid value for 'SHELL': '%s' is not one of 'bash', 'zsh', 'fish'.",
                     x->args.pos[0]);
}

const struct cli_cmd cmd_completion = {.name = "completion",
                                       .help = "Print a completion script: bash, zsh or fish.",
                                       .args = {"SHELL"},
                                       .run = run_completion};

/* ---- candidates ---- */

static void offer(struct cli *x, const char *word, const char *partial)
{
    if (strncmp(word, partial, strlen(partial)) == 0) {
        out_line(&x->out, "%s", word);
    }
}

static const struct cli_opt *find_opt(const struct cli_cmd *cmd, const char *word)
{
    for (const struct cli_opt *o = cmd->opts; o && o->name; o++) {
        bool by_name = word[0] == '-' && word[1] == '-' && strcmp(word + 2, o->name) == 0;
        bool by_letter = word[0] == '-' && o->letter && word[1] == o->letter && !word[2];
        if (by_name || by_letter) {
            return o;
        }
    }
    return NULL;
}

static void offer_options(struct cli *x, const struct cli_cmd *cmd, const char *partial)
{
    for (const struct cli_opt *o = cmd->opts; o && o->name; o++) {
        cleanup_free char *word = xasprintf("--%s", o->name);
        offer(x, word, partial);
    }
    offer(x, "--help", partial);
}

static void offer_choices(struct cli *x, const struct cli_opt *o, const char *partial)
{
    struct str rest = str_from(o->choices);
    while (rest.p) {
        cleanup_free char *word = str_dup(str_cut(&rest, '|'));
        offer(x, word, partial);
    }
}

static void offer_sandboxes(struct cli *x, const char *partial)
{
    x->set.request_timeout = CLI_COMPLETION_ASK_MS / 1000;
    if (!cli_client(x)) {
        return;
    }
    struct osb_filter f = {.page_size = 100};
    cleanup_(osb_list_free) struct osb_list *l = osb_list(x->client, &f, NULL);
    for (size_t i = 0; l && i < osb_list_len(l); i++) {
        offer(x, osb_info_id(osb_list_item(l, i)), partial);
    }
}

static int run_complete(struct cli *x)
{
    const struct cli_cmd *cmd = &cmd_root;
    const struct cli_opt *waiting = NULL; /* an option whose value comes next */
    size_t n = x->args.n_pos, seen = 0;
    const char *partial = n ? x->args.pos[n - 1] : "";
    for (size_t i = 0; i + 1 < n; i++) {
        const char *w = x->args.pos[i];
        const struct cli_opt *o = waiting ? NULL : find_opt(cmd, w);
        const struct cli_cmd *sub = waiting || !cmd->subs ? NULL : cmd_find(cmd, w);
        bool was_value = waiting != NULL;
        waiting = o && o->type != ARG_FLAG && o->type != ARG_SWITCH ? o : NULL;
        if (sub) {
            cmd = sub;
        } else if (!was_value && w[0] != '-') {
            seen++;
        }
    }
    if (waiting) {
        if (waiting->type == ARG_CHOICE) {
            offer_choices(x, waiting, partial);
        }
        return 0;
    }
    if (partial[0] == '-') {
        offer_options(x, cmd, partial);
        return 0;
    }
    for (const struct cli_cmd *const *c = cmd->subs; c && *c; c++) {
        if (!(*c)->hidden) {
            offer(x, (*c)->name, partial);
        }
    }
    if (!cmd->subs && seen == 0 && cmd->args[0] &&
        strncmp(cmd->args[0], "SANDBOX_ID", strlen("SANDBOX_ID")) == 0) {
        offer_sandboxes(x, partial);
    }
    return 0;
}

const struct cli_cmd cmd_complete = {.name = "__complete",
                                     .help = "Candidates for the last word.",
                                     .args = {"[WORDS]..."},
                                     .run = run_complete,
                                     .hidden = true};
