#include "cli/cli.h"
#include "cli/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/fd.h"

static volatile sig_atomic_t interrupts;
static struct osb_token *interrupt_token;

struct osb_client *cli_client(struct cli *x)
{
    if (x->client) {
        return x->client;
    }
    struct osb_error e = {0};
    struct osb_config cfg = {.domain = x->set.domain,
                             .protocol = x->set.protocol,
                             .api_key = x->set.api_key,
                             .user_agent = "OpenSandbox-CLI/" OSB_VERSION,
                             .ca_file = x->set.ca_file,
                             .insecure = x->set.insecure,
                             .use_server_proxy = x->set.use_server_proxy,
                             .request_timeout_ms = (uint64_t)x->set.request_timeout * 1000};
    x->client = osb_client_new(&cfg, &e);
    if (!x->client) {
        out_problem(&x->out, "Sandbox Error", e.message);
    }
    return x->client;
}

struct osb_sandbox *cli_sandbox(struct cli *x, const char *id)
{
    return cli_client(x) ? osb_attach(x->client, id) : NULL;
}

static void hint(struct cli *x, const struct osb_error *e, struct buf *b)
{
    if (e->code == OSB_EUNAUTHORIZED) {
        (void)buf_add_cstr(b, x->set.api_key
                                  ? "\n  Is the key right? --api-key, OPEN_SANDBOX_API_KEY, or "
                                    "`osb config set connection.api_key KEY`."
                                  : "\n  No key was sent: use --api-key, OPEN_SANDBOX_API_KEY, or "
                                    "`osb config set connection.api_key KEY`.");
    } else if (e->code == OSB_ENETWORK && !e->http_status) {
        (void)buf_add_cstr(b, "\n  Is the server running? `osb doctor` looks; --domain or "
                              "OPEN_SANDBOX_DOMAIN say where it is.");
    } else if (strstr(e->api_code, "IMAGE_PULL_FAILED")) {
        (void)buf_add_cstr(
            b,
            "\n  It is not there yet and could not be fetched. `osb image ls`, or `docker images` "
            "where Docker runs the sandboxes, shows what is there.");
    } else if (strstr(e->api_code, "SANDBOX_NOT_FOUND")) {
        (void)buf_add_cstr(b, "\n  `osb sandbox list` shows those that are there.");
    }
    if (e->request_id[0]) {
        (void)buf_printf(b, "\n  Request id: %s", e->request_id);
    }
}

int cli_error(struct cli *x, const struct osb_error *e, const char *operation, ...)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(8192);
    va_list ap;
    if (e->code == OSB_ECANCELED && cli_interrupted()) {
        (void)fputs("Aborted!\n", stderr);
        return EXIT_SIGINT;
    }
    va_start(ap, operation);
    (void)buf_vprintf(&b, operation, ap);
    va_end(ap);
    (void)buf_printf(&b, " failed: %s", e->message[0] ? e->message : "no answer");
    if (!x->out.plain) {
        hint(x, e, &b);
    }
    out_problem(&x->out, "Sandbox Error", buf_cstr(&b));
    if (arg_has(&x->root, "verbose")) {
        (void)fprintf(stderr, "osb: %s, HTTP status %d, code '%s'\n", osb_code_name(e->code),
                      e->http_status, e->api_code);
    }
    return 1;
}

int cli_fail(struct cli *x, const char *fmt, ...)
{
    va_list ap;
    (void)fputs("Error: ", stderr);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
    return 1;
}

int cli_usage(struct cli *x, const char *fmt, ...)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    va_list ap;
    cmd_usage(&b, x->path, x->cmd);
    (void)buf_printf(&b, "Try '%s -h' for help.\n\nError: ", x->path);
    va_start(ap, fmt);
    (void)buf_vprintf(&b, fmt, ap);
    va_end(ap);
    (void)buf_add_char(&b, '\n');
    (void)fd_write_full(STDERR_FILENO, b.p, b.len);
    return EXIT_USAGE;
}

/* ---- Ctrl-C ---- */

static void on_interrupt(int signo)
{
    if (interrupts) {
        _exit(128 + signo);
    }
    interrupts = 1;
    osb_cancel(interrupt_token);
}

void cli_catch_interrupt(struct cli *x)
{
    if (x->token) {
        return;
    }
    x->token = osb_token_new();
    interrupt_token = x->token;
    struct sigaction sa = {.sa_handler = on_interrupt};
    (void)sigaction(SIGINT, &sa, NULL);
    (void)sigaction(SIGTERM, &sa, NULL);
    (void)sigaction(SIGHUP, &sa, NULL);
}

bool cli_interrupted(void)
{
    return interrupts != 0;
}

/* ---- small things ---- */

struct osb_pair *cli_pairs(struct cli *x, const char *option)
{
    cleanup_free const char **list = arg_list(&x->args, option);
    size_t n = 0;
    while (list[n]) {
        n++;
    }
    if (!n) {
        return NULL;
    }
    struct osb_pair *out = xcalloc(n + 1, sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        const char *eq = strchr(list[i], '=');
        out[i].key = xstrndup(list[i], (size_t)(eq - list[i]));
        out[i].value = xstrdup(eq + 1);
    }
    return out;
}

void pairs_free(struct osb_pair *p)
{
    for (struct osb_pair *i = p; i && i->key; i++) {
        free((void *)(uintptr_t)i->key);
        free((void *)(uintptr_t)i->value);
    }
    free(p);
}

static bool is_safe(const char *w)
{
    return w[0] && strspn(w, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                             "@%_+=:,./-") == strlen(w);
}

