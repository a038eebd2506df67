/* Commands in the foreground: their output as it comes, their exit code as ours. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"

bool run_on_event(const struct osb_event *ev, void *arg)
{
    struct run_view *v = arg;
    struct str text = str_n(ev->text, ev->text_len);
    if (ev->type == OSB_EV_INIT) {
        (void)str_to_cstr(text, v->id, sizeof(v->id));
        return true;
    }
    if (ev->type != OSB_EV_STDOUT && ev->type != OSB_EV_STDERR) {
        return true;
    }
    /* Events are lines without their end; a blank line is the text "\n". */
    bool ends = text.n && text.p[text.n - 1] == '\n';
    if (ev->type == OSB_EV_STDERR) {
        (void)fd_write_full(STDERR_FILENO, text.p, text.n);
        (void)fd_write_full(STDERR_FILENO, "\n", ends ? 0 : 1);
        return true;
    }
    cleanup_(buf_done) struct buf line = BUF_INIT(OUT_MAX);
    (void)buf_add_str(&line, text);
    (void)buf_add_cstr(&line, ends ? "" : "\n");
    return out_write(&v->x->out, buf_str(&line));
}

/* By a signal, by its time limit or for its memory: there is no exit code of its own to tell. */
static void say_killed(const struct osb_result *r)
{
    const char *const *line = osb_result_traceback(r);
    (void)fputs("osb: the command was ended", stderr);
    for (const char *sep = ": "; line && *line; line++, sep = ", ") {
        (void)fprintf(stderr, "%s%s", sep, *line);
    }
    (void)fputc('\n', stderr);
}

static int failed(struct cli *x, const struct osb_result *r)
{
    const char *name = osb_result_error_name(r), *value = osb_result_error_value(r);
    if (osb_result_has_exit_code(r)) {
        int code = osb_result_exit_code(r);
        if (code == 0) {
            return 0;
        }
        if (!x->quiet_exit) {
            cleanup_free char *why = xasprintf("%s: %s", name ? name : "Error", value ? value : "");
            out_problem(&x->out, "Execution Error", why);
        } else if (code < 0) {
            say_killed(r);
        }
        return code > 0 && code < 256 ? code : 1;
    }
    cleanup_free char *why = xasprintf("%s: %s", name ? name : "Error",
                                       value ? value : "the command ended without a status");
    out_problem(&x->out, "Execution Error", why);
    return 1;
}

int run_foreground(struct cli *x, struct osb_sandbox *s, const char *session, const char *command,
                   struct osb_run_opts *o)
{
    struct osb_error e = {0};
    struct run_view v = {.x = x};
    cli_catch_interrupt(x);
    o->on_event = run_on_event;
    o->arg = &v;
    o->discard = true;
    o->call = cli_call(x);
    cleanup_(osb_result_free) struct osb_result *r =
        session ? osb_session_run(s, session, command, o, &e) : osb_run(s, command, o, &e);
    if (r) {
        return failed(x, r);
    }
    if (e.code == OSB_ECANCELED && v.id[0]) {
        (void)osb_interrupt(s, v.id, NULL); /* what it printed until now is all there is */
    }
    if (x->out.broken) {
        return EXIT_SIGPIPE;
    }
    return cli_error(x, &e, "%s", session ? "Run in session" : "Run command");
}
