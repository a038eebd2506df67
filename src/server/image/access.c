/* How to reach a registry: what the configuration says about it, and credentials as `docker login`
 * keeps them: {"auths":{"host":{"auth":"base64(user:pw)"}}}. Credential helpers are programs of the
 * user's desktop and are not run. */

#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/image/internal.h"
#include "server/image/registry.h"

#define MAX_CONFIG (1u << 20)
#define MAX_AUTH 4096

static int decode_auth(struct str auth, char **ret_user, char **ret_password)
{
    char plain[MAX_AUTH];
    ssize_t n = base64_decode(auth, plain, sizeof(plain));
    if (n < 0) {
        return -ENOENT;
    }
    struct str rest = str_n(plain, (size_t)n);
    struct str user = str_cut(&rest, ':');
    if (!rest.p) {
        return -ENOENT;
    }
    *ret_user = str_dup(user);
    *ret_password = str_dup(rest);
    explicit_bzero(plain, sizeof(plain));
    return 0;
}

static struct json *find_auth(const struct json *auths, const char *registry)
{
    struct json *j = json_get(auths, registry);
    if (j || strcmp(registry, "docker.io") != 0) {
        return j;
    }
    return json_get(auths, "https://index.docker.io/v1/");
}

int docker_config_auth(const char *path, const char *registry, char **ret_user, char **ret_password)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(MAX_CONFIG);
    if (file_read(AT_FDCWD, path, &text) < 0) {
        return -ENOENT;
    }
    cleanup_(json_free) struct json *j = json_parse(buf_str(&text), NULL);
    struct json *entry = find_auth(json_get(j, "auths"), registry);
    const char *user = json_cstr(json_get(entry, "username")),
               *pw = json_cstr(json_get(entry, "password"));
    if (user && pw) {
        *ret_user = xstrdup(user);
        *ret_password = xstrdup(pw);
        return 0;
    }
    struct str auth = json_str(json_get(entry, "auth"));
    return auth.n > 0 ? decode_auth(auth, ret_user, ret_password) : -ENOENT;
}

static const struct image_registry_conf *registry_conf(const struct image_store *s,
                                                       const char *host)
{
    for (size_t i = 0; i < s->n_registries; i++) {
        if (strcmp(s->registries[i].host, host) == 0) {
            return &s->registries[i];
        }
    }
    return NULL;
}

const char *store_mirror_of(const struct image_store *s, const char *registry)
{
    const struct image_registry_conf *conf = registry_conf(s, registry);
    return conf ? conf->mirror : NULL;
}

/* Of "http[s]://host[:port]". */
static const char *host_of(const char *address)
{
    const char *at = strstr(address, "://");
    return at ? at + 3 : address;
}

struct registry *store_open_registry(const struct image_store *s, const struct image_ref *ref,
                                     const char *user, const char *password, bool mirror)
{
    const struct image_registry_conf *conf = registry_conf(s, ref->registry);
    cleanup_free char *file_user = NULL, *file_password = NULL;
    struct registry_opts o = {0};
    if (conf) {
        o.ca_file = conf->ca_file;
        o.mirror = mirror ? conf->mirror : NULL;
        o.plain_http = conf->insecure;
        o.skip_verify = conf->skip_verify;
    }
    /* A mirror is somebody else: what is meant for the registry is not told to it. */
    const char *host = o.mirror ? host_of(o.mirror) : ref->registry;
    if (user && !o.mirror) {
        o.user = user;
        o.password = password;
    } else if (s->docker_config &&
               docker_config_auth(s->docker_config, host, &file_user, &file_password) == 0) {
        o.user = file_user;
        o.password = file_password;
    }
    struct registry *r = registry_open(ref, &o);
    if (file_password) {
        explicit_bzero(file_password, strlen(file_password));
    }
    return r;
}
