/* Images: fetched by the engine, which tells how far it is. Credentials come with the request, or
 * from the engine client's own file. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/codec.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

struct pull {
    const struct runtime_spec *spec;
    struct engine_lines lines;
    uint64_t heard_ms;
    char failed[300];
};

static int on_line(struct str line, void *arg)
{
    struct pull *p = arg;
    struct err ignored = {0};
    cleanup_(json_free) struct json *j = json_parse(line, &ignored);
    struct str why = json_str(json_get(j, "error"));
    if (why.p) {
        (void)snprintf(p->failed, sizeof(p->failed), "%.*s", STR_FMT(why));
    }
    const struct json *detail = json_get(j, "progressDetail");
    const char *what = json_cstr(json_get(j, "status"));
    if (p->spec->progress && json_len(detail) &&
        !p->spec->progress(what ? what : "", (uint64_t)json_int(json_get(detail, "current"), 0),
                           (uint64_t)json_int(json_get(detail, "total"), 0),
                           p->spec->progress_arg)) {
        return -ECANCELED;
    }
    return 0;
}

static int on_data(struct str data, void *arg)
{
    struct pull *p = arg;
    p->heard_ms = clock_mono_ms();
    return engine_lines_add(&p->lines, data);
}

static bool is_cancelled(void *arg)
{
    const struct pull *p = arg;
    bool silent = clock_mono_ms() - p->heard_ms > DOCKER_PULL_SILENCE_MS;
    return silent ||
           (p->spec->progress && !p->spec->progress("waiting", 0, 0, p->spec->progress_arg));
}

/* ---- credentials ---- */

/* "registry.example:5000" of "registry.example:5000/a/b:tag"; else the engine's default one, by the
 * name that its client keeps credentials under. */
static struct str registry_of(const char *image)
{
    struct str rest = str_from(image), first = str_cut(&rest, '/');
    bool is_host = rest.p && (str_find(first, '.') >= 0 || str_find(first, ':') >= 0 ||
                              str_eq(first, STR("localhost")));
    return is_host ? first : STR("index.docker.io");
}

static void header_make(struct buf *out, const struct json *auth)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(DOCKER_CONFIG_MAX);
    must(json_dump(auth, &text, 0) == 0);
    (void)buf_add_cstr(out, "X-Registry-Auth: ");
    (void)base64url_encode(out, text.p, text.len);
    while ((out->len - strlen("X-Registry-Auth: ")) % 4) {
        (void)buf_add_char(out, '=');
    }
}

static bool is_entry_of(const char *key, struct str registry)
{
    struct str k = str_from(key);
    ptrdiff_t scheme = str_find_str(k, STR("://"));
    k = scheme >= 0 ? str_sub(k, (size_t)scheme + 3, k.n) : k;
    return str_eq(str_cut(&k, '/'), registry);
}

/* {"auth": base64 of "user:password"}, or both in plain words, or a token of the registry's. */
static bool auth_from_entry(const struct json *entry, struct buf *out)
{
    char plain[4096];
    struct str user = json_str(json_get(entry, "username"));
    struct str pass = json_str(json_get(entry, "password"));
    struct str token = json_str(json_get(entry, "identitytoken"));
    ssize_t n = base64_decode(json_str(json_get(entry, "auth")), plain, sizeof(plain));
    if (!user.n && n > 0) {
        pass = str_n(plain, (size_t)n);
        user = str_cut(&pass, ':');
    }
    if (!user.n && !token.n) {
        return false;
    }
    cleanup_(json_free) struct json *auth = json_object_new();
    if (token.n) {
        json_set(auth, "identitytoken", json_string_new(token));
    } else {
        json_set(auth, "username", json_string_new(user));
        json_set(auth, "password", json_string_new(pass));
    }
    header_make(out, auth);
    explicit_bzero(plain, sizeof(plain));
    return true;
}

/* The file of the engine's client: {"auths": {"host": {...}}}. Its helpers are programs of a user's
 * desktop and are not run. */
static void auth_from_file(const struct docker *d, struct str registry, struct buf *out)
{
    const char *dir = getenv("DOCKER_CONFIG");
    cleanup_free char *path =
        dir && *dir ? xasprintf("%s/config.json", dir) : xstrdup(d->cfg->images.docker_config);
    cleanup_(buf_done) struct buf text = BUF_INIT(DOCKER_CONFIG_MAX);
    struct err ignored = {0};
    if (!*path || file_read(AT_FDCWD, path, &text) < 0) {
        return;
    }
    cleanup_(json_free) struct json *root = json_parse(buf_str(&text), &ignored);
    if (text.p) {
        explicit_bzero(text.p, text.len);
    }
    void *it = NULL;
    const char *key;
    struct json *entry;
    const struct json *auths = json_get(root, "auths");
    while (json_is_object(auths) && json_next(auths, &it, &key, &entry)) {
        if (is_entry_of(key, registry) && auth_from_entry(entry, out)) {
            return;
        }
    }
}

