/* From the text of a create request to what the runtime needs. The order of the checks is part of
 * the protocol: schema (422), rules between fields (422), then one 400 after the other. */

#include "server/lifecycle/plan.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "base/num.h"
#include "base/sha1.h"
#include "server/limits.h"

DEFINE_CLEANUP(struct create_plan *, plan_free)

#define RENEW_KEY "access.renew.extend.seconds"
#define RENEW_MIN_S 300
#define RENEW_MAX_S 86400
#define LAST_SECOND INT64_C(253402300799) /* of the year 9999 */

void plan_free(struct create_plan *plan)
{
    if (plan) {
        json_free(plan->root);
        arena_done(&plan->arena);
        free(plan);
    }
}

static bool blank(const char *s)
{
    return !s || str_trim(str_from(s)).n == 0;
}

static const char *extension(const struct create_plan *plan, const char *key)
{
    return str_map_get(&plan->req.extensions, key);
}

/* ---- 422 ---- */
/* "line 3 column 7: ..." -> offset in the text. */
static size_t error_offset(struct str text, const char *msg)
{
    unsigned line = 0, column = 0;
    if (sscanf(msg, "line %u column %u", &line, &column) != 2) {
        return 0;
    }
    size_t i = 0;
    while (i < text.n && line > 1) {
        line -= text.p[i++] == '\n';
    }
    return MIN(i + column, text.n);
}

static int parse_body(struct str body, struct json **ret, struct problem *p)
{
    if (str_trim(body).n == 0) {
        return problem_invalid(p, "missing", "[\"body\"]", "Field required");
    }
    struct err e = {0};
    struct json *j = json_parse(body, &e);
    if (!j) {
        char loc[64];
        (void)snprintf(loc, sizeof(loc), "[\"body\",%zu]", error_offset(body, e.msg));
        return problem_invalid(p, "json_invalid", loc, "JSON decode error: %s", e.msg);
    }
    if (!json_is_object(j)) {
        json_free(j);
        return problem_invalid(p, "model_attributes_type", "[\"body\"]",
                               "Input should be a valid dictionary");
    }
    *ret = j;
    return 0;
}

static void check_env(struct create_plan *plan, struct json_issues *is)
{
    const struct json *env = plan->req.env;
    if (!env || json_is_null(env)) {
        plan->req.env = NULL;
        return;
    }
    if (!json_is_object(env)) {
        json_issue_add(&plan->arena, is, JSON_BAD_TYPE, "env", "expected object");
        return;
    }
    void *it = NULL;
    const char *key;
    struct json *v;
    while (json_next(env, &it, &key, &v)) {
        if (!json_is_string(v) && !json_is_null(v)) {
            const char *path = arena_printf(&plan->arena, "env.%s", key);
            json_issue_add(&plan->arena, is, JSON_BAD_TYPE, path, "expected string");
        }
    }
}

static void check_volume_backends(struct create_plan *plan, struct json_issues *is)
{
    const struct volume *v = plan->req.volumes.v;
    for (size_t i = 0; i < plan->req.volumes.n; i++) {
        if (!!v[i].host + !!v[i].pvc + !!v[i].ossfs != 1) {
            json_issue_add(&plan->arena, is, JSON_BAD_VALUE,
                           arena_printf(&plan->arena, "volumes[%zu]", i),
                           "Value error, exactly one of host, pvc and ossfs must be given");
        }
    }
}

/* The rules between fields; the first that is broken counts. */
static const char *cross_rule(const struct create_plan *plan)
{
    const struct create_request *q = &plan->req;
    bool credentials = q->credential_proxy && q->credential_proxy->enabled.v;
    bool has_image = q->image && !blank(q->image->uri);
    bool has_snapshot = !blank(q->snapshot_id);
    if (!blank(extension(plan, "poolRef"))) {
        if (has_snapshot) {
            return "snapshotId cannot be used together with extensions.poolRef";
        }
        return credentials ? "credentialProxy cannot be used together with extensions.poolRef"
                           : NULL;
    }
    if (credentials && !q->network_policy) {
        return "credentialProxy.enabled requires networkPolicy";
    }
    if (has_image == has_snapshot) {
        return "exactly one of image and snapshotId must be given";
    }
    if (has_image && !q->entrypoint.n) {
        return "entrypoint is required when image is given";
    }
    return q->resource_limits.has ? NULL : "resourceLimits is required";
}

static int decode(struct create_plan *plan, struct problem *p)
{
    struct json_issues is = {0};
    struct err e = {0};
    (void)json_decode(&plan->arena, &create_request_table, plan->root, &plan->req, &is, &e);
    if (is.n == 0) {
        check_env(plan, &is);
        check_volume_backends(plan, &is);
    }
    if (is.n == 0) {
        const char *rule = cross_rule(plan);
        if (rule) {
            json_issue_add(&plan->arena, &is, JSON_BAD_VALUE, "", "Value error, %s", rule);
        }
    }
    return is.n ? problem_issues(p, "body", &is, plan->root) : 0;
}

