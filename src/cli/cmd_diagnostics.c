/* osb diagnostics and osb devops: what happened to a sandbox. */

#include <stdio.h>
#include <string.h>

#include "base/codec.h"
#include "cli/cli.h"
#include "cli/commands.h"

static void add_query(struct buf *b, const char *key, const char *value)
{
    (void)buf_add_char(b, str_find(buf_str(b), '?') < 0 ? '?' : '&');
    (void)buf_printf(b, "%s=", key);
    (void)percent_encode(b, str_from(value), false);
}

static void begin_path(struct buf *b, const char *id, const char *what)
{
    (void)buf_add_cstr(b, "/sandboxes/");
    (void)percent_encode(b, str_from(id), false);
    (void)buf_printf(b, "/diagnostics/%s", what);
}

/* ---- with a scope: a descriptor ---- */

static int diagnostic(struct cli *x, const char *what)
{
    struct osb_error e = {0};
    cleanup_(buf_done) struct buf path = BUF_INIT(8192);
    begin_path(&path, x->args.pos[0], what);
    add_query(&path, "scope", arg_get(&x->args, "scope"));
    struct osb_request r = {.method = "GET", .path = buf_cstr(&path), .accept = "application/json"};
    cleanup_free char *text = cli_client(x) ? osb_request(x->client, &r, &e) : NULL;
    if (!text) {
        return x->client ? cli_error(x, &e, "Get %s of sandbox %s", what, x->args.pos[0]) : 1;
    }
    cleanup_(json_free) struct json *wire = json_parse(str_from(text), NULL);
    static const char *const keys[][2] = {
        {"sandboxId", "sandbox_id"},
        {"kind", "kind"},
        {"scope", "scope"},
        {"delivery", "delivery"},
        {"contentType", "content_type"},
        {"truncated", "truncated"},
        {"content", "content"},
        {"contentUrl", "content_url"},
        {"contentLength", "content_length"},
        {"expiresAt", "expires_at"},
        {"warnings", "warnings"},
    };
    if (!arg_has(&x->args, "output") || x->out.format == OUT_RAW) {
        const char *content = json_cstr(json_get(wire, "content"));
        const char *url = json_cstr(json_get(wire, "contentUrl"));
        size_t n = content ? strlen(content) : 0;
        (void)out_write(&x->out, str_from(content ? content : url));
        (void)out_write(&x->out, n && content[n - 1] == '\n' ? STR("") : STR("\n"));
        return 0;
    }
    cleanup_(json_free) struct json *m = json_object_new();
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *v = json_get(wire, keys[i][0]);
        json_set(m, keys[i][1], v ? json_clone(v) : json_null_new());
    }
    out_model(&x->out, strcmp(what, "logs") == 0 ? "Diagnostic Logs" : "Diagnostic Events", m);
    return 0;
}

static int run_logs(struct cli *x)
{
    return diagnostic(x, "logs");
}

static int run_events(struct cli *x)
{
    return diagnostic(x, "events");
}

static const struct cli_opt scope_opts[] = {
    {.name = "scope",
     .letter = 's',
     .type = ARG_TEXT,
     .required = true,
     .help = "container, lifecycle, runtime, all."},
    OPT_OUTPUT("table|json|yaml|raw"),
    {0},
};
static const struct cli_cmd logs = {.name = "logs",
                                    .help = "Logs of a sandbox.",
                                    .opts = scope_opts,
                                    .args = {"SANDBOX_ID"},
                                    .run = run_logs};
static const struct cli_cmd events = {.name = "events",
                                      .help = "Events of a sandbox.",
                                      .opts = scope_opts,
                                      .args = {"SANDBOX_ID"},
                                      .run = run_events};
static const struct cli_cmd *const subs[] = {&logs, &events, NULL};
const struct cli_cmd cmd_diagnostics = {
    .name = "diagnostics", .help = "Logs and events of a sandbox.", .subs = subs};

/* ---- plain text ---- */

struct text_query {
    const char *option, *parameter, *fallback;
};

