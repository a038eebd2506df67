/* osb egress: what a sandbox may reach. */

#include <ctype.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands.h"

static int run_get(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    cleanup_free char *text = s ? osb_egress_get(s, &e) : NULL;
    if (!text) {
        return s ? cli_error(x, &e, "Get egress policy") : 1;
    }
    cleanup_(json_free) struct json *wire = json_parse(str_from(text), NULL);
    const struct json *policy = json_get(wire, "policy"); /* the answer wraps it */
    cleanup_(json_free) struct json *m = snake_tree(policy ? policy : wire);
    out_model(&x->out, "Egress Policy", m);
    return 0;
}

static int run_patch(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_free const char **texts = arg_list(&x->args, "rule");
    size_t n = 0;
    while (texts[n]) {
        n++;
    }
    cleanup_free struct osb_rule *rules = xcalloc(n + 1, sizeof(*rules));
    for (size_t i = 0; i < n; i++) {
        rules[i].action = tolower((unsigned char)texts[i][0]) == 'a' ? "allow" : "deny";
        rules[i].target = strchr(texts[i], '=') + 1;
    }
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_egress_patch(s, rules, n, &e) < 0) {
        return cli_error(x, &e, "Patch egress policy");
    }
    cleanup_(json_free) struct json *j = jobject("sandbox_id", x->args.pos[0], NULL);
    json_set(j, "patched_rules", json_int_new((int64_t)n));
    out_panel(&x->out, "Egress Policy Patched", j);
    return 0;
}

static int run_delete(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_egress_delete(s, x->args.pos + 1, &e) < 0) {
        return cli_error(x, &e, "Delete egress rules");
    }
    cleanup_(json_free) struct json *rows = json_array_new();
    for (const char **target = x->args.pos + 1; *target; target++) {
        json_push(rows, jobject("target", *target, "status", "deleted", NULL));
    }
    out_rows(&x->out, "Egress Rules", "target,status", rows);
    return 0;
}

static const struct cli_opt get_opts[] = {OPT_OUTPUT("table|json|yaml"), {0}};
static const struct cli_opt patch_opts[] = {
    {.name = "rule",
     .type = ARG_RULE,
     .many = true,
     .required = true,
     .help = "allow=TARGET or deny=TARGET; repeatable."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_cmd get = {.name = "get",
                                   .help = "Show the policy.",
                                   .opts = get_opts,
                                   .args = {"SANDBOX_ID"},
                                   .run = run_get};
static const struct cli_cmd patch = {.name = "patch",
                                     .help = "Add rules, or change those of the same target.",
                                     .opts = patch_opts,
                                     .args = {"SANDBOX_ID"},
                                     .run = run_patch};
static const struct cli_cmd delete_cmd = {.name = "delete",
                                          .help = "Remove the rules of targets.",
                                          .opts = get_opts,
                                          .args = {"SANDBOX_ID", "TARGETS..."},
                                          .run = run_delete};
static const struct cli_cmd *const subs[] = {&get, &patch, &delete_cmd, NULL};
const struct cli_cmd cmd_egress = {
    .name = "egress", .help = "What a sandbox may reach.", .subs = subs};
