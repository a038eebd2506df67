/* Volumes of a create request: the rules that need nothing but the request and the allow-list. What
 * is behind a path or a name is the runtime's business, at the moment it mounts it. */

#include <ctype.h>

#include "base/must.h"
#include "server/lifecycle/plan.h"
#include "server/limits.h"

#define SHELL_CHARS ";&|`$()<>\r\n"

static const char *forward_slashes(struct arena *a, const char *path)
{
    char *out = arena_strdup(a, path);
    for (char *c = out; *c; c++) {
        *c = *c == '\\' ? '/' : *c;
    }
    return out;
}

static int check_host(struct create_plan *plan, struct volume *v, const struct config *cfg,
                      struct problem *p)
{
    v->host->path = forward_slashes(&plan->arena, v->host->path);
    struct str path = str_from(v->host->path), tail = host_path_tail(path);
    if (tail.n == 0 || tail.p[0] != '/' || str_find_str(tail, STR("/..")) >= 0 ||
        str_find_str(tail, STR("//")) >= 0 || (tail.n > 1 && tail.p[tail.n - 1] == '/')) {
        return problem_set(
            p, 400, "VOLUME::INVALID_HOST_PATH",
            "volume %s: host.path '%.200s' must be absolute and in its simplest form "
            "(no '..', no '//', no '/' at the end)",
            v->name, v->host->path);
    }
    for (size_t i = 0; i < cfg->storage.allowed_host_paths.n; i++) {
        if (host_path_allowed(path, str_from(cfg->storage.allowed_host_paths.v[i]))) {
            return 0;
        }
    }
    return problem_set(p, 400, "VOLUME::HOST_PATH_NOT_ALLOWED",
                       "volume %s: host.path '%.200s' is not below storage.allowed_host_paths",
                       v->name, v->host->path);
}

static bool bucket_is_valid(struct str b)
{
    if (b.n < 3 || b.n > 63 || b.p[0] == '-' || b.p[b.n - 1] == '-') {
        return false;
    }
    for (size_t i = 0; i < b.n; i++) {
        if (!islower((unsigned char)b.p[i]) && !isdigit((unsigned char)b.p[i]) && b.p[i] != '-') {
            return false;
        }
    }
    return true;
}

static int check_ossfs_texts(const struct volume *v, struct problem *p)
{
    const struct volume_ossfs *o = v->ossfs;
    if (strpbrk(o->endpoint, SHELL_CHARS " ")) {
        return problem_set(p, 400, CODE_INVALID,
                           "volume %s: ossfs.endpoint has a character that "
                           "no address has",
                           v->name);
    }
    if (v->sub_path && strpbrk(v->sub_path, SHELL_CHARS)) {
        return problem_set(p, 400, CODE_INVALID,
                           "volume %s: subPath has a character that ossfs "
                           "does not take",
                           v->name);
    }
    for (size_t i = 0; i < o->options.n; i++) {
        const char *opt = o->options.v[i];
        if (str_trim(str_from(opt)).n == 0 || opt[0] == '-') {
            return problem_set(p, 400, "VOLUME::INVALID_OSSFS_OPTION",
                               "volume %s: an ossfs option is neither empty nor begins with '-'",
                               v->name);
        }
        if (strpbrk(opt, SHELL_CHARS)) {
            return problem_set(p, 400, CODE_INVALID,
                               "volume %s: an ossfs option has a character "
                               "that ossfs does not take",
                               v->name);
        }
    }
    return 0;
}