/* ---- 400 ---- */
static int check_renew(struct create_plan *plan, struct problem *p)
{
    const char *v = extension(plan, RENEW_KEY);
    if (!v) {
        return 0;
    }
    if (parse_i64(str_trim(str_from(v)), &plan->renew_extend_s) < 0 ||
        plan->renew_extend_s < RENEW_MIN_S || plan->renew_extend_s > RENEW_MAX_S) {
        return problem_set(p, 400, CODE_INVALID,
                           "extensions[\"" RENEW_KEY "\"] must be an integer between %d and %d",
                           RENEW_MIN_S, RENEW_MAX_S);
    }
    return 0;
}

static int plan_entrypoint(struct create_plan *plan, struct problem *p)
{
    static const char *const idle[] = {"tail", "-f", "/dev/null"};
    struct str_list l = plan->req.entrypoint;
    if (!l.n) {
        l.v = arena_array(&plan->arena, ARRAY_LEN(idle) + 1, sizeof(char *));
        memcpy(l.v, idle, sizeof(idle));
        l.n = ARRAY_LEN(idle);
    } else if (l.n == 1 && strchr(l.v[0], ' ') &&
               plan_shell_split(&plan->arena, str_from(l.v[0]), &l) < 0) {
        return problem_set(p, 400, "DOCKER::INVALID_ENTRYPOINT",
                           "entrypoint: a quote or backslash is not closed");
    }
    if (!l.n || !*l.v[0] || l.n > CREATE_ENTRYPOINT_MAX) {
        return problem_set(p, 400, "DOCKER::INVALID_ENTRYPOINT",
                           "entrypoint must have 1 to %u elements, the first not empty",
                           CREATE_ENTRYPOINT_MAX);
    }
    const char **argv = arena_array(&plan->arena, l.n + 1, sizeof(char *));
    memcpy(argv, l.v, l.n * sizeof(char *));
    plan->entrypoint = (struct str_list){argv, l.n};
    plan->spec.entrypoint = argv;
    return 0;
}

static int check_metadata(struct create_plan *plan, struct problem *p)
{
    const struct str_map *m = &plan->req.metadata;
    struct err e = {0};
    if (m->n > CREATE_METADATA_MAX) {
        return problem_set(p, 400, "SANDBOX::INVALID_METADATA_LABEL",
                           "metadata has more than %u entries", CREATE_METADATA_MAX);
    }
    for (size_t i = 0; i < m->n; i++) {
        if (metadata_key_check(m->v[i].key, &e) < 0 ||
            metadata_value_check(m->v[i].key, m->v[i].value, &e) < 0) {
            return problem_set(p, 400, "SANDBOX::INVALID_METADATA_LABEL", "%s", e.msg);
        }
    }
    return 0;
}

static const char *lower(struct arena *a, const char *s)
{
    char *out = arena_str(a, str_trim(str_from(s)));
    for (char *c = out; *c; c++) {
        if (*c >= 'A' && *c <= 'Z') {
            *c += 'a' - 'A';
        }
    }
    return out;
}

static int check_platform(struct create_plan *plan, struct problem *p)
{
    if (!plan->req.platform) {
        return 0;
    }
    plan->os = lower(&plan->arena, plan->req.platform->os);
    plan->arch = lower(&plan->arena, plan->req.platform->arch);
    if (strcmp(plan->os, "linux") != 0 && strcmp(plan->os, "windows") != 0) {
        return problem_set(p, 400, CODE_INVALID, "platform.os '%.40s' is not linux or windows",
                           plan->os);
    }
    if (strcmp(plan->arch, "amd64") != 0 && strcmp(plan->arch, "arm64") != 0) {
        return problem_set(p, 400, CODE_INVALID, "platform.arch '%.40s' is not amd64 or arm64",
                           plan->arch);
    }
    return 0;
}

static int check_timeout(struct create_plan *plan, const struct config *cfg, struct problem *p)
{
    if (!plan->req.timeout.has) {
        return 0;
    }
    plan->timeout_s = plan->req.timeout.v;
    int64_t cap = cfg->server.max_sandbox_timeout_seconds;
    if (cap && plan->timeout_s > cap) {
        return problem_set(p, 400, CODE_INVALID,
                           "timeout %lld is beyond the %lld seconds this server allows "
                           "(server.max_sandbox_timeout_seconds)",
                           (long long)plan->timeout_s, (long long)cap);
    }
    if (plan->timeout_s > LAST_SECOND - time(NULL)) {
        return problem_set(p, 400, CODE_INVALID, "timeout %lld ends after the year 9999",
                           (long long)plan->timeout_s);
    }
    return 0;
}

