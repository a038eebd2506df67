/* osb logs: what the entrypoint of a sandbox printed. */

#include <poll.h>
#include <string.h>

#include "base/codec.h"
#include "cli/cli.h"
#include "cli/commands.h"

#define FOLLOW_EVERY_MS 500
#define FOLLOW_TAIL "10000"
#define OVERLAP 512 /* bytes of the last answer that are looked for in the next one */

static char *fetch(struct cli *x, const char *tail, const char *since, struct osb_error *e)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(8192);
    (void)buf_add_cstr(&path, "/sandboxes/");
    (void)percent_encode(&path, str_from(x->args.pos[0]), false);
    (void)buf_printf(&path, "/diagnostics/logs?tail=%s", tail);
    if (since) {
        (void)buf_add_cstr(&path, "&since=");
        (void)percent_encode(&path, str_from(since), false);
    }
    struct osb_request r = {.method = "GET", .path = buf_cstr(&path), .accept = "text/plain"};
    char *text = osb_request(x->client, &r, e);
    if (text && strcmp(text, "(no logs)") == 0) {
        text[0] = '\0';
    }
    return text;
}

/* What `now` has beyond `before`. */
static struct str news(struct str before, struct str now)
{
    if (str_starts(now, before)) {
        return str_sub(now, before.n, now.n);
    }
    struct str end = str_sub(before, before.n > OVERLAP ? before.n - OVERLAP : 0, before.n);
    ptrdiff_t at = str_find_str(now, end);
    return at < 0 ? now : str_sub(now, (size_t)at + end.n, now.n);
}

static int run_logs(struct cli *x)
{
    struct osb_error e = {0};
    const char *tail = arg_get(&x->args, "tail"), *since = arg_get(&x->args, "since");
    bool follow = arg_has(&x->args, "follow");
    if (!cli_client(x)) {
        return 1;
    }
    if (follow) {
        cli_catch_interrupt(x);
    }
    cleanup_free char *seen = fetch(x, tail ? tail : "100", since, &e);
    if (!seen) {
        return cli_error(x, &e, "Get logs of sandbox %s", x->args.pos[0]);
    }
    size_t n = strlen(seen);
    (void)out_write(&x->out, str_n(seen, n));
    if (!follow) {
        (void)out_write(&x->out, n && seen[n - 1] != '\n' ? STR("\n") : STR(""));
        return 0;
    }
    while (!cli_interrupted()) {
        (void)poll(NULL, 0, FOLLOW_EVERY_MS);
        char *now = fetch(x, FOLLOW_TAIL, since, &e);
        if (!now) {
            /* Gone: there is nothing more to come. */
            return e.code == OSB_ENOTFOUND ? 0 : cli_error(x, &e, "Get logs");
        }
        struct str fresh = news(str_from(seen), str_from(now));
        bool written = out_write(&x->out, fresh);
        free(seen);
        seen = now;
        if (!written) {
            return EXIT_SIGPIPE;
        }
    }
    return 0;
}

static const struct cli_opt opts[] = {
    {.name = "follow", .letter = 'f', .type = ARG_FLAG, .help = "Go on until Ctrl-C."},
    {.name = "tail",
     .letter = 'n',
     .type = ARG_INT,
     .min = 1,
     .max = 100000,
     .fallback = "100",
     .help = "Lines from the end."},
    {.name = "since", .letter = 's', .type = ARG_TEXT, .help = "Only this long ago, as 10m."},
    {0},
};
const struct cli_cmd cmd_logs = {.name = "logs",
                                 .help = "Output of a sandbox's entrypoint.",
                                 .opts = opts,
                                 .args = {"SANDBOX_ID"},
                                 .run = run_logs};
