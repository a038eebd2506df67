/* The Docker runtime as the rest of the server sees it: addresses, and its beginning and end. */

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rand.h"
#include "base/sha1.h"
#include "server/runtime/docker/docker.h"

/* ---- addresses: loop threads ---- */

/* Over the engine's published ports; execd forwards to the other ports of its sandbox. */
static int target_published(const struct docker *d, const struct container *c, uint16_t port,
                            struct runtime_target *ret)
{
    uint16_t outside = port == HTTP_PORT ? c->http_port : c->execd_port;
    if (!outside) {
        return -EAGAIN;
    }
    if (port != HTTP_PORT && port != EXECD_PORT) {
        (void)snprintf(ret->prefix, sizeof(ret->prefix), "/proxy/%u", port);
    }
    return io_addr_ip(str_from(d->engine.host), outside, &ret->http.addr);
}

/* The sidecar takes secrets only from where it is itself. We go there, so that what is meant for it
 * does not pass through the sandbox; where we may not, execd of the sandbox is its neighbour. */
static int target_sidecar(const struct container *c, struct runtime_target *ret)
{
    int fd = sidecar_enter(&c->sidecar);
    if (fd >= 0) {
        ret->http.netns_fd = fd;
        return io_addr_ip(STR("127.0.0.1"), EGRESS_PORT, &ret->http.addr);
    }
    (void)snprintf(ret->prefix, sizeof(ret->prefix), "/proxy/%d", EGRESS_PORT);
    return io_addr_ip(str_from(c->ip), EXECD_PORT, &ret->http.addr);
}

static int docker_target(struct runtime *rt, const char *id, uint16_t port,
                         struct runtime_target *ret)
{
    struct docker *d = docker_of(rt);
    struct container c;
    if (!index_get(d, id, &c)) {
        return -ENOENT;
    }
    *ret = (struct runtime_target){.http = {.netns_fd = -1}};
    int n = snprintf(ret->key, sizeof(ret->key), "%s:%u", id, port);
    ret->http.key = str_n(ret->key, (size_t)n);
    if (!c.is_up) {
        return -EAGAIN;
    }
    if (d->engine.host && !c.is_host_net) {
        return target_published(d, &c, port, ret);
    }
    if (c.is_host_net) {
        if (!d->engine.host && io_addr_ip(STR("::1"), port, &ret->alt) == 0) {
            ret->http.alt = &ret->alt;
        }
        return io_addr_ip(str_from(d->engine.host ? d->engine.host : "127.0.0.1"), port,
                          &ret->http.addr);
    }
    if (c.has_sidecar && port == EGRESS_PORT && c.ip[0]) {
        return target_sidecar(&c, ret);
    }
    return c.ip[0] ? io_addr_ip(str_from(c.ip), port, &ret->http.addr) : -EAGAIN;
}

static int docker_endpoint(struct runtime *rt, const char *id, uint16_t port,
                           struct runtime_endpoint *ret)
{
    struct docker *d = docker_of(rt);
    struct container c;
    *ret = (struct runtime_endpoint){0};
    if (!index_get(d, id, &c) || !c.is_up) {
        return -EAGAIN;
    }
    (void)snprintf(ret->host, sizeof(ret->host), "%s", d->public_host);
    if (c.is_host_net) {
        ret->port = port;
        return 0;
    }
    if (!d->dc->publish_ports && !c.execd_port) {
        return -EOPNOTSUPP;
    }
    ret->port = port == HTTP_PORT ? c.http_port : c.execd_port;
    if (port != HTTP_PORT) {
        (void)snprintf(ret->path, sizeof(ret->path), "/proxy/%u", port);
    }
    return ret->port ? 0 : -ENOENT;
}

/* ---- the host of endpoints ---- */

static bool is_wildcard(const char *host)
{
    return !*host || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* Our address on the way out. Nothing is sent. */
static bool local_ip(char out[INET_ADDRSTRLEN])
{
    cleanup_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(80)}, own;
    socklen_t len = sizeof(own);
    return fd >= 0 && inet_pton(AF_INET, "8.8.8.8", &to.sin_addr) == 1 &&
           connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
           getsockname(fd, (struct sockaddr *)&own, &len) == 0 &&
           inet_ntop(AF_INET, &own.sin_addr, out, INET_ADDRSTRLEN);
}

