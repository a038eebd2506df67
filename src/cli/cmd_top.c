/* osb top: what running sandboxes use, again and again. */

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/commands.h"

static struct json *row_of(struct cli *x, const struct osb_info *i)
{
    struct osb_metrics m = {0};
    struct json *j = jobject("id", osb_info_id(i), "status", osb_info_state(i), "image",
                             osb_info_image(i), NULL);
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = osb_attach(x->client, osb_info_id(i));
    char text[48];
    if (osb_metrics(s, &m, NULL) == 0) {
        (void)snprintf(text, sizeof(text), "%.1f%%", m.cpu_used_pct);
        json_set(j, "cpu", jtext(text));
        (void)snprintf(text, sizeof(text), "%.0f / %.0f MiB", m.mem_used_mib, m.mem_total_mib);
        json_set(j, "memory", jtext(text));
    }
    json_set(j, "expires_at", jtext(osb_info_expires(i)));
    return j;
}

static int show(struct cli *x, bool clear)
{
    struct osb_error e = {0};
    const char *const states[] = {"Running", NULL};
    struct osb_filter f = {.states = states, .page_size = 100};
    cleanup_(osb_list_free) struct osb_list *l = osb_list(x->client, &f, &e);
    if (!l) {
        return cli_error(x, &e, "List sandboxes");
    }
    cleanup_(json_free) struct json *rows = json_array_new();
    for (size_t i = 0; i < osb_list_len(l) && !cli_interrupted(); i++) {
        json_push(rows, row_of(x, osb_list_item(l, i)));
    }
    if (clear) {
        (void)out_write(&x->out, STR("\033[H\033[2J"));
    }
    if (json_len(rows) == 0 && x->out.format == OUT_TABLE) {
        out_info(&x->out, "No sandboxes are running.");
        return 0;
    }
    out_rows(&x->out, "Running Sandboxes", "id,status,image,cpu,memory,expires_at", rows);
    return 0;
}

static int run_top(struct cli *x)
{
    bool live = isatty(STDOUT_FILENO) && !arg_has(&x->args, "once") && x->out.format == OUT_TABLE;
    int64_t every = arg_seconds(&x->args, "interval", 2);
    if (!cli_client(x)) {
        return 1;
    }
    cli_catch_interrupt(x);
    int r = show(x, live);
    while (live && r == 0 && !cli_interrupted() && !x->out.broken) {
        (void)poll(NULL, 0, (int)MIN(MAX(every, 1), 3600) * 1000);
        r = cli_interrupted() ? 0 : show(x, true);
    }
    return r;
}

static const struct cli_opt opts[] = {
    {.name = "once", .type = ARG_FLAG, .help = "Print once and end."},
    {.name = "interval", .type = ARG_DURATION, .fallback = "2s", .help = "Between two looks."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
const struct cli_cmd cmd_top = {
    .name = "top", .help = "What running sandboxes use.", .opts = opts, .run = run_top};
