/* What the option table cannot say: defaults that depend on each other, and rules across keys. */

#include <arpa/inet.h>
#include <limits.h>
#include <unistd.h>

#include "base/num.h"
#include "net/cidr.h"
#include "server/config/option.h"

static bool blank(const char *s)
{
    return !s || str_trim(str_from(s)).n == 0;
}

/* The execd that was built or installed with this server: in its own directory, or in libexec. */
static const char *find_execd(struct arena *a)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
    ptrdiff_t slash = n > 0 ? str_rfind(str_n(self, (size_t)n), '/') : -1;
    if (slash < 0) {
        return "execd";
    }
    const char *beside = arena_printf(a, "%.*s/execd", (int)slash, self);
    const char *libexec = arena_printf(a, "%.*s/../libexec/opensandbox/execd", (int)slash, self);
    return access(beside, R_OK) < 0 && access(libexec, R_OK) == 0 ? libexec : beside;
}

static void derive_paths(struct config *c)
{
    struct arena *a = &c->arena;
    if (blank(c->server.data_dir)) {
        const char *home = getenv("HOME");
        c->server.data_dir = geteuid() == 0 || !home || *home != '/'
                                 ? "/var/lib/opensandbox"
                                 : arena_printf(a, "%s/.opensandbox", home);
    }
    if (blank(c->server.key_file)) {
        c->server.key_file = arena_printf(a, "%s/api-key", c->server.data_dir);
    }
    if (blank(c->store.path)) {
        c->store.path = arena_printf(a, "%s/opensandbox.db", c->server.data_dir);
    }
    if (blank(c->oci.root)) {
        c->oci.root = arena_printf(a, "%s/oci", c->server.data_dir);
    }
    if (blank(c->images.root)) {
        c->images.root = arena_printf(a, "%s/images", c->server.data_dir);
    }
    if (blank(c->oci.execd)) {
        c->oci.execd = find_execd(a);
    }
    if (blank(c->docker.execd)) {
        c->docker.execd = c->oci.execd;
    }
}

static int check_server(struct config *c, const char **key, struct err *e)
{
    struct ip ip;
    *key = "server.host";
    if (strcmp(c->server.host, "localhost") == 0) {
        c->server.host = "127.0.0.1";
    }
    if (ip_parse(str_from(c->server.host), &ip) < 0) {
        return err_set(e, ERR_INVALID, "\"%s\" is not an IP address of this machine",
                       c->server.host);
    }
    *key = "server.max_sandbox_timeout_seconds";
    if (c->server.max_sandbox_timeout_seconds && c->server.max_sandbox_timeout_seconds < 60) {
        return err_set(e, ERR_INVALID, "must be 60 or more (0 means no cap)");
    }
    *key = "server.api_key";
    if (c->server.api_key && c->server.api_keys.n && blank(c->server.api_key)) {
        return err_set(e, ERR_INVALID, "is empty although api_keys holds keys");
    }
    return 0;
}

static int check_oci(struct config *c, const char **key, struct err *e)
{
    *key = "oci.bridge";
    if (strlen(c->oci.bridge) > 15) {
        return err_set(e, ERR_INVALID, "\"%s\" is longer than 15 characters", c->oci.bridge);
    }
    struct cidr net;
    *key = "oci.subnet";
    if (cidr_parse(str_from(c->oci.subnet), &net) < 0 || net.bits > 29 || net.bits < 8) {
        return err_set(e, ERR_INVALID, "\"%s\" must be between a /8 and a /29", c->oci.subnet);
    }
    *key = "oci.id_ranges";
    if (c->oci.id_base + c->oci.id_count * c->oci.id_ranges > INT64_C(4294967294)) {
        return err_set(e, ERR_INVALID, "id_base + id_count * id_ranges is beyond the last user id");
    }
    *key = "oci.seccomp";
    if (strcmp(c->oci.seccomp, "default") != 0 && strcmp(c->oci.seccomp, "unconfined") != 0 &&
        c->oci.seccomp[0] != '/') {
        return err_set(e, ERR_INVALID, "must be default, unconfined, or an absolute path");
    }
    return 0;
}

static int check_secure(struct config *c, const char **key, struct err *e)
{
    const char *type = c->secure_runtime.type;
    *key = "secure_runtime.type";
    if (!strcmp(c->runtime.type, "oci")) {
        if (!strcmp(type, "gvisor")) {
            c->oci.engine = "runsc";
        } else if (*type) {
            return err_set(e, ERR_INVALID, "the embedded runtime has gvisor (runsc), not %s", type);
        }
        return 0;
    }
    if (!strcmp(type, "firecracker")) {
        return err_set(e, ERR_INVALID, "firecracker needs the Kubernetes runtime");
    }
    *key = "secure_runtime.docker_runtime";
    if (!*type && *c->secure_runtime.docker_runtime) {
        return err_set(e, ERR_INVALID, "is set although secure_runtime.type is not");
    }
    return 0;
}

static int check_renew(struct config *c, const char **key, struct err *e)
{
    *key = "renew_intent.redis.dsn";
    if (c->renew.redis_enabled && blank(c->renew.redis_dsn)) {
        return err_set(e, ERR_INVALID, "is required when renew_intent.redis.enabled is true");
    }
    if (c->renew.redis_enabled && !str_starts(str_from(c->renew.redis_dsn), STR("redis://"))) {
        return err_set(e, ERR_INVALID, "must begin with redis://");
    }
    return 0;
}

static int check_docker(struct config *c, const char **key, struct err *e)
{
    struct ip ip;
    *key = "docker.publish_address";
    if (*c->docker.publish_address && ip_parse(str_from(c->docker.publish_address), &ip) < 0) {
        return err_set(e, ERR_INVALID, "\"%s\" is not an IP address of this machine",
                       c->docker.publish_address);
    }
    *key = "docker.seccomp_profile";
    if (*c->docker.seccomp_profile && strcmp(c->docker.seccomp_profile, "unconfined") != 0 &&
        c->docker.seccomp_profile[0] != '/') {
        return err_set(e, ERR_INVALID, "must be unconfined, or an absolute path");
    }
    return 0;
}

int config_check(struct config *c, const char **key, struct err *e)
{
    derive_paths(c);
    if (check_server(c, key, e) < 0 || check_oci(c, key, e) < 0 || check_secure(c, key, e) < 0 ||
        check_renew(c, key, e) < 0 || check_docker(c, key, e) < 0) {
        return -1;
    }
    return 0;
}
