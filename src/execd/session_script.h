#pragma once
/* The shell code around a command that runs in a session. */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/str.h"

/* The last line of a state file: without it the file was not finished. */
#define SESSION_STATE_END "#execd-end\n"

/* The text for `-c`. The shell reads its input (below) from stdin, restores, runs the command, and
 * dumps its state to state_path. `cwd` NULL: the directory of the last run. */
void session_script(struct buf *out, bool is_bash, bool has_state, const char *cwd,
                    const char *state_path);
/* What follows the state on the shell's stdin. */
void session_script_command(struct buf *out, struct str command);
/* A `-c` text that runs what is on stdin as if it had been the text: for commands that do not fit
 * into one argument. */
const char *long_command_script(bool is_bash);
/* Single-quoted for a shell. */
void shell_quote(struct buf *out, struct str s);
