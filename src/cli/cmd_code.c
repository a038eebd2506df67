/* osb code: a snippet, a file, or a conversation with an interpreter in a sandbox.
 *
 * Ctrl-C interrupts the code and waits for its end, so that its context is free when we are gone;
 * the second one does not wait. At the prompt it drops what was typed. */

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/commands.h"

/* Of what was printed to stderr; some kernels tell their errors only there, and execd repeats the
 * end of it (8 KiB) as the traceback. */
#define SAID_KEPT (16u << 10)

struct talk {
    struct cli *x;
    struct osb_sandbox *s;
    const char *language;
    const char *context; /* NULL: the default one of the language */
    char own[64];        /* the one that a conversation made for itself, or "" */
    bool at_prompts;     /* a conversation on a terminal */
    int ended_fd;        /* the code has ended, for the thread that watches */
    bool open_line;      /* the last of stdout did not end its line */
    struct buf said;
    char running[64];    /* the context that the code runs in */
    atomic_bool begun;   /* and it is known */
    atomic_bool pressed; /* Ctrl-C came while the code ran */
};

/* ---- what code prints ---- */

static bool print_stdout(struct talk *t, struct str text)
{
    t->open_line = text.n ? text.p[text.n - 1] != '\n' : t->open_line;
    return out_write(&t->x->out, text);
}

static void print_stderr(struct talk *t, struct str text)
{
    (void)fd_write_full(STDERR_FILENO, text.p, text.n);
    (void)buf_add_str(&t->said,
                      text.n > SAID_KEPT ? str_sub(text, text.n - SAID_KEPT, text.n) : text);
    if (t->said.len > SAID_KEPT) {
        buf_consume(&t->said, t->said.len - SAID_KEPT);
    }
}

static void end_line(struct talk *t)
{
    if (t->open_line) {
        (void)print_stdout(t, STR("\n"));
    }
}

/* A display that has no words, say only HTML: which kinds there are. */
static void print_kinds(struct talk *t, const char *results)
{
    cleanup_(json_free) struct json *all = json_parse(str_from(results ? results : "{}"), NULL);
    cleanup_(buf_done) struct buf line = BUF_INIT(4096);
    const char *kind;
    struct json *value;
    void *it = NULL;
    while (json_next(all, &it, &kind, &value)) {
        (void)buf_printf(&line, "%s%s", line.len ? ", " : "", kind);
    }
    out_line(&t->x->out, "<%s>", buf_cstr(&line));
}