/* ---- what the runtime gets ---- */
static int plan_env(struct create_plan *plan, struct problem *p)
{
    const struct json *env = plan->req.env;
    if (!env) {
        return 0;
    }
    if (json_len(env) > CREATE_ENV_MAX) {
        return problem_set(p, 400, CODE_INVALID, "env has more than %u entries", CREATE_ENV_MAX);
    }
    struct runtime_kv *kv = arena_array(&plan->arena, json_len(env), sizeof(*kv));
    size_t n = 0, bytes = 0;
    void *it = NULL;
    const char *key;
    struct json *v;
    while (json_next(env, &it, &key, &v)) {
        if (!*key || strchr(key, '=')) {
            return problem_set(p, 400, CODE_INVALID,
                               "env: '%.60s' is no name of a variable (empty, or with '=')", key);
        }
        if (json_is_string(v)) { /* null: as if it were not there */
            kv[n++] = (struct runtime_kv){key, json_cstr(v)};
            bytes += strlen(key) + strlen(json_cstr(v)) + 2;
        }
    }
    for (size_t i = 0; i < plan->entrypoint.n; i++) {
        bytes += strlen(plan->entrypoint.v[i]) + 1;
    }
    if (bytes > CREATE_SPEC_MAX) {
        return problem_set(p, 400, CODE_INVALID,
                           "env and entrypoint together are longer than %u bytes", CREATE_SPEC_MAX);
    }
    plan->spec.env = kv;
    plan->spec.n_env = n;
    return 0;
}

static int plan_engine(struct create_plan *plan, const struct config *cfg, struct problem *p)
{
    const char *engine = extension(plan, "oci.engine");
    if (!blank(engine)) {
        bool allowed = !strcmp(engine, cfg->oci.engine);
        for (size_t i = 0; i < cfg->oci.allowed_engines.n; i++) {
            allowed |= !strcmp(engine, cfg->oci.allowed_engines.v[i]);
        }
        if (!allowed) {
            return problem_set(p, 400, CODE_INVALID,
                               "extensions[\"oci.engine\"]: '%.40s' is not in oci.allowed_engines",
                               engine);
        }
        plan->spec.engine = engine;
    }
    const char *network = extension(plan, "oci.network");
    if (!blank(network)) {
        if (!strcmp(network, "none")) {
            plan->spec.network = NETWORK_NONE;
        } else if (strcmp(network, "default") != 0) {
            return problem_set(p, 400, CODE_INVALID,
                               "extensions[\"oci.network\"]: '%.40s' is not default or none",
                               network);
        }
    }
    const char *ro = extension(plan, "oci.readOnlyRootfs");
    plan->spec.read_only_rootfs = cfg->oci.read_only_rootfs;
    if (!blank(ro) && parse_bool(str_from(ro), &plan->spec.read_only_rootfs) < 0) {
        return problem_set(p, 400, CODE_INVALID,
                           "extensions[\"oci.readOnlyRootfs\"]: '%.40s' is not true or false", ro);
    }
    return 0;
}

static void plan_labels(struct create_plan *plan)
{
    const struct str_map *m = &plan->req.metadata;
    struct runtime_kv *kv = arena_array(&plan->arena, m->n + 1, sizeof(*kv));
    for (size_t i = 0; i < m->n; i++) {
        kv[i] = (struct runtime_kv){m->v[i].key, m->v[i].value};
    }
    plan->spec.labels = kv;
    plan->spec.n_labels = m->n;
}

static void plan_source(struct create_plan *plan)
{
    const struct create_request *q = &plan->req;
    if (!blank(q->snapshot_id)) {
        plan->snapshot_id = plan->spec.snapshot_id = q->snapshot_id;
    } else if (q->image) {
        plan->image = arena_str(&plan->arena, str_trim(str_from(q->image->uri)));
        plan->spec.image = plan->image;
        if (q->image->auth) {
            plan->had_auth = true;
            plan->spec.image_user = q->image->auth->username;
            plan->spec.image_password = q->image->auth->password;
        }
    }
    plan->spec.os = plan->os;
    plan->spec.arch = plan->arch;
}

static int plan_policy(struct create_plan *plan, struct problem *p)
{
    struct network_policy *np = plan->req.network_policy;
    if (!np) {
        return 0;
    }
    if (plan_policy_check(np, p) < 0) {
        return -1;
    }
    np->egress.has = true; /* the sidecar always gets the list, empty or not */
    struct buf b = BUF_INIT(CREATE_BODY_MAX);
    struct json_out o;
    json_out_init(&o, &b);
    json_encode(&o, &network_policy_table, np);
    /* Half a policy would be another policy: escapes can make it longer than it came. */
    bool whole = !buf_failed(&b);
    plan->spec.egress_policy = whole ? arena_str(&plan->arena, buf_str(&b)) : NULL;
    plan->spec.credential_proxy =
        plan->req.credential_proxy && plan->req.credential_proxy->enabled.v;
    buf_done(&b);
    return whole ? 0
                 : problem_set(p, 400, CODE_INVALID, "networkPolicy is longer than %u bytes",
                               CREATE_BODY_MAX);
}

