/* What a pool's template says, as a create request; and the request of one sandbox of it. Nothing
 * is left out in silence: what has no meaning here is refused by name. */

#include "base/cleanup.h"
#include "base/must.h"
#include "server/lifecycle/pool.h"

static bool has(const struct json *j, const char *key)
{
    const struct json *v = json_get(j, key);
    return v && !json_is_null(v);
}

/* The first name that is none of `known` and has a value, or NULL. */
static const char *stranger(const struct json *j, const char *const *known)
{
    void *it = NULL;
    const char *key;
    struct json *v;
    while (json_next(j, &it, &key, &v)) {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0) {
            i++;
        }
        if (!known[i] && !json_is_null(v)) {
            return key;
        }
    }
    return NULL;
}

static void default_entrypoint(struct json *request)
{
    static const char *const idle[] = {"tail", "-f", "/dev/null"};
    if (has(request, "entrypoint")) {
        return;
    }
    struct json *arr = json_array_new();
    for (size_t i = 0; i < ARRAY_LEN(idle); i++) {
        json_push(arr, json_string_new(str_from(idle[i])));
    }
    json_set(request, "entrypoint", arr);
}

/* An image may be just its name. */
static struct json *image_of(const struct json *v)
{
    if (!json_is_string(v)) {
        return json_clone(v);
    }
    struct json *image = json_object_new();
    json_set(image, "uri", json_clone(v));
    return image;
}

/* ---- a create request ---- */
static const struct {
    const char *name, *alias;
} fields[] = {
    {"image", NULL},
    {"entrypoint", NULL},
    {"env", NULL},
    {"resourceLimits", "resource_limits"},
    {"volumes", NULL},
    {"networkPolicy", "network_policy"},
    {"credentialProxy", "credential_proxy"},
    {"platform", NULL},
    {"extensions", NULL},
};

static struct json *from_request(const struct json *tmpl, struct problem *p)
{
    const char *known[2 * ARRAY_LEN(fields) + 1] = {0};
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        known[n++] = fields[i].name;
        if (fields[i].alias) {
            known[n++] = fields[i].alias;
        }
    }
    const char *odd = stranger(tmpl, known);
    if (odd) {
        (void)problem_set(p, 400, CODE_INVALID,
                          "'%.60s' is not part of it: a template has image, entrypoint, env, "
                          "resourceLimits, volumes, networkPolicy, credentialProxy, platform, "
                          "extensions",
                          odd);
        return NULL;
    }
    struct json *out = json_object_new();
    for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
        const char *key = has(tmpl, fields[i].name) ? fields[i].name : fields[i].alias;
        if (key && has(tmpl, key)) {
            const struct json *v = json_get(tmpl, key);
            json_set(out, fields[i].name, i == 0 ? image_of(v) : json_clone(v));
        }
    }
    const char *ref = json_cstr(json_at(out, "extensions.poolRef"));
    if (ref && *ref) {
        json_free(out);
        (void)problem_set(p, 400, CODE_INVALID, "a template cannot name a pool itself");
        return NULL;
    }
    return out;
}

/* ---- a PodTemplateSpec ---- */
static int pod_words(const struct json *from, struct json *to, struct problem *p)
{
    for (size_t i = 0; i < json_len(from); i++) {
        if (!json_is_string(json_item(from, i))) {
            return problem_set(p, 400, CODE_INVALID, "command and args must be lists of strings");
        }
        json_push(to, json_clone(json_item(from, i)));
    }
    return 0;
}

static int pod_env(const struct json *from, struct json *to, struct problem *p)
{
    for (size_t i = 0; i < json_len(from); i++) {
        const struct json *v = json_item(from, i);
        const char *name = json_cstr(json_get(v, "name"));
        if (!name || has(v, "valueFrom")) {
            return problem_set(p, 400, CODE_INVALID,
                               "env must have names and values (valueFrom has no meaning here)");
        }
        struct str value = json_str(json_get(v, "value"));
        json_set(to, name, json_string_new(value.p ? value : STR("")));
    }
    return 0;
}

static int pod_limits(const struct json *from, struct json *to, struct problem *p)
{
    void *it = NULL;
    const char *key;
    struct json *v;
    while (json_next(from, &it, &key, &v)) {
        char text[32];
        if (json_is_int(v)) {
            (void)snprintf(text, sizeof(text), "%lld", (long long)json_int(v, 0));
        } else if (!json_is_string(v)) {
            return problem_set(p, 400, CODE_INVALID, "resources.limits.%.60s is no quantity", key);
        }
        json_set(to, strcmp(key, "ephemeral-storage") == 0 ? "disk" : key,
                 json_is_int(v) ? json_string_new(str_from(text)) : json_clone(v));
    }
    return 0;
}

/* Its one container. */
static int from_container(const struct json *box, struct json *out, struct problem *p)
{
    static const char *const known[] = {"name",      "image",           "command", "args", "env",
                                        "resources", "imagePullPolicy", "ports",   NULL};
    const char *odd = stranger(box, known);
    if (odd) {
        return problem_set(p, 400, CODE_INVALID,
                           "spec.containers[0].%.60s has no meaning on this runtime", odd);
    }
    struct json *words = json_array_new(), *env = json_object_new(), *limits = json_object_new();
    if (has(box, "image")) {
        json_set(out, "image", image_of(json_get(box, "image")));
    }
    json_set(out, "env", env);
    json_set(out, "resourceLimits", limits);
    int r = pod_words(json_get(box, "command"), words, p);
    r = r < 0 ? r : pod_words(json_get(box, "args"), words, p);
    r = r < 0 ? r : pod_env(json_get(box, "env"), env, p);
    r = r < 0 ? r : pod_limits(json_at(box, "resources.limits"), limits, p);
    if (json_len(words)) {
        json_set(out, "entrypoint", words);
    } else {
        json_free(words);
    }
    return r;
}