static int check_ossfs(const struct volume *v, struct problem *p)
{
    const struct volume_ossfs *o = v->ossfs;
    if (!bucket_is_valid(str_from(o->bucket))) {
        return problem_set(p, 400, "VOLUME::INVALID_OSSFS_BUCKET",
                           "volume %s: '%.80s' is no name of a bucket", v->name, o->bucket);
    }
    if (str_trim(str_from(o->endpoint)).n == 0) {
        return problem_set(p, 400, "VOLUME::INVALID_OSSFS_ENDPOINT",
                           "volume %s: ossfs.endpoint is empty", v->name);
    }
    /* They become lines of a file that the mount program reads. */
    if (strpbrk(o->access_key_id, "\r\n:") || strpbrk(o->access_key_secret, "\r\n") ||
        str_trim(str_from(o->access_key_id)).n == 0 ||
        str_trim(str_from(o->access_key_secret)).n == 0) {
        return problem_set(p, 400, "VOLUME::INVALID_OSSFS_CREDENTIALS",
                           "volume %s: accessKeyId and accessKeySecret must be given", v->name);
    }
    return check_ossfs_texts(v, p);
}

static int check_sub_path(const struct volume *v, struct problem *p)
{
    struct str rest = str_from(v->sub_path);
    bool bad = rest.n && rest.p[0] == '/';
    while (rest.n) {
        bad |= str_eq(str_cut(&rest, '/'), STR(".."));
    }
    return bad ? problem_set(p, 400, "VOLUME::INVALID_SUB_PATH",
                             "volume %s: subPath '%.200s' must be relative and without '..'",
                             v->name, v->sub_path)
               : 0;
}

/* What must stay what it is for the sandbox to work, and all that lies above it. */
static int check_mount_path(const struct volume *v, struct problem *p)
{
    static const char *const kept[] = {"/proc", "/sys", "/dev", "/opt/opensandbox"};
    char path[1024] = "";
    size_t n = 0;
    bool bad = strlen(v->mount_path) >= sizeof(path) - 1;
    for (struct str rest = str_from(v->mount_path); !bad && rest.n;) {
        struct str part = str_cut(&rest, '/');
        bad = str_eq(part, STR("..")) || str_eq(part, STR("."));
        if (part.n && !bad) {
            n += (size_t)snprintf(path + n, sizeof(path) - n, "/%.*s", STR_FMT(part));
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(kept); i++) {
        size_t len = MIN(n, strlen(kept[i]));
        bool touches = strncmp(path, kept[i], len) == 0 && (kept[i][len] == '/' || !kept[i][len]) &&
                       (path[len] == '/' || !path[len]);
        bad |= touches;
    }
    return bad || n == 0 ? problem_set(p, 400, "VOLUME::INVALID_MOUNT_PATH",
                                       "volume %s: nothing can be mounted at '%.200s'", v->name,
                                       v->mount_path)
                         : 0;
}

static int check_one(struct create_plan *plan, struct volume *v, const struct config *cfg,
                     struct problem *p)
{
    if (check_mount_path(v, p) < 0 || (v->sub_path && check_sub_path(v, p) < 0) ||
        (v->host && check_host(plan, v, cfg, p) < 0)) {
        return -1;
    }
    return v->ossfs ? check_ossfs(v, p) : 0;
}

int plan_volumes(struct create_plan *plan, const struct config *cfg, struct problem *p)
{
    struct volume *v = plan->req.volumes.v;
    size_t n = plan->req.volumes.n;
    if (n > CREATE_VOLUMES_MAX) {
        return problem_set(p, 400, CODE_INVALID, "more than %u volumes", CREATE_VOLUMES_MAX);
    }
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++) {
            if (!strcmp(v[i].name, v[k].name)) {
                return problem_set(p, 400, "VOLUME::DUPLICATE_NAME",
                                   "volumes: the name '%s' is used twice", v[i].name);
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (check_one(plan, &v[i], cfg, p) < 0) {
            return -1;
        }
        plan->had_auth |= v[i].ossfs != NULL;
    }
    plan->spec.volumes = v;
    plan->spec.n_volumes = n;
    const struct str_list *allowed = &cfg->storage.allowed_host_paths;
    const char **copy = arena_array(&plan->arena, allowed->n + 1, sizeof(*copy));
    for (size_t i = 0; i < allowed->n; i++) {
        copy[i] = arena_strdup(&plan->arena, allowed->v[i]);
    }
    plan->spec.host_paths = (struct str_list){copy, allowed->n};
    return 0;
}
