/* Theory of operation. The script is one line, so that it is parsed before any of the user's code
 * runs (nothing that code defines can change its meaning) and so that line numbers in messages are
 * those of the user's text. It
 *   1. reads everything from stdin (the state as shell code, then the command as an assignment) and
 *      replaces stdin by /dev/null;
 *   2. evaluates it with output closed: some lines re-declare variables that are read-only in any
 *      new shell, and fail, which is fine;
 *   3. changes directory: this may say something, when the directory is gone;
 *   4. sets the shell options and evaluates the command, in one eval at the top level, so that
 *      `declare` is not local, `exit` ends the shell, and tracing begins with the user's code;
 *   5. dumps the state. Not reached after `exit`, `exec` or an abort by `set -e`: the session then
 *      stays as it was before.
 *
 * In bash everything is prefixed with \builtin, because people wrap `cd` and others in functions.
 * Nothing but the names that begin with __execd is taken from the user, and those are unset before
 * the command runs. */

#include "execd/session_script.h"

#include "base/must.h"

/* bash. The options are dumped as a function: they take effect in step 4, not while restoring. */
#define BASH_END "#execd-end\\n"
#define BASH_READ                                                                                  \
    "IFS= \\builtin read -r -d '' __execd_s; exec </dev/null; "                                    \
    "\\builtin eval \"$__execd_s\" >/dev/null 2>&1; "                                              \
    "\\builtin unset -v __execd_s BASH_EXECUTION_STRING; "
#define BASH_FIRST "__execd_opts() { \\builtin shopt -s expand_aliases; }; "
#define BASH_CD                                                                                    \
    "\\builtin set -- \"${OLDPWD-}\"; \\builtin cd -- \"$PWD\" || \\builtin cd .; OLDPWD=$1; "     \
    "\\builtin set --; "
#define BASH_RUN                                                                                   \
    "__execd() { { __execd_opts; \\builtin unset -f __execd __execd_opts; "                        \
    "\\builtin unset -v __execd_c; } >/dev/null 2>&1; }; "                                         \
    "\\builtin eval \"__execd '';$__execd_c\"; "                                                   \
    "{ \\builtin set -- \"$?\"; \\builtin trap - DEBUG ERR RETURN; } >/dev/null 2>&1; "
#define BASH_DUMP                                                                                  \
    "{ \\builtin printf '__execd_opts() {\\n'; \\builtin set +o; \\builtin printf '}\\n'; "        \
    "\\builtin shopt -p; \\builtin set +euvx; \\builtin printf 'shopt -u expand_aliases\\n'; "     \
    "\\builtin declare -p; \\builtin declare -f; \\builtin declare -F; \\builtin alias -p; "       \
    "\\builtin shopt -p expand_aliases; \\builtin umask -p; "                                      \
    "\\builtin printf '" BASH_END "'; } >|"

#define BASH_EXIT " 2>/dev/null; \\builtin exit \"$1\""

/* Any POSIX shell. It cannot print its functions, so only exported variables, options, aliases,
 * umask and directory are carried over. An alias is written only if a subshell could read it back:
 * one that is printed over several lines would make the rest of the file unreadable. */
#define SH_READ                                                                                    \
    "__execd_s=$(cat); exec </dev/null; eval \"$__execd_s\" >/dev/null 2>&1; unset __execd_s; "
#define SH_FIRST "__execd_opts() { :; }; "
#define SH_CD "cd -- \"$__execd_w\" || cd .; OLDPWD=$__execd_o; unset __execd_w __execd_o; "
#define SH_RUN                                                                                     \
    "__execd() { { __execd_opts; unset -f __execd __execd_opts; unset __execd_c; } "               \
    ">/dev/null 2>&1; }; eval \"__execd;$__execd_c\"; { set -- \"$?\"; } >/dev/null 2>&1; "
#define SH_DUMP                                                                                    \
    "{ printf '__execd_opts() {\\n:\\n'; set +o; printf '}\\n'; set +euvx; "                       \
    "__execd_w=$PWD __execd_o=${OLDPWD-}; export __execd_w __execd_o; export -p; "                 \
    "printf 'umask %s\\n' \"$(umask)\"; alias | while IFS= read -r __execd_a; do "                 \
    "case $__execd_a in alias\\ *) ;; *) __execd_a=\"alias $__execd_a\" ;; esac; "                 \
    "(eval \"$__execd_a\") && printf '%s\\n' \"$__execd_a\"; done; "                               \
    "printf '" BASH_END "'; } >|"
#define SH_EXIT " 2>/dev/null; exit \"$1\""

void shell_quote(struct buf *out, struct str s)
{
    (void)buf_add_char(out, '\'');
    while (s.n) {
        ptrdiff_t at = str_find(s, '\'');
        size_t n = at < 0 ? s.n : (size_t)at;
        (void)buf_add(out, s.p, n);
        s = str_sub(s, n, s.n);
        if (s.n) {
            (void)buf_add_str(out, STR("'\\''"));
            s = str_sub(s, 1, s.n);
        }
    }
    (void)buf_add_char(out, '\'');
}

void session_script(struct buf *out, bool is_bash, bool has_state, const char *cwd,
                    const char *state_path)
{
    if (!has_state) {
        (void)buf_add_str(out, is_bash ? STR(BASH_FIRST) : STR(SH_FIRST));
    }
    (void)buf_add_str(out, is_bash ? STR(BASH_READ) : STR(SH_READ));
    if (has_state) {
        (void)buf_add_str(out, is_bash ? STR(BASH_CD) : STR(SH_CD));
    }
    if (cwd) {
        (void)buf_add_str(out, is_bash ? STR("\\builtin cd -- ") : STR("cd -- "));
        shell_quote(out, str_from(cwd));
        (void)buf_add_str(out, STR("; "));
    }
    (void)buf_add_str(out, is_bash ? STR(BASH_RUN) : STR(SH_RUN));
    (void)buf_add_str(out, is_bash ? STR(BASH_DUMP) : STR(SH_DUMP));
    shell_quote(out, str_from(state_path));
    (void)buf_add_str(out, is_bash ? STR(BASH_EXIT) : STR(SH_EXIT));
}

void session_script_command(struct buf *out, struct str command)
{
    (void)buf_add_str(out, STR("\n__execd_c="));
    shell_quote(out, command);
    (void)buf_add_char(out, '\n');
}

const char *long_command_script(bool is_bash)
{
    return is_bash ? "IFS= read -r -d '' __execd_c; exec </dev/null; "
                     "eval \"unset -v __execd_c;$__execd_c\""
                   : "__execd_c=$(cat; echo x); exec </dev/null; "
                     "eval \"unset __execd_c;${__execd_c%x}\"";
}