static void open_addresses(struct docker *d)
{
    const char *host = d->cfg->server.host;
    char ip[INET_ADDRSTRLEN];
    /* Of an engine elsewhere: where it is reached, its sandboxes are, too. */
    d->publish_ip = xstrdup(*d->dc->publish_address ? d->dc->publish_address
                            : d->engine.host        ? d->engine.host
                            : is_wildcard(host)     ? "0.0.0.0"
                                                    : host);
    if (d->engine.host) {
        d->public_host = xstrdup(d->engine.host);
    } else if (!is_wildcard(host)) {
        d->public_host = xstrdup(host);
    } else if (*d->dc->host_ip && access("/.dockerenv", F_OK) == 0) {
        d->public_host = xstrdup(d->dc->host_ip);
    } else {
        d->public_host = xstrdup(local_ip(ip) ? ip : "127.0.0.1");
    }
}

/* ---- beginning and end ---- */

/* Sandboxes of this server carry this word, so that two of them can share an engine. */
static int open_name(struct docker *d, struct err *e)
{
    cleanup_free char *dir = xasprintf("%s/docker", d->cfg->server.data_dir);
    cleanup_free char *path = xasprintf("%s/server-id", dir);
    cleanup_(buf_done) struct buf text = BUF_INIT(sizeof(d->server) - 1);
    int r = dir_make(AT_FDCWD, dir, 0755);
    if (r == 0 && file_read(AT_FDCWD, path, &text) == 0 && text.len == ID_HEX_LEN) {
        (void)snprintf(d->server, sizeof(d->server), "%s", buf_cstr(&text));
        return 0;
    }
    rand_id_hex(d->server);
    r = r < 0 ? r : file_write_atomic(AT_FDCWD, path, str_from(d->server), 0600);
    return r < 0 ? err_sys(e, r, "%s", path) : 0;
}

static int open_seccomp(struct docker *d, struct err *e)
{
    const char *path = d->dc->seccomp_profile;
    if (!*path || strcmp(path, "unconfined") == 0) {
        d->seccomp = *path ? xstrdup("seccomp=unconfined") : NULL;
        return 0;
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(DOCKER_SECCOMP_MAX), flat = text;
    int r = file_read(AT_FDCWD, path, &text);
    if (r < 0) {
        return err_sys(e, r, "docker.seccomp_profile: %s", path);
    }
    cleanup_(json_free) struct json *j = json_parse(buf_str(&text), e);
    if (!j) {
        return err_wrap(e, "docker.seccomp_profile: %s", path);
    }
    must(json_dump(j, &flat, 0) == 0);
    d->seccomp = xasprintf("seccomp=%s", buf_cstr(&flat));
    return 0;
}

static const char *normal_arch(const char *arch)
{
    static const struct {
        const char *from, *to;
    } rows[] = {{"x86_64", "amd64"},
                {"x86-64", "amd64"},
                {"aarch64", "arm64"},
                {"arm64v8", "arm64"},
                {"arm64/v8", "arm64"}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(arch, rows[i].from) == 0) {
            return rows[i].to;
        }
    }
    return arch;
}

static bool list_has(const struct json *list, const char *word)
{
    for (size_t i = 0; json_is_array(list) && i < json_len(list); i++) {
        const char *s = json_cstr(json_item(list, i));
        if (s && strstr(s, word)) {
            return true;
        }
    }
    return false;
}

/* The configured runtime must be one the engine has: better no start than sandboxes without. */
static int open_runtime(struct docker *d, const struct json *info, struct err *e)
{
    const struct config_secure_runtime *s = &d->cfg->secure_runtime;
    if (!*s->type) {
        return 0;
    }
    d->runtime_name = *s->docker_runtime               ? s->docker_runtime
                      : strcmp(s->type, "gvisor") == 0 ? "runsc"
                                                       : "kata-runtime";
    const struct json *rt = json_get(json_get(info, "Runtimes"), d->runtime_name);
    if (!rt) {
        return err_set(e, ERR_UNSUPPORTED,
                       "secure_runtime: the engine has no runtime \"%s\" (see its /info)",
                       d->runtime_name);
    }
    /* A kernel of its own writes packets past the hooks of the kernel outside, unless it was told
     * to use that one's sockets. */
    d->has_own_stack = !list_has(json_get(rt, "runtimeArgs"), "-network=host");
    return 0;
}

/* The engine leaves a profile out without a word where the kernel has no AppArmor. */
static int open_apparmor(const struct docker *d, const struct json *info, struct err *e)
{
    const char *profile = d->dc->apparmor_profile;
    if (!*profile || strcmp(profile, "unconfined") == 0 ||
        list_has(json_get(info, "SecurityOptions"), "name=apparmor")) {
        return 0;
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "docker.apparmor_profile: the engine's machine has no AppArmor (see its /info)");
}