char *shell_join(const char *const *words)
{
    struct buf b = BUF_INIT(16u << 20);
    for (size_t i = 0; words[i]; i++) {
        (void)buf_add_cstr(&b, i ? " " : "");
        if (is_safe(words[i])) {
            (void)buf_add_cstr(&b, words[i]);
            continue;
        }
        (void)buf_add_char(&b, '\'');
        for (const char *p = words[i]; *p; p++) {
            (void)buf_add_cstr(&b, *p == '\'' ? "'\"'\"'" : "");
            if (*p != '\'') {
                (void)buf_add_char(&b, *p);
            }
        }
        (void)buf_add_char(&b, '\'');
    }
    return buf_take(&b);
}

char *cli_read_input(struct cli *x, const char *path, size_t *ret_n)
{
    struct buf b = BUF_INIT(CLI_MAX_INPUT);
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : buf_read_fd(&b, fd);
    if (fd >= 0 && !is_stdin) {
        (void)close(fd);
    }
    if (r < 0) {
        buf_done(&b);
        (void)cli_fail(x, "%s: %s", path, strerror(-r));
        return NULL;
    }
    if (ret_n) {
        *ret_n = b.len;
    }
    return buf_take(&b);
}

struct json *jobject(const char *key, ...)
{
    struct json *j = json_object_new();
    va_list ap;
    va_start(ap, key);
    for (; key; key = va_arg(ap, const char *)) {
        json_set(j, key, jtext(va_arg(ap, const char *)));
    }
    va_end(ap);
    return j;
}

static char *snake(const char *key)
{
    struct buf b = BUF_INIT(4096);
    for (; *key; key++) {
        if (*key >= 'A' && *key <= 'Z') {
            (void)buf_add_cstr(&b, b.len ? "_" : "");
            (void)buf_add_char(&b, (char)(*key - 'A' + 'a'));
        } else {
            (void)buf_add_char(&b, *key);
        }
    }
    return buf_take(&b);
}

char *cli_path(const char *before, const char *id, const char *after)
{
    struct buf b = BUF_INIT(8192);
    (void)buf_add_cstr(&b, before);
    (void)percent_encode(&b, str_from(id), false);
    (void)buf_add_cstr(&b, after);
    return buf_take(&b);
}

struct json *cli_answer(struct cli *x, char *take_text, const struct osb_error *e,
                        const char *operation)
{
    cleanup_free char *text = take_text;
    if (!text) {
        (void)cli_error(x, e, "%s", operation);
        return NULL;
    }
    struct json *j = json_parse(text[0] ? str_from(text) : STR("{}"), NULL);
    return j ? j : json_object_new();
}

struct json *cli_ask(struct cli *x, const char *method, const char *path, const char *body,
                     const char *operation)
{
    struct osb_error e = {0};
    struct osb_request r = {.method = method, .path = path, .body = body};
    return cli_client(x) ? cli_answer(x, osb_request(x->client, &r, &e), &e, operation) : NULL;
}

struct json *snake_tree(const struct json *j)
{
    const char *key;
    struct json *v;
    void *it = NULL;
    if (json_is_array(j)) {
        struct json *out = json_array_new();
        for (size_t i = 0; i < json_len(j); i++) {
            json_push(out, snake_tree(json_item(j, i)));
        }
        return out;
    }
    if (!json_is_object(j)) {
        return json_clone(j);
    }
    struct json *out = json_object_new();
    while (json_next(j, &it, &key, &v)) {
        cleanup_free char *name = snake(key);
        json_set(out, name, snake_tree(v));
    }
    return out;
}

static struct json *copy_of(const struct json *j, const char *key)
{
    const struct json *v = json_get(j, key);
    return v ? json_clone(v) : json_null_new();
}

struct json *info_model(const struct json *wire)
{
    const struct json *status = json_get(wire, "status"), *image = json_get(wire, "image"),
                      *platform = json_get(wire, "platform");
    struct json *j = json_object_new(), *s = json_object_new();
    json_set(j, "id", copy_of(wire, "id"));
    json_set(s, "state", copy_of(status, "state"));
    json_set(s, "reason", copy_of(status, "reason"));
    json_set(s, "message", copy_of(status, "message"));
    json_set(s, "last_transition_at", copy_of(status, "lastTransitionAt"));
    json_set(j, "status", s);
    json_set(j, "entrypoint", copy_of(wire, "entrypoint"));
    json_set(j, "expires_at", copy_of(wire, "expiresAt"));
    json_set(j, "created_at", copy_of(wire, "createdAt"));
    struct json *im = json_null_new();
    if (json_is_object(image)) {
        json_free(im);
        im = json_object_new();
        json_set(im, "image", copy_of(image, "uri"));
        json_set(im, "auth", json_null_new()); /* never sent back */
    }
    json_set(j, "image", im);
    json_set(j, "snapshot_id", copy_of(wire, "snapshotId"));
    json_set(j, "platform", platform ? snake_tree(platform) : json_null_new());
    json_set(j, "metadata", copy_of(wire, "metadata"));
    return j;
}

void time_text(const char *rfc3339, char out[40])
{
    int64_t us;
    char t[RFC3339_MAX];
    if (!rfc3339 || rfc3339_parse(str_from(rfc3339), &us) < 0) {
        (void)snprintf(out, 40, "%s", rfc3339 ? rfc3339 : "-");
        return;
    }
    rfc3339_format(us, us % 1000000 ? 6 : 0, t);
    t[10] = ' ';
    t[strlen(t) - 1] = '\0'; /* the Z */
    (void)snprintf(out, 40, "%.33s+00:00", t);
}
