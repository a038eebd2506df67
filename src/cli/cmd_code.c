/* osb code: a snippet, a file, or a conversation with an interpreter in a sandbox. */

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/commands.h"

static bool on_event(const struct osb_event *ev, void *arg)
{
    struct run_view *v = arg;
    if (ev->type == OSB_EV_RESULT && ev->text) {
        out_line(&v->x->out, "%.*s", (int)ev->text_len, ev->text);
        return !v->x->out.broken;
    }
    return run_on_event(ev, arg);
}

/* Interpreters colour their tracebacks: for a terminal only. */
static void print_traceback_line(const struct out *o, const char *line)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(1u << 20);
    for (const char *p = line; *p; p++) {
        size_t n =
            !o->color_err && p[0] == '\033' && p[1] == '[' ? strspn(p + 2, "0123456789;") : 0;
        if (!o->color_err && p[0] == '\033' && p[1] == '[' && p[2 + n] == 'm') {
            p += 2 + n;
        } else {
            (void)buf_add_char(&b, *p);
        }
    }
    (void)fprintf(stderr, "%s\n", buf_cstr(&b));
}

/* 0, or an exit code after a message. */
static int run_snippet(struct cli *x, struct osb_sandbox *s, const char *context,
                       const char *language, const char *code)
{
    struct osb_error e = {0};
    struct run_view v = {.x = x};
    struct osb_run_opts o = {.on_event = on_event, .arg = &v, .discard = true, .call = cli_call(x)};
    cleanup_(osb_result_free) struct osb_result *r =
        osb_code_run(s, context, language, code, &o, &e);
    if (!r && e.code == OSB_ECANCELED && v.id[0]) {
        (void)osb_code_interrupt(s, v.id, NULL); /* or its context would be busy with it */
    }
    if (!r) {
        return x->out.broken ? EXIT_SIGPIPE : cli_error(x, &e, "Run code");
    }
    if (!osb_result_error_name(r)) {
        return 0;
    }
    const char *const *line = osb_result_traceback(r);
    if (line && *line) {
        for (; *line; line++) {
            print_traceback_line(&x->out, *line);
        }
    } else {
        (void)fprintf(stderr, "%s: %s\n", osb_result_error_name(r), osb_result_error_value(r));
    }
    return 1;
}

/* ---- a conversation ---- */

/* Ctrl-C at the prompt drops what was typed; while code runs it interrupts the code. */
struct talk {
    struct cli *x;
    struct osb_sandbox *s;
    char context[64];
    const char *language;
    bool tty;
    int ended_fd; /* the code has ended, for the thread that watches */
};

static int pressed_fd = -1; /* counts Ctrl-C */

static void on_press(int signo)
{
    (void)signo;
    (void)eventfd_write(pressed_fd, 1);
}

static bool take_press(void)
{
    eventfd_t n;
    return eventfd_read(pressed_fd, &n) == 0;
}

/* Interrupts what runs; the second time, or when nobody answers, also stops waiting for it. */
static void *watch_presses(void *arg)
{
    struct talk *t = arg;
    struct pollfd p[] = {{.fd = pressed_fd, .events = POLLIN},
                         {.fd = t->ended_fd, .events = POLLIN}};
    bool again = false;
    for (;;) {
        (void)poll(p, ARRAY_LEN(p), -1);
        if (p[1].revents) {
            return NULL;
        }
        if (p[0].revents && take_press()) {
            if (osb_code_interrupt(t->s, t->context, NULL) < 0 || again) {
                osb_cancel(t->x->token);
            }
            again = true;
        }
    }
}

static int run_block(struct talk *t, const char *code)
{
    pthread_t watcher;
    if (!t->tty) {
        return run_snippet(t->x, t->s, t->context, t->language, code);
    }
    t->ended_fd = eventfd(0, EFD_CLOEXEC);
    t->x->token = osb_token_new();
    must(t->ended_fd >= 0 && t->x->token);
    must(pthread_create(&watcher, NULL, watch_presses, t) == 0);
    int r = run_snippet(t->x, t->s, t->context, t->language, code);
    must(eventfd_write(t->ended_fd, 1) == 0);
    (void)pthread_join(watcher, NULL);
    (void)take_press(); /* it came too late for this one, and the next is not meant */
    (void)close(t->ended_fd);
    osb_token_free(t->x->token);
    t->x->token = NULL;
    return r;
}