/* ---- what the store gets ---- */
/* Tells one request from another of the same owner. Whoever made two that collide would only get
 * his own sandbox twice, so SHA-1 is enough, and keeps libcrypto out of the resident set. */
static void hash_text(struct str text, char out[PLAN_HASH_LEN + 1])
{
    uint8_t md[SHA1_LEN];
    struct sha1 s;
    sha1_init(&s);
    sha1_add(&s, text);
    sha1_done(&s, md);
    struct buf b = BUF_INIT(PLAN_HASH_LEN + 1);
    must(hex_encode(&b, md, sizeof(md)) == 0 && b.len == PLAN_HASH_LEN);
    memcpy(out, buf_cstr(&b), PLAN_HASH_LEN + 1);
    buf_done(&b);
}

static const char *dump(struct arena *a, const struct json *j)
{
    struct buf b = BUF_INIT(8u << 20);
    must(json_dump(j, &b, 0) == 0);
    const char *text = arena_str(a, buf_str(&b));
    buf_done(&b);
    return text;
}

/* What opens a bucket is needed once, to mount it. */
static void hide_keys(struct json *volumes)
{
    static const char *const names[] = {"accessKeyId", "access_key_id", "accessKeySecret",
                                        "access_key_secret"};
    for (size_t i = 0; i < json_len(volumes); i++) {
        struct json *o = json_get(json_item(volumes, i), "ossfs");
        for (size_t k = 0; k < ARRAY_LEN(names); k++) {
            if (json_get(o, names[k])) {
                json_set(o, names[k], json_string_new(STR("*")));
            }
        }
    }
}

static void plan_texts(struct create_plan *plan)
{
    hash_text(str_from(dump(&plan->arena, plan->root)), plan->hash);
    const struct json *metadata = json_get(plan->root, "metadata");
    plan->metadata_json = json_is_object(metadata) ? dump(&plan->arena, metadata) : NULL;
    cleanup_(json_free) struct json *arr = json_array_new();
    for (size_t i = 0; i < plan->entrypoint.n; i++) {
        json_push(arr, json_string_new(str_from(plan->entrypoint.v[i])));
    }
    plan->entrypoint_json = dump(&plan->arena, arr);
    if (!plan->had_auth) {
        plan->spec_json = dump(&plan->arena, plan->root);
        return;
    }
    cleanup_(json_free) struct json *copy = json_clone(plan->root);
    json_del(json_get(copy, "image"), "auth");
    hide_keys(json_get(copy, "volumes"));
    plan->spec_json = dump(&plan->arena, copy);
}

static int plan_check(struct create_plan *plan, const struct config *cfg, struct problem *p)
{
    if (plan_entrypoint(plan, p) < 0 || check_metadata(plan, p) < 0 ||
        check_platform(plan, p) < 0 || check_timeout(plan, cfg, p) < 0) {
        return -1;
    }
    if (plan->req.secure_access.v) {
        return problem_set(p, 400, CODE_INVALID,
                           "secureAccess needs the Kubernetes runtime with an ingress gateway");
    }
    if (plan_volumes(plan, cfg, p) < 0 ||
        plan_limits(&plan->req.resource_limits, &plan->spec.limits, p) < 0 ||
        plan_env(plan, p) < 0 || plan_engine(plan, cfg, p) < 0) {
        return -1;
    }
    return 0;
}

int plan_build(struct str body, const struct config *cfg, struct create_plan **ret,
               struct problem *p)
{
    cleanup_(plan_free) struct create_plan *plan = NEW(struct create_plan);
    if (parse_body(body, &plan->root, p) < 0 || decode(plan, p) < 0 || check_renew(plan, p) < 0) {
        return -1;
    }
    if (!blank(extension(plan, "poolRef"))) {
        plan->pool_ref = arena_str(&plan->arena, str_trim(str_from(extension(plan, "poolRef"))));
        hash_text(str_from(dump(&plan->arena, plan->root)), plan->hash);
        *ret = take_ptr(&plan);
        return 0;
    }
    if (plan_check(plan, cfg, p) < 0) {
        return -1;
    }
    plan_source(plan);
    plan_labels(plan);
    if (plan_policy(plan, p) < 0) {
        return -1;
    }
    plan_texts(plan);
    *ret = take_ptr(&plan);
    return 0;
}
