#include "cli/create.h"

#include <string.h>

#include "cli/duration.h"
#include "cli/limits.h"
#include "cli/spinner.h"

/* camelCase or snake_case. */
static const struct json *either(const struct json *j, const char *camel, const char *snake)
{
    const struct json *v = json_get(j, camel);
    return v ? v : json_get(j, snake);
}

static const char *text(const struct json *j, const char *camel, const char *snake)
{
    return json_cstr(either(j, camel, snake));
}

static struct json *read_json(struct cli *x, const char *path)
{
    struct err e = {0};
    size_t n;
    cleanup_free char *t = cli_read_input(x, path, &n);
    struct json *j = t ? json_parse(str_n(t, n), &e) : NULL;
    if (t && !j) {
        (void)cli_fail(x, "%s: %s", path, e.msg);
    }
    return j;
}

static int read_policy(struct cli *x, struct create_spec *s)
{
    const char *path = arg_get(&x->args, "network-policy-file");
    if (!path) {
        return arg_has(&x->args, "credential-proxy")
                   ? cli_fail(x, "--credential-proxy needs --network-policy-file.")
                   : 0;
    }
    s->policy = read_json(x, path);
    if (!s->policy) {
        return 1;
    }
    const struct json *rules = json_get(s->policy, "egress");
    const char *action = text(s->policy, "defaultAction", "default_action");
    if (!json_is_object(s->policy) || (rules && !json_is_array(rules)) ||
        json_len(rules) > CLI_MAX_RULES) {
        return cli_fail(x, "%s: expected an object {defaultAction, egress: [{action, target}]}.",
                        path);
    }
    size_t n = json_len(rules);
    s->rules = xcalloc(n + 1, sizeof(*s->rules));
    for (size_t i = 0; i < n; i++) {
        const struct json *r = json_item(rules, i);
        s->rules[i] = (struct osb_rule){text(r, "action", "action"), text(r, "target", "target")};
        if (!s->rules[i].action || !s->rules[i].target) {
            return cli_fail(x, "%s: egress[%zu] needs action and target.", path, i);
        }
    }
    s->opts.egress_default = action ? action : "deny";
    s->opts.egress_rules = s->rules;
    s->opts.n_egress_rules = n;
    s->opts.credential_proxy = arg_has(&x->args, "credential-proxy");
    return 0;
}

static void volume_from(const struct json *j, struct osb_volume *v, const char ***ret_options)
{
    const struct json *pvc = json_get(j, "pvc"), *oss = json_get(j, "ossfs"),
                      *options = json_get(oss, "options");
    *v = (struct osb_volume){
        .name = text(j, "name", "name"),
        .mount_path = text(j, "mountPath", "mount_path"),
        .sub_path = text(j, "subPath", "sub_path"),
        .read_only = json_bool(either(j, "readOnly", "read_only"), false),
        .host_path = text(json_get(j, "host"), "path", "path"),
        .pvc_claim = text(pvc, "claimName", "claim_name"),
        .pvc_must_exist =
            !json_bool(either(pvc, "createIfNotExists", "create_if_not_exists"), true),
        .pvc_delete_with_sandbox = json_bool(
            either(pvc, "deleteOnSandboxTermination", "delete_on_sandbox_termination"), false),
        .pvc_storage = text(pvc, "storage", "storage"),
        .pvc_storage_class = text(pvc, "storageClass", "storage_class"),
        .ossfs_bucket = text(oss, "bucket", "bucket"),
        .ossfs_endpoint = text(oss, "endpoint", "endpoint"),
        .ossfs_key_id = text(oss, "accessKeyId", "access_key_id"),
        .ossfs_key_secret = text(oss, "accessKeySecret", "access_key_secret"),
        .ossfs_version = text(oss, "version", "version"),
    };
    if (json_len(options)) {
        *ret_options = xcalloc(json_len(options) + 1, sizeof(**ret_options));
        for (size_t i = 0; i < json_len(options); i++) {
            const char *o = json_cstr(json_item(options, i));
            (*ret_options)[i] = o ? o : "";
        }
        v->ossfs_options = *ret_options;
    }
}

