/* osb context: the interpreters of a sandbox that keep their state; `osb code` runs code in one. */

#include "cli/cli.h"
#include "cli/commands.h"

#define CONTEXTS "/code/contexts"

/* What execd answers ({} for nothing), or NULL after a message. */
static struct json *ask(struct cli *x, struct osb_sandbox *s, const struct osb_request *r,
                        const char *operation)
{
    struct osb_error e = {0};
    return cli_answer(x, osb_sandbox_request(s, OSB_EXECD, r, &e), &e, operation);
}

static struct json *creation(struct cli *x)
{
    const char *language = arg_get(&x->args, "language"), *cwd = arg_get(&x->args, "workdir");
    cleanup_(pairs_free) struct osb_pair *env = cli_pairs(x, "env");
    struct json *body = jobject("language", language ? language : "python", NULL);
    struct json *envs = json_object_new();
    for (const struct osb_pair *v = env; v && v->key; v++) {
        json_set(envs, v->key, json_string_new(str_from(v->value)));
    }
    json_set(body, "envs", envs);
    if (cwd) {
        json_set(body, "cwd", jtext(cwd));
    }
    return body;
}

static int run_create(struct cli *x)
{
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    cleanup_(json_free) struct json *body = creation(x);
    cleanup_(buf_done) struct buf text = BUF_INIT(1u << 20);
    if (json_dump(body, &text, 0) < 0) {
        return cli_fail(x, "the variables are larger than 1 MiB");
    }
    const struct osb_request r = {
        .method = "POST", .path = "/code/context", .body = buf_cstr(&text)};
    cleanup_(json_free) struct json *made = s ? ask(x, s, &r, "Create context") : NULL;
    if (!made) {
        return 1;
    }
    out_model(&x->out, "Context", made);
    return 0;
}

static int run_list(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    cleanup_(json_free) struct json *all = cli_answer(
        x, osb_context_list_json(s, arg_get(&x->args, "language"), &e), &e, "List contexts");
    if (!all) {
        return 1;
    }
    if (json_len(all) == 0 && x->out.format == OUT_TABLE) {
        out_info(&x->out, "Nothing there.");
    } else {
        out_rows(&x->out, "Contexts", "id,language,cwd", all);
    }
    return 0;
}

static int run_get(struct cli *x)
{
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    cleanup_free char *path = cli_path(CONTEXTS "/", x->args.pos[1], "");
    const struct osb_request r = {.method = "GET", .path = path};
    cleanup_(json_free) struct json *found = s ? ask(x, s, &r, "Get context") : NULL;
    if (!found) {
        return 1;
    }
    out_model(&x->out, "Context", found);
    return 0;
}

static int delete_language(struct cli *x, struct osb_sandbox *s, const char *language)
{
    cleanup_free char *path = cli_path(CONTEXTS "?language=", language, "");
    const struct osb_request r = {.method = "DELETE", .path = path};
    cleanup_(json_free) struct json *done = ask(x, s, &r, "Delete contexts");
    if (!done) {
        return 1;
    }
    out_ok(&x->out, "Deleted contexts: %s", language);
    return 0;
}

static int run_delete(struct cli *x)
{
    struct osb_error e = {0};
    const char *language = arg_get(&x->args, "language");
    if (!language == !x->args.pos[1]) {
        return cli_usage(x, "Give CONTEXT_IDS, or --language for all of one.");
    }
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s || language) {
        return s ? delete_language(x, s, language) : 1;
    }
    for (const char **id = x->args.pos + 1; *id; id++) {
        if (osb_context_delete(s, *id, &e) < 0) {
            return cli_error(x, &e, "Delete context %s", *id);
        }
        out_ok(&x->out, "Deleted context: %s", *id);
    }
    return 0;
}

static int run_interrupt(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return 1;
    }
    if (osb_code_interrupt(s, x->args.pos[1], &e) < 0) {
        return cli_error(x, &e, "Interrupt %s", x->args.pos[1]);
    }
    out_ok(&x->out, "Interrupted: %s", x->args.pos[1]);
    return 0;
}

static const struct cli_opt create_opts[] = {
    {.name = "language",
     .letter = 'l',
     .type = ARG_TEXT,
     .fallback = "python",
     .help = "Language of the interpreter."},
    {.name = "workdir", .letter = 'w', .type = ARG_TEXT, .help = "Directory that it runs in."},
    {.name = "env",
     .letter = 'e',
     .type = ARG_PAIR,
     .many = true,
     .help = "Environment variable, such as PYTHON_VERSION=3.11; repeatable."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_opt list_opts[] = {
    {.name = "language", .letter = 'l', .type = ARG_TEXT, .help = "Only those of this language."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_opt delete_opts[] = {
    {.name = "language", .letter = 'l', .type = ARG_TEXT, .help = "All of this language."},
    {0},
};
static const struct cli_opt only_output[] = {OPT_OUTPUT("table|json|yaml"), {0}};
static const struct cli_opt none[] = {{0}};

LEAF(create, "create", "Start an interpreter; `osb code --context ID` runs code in it.",
     create_opts, run_create, "SANDBOX_ID");
LEAF(list, "list", "List them, the default ones too.", list_opts, run_list, "SANDBOX_ID");
LEAF(get, "get", "Show one.", only_output, run_get, "SANDBOX_ID", "CONTEXT_ID");
LEAF(delete_cmd, "delete", "End interpreters; their state is lost.", delete_opts, run_delete,
     "SANDBOX_ID", "[CONTEXT_IDS...]");
LEAF(interrupt, "interrupt", "Interrupt what runs in one.", none, run_interrupt, "SANDBOX_ID",
     "CONTEXT_ID");
static const struct cli_cmd *const subs[] = {&create, &list, &get, &delete_cmd, &interrupt, NULL};
const struct cli_cmd cmd_context = {
    .name = "context", .help = "Interpreters that keep their state.", .subs = subs};
