/* osb config: the configuration file. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/limits.h"
#include "json/toml.h"

static int save(struct cli *x, struct str text)
{
    struct str path = str_from(x->set.path);
    ptrdiff_t slash = str_rfind(path, '/');
    if (slash > 0) {
        cleanup_free char *dir = str_dup(str_sub(path, 0, (size_t)slash));
        int r = dir_make(AT_FDCWD, dir, 0700);
        if (r < 0) {
            return cli_fail(x, "%s: %s", dir, strerror(-r));
        }
    }
    /* It may hold a key: nobody else reads it. */
    int r = file_write_atomic(AT_FDCWD, x->set.path, text, 0600);
    return r < 0 ? cli_fail(x, "%s: %s", x->set.path, strerror(-r)) : 0;
}

static int run_init(struct cli *x)
{
    if (x->set.file_exists && !arg_has(&x->args, "force")) {
        out_warn(&x->out, "Config file already exists: %s (use --force to overwrite)", x->set.path);
        return 0;
    }
    int r = save(x, str_from(settings_template));
    if (r == 0) {
        out_ok(&x->out, "Config file created: %s", x->set.path);
    }
    return r;
}

/* First and last two characters; short ones entirely hidden. */
static struct json *masked(const char *key)
{
    size_t n = key ? strlen(key) : 0;
    if (!key) {
        return json_null_new();
    }
    cleanup_free char *m = xstrdup(key);
    for (size_t i = n > 4 ? 2 : 0; i < (n > 4 ? n - 2 : n); i++) {
        m[i] = '*';
    }
    return json_string_new(str_from(m));
}

static int run_show(struct cli *x)
{
    cleanup_(json_free) struct json *j = json_object_new();
    json_set(j, "api_key", masked(x->set.api_key));
    json_set(j, "domain", jtext(x->set.domain));
    json_set(j, "protocol", jtext(x->set.protocol));
    json_set(j, "request_timeout", json_int_new(x->set.request_timeout));
    json_set(j, "use_server_proxy", json_bool_new(x->set.use_server_proxy));
    json_set(j, "color", json_bool_new(x->set.color));
    json_set(j, "default_image", jtext(x->set.default_image));
    json_set(j, "default_timeout", jtext(x->set.default_timeout));
    json_set(j, "config_path", jtext(x->set.path));
    json_set(j, "config_file_exists", json_bool_new(x->set.file_exists));
    out_model(&x->out, "Resolved Configuration", j);
    return 0;
}

static int run_set(struct cli *x)
{
    struct str key = str_from(x->args.pos[0]);
    ptrdiff_t dot = str_find(key, '.');
    struct str section = str_sub(key, 0, dot < 0 ? 0 : (size_t)dot);
    struct str field = str_sub(key, dot < 0 ? key.n : (size_t)dot + 1, key.n);
    if (!section.n || !field.n || str_find(field, '.') >= 0) {
        return cli_fail(x, "Key must be section.field, such as connection.domain.");
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(CLI_MAX_CONFIG), out = BUF_INIT(CLI_MAX_CONFIG);
    int r = file_read(AT_FDCWD, x->set.path, &text);
    if (r == -ENOENT || r == -ENOTDIR) {
        return cli_fail(x, "Config file not found: %s. Run `osb config init` first.", x->set.path);
    }
    if (r < 0) {
        return cli_fail(x, "%s: %s", x->set.path, strerror(-r));
    }
    struct err e = {0};
    if (settings_edit(buf_str(&text), section, field, x->args.pos[1], &out) < 0) {
        return cli_fail(x, "%s is too large.", x->set.path);
    }
    cleanup_(json_free) struct json *check = toml_parse(buf_str(&out), &e);
    if (!check) {
        return cli_fail(x, "%s: %s", x->set.path, e.msg);
    }
    r = save(x, buf_str(&out));
    if (r == 0) {
        bool secret = str_eq(field, STR("api_key"));
        out_ok(&x->out, "Set %s = %s", x->args.pos[0], secret ? "****" : x->args.pos[1]);
    }
    return r;
}

static const struct cli_opt output[] = {OPT_OUTPUT("table|json|yaml"), {0}};
static const struct cli_opt init_opts[] = {
    {.name = "force", .type = ARG_FLAG, .help = "Overwrite."}, OPT_OUTPUT("table|json|yaml"), {0}};
static const struct cli_cmd init = {.name = "init",
                                    .help = "Write a configuration file to fill in.",
                                    .opts = init_opts,
                                    .run = run_init};
static const struct cli_cmd show = {
    .name = "show", .help = "Show the settings in effect.", .opts = output, .run = run_show};
static const struct cli_cmd set = {.name = "set",
                                   .help = "Change one setting in the file.",
                                   .opts = output,
                                   .args = {"KEY", "VALUE"},
                                   .run = run_set};
static const struct cli_cmd *const subs[] = {&init, &show, &set, NULL};
const struct cli_cmd cmd_config = {
    .name = "config", .help = "The configuration file.", .subs = subs};
