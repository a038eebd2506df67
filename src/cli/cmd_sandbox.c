/* osb sandbox: create, look, end, and the small lifecycle calls. */

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/create.h"
#include "cli/duration.h"
#include "cli/spinner.h"

#define TREE_OUTPUT OPT_OUTPUT("table|json|yaml")

static const struct cli_opt only_output[] = {TREE_OUTPUT, {0}};

/* ---- create ---- */

static int run_create(struct cli *x)
{
    struct create_spec spec;
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = NULL;
    int r = create_sandbox(x, &spec, &s);
    if (r == 0) {
        cleanup_(buf_done) struct buf t = BUF_INIT(64);
        if (spec.opts.timeout_seconds > 0) {
            duration_format(&t, spec.opts.timeout_seconds);
        } else {
            (void)buf_add_cstr(&t, spec.opts.timeout_seconds ? "manual-cleanup" : "sdk-default");
        }
        cleanup_(json_free) struct json *j =
            jobject("id", osb_sandbox_id(s), "image", spec.opts.image, "status", "created",
                    "timeout", buf_cstr(&t), NULL);
        out_panel(&x->out, "Sandbox Created", j);
    }
    create_spec_done(&spec);
    return r;
}

static const struct cli_opt create_opts[] = {CREATE_OPTIONS, TREE_OUTPUT, {0}};
static const struct cli_cmd create = {
    .name = "create", .help = "Create a sandbox.", .opts = create_opts, .run = run_create};

/* ---- list, get ---- */

static const char *known_state(const char *word)
{
    static const char *const states[] = {"Pending",  "Running",    "Pausing", "Paused",
                                         "Stopping", "Terminated", "Failed",  "Unknown"};
    for (size_t i = 0; i < ARRAY_LEN(states); i++) {
        if (strcasecmp(states[i], word) == 0) {
            return states[i];
        }
    }
    return NULL;
}

/* The row people see: status and image are one word each. */
static struct json *flat_row(const struct osb_info *i)
{
    return jobject("id", osb_info_id(i), "status", osb_info_state(i), "image",
                   osb_info_image(i) ? osb_info_image(i) : osb_info_snapshot(i), "created_at",
                   osb_info_created(i), "expires_at", osb_info_expires(i), NULL);
}

static void print_list(struct cli *x, const struct osb_list *l)
{
    cleanup_(json_free) struct json *wire = json_parse(str_from(osb_list_json(l)), NULL);
    cleanup_(json_free) struct json *tree = json_object_new(), *rows = json_array_new();
    struct json *items = json_array_new();
    for (size_t i = 0; i < osb_list_len(l); i++) {
        json_push(rows, flat_row(osb_list_item(l, i)));
        json_push(items, info_model(json_item(json_get(wire, "items"), i)));
    }
    json_set(tree, "items", items);
    json_set(tree, "pagination", snake_tree(json_get(wire, "pagination")));
    if (x->out.format == OUT_TABLE && osb_list_len(l) == 0) {
        out_info(&x->out, "No sandboxes found.");
        return;
    }
    out_rows_tree(&x->out, "Sandboxes", "id,status,image,created_at,expires_at", rows, tree);
}

static int run_list(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_free const char **states = arg_list(&x->args, "state");
    for (size_t i = 0; states[i]; i++) {
        const char *s = known_state(states[i]);
        if (!s) {
            return cli_fail(x,
                            "'%s' is not a state. Use Pending, Running, Pausing, Paused, "
                            "Stopping, Terminated, Failed or Unknown.",
                            states[i]);
        }
        states[i] = s;
    }
    cleanup_(pairs_free) struct osb_pair *metadata = cli_pairs(x, "metadata");
    struct osb_filter f = {.states = states,
                           .metadata = metadata,
                           .page = (int)arg_int(&x->args, "page", 0),
                           .page_size = (int)arg_int(&x->args, "page-size", 0)};
    cleanup_(osb_list_free) struct osb_list *l = cli_client(x) ? osb_list(x->client, &f, &e) : NULL;
    if (!l) {
        return x->client ? cli_error(x, &e, "List sandboxes") : 1;
    }
    print_list(x, l);
    return 0;
}