static int open_info(struct docker *d, struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer a;
    struct engine_call c = {.path = "/info"};
    if (engine_do(&d->engine, &c, &a, e) < 0 || engine_check(&a, "info", e) < 0) {
        return -1;
    }
    const char *os = json_cstr(json_get(a.json, "OSType"));
    const char *arch = json_cstr(json_get(a.json, "Architecture"));
    (void)snprintf(d->os, sizeof(d->os), "%s", os ? os : "");
    (void)snprintf(d->arch, sizeof(d->arch), "%s", normal_arch(arch ? arch : ""));
    engine_disk_open(d, a.json);
    d->shares_mounts = engine_shares_mounts(d);
    return open_apparmor(d, a.json, e) < 0 ? -1 : open_runtime(d, a.json, e);
}

/* Known again after a restart of the server: addresses, and who answers. */
static int docker_adopt(struct runtime *rt, struct err *e)
{
    struct docker *d = docker_of(rt);
    cleanup_(engine_answer_done) struct engine_answer a;
    if (index_refresh(d, &a, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < json_len(a.json); i++) {
        const struct json *labels = json_get(json_item(a.json, i), "Labels");
        const char *server = label_get(labels, LABEL_SERVER);
        struct container c;
        if (!container_from_list(json_item(a.json, i), &c) ||
            (server && strcmp(server, d->server) != 0 && strcmp(d->dc->adopt, "all") != 0)) {
            continue;
        }
        if (c.has_sidecar) {
            char name[CONTAINER_ID_MAX];
            cleanup_(engine_answer_done) struct engine_answer s = {0};
            struct err ignored = {0}; /* without its sidecar it cannot be reached, but removed */
            (void)snprintf(name, sizeof(name), SIDECAR_NAME, c.id);
            if (container_inspect(d, name, &s, &ignored) == 0) {
                sidecar_from_inspect(d, s.json, &c.sidecar);
                memcpy(c.ip, c.sidecar.ip, sizeof(c.ip));
            }
        }
        c.is_up = true;
        index_put(d, &c);
    }
    return events_start(d, e);
}

static void docker_free(struct runtime *rt)
{
    struct docker *d = docker_of(rt);
    events_stop(d);
    size_t it = 0;
    struct str key;
    void *value;
    while (map_next(&d->containers, &it, &key, &value)) {
        free(value);
    }
    map_done(&d->containers);
    map_done(&d->creating);
    map_done(&d->ossfs_busy);
    (void)pthread_mutex_destroy(&d->ossfs_lock);
    stage_close(d);
    engine_close(&d->engine);
    (void)pthread_mutex_destroy(&d->ports.lock);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
    free(d->seccomp);
    free(d->publish_ip);
    free(d->public_host);
    free(d->disk);
    config_unref(d->cfg);
    free(d);
}

static const struct runtime_ops docker_ops = {
    .name = "docker",
    .create = docker_create,
    .remove = docker_remove,
    .pause = docker_pause,
    .resume = docker_resume,
    .inspect = docker_inspect,
    .list = docker_list,
    .stats = docker_stats,
    .logs = docker_logs,
    .describe = docker_describe,
    .target = docker_target,
    .endpoint = docker_endpoint,
    .snapshot = docker_snapshot,
    .snapshot_remove = docker_snapshot_remove,
    .snapshot_exists = docker_snapshot_exists,
    .adopt = docker_adopt,
    .found = docker_found,
    .check = docker_check,
    .sweep = docker_sweep,
    .must_fetch = docker_must_fetch,
    .free = docker_free,
};

static int docker_open(struct docker *d, struct err *e)
{
    const char *mode = d->dc->network_mode;
    d->mode = strcmp(mode, "host") == 0     ? NET_HOST
              : strcmp(mode, "bridge") == 0 ? NET_BRIDGE
                                            : NET_CUSTOM;
    if (engine_open(&d->engine, d->dc, e) < 0 || open_info(d, e) < 0 || open_name(d, e) < 0 ||
        open_seccomp(d, e) < 0 || stage_open(d, e) < 0) {
        return -1;
    }
    hold_clear(d);
    open_addresses(d);
    if (*d->cfg->runtime.execd_image) {
        log_debug("runtime.execd_image is only used for Windows: the server carries its own execd");
    }
    return 0;
}

struct runtime *runtime_docker_new(const struct config *cfg, struct err *e)
{
    struct docker *d = NEW(struct docker);
    d->rt.ops = &docker_ops;
    d->cfg = config_ref((struct config *)(uintptr_t)cfg); /* only its count changes */
    d->dc = &d->cfg->docker;
    ports_init(&d->ports);
    (void)pthread_mutex_init(&d->ossfs_lock, NULL);
    (void)pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&d->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
    if (docker_open(d, e) < 0) {
        (void)err_wrap(e, "docker runtime");
        docker_free(&d->rt);
        return NULL;
    }
    return &d->rt;
}