static void auth_make(const struct docker *d, const struct runtime_spec *spec, const char *image,
                      struct buf *out)
{
    if (!spec->image_user) {
        auth_from_file(d, registry_of(image), out);
        return;
    }
    cleanup_(json_free) struct json *auth = json_object_new();
    json_set(auth, "username", json_string_new(str_from(spec->image_user)));
    json_set(auth, "password",
             json_string_new(str_from(spec->image_password ? spec->image_password : "")));
    header_make(out, auth);
}

/* ---- pulling ---- */

/* "fromImage=...&tag=...": a digest or a tag, "latest" when there is neither. */
static void reference_into(struct buf *path, const char *image)
{
    struct str name = str_from(image), tag = STR("latest");
    ptrdiff_t at = str_find(name, '@'), colon = str_rfind(name, ':'), slash = str_rfind(name, '/');
    if (at >= 0) {
        tag = str_sub(name, (size_t)at + 1, name.n);
        name = str_sub(name, 0, (size_t)at);
    } else if (colon > slash) {
        tag = str_sub(name, (size_t)colon + 1, name.n);
        name = str_sub(name, 0, (size_t)colon);
    }
    (void)buf_add_cstr(path, "fromImage=");
    (void)percent_encode(path, name, false);
    (void)buf_add_cstr(path, "&tag=");
    (void)percent_encode(path, tag, false);
}

static bool is_missing(struct docker *d, const struct runtime_spec *spec, const char *image)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(16u << 10);
    cleanup_(engine_answer_done) struct engine_answer a;
    struct err ignored = {0}; /* the create will say what is wrong */
    (void)buf_printf(&path, "/images/%s/json", image);
    struct engine_call c = {.path = buf_cstr(&path)};
    if (engine_do(&d->engine, &c, &a, &ignored) < 0 || a.status != 200) {
        return a.status == 404;
    }
    const char *os = json_cstr(json_get(a.json, "Os"));
    const char *arch = json_cstr(json_get(a.json, "Architecture"));
    return spec->os && !spec_is_windows(spec) && os && arch &&
           (strcmp(os, spec->os) != 0 || strcmp(arch, spec->arch) != 0);
}

bool docker_must_fetch(struct runtime *rt, const struct runtime_spec *spec)
{
    struct docker *d = docker_of(rt);
    return (spec->image && !spec->snapshot_id && is_missing(d, spec, spec->image)) ||
           (spec->egress_policy && is_missing(d, &(struct runtime_spec){0}, d->cfg->egress.image));
}

int image_pull(struct docker *d, const struct runtime_spec *spec, const char *image, struct err *e)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(16u << 10), auth = BUF_INIT(64u << 10);
    (void)buf_add_cstr(&path, "/images/create?");
    reference_into(&path, image);
    if (spec->os && !spec_is_windows(spec)) {
        (void)buf_printf(&path, "&platform=%s%%2F%s", spec->os, spec->arch);
    }
    auth_make(d, spec, image, &auth);
    struct pull p = {
        .spec = spec,
        .lines = {.on_line = on_line, .arg = &p},
        .heard_ms = clock_mono_ms(),
    };
    struct engine_call c = {
        .method = "POST",
        .path = buf_cstr(&path),
        .header = auth.len ? buf_cstr(&auth) : NULL,
        .is_stream = true,
        .on_data = on_data,
        .cancelled = is_cancelled,
        .arg = &p,
    };
    cleanup_(engine_answer_done) struct engine_answer a;
    int r = engine_do(&d->engine, &c, &a, e);
    r = r < 0 ? r : engine_check(&a, image, e);
    buf_done(&p.lines.rest);
    if (auth.p) {
        explicit_bzero(auth.p, auth.len);
    }
    if (r == 0 && p.failed[0]) {
        r = err_set(e, ERR_IO, "%s: %s", image, p.failed);
    }
    if (r < 0) {
        engine_err_as_io(e);
        if (e->code == ERR_INVALID) {
            e->code = ERR_IO; /* a pull that fails is a 500 of its own */
        }
        return err_wrap(e, "pull");
    }
    return 0;
}
