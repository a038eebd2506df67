#pragma once
/* A terminal of a sandbox on this terminal. */

#include "cli/cli.h"

struct terminal_opts {
    const char *command; /* NULL: a shell */
    const char *cwd;
    const char *attach; /* the id of a running one, or NULL */
    bool takeover;
};

/* Runs until the program ends (its exit code) or the user detaches with Ctrl-P Ctrl-Q (0). The id
 * is printed on stderr then, so that it can be attached again. */
int terminal_run(struct cli *x, struct osb_sandbox *s, const struct terminal_opts *o,
                 bool *ret_detached);