static const struct cli_opt list_opts[] = {
    {.name = "state",
     .letter = 's',
     .type = ARG_TEXT,
     .many = true,
     .help = "Only sandboxes in this state; repeatable."},
    {.name = "metadata",
     .letter = 'm',
     .type = ARG_PAIR,
     .many = true,
     .help = "Only sandboxes with this metadata; repeatable."},
    {.name = "page", .type = ARG_INT, .min = 1, .max = INT32_MAX, .help = "Page, from 1."},
    {.name = "page-size", .type = ARG_INT, .min = 1, .max = INT32_MAX, .help = "Items on a page."},
    TREE_OUTPUT,
    {0},
};
static const struct cli_cmd list = {
    .name = "list", .help = "List sandboxes.", .opts = list_opts, .run = run_list};

static int run_get(struct cli *x)
{
    struct osb_error e = {0};
    const char *id = x->args.pos[0];
    cleanup_(osb_info_free) struct osb_info *i =
        cli_client(x) ? osb_info_get(x->client, id, &e) : NULL;
    if (!i) {
        return x->client ? cli_error(x, &e, "Get sandbox %s", id) : 1;
    }
    cleanup_(json_free) struct json *wire = json_parse(str_from(osb_info_json(i)), NULL);
    cleanup_(json_free) struct json *m = info_model(wire);
    if (x->out.format == OUT_TABLE) {
        struct json *image = jtext(osb_info_image(i));
        json_set(m, "status", jtext(osb_info_state(i)));
        if (osb_info_reason(i)) {
            json_set(m, "status_reason", jtext(osb_info_reason(i)));
        }
        if (osb_info_message(i)) {
            json_set(m, "status_message", jtext(osb_info_message(i)));
        }
        json_set(m, "image", image);
    }
    out_model(&x->out, "Sandbox Info", m);
    return 0;
}

static const struct cli_cmd get = {.name = "get",
                                   .help = "Show one sandbox.",
                                   .opts = only_output,
                                   .args = {"SANDBOX_ID"},
                                   .run = run_get};

/* ---- kill, pause, resume, renew ---- */

static int run_kill(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(json_free) struct json *rows = json_array_new();
    int r = 0;
    if (!cli_client(x)) {
        return 1;
    }
    for (const char **id = x->args.pos; *id && r == 0; id++) {
        if (osb_kill_id(x->client, *id, &e) < 0) {
            r = cli_error(x, &e, "Kill sandbox %s", *id);
        } else {
            json_push(rows, jobject("sandbox_id", *id, "status", "terminated", NULL));
        }
    }
    if (json_len(rows)) {
        out_rows(&x->out, "Sandboxes", "sandbox_id,status", rows);
    }
    return r;
}

static const struct cli_cmd kill_cmd = {.name = "kill",
                                        .help = "End sandboxes.",
                                        .opts = only_output,
                                        .args = {"SANDBOX_IDS..."},
                                        .run = run_kill};

static int run_pause(struct cli *x)
{
    struct osb_error e = {0};
    const char *id = x->args.pos[0];
    if (!cli_client(x)) {
        return 1;
    }
    if (osb_pause_id(x->client, id, &e) < 0) {
        return cli_error(x, &e, "Pause sandbox %s", id);
    }
    out_ok(&x->out, "Sandbox paused: %s", id);
    return 0;
}

static const struct cli_cmd pause_cmd = {.name = "pause",
                                         .help = "Stop all processes of a sandbox, keep its state.",
                                         .opts = only_output,
                                         .args = {"SANDBOX_ID"},
                                         .run = run_pause};

