/* osb snapshot, fork and pool: the parts of the lifecycle API that are asked with JSON. */

#include <string.h>

#include "base/codec.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "json/yaml.h"

static const struct cli_opt only_output[] = {OPT_OUTPUT("table|json|yaml"), {0}};

/* The answer with the names used here, or NULL after a message. */
static struct json *ask(struct cli *x, const char *method, const char *path, const char *body,
                        const char *operation)
{
    cleanup_(json_free) struct json *wire = cli_ask(x, method, path, body, operation);
    return wire ? snake_tree(wire) : NULL;
}

static int show_one(struct cli *x, const char *title, struct json *m)
{
    if (!m) {
        return 1;
    }
    const struct json *state = json_at(m, "status.state");
    if (x->out.format == OUT_TABLE && json_is_string(state)) {
        json_set(m, "status", json_clone(state));
    }
    out_model(&x->out, title, m);
    json_free(m);
    return 0;
}

static int show_list(struct cli *x, const char *title, const char *columns, struct json *m)
{
    if (!m) {
        return 1;
    }
    cleanup_(json_free) struct json *rows = json_array_new();
    const struct json *items = json_is_array(m) ? m : json_get(m, "items");
    for (size_t i = 0; i < json_len(items); i++) {
        struct json *row = json_clone(json_item(items, i));
        const struct json *state = json_at(row, "status.state");
        if (json_is_string(state)) {
            json_set(row, "status", json_clone(state));
        }
        json_push(rows, row);
    }
    if (json_len(rows) == 0 && x->out.format == OUT_TABLE) {
        out_info(&x->out, "Nothing there.");
    } else {
        out_rows_tree(&x->out, title, columns, rows, m);
    }
    json_free(m);
    return 0;
}

/* ---- snapshots ---- */

static int run_create(struct cli *x)
{
    struct osb_error e = {0};
    cleanup_(osb_sandbox_free) struct osb_sandbox *s = cli_sandbox(x, x->args.pos[0]);
    cleanup_free char *text = s ? osb_snapshot_create(s, arg_get(&x->args, "name"), &e) : NULL;
    if (!text) {
        return s ? cli_error(x, &e, "Create snapshot of sandbox %s", x->args.pos[0]) : 1;
    }
    cleanup_(json_free) struct json *wire = json_parse(str_from(text), NULL);
    const char *id = json_cstr(json_get(wire, "id"));
    if (id && !arg_has(&x->args, "no-wait")) {
        cli_catch_interrupt(x);
        struct osb_call call = cli_call(x);
        call.timeout_ms = (uint64_t)arg_seconds(&x->args, "timeout", 120) * 1000;
        char *ready = osb_snapshot_wait(x->client, id, &call, &e);
        if (!ready) {
            return cli_error(x, &e, "Create snapshot %s", id);
        }
        cleanup_(json_free) struct json *done = json_parse(str_from(ready), NULL);
        free(ready);
        return show_one(x, "Snapshot", snake_tree(done));
    }
    return show_one(x, "Snapshot", snake_tree(wire));
}

/* Like "/snapshots?name=...&sandboxId=...". */
static char *list_path(struct cli *x)
{
    static const char *const keys[][2] = {{"name", "name"}, {"sandbox", "sandboxId"}};
    struct buf b = BUF_INIT(8192);
    (void)buf_add_cstr(&b, "/snapshots?pageSize=200");
    for (size_t i = 0; i < 2; i++) {
        const char *v = arg_get(&x->args, keys[i][0]);
        if (v) {
            (void)buf_printf(&b, "&%s=", keys[i][1]);
            (void)percent_encode(&b, str_from(v), false);
        }
    }
    return buf_take(&b);
}

static int run_list(struct cli *x)
{
    cleanup_free char *path = list_path(x);
    return show_list(x, "Snapshots", "id,sandbox_id,name,status,created_at",
                     ask(x, "GET", path, NULL, "List snapshots"));
}

static int run_get(struct cli *x)
{
    cleanup_free char *path = cli_path("/snapshots/", x->args.pos[0], "");
    return show_one(x, "Snapshot", ask(x, "GET", path, NULL, "Get snapshot"));
}

static int run_delete(struct cli *x)
{
    struct osb_error e = {0};
    if (!cli_client(x)) {
        return 1;
    }
    for (const char **id = x->args.pos; *id; id++) {
        if (osb_snapshot_delete(x->client, *id, &e) < 0) {
            return cli_error(x, &e, "Delete snapshot %s", *id);
        }
        out_ok(&x->out, "Deleted snapshot: %s", *id);
    }
    return 0;
}