static int read_volumes(struct cli *x, struct create_spec *s)
{
    const char *path = arg_get(&x->args, "volumes-file");
    if (!path) {
        return 0;
    }
    s->volumes = read_json(x, path);
    if (!s->volumes) {
        return 1;
    }
    size_t n = json_len(s->volumes);
    if (!json_is_array(s->volumes) || n > CLI_MAX_VOLUMES) {
        return cli_fail(x, "%s: expected an array of volumes.", path);
    }
    s->vols = xcalloc(n + 1, sizeof(*s->vols));
    s->vol_options = xcalloc(n + 1, sizeof(*s->vol_options));
    for (size_t i = 0; i < n; i++) {
        volume_from(json_item(s->volumes, i), &s->vols[i], &s->vol_options[i]);
        if (!s->vols[i].name || !s->vols[i].mount_path) {
            return cli_fail(x, "%s: volume %zu needs name and mountPath.", path, i);
        }
    }
    s->opts.volumes = s->vols;
    s->opts.n_volumes = n;
    return 0;
}

static int read_lifetime(struct cli *x, struct create_spec *s)
{
    const char *t = arg_get(&x->args, "timeout");
    t = t ? t : x->set.default_timeout;
    if (!t) {
        return 0;
    }
    if (duration_is_none(t)) {
        s->opts.timeout_seconds = -1;
        return 0;
    }
    if (duration_parse(t, &s->opts.timeout_seconds) < 0 || s->opts.timeout_seconds == 0) {
        return cli_fail(x, "Invalid duration '%s'.", t);
    }
    return 0;
}

static int spec_read(struct cli *x, struct create_spec *ret)
{
    struct create_spec *s = ret;
    const char *image = arg_get(&x->args, "image");
    const char *snapshot = arg_get(&x->args, "snapshot");
    const char *user = arg_get(&x->args, "image-auth-username");
    const char *password = arg_get(&x->args, "image-auth-password");
    s->extensions = cli_pairs(x, "extension");
    bool pooled = false; /* what is not given is as in the template of the pool */
    for (const struct osb_pair *e = s->extensions; e && e->key; e++) {
        pooled |= strcmp(e->key, "poolRef") == 0;
    }
    if (image && snapshot) {
        return cli_fail(x, "--image and --snapshot exclude each other.");
    }
    image = image || pooled || snapshot ? image : x->set.default_image;
    if (!image && !pooled && !snapshot) {
        return cli_fail(x, "No image: give --image, or set defaults.image with `osb config set`.");
    }
    if (!user != !password) {
        return cli_fail(x, "--image-auth-username and --image-auth-password belong together.");
    }
    s->env = cli_pairs(x, "env");
    s->metadata = cli_pairs(x, "metadata");
    s->resources = cli_pairs(x, "resource");
    s->entrypoint = arg_list(&x->args, "entrypoint");
    s->opts = (struct osb_create_opts){
        .image = image,
        .snapshot_id = snapshot,
        .image_user = user,
        .image_password = password,
        .env = s->env,
        .metadata = s->metadata,
        .extensions = s->extensions,
        .resources = s->resources,
        .entrypoint = s->entrypoint[0] ? s->entrypoint : NULL,
        .ready_timeout_ms = (uint64_t)arg_seconds(&x->args, "ready-timeout", 30) * 1000,
        .skip_ready = arg_has(&x->args, "skip-health-check"),
    };
    int r = read_lifetime(x, s);
    r = r ? r : read_policy(x, s);
    return r ? r : read_volumes(x, s);
}

void create_spec_done(struct create_spec *s)
{
    for (size_t i = 0; s->vol_options && i < s->opts.n_volumes; i++) {
        free(s->vol_options[i]);
    }
    free(s->vol_options);
    free(s->vols);
    free(s->rules);
    json_free(s->policy);
    json_free(s->volumes);
    pairs_free(s->env);
    pairs_free(s->metadata);
    pairs_free(s->extensions);
    pairs_free(s->resources);
    free(s->entrypoint);
}

int create_sandbox(struct cli *x, struct create_spec *spec, struct osb_sandbox **ret)
{
    struct osb_error e = {0};
    *spec = (struct create_spec){0};
    if (!cli_client(x)) {
        return 1;
    }
    int r = spec_read(x, spec);
    if (r != 0) {
        return r;
    }
    cli_catch_interrupt(x);
    spec->opts.call = cli_call(x);
    struct spinner *spinner = spinner_start(&x->out, "Creating a sandbox");
    *ret = osb_create(x->client, &spec->opts, &e);
    spinner_stop(spinner);
    return *ret ? 0 : cli_error(x, &e, "Create sandbox");
}