static int run_resume(struct cli *x)
{
    struct osb_error e = {0};
    const char *id = x->args.pos[0];
    if (!cli_client(x)) {
        return 1;
    }
    if (osb_resume_id(x->client, id, &e) < 0) {
        return cli_error(x, &e, "Resume sandbox %s", id);
    }
    if (!arg_has(&x->args, "skip-health-check")) {
        struct osb_call call = {.timeout_ms =
                                    (uint64_t)arg_seconds(&x->args, "resume-timeout", 30) * 1000};
        struct spinner *spinner = spinner_start(&x->out, "Waiting until it answers");
        struct osb_sandbox *s = osb_connect(x->client, id, &call, &e);
        spinner_stop(spinner);
        if (!s) {
            return cli_error(x, &e, "Resume sandbox %s", id);
        }
        osb_sandbox_free(s);
    }
    out_ok(&x->out, "Sandbox resumed: %s", id);
    return 0;
}

static const struct cli_opt resume_opts[] = {
    {.name = "skip-health-check", .type = ARG_FLAG, .help = "Do not wait until it answers."},
    {.name = "resume-timeout",
     .type = ARG_DURATION,
     .fallback = "30s",
     .help = "How long to wait until it answers."},
    TREE_OUTPUT,
    {0},
};
static const struct cli_cmd resume = {.name = "resume",
                                      .help = "Let a paused sandbox go on.",
                                      .opts = resume_opts,
                                      .args = {"SANDBOX_ID"},
                                      .run = run_resume};

static int run_renew(struct cli *x)
{
    struct osb_error e = {0};
    const char *id = x->args.pos[0];
    char expires[40], text[40];
    if (!cli_client(x)) {
        return 1;
    }
    if (osb_renew_id(x->client, id, arg_seconds(&x->args, "timeout", 0), expires, &e) < 0) {
        return cli_error(x, &e, "Renew sandbox %s expiration", id);
    }
    time_text(expires, text);
    cleanup_(json_free) struct json *j = jobject("sandbox_id", id, "expires_at", text, NULL);
    out_panel(&x->out, "Sandbox Renewed", j);
    return 0;
}

static const struct cli_opt renew_opts[] = {
    {.name = "timeout",
     .letter = 't',
     .type = ARG_DURATION,
     .required = true,
     .help = "New time to live, from now."},
    TREE_OUTPUT,
    {0},
};
static const struct cli_cmd renew = {.name = "renew",
                                     .help = "Move the end of a sandbox's life.",
                                     .opts = renew_opts,
                                     .args = {"SANDBOX_ID"},
                                     .run = run_renew};

/* ---- metadata ---- */

/* What the command line says as a patch, in which NULL deletes; NULL after a message. */
static struct osb_pair *metadata_patch(struct cli *x, size_t *ret_n)
{
    cleanup_free const char **remove = arg_list(&x->args, "remove");
    size_t n = 0, n_remove = 0;
    while (remove[n_remove]) {
        n_remove++;
    }
    struct osb_pair *p = xcalloc(x->args.n_pos + n_remove + 1, sizeof(*p));
    for (const char **word = x->args.pos + 1; *word; word++) {
        const char *equals = strchr(*word, '=');
        if (!equals || equals == *word) {
            (void)cli_usage(x, "Invalid value for 'KEY=VALUE': '%s' is not KEY=VALUE.", *word);
            pairs_free(p);
            return NULL;
        }
        p[n++] = (struct osb_pair){xstrndup(*word, (size_t)(equals - *word)), xstrdup(equals + 1)};
    }
    for (size_t i = 0; i < n_remove; i++) {
        p[n++] = (struct osb_pair){xstrdup(remove[i]), NULL};
    }
    *ret_n = n;
    return p;
}