/* Output of code comes as it was written, not line by line. */
static bool on_event(const struct osb_event *ev, void *arg)
{
    struct talk *t = arg;
    struct str text = str_n(ev->text, ev->text_len);
    switch (ev->type) {
    case OSB_EV_INIT:
        (void)str_to_cstr(text, t->running, sizeof(t->running));
        atomic_store(&t->begun, true);
        break;
    case OSB_EV_STDOUT:
        return print_stdout(t, text);
    case OSB_EV_STDERR:
        print_stderr(t, text);
        break;
    case OSB_EV_RESULT:
        end_line(t);
        if (text.p) {
            out_line(&t->x->out, "%.*s", STR_FMT(text));
        } else {
            print_kinds(t, ev->results_json);
        }
        break;
    case OSB_EV_COUNT:
    case OSB_EV_ERROR: /* in the result */
    case OSB_EV_COMPLETE:
        break;
    }
    return !t->x->out.broken;
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

static void print_error(struct talk *t, const struct osb_result *r)
{
    const char *const *line = osb_result_traceback(r);
    if (isatty(STDOUT_FILENO)) {
        end_line(t);
    }
    if (!line || !*line) {
        (void)fprintf(stderr, "%s: %s\n", osb_result_error_name(r), osb_result_error_value(r));
        return;
    }
    struct str only = line[1] ? STR_NULL : str_trim_space(str_from(line[0]));
    if (only.n && str_ends(str_trim_space(buf_str(&t->said)), only)) {
        return;
    }
    bool told = false; /* some tracebacks are only the place */
    for (const char *const *l = line; *l; l++) {
        told =
            told || strstr(*l, osb_result_error_name(r)) || strstr(*l, osb_result_error_value(r));
    }
    if (!told) {
        (void)fprintf(stderr, "%s: %s\n", osb_result_error_name(r), osb_result_error_value(r));
    }
    for (; *line; line++) {
        print_traceback_line(&t->x->out, *line);
    }
}

/* 0, or an exit code after a message. */
static int run_snippet(struct talk *t, const char *code)
{
    struct cli *x = t->x;
    struct osb_error e = {0};
    struct osb_run_opts o = {.on_event = on_event, .arg = t, .discard = true, .call = cli_call(x)};
    cleanup_(osb_result_free) struct osb_result *r =
        osb_code_run(t->s, t->context, t->language, code, &o, &e);
    bool pressed = atomic_load(&t->pressed);
    if (!r && e.code == OSB_ECANCELED && pressed) {
        (void)fputs("Aborted!\n", stderr);
        return EXIT_SIGINT;
    }
    if (!r && x->out.broken && t->running[0]) {
        (void)osb_code_interrupt(t->s, t->running, NULL); /* nobody reads what it prints */
    }
    if (!r) {
        return x->out.broken ? EXIT_SIGPIPE : cli_error(x, &e, "Run code");
    }
    if (osb_result_error_name(r)) {
        print_error(t, r);
    }
    if (pressed) { /* some kernels take what was interrupted for complete */
        return EXIT_SIGINT;
    }
    return osb_result_error_name(r) ? 1 : 0;
}

/* ---- signals ---- */

static int pressed_fd = -1;           /* counts Ctrl-C */
static volatile sig_atomic_t leaving; /* we are to end, not only the code */

static void on_press(int signo)
{
    leaving |= signo != SIGINT;
    (void)eventfd_write(pressed_fd, 1);
}

static void catch_presses(const struct talk *t)
{
    /* Without a prompt that waits for both, Ctrl-C has to end the reading of a line. */
    struct sigaction sa = {.sa_handler = on_press, .sa_flags = t->at_prompts ? SA_RESTART : 0};
    pressed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(pressed_fd >= 0);
    (void)sigaction(SIGINT, &sa, NULL);
    (void)sigaction(SIGTERM, &sa, NULL);
    (void)sigaction(SIGHUP, &sa, NULL);
}

static bool take_press(void)
{
    eventfd_t n;
    return eventfd_read(pressed_fd, &n) == 0;
}

/* Interrupts what runs; the second time, or when nobody answers, also stops waiting for it. Before
 * the code has begun there is nothing but the waiting. */
static void *watch_presses(void *arg)
{
    struct talk *t = arg;
    struct pollfd p[] = {{.fd = pressed_fd, .events = POLLIN},
                         {.fd = t->ended_fd, .events = POLLIN}};
    for (;;) {
        (void)poll(p, ARRAY_LEN(p), -1);
        if (p[1].revents) {
            return NULL;
        }
        if (p[0].revents && take_press()) {
            bool again = atomic_exchange(&t->pressed, true);
            if (!atomic_load(&t->begun) || osb_code_interrupt(t->s, t->running, NULL) < 0 ||
                again || leaving) {
                osb_cancel(t->x->token);
            }
        }
    }
}

static int run_block(struct talk *t, const char *code)
{
    pthread_t watcher;
    t->ended_fd = eventfd(0, EFD_CLOEXEC);
    t->x->token = osb_token_new();
    must(t->ended_fd >= 0 && t->x->token);
    t->running[0] = '\0';
    t->open_line = false;
    buf_clear(&t->said);
    atomic_store(&t->begun, false);
    atomic_store(&t->pressed, false);
    must(pthread_create(&watcher, NULL, watch_presses, t) == 0);
    int r = run_snippet(t, code);
    must(eventfd_write(t->ended_fd, 1) == 0);
    (void)pthread_join(watcher, NULL);
    if (!leaving) {
        (void)take_press(); /* it came too late for this one, and the next is not meant */
    }
    (void)close(t->ended_fd);
    osb_token_free(t->x->token);
    t->x->token = NULL;
    return r;
}

/* ---- a conversation ---- */

/* Brackets that are open, as far as one can tell without knowing the language. */
static int open_brackets(const char *code)
{
    int n = 0;
    char quote = '\0';
    for (const char *p = code; *p; p++) {
        if (*p == '\n') {
            quote = '\0'; /* rather an apostrophe in a comment than a text of several lines */
        } else if (*p == '\\' && p[1] && p[1] != '\n') {
            p++;
        } else if (quote) {
            quote = *p == quote ? '\0' : quote;
        } else if (strchr("'\"`", *p)) {
            quote = *p;
        } else {
            n += strchr("([{", *p) ? 1 : strchr(")]}", *p) ? -1 : 0;
        }
    }
    return n;
}

/* A block goes on after a colon, a backslash, within brackets or behind a magic word for the whole
 * of it (%%), until a blank line. */
static bool goes_on(struct buf *b, const char *line)
{
    size_t n = strlen(line);
    const char *code = buf_cstr(b);
    if (n == 0) {
        return false;
    }
    bool first = b->len == n + 1;
    return line[n - 1] == ':' || line[n - 1] == '\\' ||
           (!first && (line[0] == ' ' || line[0] == '\t')) || strncmp(code, "%%", 2) == 0 ||
           open_brackets(code) > 0;
}

/* False when Ctrl-C came before a line. */
static bool prompt(struct talk *t, bool inside)
{
    struct pollfd p[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                         {.fd = pressed_fd, .events = POLLIN}};
    if (!t->at_prompts) {
        return !leaving;
    }
    end_line(t);
    (void)fputs(inside ? "... " : ">>> ", stderr);
    while (poll(p, ARRAY_LEN(p), -1) < 0) {
    }
    if (p[1].revents && take_press()) {
        (void)fputs("\nKeyboardInterrupt\n", stderr);
        return false;
    }
    return true;
}

/* The exit code: without prompts, of the last block that failed. */
static int read_and_run(struct talk *t)
{
    cleanup_free char *line = NULL;
    size_t cap = 0;
    int failed = 0;
    cleanup_(buf_done) struct buf code = BUF_INIT(1u << 20);
    while (!leaving) {
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
            int r = run_block(t, buf_cstr(&code));
            buf_clear(&code);
            if (r == EXIT_SIGINT && !t->at_prompts) {
                return r;
            }
            failed = r && !t->at_prompts ? r : failed;
        }
    }
    if (leaving || (!t->at_prompts && take_press())) {
        return EXIT_SIGINT;
    }
    if (t->at_prompts) {
        (void)fputc('\n', stderr);
    }
    int r = code.len ? run_block(t, buf_cstr(&code)) : 0;
    return r ? r : failed;
}