static const struct cli_opt create_opts[] = {
    {.name = "name", .type = ARG_TEXT, .help = "Name of the snapshot."},
    {.name = "no-wait", .type = ARG_FLAG, .help = "Do not wait until it is ready."},
    {.name = "timeout",
     .letter = 't',
     .type = ARG_DURATION,
     .fallback = "2m",
     .help = "How long to wait."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_opt list_opts[] = {
    {.name = "name", .type = ARG_TEXT, .help = "Only those of this name."},
    {.name = "sandbox", .type = ARG_TEXT, .help = "Only those of this sandbox."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
LEAF(create, "create", "Keep the state of a sandbox.", create_opts, run_create, "SANDBOX_ID");
LEAF(list, "list", "List snapshots.", list_opts, run_list, NULL);
LEAF(get, "get", "Show one snapshot.", only_output, run_get, "SNAPSHOT_ID");
LEAF(delete_cmd, "delete", "Delete snapshots.", only_output, run_delete, "SNAPSHOT_IDS...");
static const struct cli_cmd *const snapshot_subs[] = {&create, &list, &get, &delete_cmd, NULL};
const struct cli_cmd cmd_snapshot = {
    .name = "snapshot", .help = "Kept states of sandboxes.", .subs = snapshot_subs};

/* ---- fork ---- */

static void add_pairs(struct json *body, const char *key, const struct osb_pair *v)
{
    if (v && v->key) {
        struct json *m = json_object_new();
        for (; v->key; v++) {
            json_set(m, v->key, json_string_new(str_from(v->value)));
        }
        json_set(body, key, m);
    }
}

static int run_fork(struct cli *x)
{
    cleanup_(pairs_free) struct osb_pair *metadata = cli_pairs(x, "metadata");
    cleanup_(pairs_free) struct osb_pair *env = cli_pairs(x, "env");
    cleanup_(json_free) struct json *body = json_object_new();
    cleanup_(buf_done) struct buf text = BUF_INIT(1u << 20);
    cleanup_free char *path = cli_path("/sandboxes/", x->args.pos[0], "/fork");
    int64_t timeout = arg_seconds(&x->args, "timeout", 0);
    json_set(body, "count", json_int_new(arg_int(&x->args, "count", 1)));
    add_pairs(body, "metadata", metadata);
    add_pairs(body, "env", env);
    if (timeout > 0) {
        json_set(body, "timeout", json_int_new(timeout));
    }
    if (json_dump(body, &text, 0) < 0) {
        return 1;
    }
    return show_list(x, "Sandboxes", "id,status,created_at,expires_at",
                     ask(x, "POST", path, buf_cstr(&text), "Fork sandbox"));
}

static const struct cli_opt fork_opts[] = {
    {.name = "count",
     .letter = 'n',
     .type = ARG_INT,
     .min = 1,
     .max = 100,
     .fallback = "1",
     .help = "How many."},
    {.name = "timeout",
     .letter = 't',
     .type = ARG_DURATION,
     .help = "Time to live; the source's unless given."},
    {.name = "metadata",
     .letter = 'm',
     .type = ARG_PAIR,
     .many = true,
     .help = "Metadata to add; repeatable."},
    {.name = "env",
     .letter = 'e',
     .type = ARG_PAIR,
     .many = true,
     .help = "Environment to add; repeatable."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
const struct cli_cmd cmd_fork = {.name = "fork",
                                 .help = "Start sandboxes from the state of another.",
                                 .opts = fork_opts,
                                 .args = {"SANDBOX_ID"},
                                 .run = run_fork};

/* ---- pools ---- */

static int send_file(struct cli *x, const char *method, const char *path, const char *operation)
{
    struct err e = {0};
    size_t n;
    cleanup_free char *text = cli_read_input(x, arg_get(&x->args, "file"), &n);
    if (!text) {
        return 1;
    }
    cleanup_(json_free) struct json *j = yaml_parse(str_n(text, n), &e);
    if (!j) {
        return cli_fail(x, "%s: %s", arg_get(&x->args, "file"), e.msg);
    }
    cleanup_(buf_done) struct buf body = BUF_INIT(8u << 20);
    (void)json_dump(j, &body, 0);
    return show_one(x, "Pool", ask(x, method, path, buf_cstr(&body), operation));
}

static int run_pool_create(struct cli *x)
{
    return send_file(x, "POST", "/pools", "Create pool");
}

static int run_pool_update(struct cli *x)
{
    cleanup_free char *path = cli_path("/pools/", x->args.pos[0], "");
    return send_file(x, "PUT", path, "Update pool");
}

static int run_pool_list(struct cli *x)
{
    return show_list(x, "Pools", "name,status,capacity_spec",
                     ask(x, "GET", "/pools", NULL, "List pools"));
}

static int run_pool_get(struct cli *x)
{
    cleanup_free char *path = cli_path("/pools/", x->args.pos[0], "");
    return show_one(x, "Pool", ask(x, "GET", path, NULL, "Get pool"));
}

static int run_pool_delete(struct cli *x)
{
    cleanup_free char *path = cli_path("/pools/", x->args.pos[0], "");
    cleanup_(json_free) struct json *m = ask(x, "DELETE", path, NULL, "Delete pool");
    if (!m) {
        return 1;
    }
    out_ok(&x->out, "Deleted pool: %s", x->args.pos[0]);
    return 0;
}

static const struct cli_opt file_opts[] = {
    {.name = "file", .type = ARG_FILE, .required = true, .help = "JSON or YAML; - is stdin."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
LEAF(pool_create, "create", "Create a pool.", file_opts, run_pool_create, NULL);
LEAF(pool_update, "update", "Change a pool.", file_opts, run_pool_update, "NAME");
LEAF(pool_list, "list", "List pools.", only_output, run_pool_list, NULL);
LEAF(pool_get, "get", "Show one pool.", only_output, run_pool_get, "NAME");
LEAF(pool_delete, "delete", "Delete a pool.", only_output, run_pool_delete, "NAME");
static const struct cli_cmd *const pool_subs[] = {&pool_create, &pool_update, &pool_list,
                                                  &pool_get,    &pool_delete, NULL};
const struct cli_cmd cmd_pool = {
    .name = "pool", .help = "Sandboxes that wait for their user.", .subs = pool_subs};