static int run_metadata(struct cli *x)
{
    struct osb_error e = {0};
    const char *id = x->args.pos[0];
    size_t n;
    cleanup_(pairs_free) struct osb_pair *patch = metadata_patch(x, &n);
    if (!patch) {
        return EXIT_USAGE;
    }
    if (!cli_client(x)) {
        return 1;
    }
    cleanup_(osb_info_free) struct osb_info *i =
        n ? osb_patch_metadata(x->client, id, patch, &e) : osb_info_get(x->client, id, &e);
    if (!i) {
        return cli_error(x, &e, "%s metadata of sandbox %s", n ? "Change" : "Get", id);
    }
    cleanup_(json_free) struct json *wire = json_parse(str_from(osb_info_json(i)), NULL);
    const struct json *m = json_get(wire, "metadata");
    cleanup_(json_free) struct json *all = m ? json_clone(m) : json_object_new();
    out_model(&x->out, "Sandbox Metadata", all);
    return 0;
}

static const struct cli_opt metadata_opts[] = {
    {.name = "remove", .type = ARG_TEXT, .many = true, .help = "Key to remove; repeatable."},
    TREE_OUTPUT,
    {0},
};
static const struct cli_cmd metadata_cmd = {.name = "metadata",
                                            .help = "Show metadata, or change it.",
                                            .opts = metadata_opts,
                                            .args = {"SANDBOX_ID", "[KEY=VALUE]..."},
                                            .run = run_metadata};

/* ---- endpoint, health, metrics ---- */

static int run_endpoint(struct cli *x)
{
    struct osb_error e = {0};
    const char *id = x->args.pos[0];
    int port = (int)arg_int(&x->args, "port", 0);
    cleanup_(osb_endpoint_free) struct osb_endpoint *ep =
        cli_client(x) ? osb_endpoint_get(x->client, id, port, 0, &e) : NULL;
    if (!ep) {
        return x->client ? cli_error(x, &e, "Get endpoint for sandbox %s port %d", id, port) : 1;
    }
    cleanup_(json_free) struct json *j = jobject("endpoint", osb_endpoint_text(ep), NULL);
    struct json *headers = json_object_new();
    for (const struct osb_pair *p = osb_endpoint_headers(ep); p->key; p++) {
        json_set(headers, p->key, jtext(p->value));
    }
    json_set(j, "headers", headers);
    out_model(&x->out, "Sandbox Endpoint", j);
    return 0;
}

static const struct cli_opt endpoint_opts[] = {
    {.name = "port",
     .letter = 'p',
     .type = ARG_INT,
     .min = 1,
     .max = 65535,
     .required = true,
     .help = "Port inside the sandbox."},
    TREE_OUTPUT,
    {0},
};
static const struct cli_cmd endpoint = {.name = "endpoint",
                                        .help = "Where a port of a sandbox can be reached.",
                                        .opts = endpoint_opts,
                                        .args = {"SANDBOX_ID"},
                                        .run = run_endpoint};

static int run_health(struct cli *x)
{
    const char *id = x->args.pos[0];
    struct osb_error e = {0};
    cleanup_(osb_info_free) struct osb_info *i =
        cli_client(x) ? osb_info_get(x->client, id, &e) : NULL;
    if (!i) {
        return x->client ? cli_error(x, &e, "Get sandbox %s", id) : 1;
    }
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = osb_attach(x->client, id);
    bool healthy = osb_is_healthy(s);
    if (x->out.format != OUT_TABLE) {
        cleanup_(json_free) struct json *j = jobject("sandbox_id", id, NULL);
        json_set(j, "healthy", json_bool_new(healthy));
        out_tree(&x->out, j);
    } else if (healthy) {
        out_ok(&x->out, "Sandbox %s is healthy", id);
    } else {
        out_bad(&x->out, "Sandbox %s is unhealthy (%s)", id, osb_info_state(i));
    }
    return healthy ? 0 : 1;
}

static const struct cli_cmd health = {.name = "health",
                                      .help = "Does the sandbox answer? Exit code 1: no.",
                                      .opts = only_output,
                                      .args = {"SANDBOX_ID"},
                                      .run = run_health};

