/* osb credential-vault: secrets that are filled in outside of the sandbox. */

#include <string.h>

#include "base/codec.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "json/yaml.h"

static const struct cli_opt only_output[] = {OPT_OUTPUT("table|json|yaml"), {0}};
static const struct cli_opt file_opts[] = {
    {.name = "file", .type = ARG_FILE, .required = true, .help = "JSON or YAML; - is stdin."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};

/* The answer as a tree, or NULL after a message. */
static struct json *ask(struct cli *x, const char *method, const char *path, const char *body,
                        const char *operation)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    if (!s) {
        return NULL;
    }
    const struct osb_request r = {.method = method, .path = path, .body = body};
    cleanup_(json_free) struct json *wire =
        cli_answer(x, osb_sandbox_request(s, OSB_EGRESS, &r, &e), &e, operation);
    return wire ? snake_tree(wire) : NULL;
}

static struct json *read_description(struct cli *x)
{
    struct err e = {0};
    const char *path = arg_get(&x->args, "file");
    size_t n;
    cleanup_free char *text = cli_read_input(x, path, &n);
    struct json *j = text ? yaml_parse(str_n(text, n), &e) : NULL;
    if (text && !j) {
        (void)cli_fail(x, "%s: %s", path, e.msg);
    } else if (j && !json_is_object(j)) {
        (void)cli_fail(x, "%s: expected an object.", path);
        json_free(j);
        j = NULL;
    }
    return j;
}

static int send(struct cli *x, const char *method, const struct json *body, const char *operation)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(8u << 20);
    (void)json_dump(body, &b, 0);
    cleanup_(json_free) struct json *m =
        ask(x, method, "/credential-vault", buf_cstr(&b), operation);
    explicit_bzero(b.p, b.len);
    if (!m) {
        return 1;
    }
    out_model(&x->out, "Credential Vault", m);
    return 0;
}

static int run_create(struct cli *x)
{
    cleanup_(json_free) struct json *d = read_description(x);
    if (!d) {
        return 1;
    }
    static const char *const lists[] = {"credentials", "bindings"};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        if (!json_get(d, lists[i])) {
            json_set(d, lists[i], json_array_new());
        } else if (!json_is_array(json_get(d, lists[i]))) {
            return cli_fail(x, "'%s' must be a list.", lists[i]);
        }
    }
    return send(x, "POST", d, "Create credential vault");
}

static int run_patch(struct cli *x)
{
    cleanup_(json_free) struct json *d = read_description(x);
    if (!d) {
        return 1;
    }
    const struct json *snake = json_get(d, "expected_revision");
    if (snake && !json_get(d, "expectedRevision")) {
        json_set(d, "expectedRevision", json_clone(snake));
        json_del(d, "expected_revision");
    }
    const struct json *revision = json_get(d, "expectedRevision");
    if (revision && !json_is_int(revision)) {
        return cli_fail(x, "'expectedRevision' must be an integer.");
    }
    if (!json_is_object(json_get(d, "credentials")) && !json_is_object(json_get(d, "bindings"))) {
        return cli_fail(x, "Give at least one of the objects 'credentials' and 'bindings'.");
    }
    return send(x, "PATCH", d, "Patch credential vault");
}

static int run_get(struct cli *x)
{
    cleanup_(json_free) struct json *m =
        ask(x, "GET", "/credential-vault", NULL, "Get credential vault");
    if (!m) {
        return 1;
    }
    out_model(&x->out, "Credential Vault", m);
    return 0;
}

static int run_delete(struct cli *x)
{
    cleanup_(json_free) struct json *m =
        ask(x, "DELETE", "/credential-vault", NULL, "Delete credential vault");
    if (!m) {
        return 1;
    }
    cleanup_(json_free) struct json *j =
        jobject("sandbox_id", x->args.pos[0], "status", "deleted", NULL);
    out_panel(&x->out, "Credential Vault Deleted", j);
    return 0;
}

static int list_of(struct cli *x, const char *what, const char *title, const char *columns)
{
    cleanup_free char *path = xasprintf("/credential-vault/%s", what);
    cleanup_(json_free) struct json *m = ask(x, "GET", path, NULL, title);
    if (!m) {
        return 1;
    }
    const struct json *rows = json_is_array(m) ? m : json_get(m, what);
    rows = rows ? rows : json_get(m, "items");
    out_rows(&x->out, title, columns, rows ? rows : m);
    return 0;
}

static int one_of(struct cli *x, const char *what, const char *title)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(4096);
    (void)buf_printf(&path, "/credential-vault/%s/", what);
    (void)percent_encode(&path, str_from(x->args.pos[1]), false);
    cleanup_(json_free) struct json *m = ask(x, "GET", buf_cstr(&path), NULL, title);
    if (!m) {
        return 1;
    }
    out_model(&x->out, title, m);
    return 0;
}

static int run_credential_list(struct cli *x)
{
    return list_of(x, "credentials", "Credentials", "name,source_type,revision");
}

static int run_credential_get(struct cli *x)
{
    return one_of(x, "credentials", "Credential");
}

static int run_binding_list(struct cli *x)
{
    return list_of(x, "bindings", "Bindings", "name,revision,match,auth");
}

static int run_binding_get(struct cli *x)
{
    return one_of(x, "bindings", "Binding");
}

LEAF(create, "create", "Fill the vault.", file_opts, run_create, "SANDBOX_ID");
LEAF(get, "get", "Show the vault, without secrets.", only_output, run_get, "SANDBOX_ID");
LEAF(patch, "patch", "Change credentials and bindings.", file_opts, run_patch, "SANDBOX_ID");
LEAF(delete_cmd, "delete", "Empty the vault.", only_output, run_delete, "SANDBOX_ID");
LEAF(credential_list, "list", "List credentials.", only_output, run_credential_list, "SANDBOX_ID");
LEAF(credential_get, "get", "Show one credential.", only_output, run_credential_get, "SANDBOX_ID",
     "NAME");
LEAF(binding_list, "list", "List bindings.", only_output, run_binding_list, "SANDBOX_ID");
LEAF(binding_get, "get", "Show one binding.", only_output, run_binding_get, "SANDBOX_ID", "NAME");

static const struct cli_cmd *const credential_subs[] = {&credential_list, &credential_get, NULL};
static const struct cli_cmd *const binding_subs[] = {&binding_list, &binding_get, NULL};
static const struct cli_cmd credential = {
    .name = "credential", .help = "Credentials of the vault.", .subs = credential_subs};
static const struct cli_cmd binding = {
    .name = "binding", .help = "Bindings of the vault.", .subs = binding_subs};
static const struct cli_cmd *const subs[] = {&create,     &get,     &patch, &delete_cmd,
                                             &credential, &binding, NULL};
const struct cli_cmd cmd_vault = {.name = "credential-vault",
                                  .help = "Secrets that are filled in outside of the sandbox.",
                                  .subs = subs};