static int plain(struct cli *x, const char *what, const struct text_query *q, size_t n)
{
    struct osb_error e = {0};
    cleanup_(buf_done) struct buf path = BUF_INIT(8192);
    begin_path(&path, x->args.pos[0], what);
    for (size_t i = 0; i < n; i++) {
        const char *v = arg_get(&x->args, q[i].option);
        v = v ? v : q[i].fallback;
        if (v) {
            add_query(&path, q[i].parameter, v);
        }
    }
    struct osb_request r = {.method = "GET", .path = buf_cstr(&path), .accept = "text/plain"};
    cleanup_free char *text = cli_client(x) ? osb_request(x->client, &r, &e) : NULL;
    if (!text && e.code == OSB_ENOTFOUND) {
        return cli_fail(x, "Sandbox '%s' not found.", x->args.pos[0]);
    }
    if (!text) {
        return x->client ? cli_error(x, &e, "Get %s of sandbox %s", what, x->args.pos[0]) : 1;
    }
    size_t len = strlen(text);
    (void)out_write(&x->out, str_n(text, len));
    (void)out_write(&x->out, len && text[len - 1] == '\n' ? STR("") : STR("\n"));
    return 0;
}

static void deprecated(struct cli *x, const char *instead)
{
    out_warn(&x->out, "Deprecated: use `osb diagnostics %s SANDBOX_ID --scope all`.", instead);
}

static int run_devops_logs(struct cli *x)
{
    static const struct text_query q[] = {{"tail", "tail", "100"}, {"since", "since", NULL}};
    deprecated(x, "logs");
    return plain(x, "logs", q, ARRAY_LEN(q));
}

static int run_devops_events(struct cli *x)
{
    static const struct text_query q[] = {{"limit", "limit", "50"}};
    deprecated(x, "events");
    return plain(x, "events", q, ARRAY_LEN(q));
}

static int run_inspect(struct cli *x)
{
    return plain(x, "inspect", NULL, 0);
}

static int run_summary(struct cli *x)
{
    static const struct text_query q[] = {{"tail", "tail", "50"},
                                          {"event-limit", "event_limit", "20"}};
    return plain(x, "summary", q, ARRAY_LEN(q));
}

#define RAW OPT_OUTPUT("raw")
static const struct cli_opt devops_logs_opts[] = {
    {.name = "tail",
     .letter = 'n',
     .type = ARG_INT,
     .min = 1,
     .max = INT32_MAX,
     .fallback = "100",
     .help = "Lines from the end."},
    {.name = "since", .letter = 's', .type = ARG_TEXT, .help = "Only this long ago, as 10m."},
    RAW,
    {0},
};
static const struct cli_opt devops_events_opts[] = {
    {.name = "limit",
     .letter = 'l',
     .type = ARG_INT,
     .min = 1,
     .max = INT32_MAX,
     .fallback = "50",
     .help = "How many."},
    RAW,
    {0},
};
static const struct cli_opt inspect_opts[] = {RAW, {0}};
static const struct cli_opt summary_opts[] = {
    {.name = "tail",
     .letter = 'n',
     .type = ARG_INT,
     .min = 1,
     .max = INT32_MAX,
     .fallback = "50",
     .help = "Log lines."},
    {.name = "event-limit",
     .type = ARG_INT,
     .min = 1,
     .max = INT32_MAX,
     .fallback = "20",
     .help = "Events."},
    RAW,
    {0},
};

LEAF(devops_logs, "logs", "Logs as text (deprecated).", devops_logs_opts, run_devops_logs,
     "SANDBOX_ID");
LEAF(devops_events, "events", "Events as text (deprecated).", devops_events_opts, run_devops_events,
     "SANDBOX_ID");
LEAF(inspect, "inspect", "Everything known about a sandbox, as text.", inspect_opts, run_inspect,
     "SANDBOX_ID");
LEAF(summary, "summary", "State, events and logs on one page.", summary_opts, run_summary,
     "SANDBOX_ID");
static const struct cli_cmd *const devops_subs[] = {&devops_logs, &devops_events, &inspect,
                                                    &summary, NULL};
const struct cli_cmd cmd_devops = {
    .name = "devops", .help = "Diagnostics as plain text.", .subs = devops_subs};