static int converse(struct talk *t)
{
    struct osb_error e = {0};
    t->at_prompts = isatty(STDIN_FILENO);
    if (!t->context) {
        if (osb_context_new(t->s, t->language, NULL, t->own, &e) < 0) {
            return cli_error(t->x, &e, "Create context");
        }
        t->context = t->own;
    }
    catch_presses(t);
    int r = read_and_run(t);
    if (t->own[0]) {
        (void)osb_context_delete(t->s, t->own, NULL);
    }
    return r;
}

static int run_code(struct cli *x)
{
    const char *language = arg_get(&x->args, "language"), *code = arg_get(&x->args, "code");
    if (code && x->args.pos[1]) {
        return cli_usage(x, "Give --code or a FILE, not both.");
    }
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    struct talk t = {.x = x,
                     .s = s,
                     .language = language ? language : "python",
                     .context = arg_get(&x->args, "context"),
                     .said = BUF_INIT(2 * SAID_KEPT)};
    int r = 1;
    if (!code && !x->args.pos[1]) {
        r = converse(&t);
    } else {
        cleanup_free char *text = code ? xstrdup(code) : cli_read_input(x, x->args.pos[1], NULL);
        if (text && !*text) {
            r = cli_fail(x, "there is no code to run");
        } else if (text) {
            catch_presses(&t);
            r = run_block(&t, text);
        }
    }
    buf_done(&t.said);
    return r;
}

static const struct cli_opt opts[] = {
    {.name = "language",
     .letter = 'l',
     .type = ARG_TEXT,
     .fallback = "python",
     .help = "python, bash, javascript, typescript, java, go, sql: as the image has them."},
    {.name = "code", .letter = 'c', .type = ARG_TEXT, .help = "The snippet itself."},
    {.name = "context",
     .type = ARG_TEXT,
     .help = "Id of the context to run in; without it a snippet or file runs in the default one of "
             "the language, and a conversation in a new one."},
    {0},
};
const struct cli_cmd cmd_code = {.name = "code",
                                 .help = "Run a snippet, a file, or talk to an interpreter.",
                                 .opts = opts,
                                 .args = {"SANDBOX_ID", "[FILE]"},
                                 .run = run_code};
