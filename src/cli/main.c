/* osb: the command line of OpenSandbox. */

#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static const char banner[] = "  ___                   ___              _ _\n"
                             " / _ \\ _ __  ___ _ _   / __| __ _ _ _  __| | |__  _____ __\n"
                             "| (_) | '_ \\/ -_) ' \\  \\__ \\/ _` | ' \\/ _` | '_ \\/ _ \\ \\ /\n"
                             " \\___/| .__/\\___|_||_| |___/\\__,_|_||_\\__,_|_.__/\\___/_\\_\\\n"
                             "      |_|";

static void enter(struct cli *x, const struct cli_cmd *cmd)
{
    size_t n = strlen(x->path);
    (void)snprintf(x->path + n, sizeof(x->path) - n, "%s%s", n ? " " : "", n ? cmd->name : x->prog);
    x->cmd = cmd;
}

static int show_help(struct cli *x)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(1u << 20);
    if (x->cmd == &cmd_root) {
        (void)buf_printf(&b, x->out.color ? "\033[36m%s\033[0m  v%s\n\n" : "%s  v%s\n\n", banner,
                         OSB_VERSION);
    }
    cmd_help(&b, x->path, x->cmd);
    (void)out_write(&x->out, buf_str(&b));
    return 0;
}

static int unknown_command(struct cli *x, const char *word)
{
    const char *near = cmd_nearest(x->cmd, word);
    return near ? cli_usage(x, "No such command '%s'. Did you mean '%s'?", word, near)
                : cli_usage(x, "No such command '%s'.", word);
}

/* The format asked for, or the one the command prints without a word. */
static void choose_format(struct cli *x)
{
    const char *f = arg_get(&x->args, "output");
    static const char *const names[] = {
        [OUT_TABLE] = "table", [OUT_JSON] = "json", [OUT_YAML] = "yaml", [OUT_RAW] = "raw"};
    for (size_t i = 0; f && i < ARRAY_LEN(names); i++) {
        if (strcmp(f, names[i]) == 0) {
            x->out.format = (enum out_format)i;
        }
    }
}

static int run_command(struct cli *x)
{
    struct err e = {0};
    bool is_config = strstr(x->path, " config ") != NULL && !strstr(x->path, " config show");
    if (settings_load(&x->set, &x->root, is_config, &e) < 0) {
        return cli_fail(x, "%s", e.msg);
    }
    out_init(&x->out, x->set.color);
    choose_format(x);
    if (arg_has(&x->root, "verbose")) {
        (void)fprintf(stderr, "osb: server %s, requests up to %lld s, %s, %s\n",
                      x->set.domain ? x->set.domain : "localhost:8080",
                      (long long)x->set.request_timeout,
                      x->set.api_key ? "with a key" : "without a key",
                      x->set.file_exists ? x->set.path : "no configuration file");
    }
    return x->cmd->run(x);
}

static int dispatch(struct cli *x, char **argv, int argc)
{
    enter(x, &cmd_root);
    int r = args_parse(&cmd_root, argv, argc, &x->root);
    if (r < 0) {
        return cli_usage(x, "%s", x->root.message);
    }
    if (arg_has(&x->root, "version") && !x->root.help) {
        out_line(&x->out, "opensandbox, version %s", OSB_VERSION);
        return 0;
    }
    bool help = x->root.help;
    int used = x->root.used;
    while (!help && x->cmd->subs && used < argc) {
        const struct cli_cmd *sub = cmd_find(x->cmd, argv[used]);
        if (!sub) {
            return unknown_command(x, argv[used]);
        }
        enter(x, sub);
        args_done(&x->args);
        used++;
        if (args_parse(sub, argv + used, argc - used, &x->args) < 0) {
            return cli_usage(x, "%s", x->args.message);
        }
        help = x->args.help;
        used += x->args.used;
    }
    return help || x->cmd->subs ? show_help(x) : run_command(x);
}

int main(int argc, char **argv)
{
    struct cli x = {.prog = argc > 0 ? basename(argv[0]) : "osb"};
    (void)signal(SIGPIPE, SIG_IGN);
    bool wants_color = true;
    for (int i = 1; i < argc && argv[i][0] == '-'; i++) {
        wants_color = wants_color && strcmp(argv[i], "--no-color") != 0;
    }
    out_init(&x.out, wants_color);
    int r = dispatch(&x, argv + 1, MAX(argc - 1, 0));
    if (x.out.broken) {
        r = x.out.why == EPIPE ? EXIT_SIGPIPE
                               : cli_fail(&x, "standard output: %s", strerror(x.out.why));
    }
    osb_client_free(x.client);
    osb_token_free(x.token);
    args_done(&x.args);
    args_done(&x.root);
    settings_done(&x.set);
    return r;
}