/* A block goes on after a colon or a backslash, until a blank line. */
static bool goes_on(const struct buf *b, const char *line)
{
    size_t n = strlen(line);
    return (n && (line[n - 1] == ':' || line[n - 1] == '\\')) ||
           (n && b->len > n + 1 && (line[0] == ' ' || line[0] == '\t'));
}

/* False when Ctrl-C came before a line. */
static bool prompt(const struct talk *t, bool inside)
{
    struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                         {.fd = pressed_fd, .events = POLLIN}};
    if (!t->tty) {
        return true;
    }
    (void)fputs(inside ? "... " : ">>> ", stderr);
    while (poll(p, ARRAY_LEN(p), -1) < 0) {
    }
    if (p[1].revents && take_press()) {
        (void)fputs("\nKeyboardInterrupt\n", stderr);
        return false;
    }
    return true;
}

static int read_and_run(struct talk *t)
{
    cleanup_free char *line = NULL;
    size_t cap = 0;
    cleanup_(buf_done) struct buf code = BUF_INIT(1u << 20);
    for (;;) {
        if (!prompt(t, code.len > 0)) {
            buf_clear(&code);
            continue;
        }
        ssize_t n = getline(&line, &cap, stdin);
        if (n <= 0) {
            break;
        }
        line[n - 1] = line[n - 1] == '\n' ? '\0' : line[n - 1];
        (void)buf_printf(&code, "%s\n", line);
        if (!goes_on(&code, line)) {
            (void)run_block(t, buf_cstr(&code));
            buf_clear(&code);
        }
    }
    if (t->tty) {
        (void)fputc('\n', stderr);
    }
    return code.len ? run_block(t, buf_cstr(&code)) : 0;
}

static int converse(struct cli *x, struct osb_sandbox *s, const char *language)
{
    struct osb_error e = {0};
    struct talk t = {.x = x, .s = s, .language = language, .tty = isatty(STDIN_FILENO)};
    if (osb_context_new(s, language, NULL, t.context, &e) < 0) {
        return cli_error(x, &e, "Create context");
    }
    if (t.tty) {
        struct sigaction sa = {.sa_handler = on_press, .sa_flags = SA_RESTART};
        pressed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        must(pressed_fd >= 0);
        (void)sigaction(SIGINT, &sa, NULL);
    }
    int r = read_and_run(&t);
    (void)osb_context_delete(s, t.context, NULL);
    return r;
}

static int run_code(struct cli *x)
{
    const char *language = arg_get(&x->args, "language"), *code = arg_get(&x->args, "code");
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    language = language ? language : "python";
    if (!code && !x->args.pos[1]) {
        return converse(x, s, language);
    }
    cleanup_free char *text = code ? xstrdup(code) : cli_read_input(x, x->args.pos[1], NULL);
    if (!text) {
        return 1;
    }
    cli_catch_interrupt(x);
    return run_snippet(x, s, arg_get(&x->args, "context"), language, text);
}

static const struct cli_opt opts[] = {
    {.name = "language",
     .letter = 'l',
     .type = ARG_TEXT,
     .fallback = "python",
     .help = "Language of the interpreter."},
    {.name = "code", .letter = 'c', .type = ARG_TEXT, .help = "The snippet itself."},
    {.name = "context", .type = ARG_TEXT, .help = "Context to run in; its state is kept."},
    {0},
};
const struct cli_cmd cmd_code = {.name = "code",
                                 .help = "Run a snippet, a file, or talk to an interpreter.",
                                 .opts = opts,
                                 .args = {"SANDBOX_ID", "[FILE]"},
                                 .run = run_code};