static struct json *from_pod(const struct json *tmpl, struct problem *p)
{
    static const char *const top[] = {"metadata", "spec", NULL};
    static const char *const known[] = {"containers",
                                        "restartPolicy",
                                        "terminationGracePeriodSeconds",
                                        "automountServiceAccountToken",
                                        "enableServiceLinks",
                                        NULL};
    const struct json *spec = json_get(tmpl, "spec"), *boxes = json_get(spec, "containers");
    const char *odd = stranger(tmpl, top);
    const char *deep = odd ? NULL : stranger(spec, known);
    if (odd || deep) {
        (void)problem_set(p, 400, CODE_INVALID, "%s%.60s has no meaning on this runtime",
                          odd ? "" : "spec.", odd ? odd : deep);
        return NULL;
    }
    if (!json_is_array(boxes) || json_len(boxes) != 1 || !json_is_object(json_item(boxes, 0))) {
        (void)problem_set(p, 400, CODE_INVALID, "spec.containers must have exactly one container");
        return NULL;
    }
    struct json *out = json_object_new();
    if (from_container(json_item(boxes, 0), out, p) < 0) {
        json_free(out);
        return NULL;
    }
    return out;
}

struct json *template_to_request(const struct json *tmpl, struct problem *p)
{
    if (!json_is_object(tmpl)) {
        (void)problem_set(p, 400, CODE_INVALID, "it must be an object");
        return NULL;
    }
    struct json *out =
        json_is_object(json_get(tmpl, "spec")) ? from_pod(tmpl, p) : from_request(tmpl, p);
    if (!out) {
        return NULL;
    }
    if (!has(out, "resourceLimits")) {
        json_set(out, "resourceLimits", json_object_new());
    }
    default_entrypoint(out);
    return out;
}

/* ---- one sandbox of it ---- */
/* What was settled when the pool's sandboxes were started. */
static int refuse_settled(const struct json *request, const struct create_plan *plan,
                          struct problem *p)
{
    const struct create_request *q = &plan->req;
    const char *what = q->network_policy    ? "networkPolicy"
                       : q->volumes.n       ? "volumes"
                       : q->platform        ? "platform"
                       : q->secure_access.v ? "secureAccess"
                                            : NULL;
    if (what) {
        return problem_set(p, 400, CODE_INVALID,
                           "%s belongs to the template of the pool and not to a request that names "
                           "one",
                           what);
    }
    struct str uri = q->image ? str_trim(str_from(q->image->uri)) : STR("");
    const char *ours = json_cstr(json_at(request, "image.uri"));
    if (uri.n && !str_eq(uri, str_trim(str_from(ours)))) {
        return problem_set(p, 400, CODE_INVALID,
                           "image '%.*s' is not that of the pool, '%.100s'; leave it out",
                           (int)MIN(uri.n, 100u), uri.p, ours);
    }
    return 0;
}

static int merge_extensions(struct json *out, const struct create_plan *plan, struct problem *p)
{
    const struct str_map *m = &plan->req.extensions;
    if (!has(out, "extensions")) {
        json_set(out, "extensions", json_object_new());
    }
    struct json *to = json_get(out, "extensions");
    for (size_t i = 0; i < m->n; i++) {
        const char *old = json_cstr(json_get(to, m->v[i].key));
        if (!strcmp(m->v[i].key, "poolRef")) {
            continue;
        }
        if (str_starts(str_from(m->v[i].key), STR("oci.")) &&
            (!old || strcmp(old, m->v[i].value) != 0)) {
            return problem_set(p, 400, CODE_INVALID,
                               "extensions[\"%.60s\"] belongs to the template of the pool",
                               m->v[i].key);
        }
        json_set(to, m->v[i].key, json_string_new(str_from(m->v[i].value)));
    }
    return 0;
}

static void merge_env(struct json *out, const struct json *env)
{
    void *it = NULL;
    const char *key;
    struct json *v;
    if (env && !has(out, "env")) {
        json_set(out, "env", json_object_new());
    }
    while (env && json_next(env, &it, &key, &v)) {
        if (!json_is_null(v)) {
            json_set(json_get(out, "env"), key, json_clone(v));
        }
    }
}

struct json *template_merge(const struct json *request, const struct create_plan *plan,
                            struct problem *p)
{
    const struct create_request *q = &plan->req;
    if (refuse_settled(request, plan, p) < 0) {
        return NULL;
    }
    struct json *out = json_clone(request);
    if (merge_extensions(out, plan, p) < 0) {
        json_free(out);
        return NULL;
    }
    merge_env(out, q->env);
    for (size_t i = 0; i < q->resource_limits.n; i++) {
        json_set(json_get(out, "resourceLimits"), q->resource_limits.v[i].key,
                 json_string_new(str_from(q->resource_limits.v[i].value)));
    }
    if (q->entrypoint.n) {
        struct json *arr = json_array_new();
        for (size_t i = 0; i < q->entrypoint.n; i++) {
            json_push(arr, json_string_new(str_from(q->entrypoint.v[i])));
        }
        json_set(out, "entrypoint", arr);
    }
    if (has(plan->root, "metadata")) {
        json_set(out, "metadata", json_clone(json_get(plan->root, "metadata")));
    }
    if (q->timeout.has) {
        json_set(out, "timeout", json_int_new(q->timeout.v));
    }
    if (q->image && q->image->auth && str_trim(str_from(q->image->uri)).n) {
        /* for when one has to be made */
        json_set(out, "image", json_clone(json_get(plan->root, "image")));
    }
    return out;
}