static struct json *metrics_model(const struct osb_metrics *m)
{
    struct json *j = json_object_new();
    json_set(j, "cpu_count", json_num_new(m->cpu_count));
    json_set(j, "cpu_used_percentage", json_num_new(m->cpu_used_pct));
    json_set(j, "memory_total_in_mib", json_num_new(m->mem_total_mib));
    json_set(j, "memory_used_in_mib", json_num_new(m->mem_used_mib));
    json_set(j, "timestamp", json_int_new(m->timestamp_ms));
    return j;
}

static void sample_line(struct buf *b, const struct osb_metrics *m)
{
    char at[RFC3339_MAX];
    rfc3339_format(m->timestamp_ms * 1000, 3, at);
    (void)buf_printf(b, "[%s] cpu=%.2f%% cores=%g mem=%.2f/%.2fMiB\n", at, m->cpu_used_pct,
                     m->cpu_count, m->mem_used_mib, m->mem_total_mib);
}

static bool on_metrics(const struct osb_metrics *m, void *arg)
{
    struct cli *x = arg;
    cleanup_(buf_done) struct buf b = BUF_INIT(4096);
    if (m->error) {
        /* A line on stderr in every format: what is on stdout are samples. */
        enum out_format format = x->out.format;
        x->out.format = OUT_RAW;
        out_warn(&x->out, "%s", m->error);
        x->out.format = format;
        return true;
    }
    cleanup_(json_free) struct json *j = metrics_model(m);
    if (x->out.format == OUT_JSON) {
        (void)json_dump(j, &b, 0);
        (void)buf_add_char(&b, '\n');
    } else if (x->out.format == OUT_YAML) {
        (void)out_write(&x->out, STR("---\n"));
        out_tree(&x->out, j);
    } else {
        sample_line(&b, m);
    }
    return out_write(&x->out, buf_str(&b)) && !x->out.broken;
}

static int run_metrics(struct cli *x)
{
    struct osb_error e = {0};
    struct osb_metrics m;
    const char *id = x->args.pos[0];
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, id);
    if (!s) {
        return 1;
    }
    if (arg_has(&x->args, "watch")) {
        cli_catch_interrupt(x);
        struct osb_call call = cli_call(x);
        int r = osb_metrics_watch(s, on_metrics, x, &call, &e);
        return r == 0 || e.code == OSB_ECANCELED ? 0 : cli_error(x, &e, "Watch metrics");
    }
    if (osb_metrics(s, &m, &e) < 0) {
        return cli_error(x, &e, "Get metrics of sandbox %s", id);
    }
    cleanup_(json_free) struct json *j = metrics_model(&m);
    if (x->out.format == OUT_RAW) {
        cleanup_(buf_done) struct buf b = BUF_INIT(4096);
        sample_line(&b, &m);
        (void)out_write(&x->out, buf_str(&b));
        return 0;
    }
    out_model(&x->out, "Sandbox Metrics", j);
    return 0;
}

static const struct cli_opt metrics_opts[] = {
    {.name = "watch", .type = ARG_FLAG, .help = "Go on until Ctrl-C."},
    OPT_OUTPUT("table|json|yaml|raw"),
    {0},
};
static const struct cli_cmd metrics = {.name = "metrics",
                                       .help = "CPU and memory use of a sandbox.",
                                       .opts = metrics_opts,
                                       .args = {"SANDBOX_ID"},
                                       .run = run_metrics};

static const struct cli_cmd *const subs[] = {&create,    &list,   &get,     &kill_cmd,
                                             &pause_cmd, &resume, &renew,   &metadata_cmd,
                                             &endpoint,  &health, &metrics, NULL};
const struct cli_cmd cmd_sandbox = {
    .name = "sandbox", .help = "Create, list and end sandboxes.", .subs = subs};
