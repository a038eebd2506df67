/* The egress sidecar: a container that owns the network of a sandbox and decides where it may go.
 * Its ports are the sandbox's. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

#define POLL_MS 20
#define LOOK_MS 300u /* how often it is asked whether it still runs */

static void push_env(struct json *env, const char *key, const char *value)
{
    cleanup_free char *text = xasprintf("%s=%s", key, value);
    json_push(env, json_string_new(str_from(text)));
}

/* What the operator tells all sidecars through the server's environment. */
static void push_passed(struct json *env)
{
    static const char *const names[] = {
        "OPENSANDBOX_EGRESS_DENY_WEBHOOK",
        "OPENSANDBOX_EGRESS_LOG_LEVEL",
        "OPENSANDBOX_EGRESS_MAX_RULES",
    };
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);
        if (value) {
            push_env(env, names[i], value);
        }
    }
}

static struct json *host_make(const struct making *m, struct json *ret_exposed)
{
    static const char *const sysctls[] = {"net.ipv6.conf.all.disable_ipv6",
                                          "net.ipv6.conf.default.disable_ipv6",
                                          "net.ipv6.conf.lo.disable_ipv6"};
    struct json *host = json_object_new(), *caps = json_array_new();
    json_set(host, "NetworkMode", json_string_new(str_from(m->d->dc->network_mode)));
    json_push(caps, json_string_new(STR("NET_ADMIN")));
    json_set(host, "CapAdd", caps);
    json_set(host, "PortBindings", body_port_bindings(m, ret_exposed));
    if (m->d->cfg->egress.disable_ipv6) {
        struct json *set = json_object_new();
        for (size_t i = 0; i < ARRAY_LEN(sysctls); i++) {
            json_set(set, sysctls[i], json_string_new(STR("1")));
        }
        json_set(host, "Sysctls", set);
    }
    if (m->spec->credential_proxy) {
        struct json *binds = json_array_new();
        cleanup_free char *text = xasprintf(RUNTIME_VOLUME ":" OPT_DIR ":rw", m->spec->id);
        json_push(binds, json_string_new(str_from(text)));
        json_set(host, "Binds", binds);
    }
    return host;
}

static struct json *sidecar_body(const struct making *m)
{
    const struct config_egress *c = &m->d->cfg->egress;
    struct json *body = json_object_new(), *env = json_array_new(), *labels = json_object_new();
    struct json *exposed = json_object_new();
    push_env(env, "OPENSANDBOX_EGRESS_RULES", m->spec->egress_policy);
    push_env(env, "OPENSANDBOX_EGRESS_MODE", c->mode);
    push_env(env, "OPENSANDBOX_EGRESS_TOKEN", m->spec->egress_token);
    push_env(env, "OPENSANDBOX_EGRESS_SANDBOX_ID", m->spec->id);
    push_passed(env);
    if (m->spec->credential_proxy) {
        push_env(env, "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT", "true");
    }
    json_set(labels, LABEL_SIDECAR, json_string_new(str_from(m->spec->id)));
    json_set(labels, LABEL_SERVER, json_string_new(str_from(m->d->server)));
    json_set(body, "Image", json_string_new(str_from(c->image)));
    json_set(body, "Env", env);
    json_set(body, "Labels", labels);
    json_set(body, "HostConfig", host_make(m, exposed));
    json_set(body, "ExposedPorts", exposed);
    return body;
}

/* -1 with its last words when it has ended instead of answering. */
static int check_alive(struct making *m, struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer a = {0};
    struct runtime_status st;
    if (container_inspect(m->d, m->sidecar, &a, e) < 0) {
        engine_err_as_io(e);
        return -1;
    }
    status_from_inspect(a.json, &st);
    if (st.state == RT_RUNNING) {
        return 0;
    }
    cleanup_(buf_done) struct buf words = BUF_INIT(DOCKER_LOGS_MAX);
    struct err ignored = {0};
    (void)container_logs(m->d, m->sidecar, 2, 0, &words, &ignored);
    struct str text = str_trim(buf_str(&words));
    text = text.n > 300 ? str_sub(text, text.n - 300, text.n) : text;
    return err_set(e, ERR_IO, "the egress sidecar ended instead of answering (%s %d)%s%.*s",
                   st.exit == EXIT_SIGNAL ? "signal" : "exit code", st.exit_code,
                   text.n ? ": " : "", STR_FMT(text));
}

/* Once everything else of the sandbox can rely on the policy. */
static int wait_ready(struct making *m, const struct sidecar_at *at, struct err *e)
{
    uint64_t looked = clock_mono_ms();
    char url[PATH_TEXT_MAX], header[96];
    if (m->d->engine.host) {
        (void)snprintf(url, sizeof(url), "http://%s:%u/healthz", m->d->engine.host, m->egress_port);
    } else {
        (void)snprintf(url, sizeof(url), "http://%s:%d/healthz", at->ip, EGRESS_PORT);
    }
    (void)snprintf(header, sizeof(header), "OPENSANDBOX-EGRESS-AUTH: %s", m->spec->egress_token);
    uint64_t deadline = clock_mono_ms() + DOCKER_SIDECAR_WAIT_MS;
    while (ping(url, header) < 0) {
        if (clock_mono_ms() - looked >= LOOK_MS) {
            looked = clock_mono_ms();
            if (check_alive(m, e) < 0) {
                return -1;
            }
        }
        if (clock_mono_ms() >= deadline) {
            return err_set(e, ERR_IO, "the egress sidecar did not answer within %u s",
                           DOCKER_SIDECAR_WAIT_MS / 1000);
        }
        struct timespec pause = {0, POLL_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
    return 0;
}

/* ---- where it is ---- */

static int ns_open(pid_t pid)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC);
}

/* The number is the engine's machine's: only if that process belongs to this very container do we
 * count the same way. */
static bool is_process_of(pid_t pid, const char *cid)
{
    char path[64];
    cleanup_(buf_done) struct buf text = BUF_INIT(64u << 10);
    (void)snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
    return *cid && file_read(AT_FDCWD, path, &text) == 0 &&
           str_find_str(buf_str(&text), str_from(cid)) >= 0;
}

void sidecar_from_inspect(const struct docker *d, const struct json *j, struct sidecar_at *ret)
{
    struct container c;
    struct stat st;
    container_from_inspect(j, &c);
    *ret = (struct sidecar_at){.pid = (pid_t)json_int(json_at(j, "State.Pid"), 0)};
    memcpy(ret->ip, c.ip, sizeof(ret->ip));
    cleanup_close int fd = d->engine.host || ret->pid <= 0 ? -1 : ns_open(ret->pid);
    if (fd >= 0 && fstat(fd, &st) == 0 && is_process_of(ret->pid, c.cid)) {
        ret->ns = st.st_ino;
    }
}

/* Not the namespace of somebody who has the number now. */
int sidecar_enter(const struct sidecar_at *at)
{
    struct stat st;
    cleanup_close int fd = at->ns ? ns_open(at->pid) : -1;
    return fd >= 0 && fstat(fd, &st) == 0 && st.st_ino == at->ns ? take_fd(&fd) : -1;
}

/* ---- its beginning ---- */

int sidecar_start(struct making *m, struct sidecar_at *ret, enum runtime_stage *ret_stage,
                  struct err *e)
{
    char name[CONTAINER_ID_MAX];
    (void)snprintf(name, sizeof(name), SIDECAR_NAME, m->spec->id);
    /* Not with the credentials that belong to the sandbox's registry. */
    struct runtime_spec pull = {.progress = m->spec->progress,
                                .progress_arg = m->spec->progress_arg};
    cleanup_(json_free) struct json *body = sidecar_body(m);
    cleanup_(engine_answer_done) struct engine_answer a = {0};
    if (container_make(m, name, body, m->d->cfg->egress.image, &pull, m->sidecar, ret_stage, e) <
            0 ||
        container_start(m, m->sidecar, e) < 0 || container_inspect(m->d, m->sidecar, &a, e) < 0) {
        return err_wrap(e, "egress sidecar");
    }
    sidecar_from_inspect(m->d, a.json, ret);
    return wait_ready(m, ret, e);
}

/* ---- its end ---- */

/* The network went with it, for good: one that is started again has another. The sandbox has no way
 * out and nobody a way in, so it is ended and says why, instead of staying on as if it ran. */
void sidecar_lost(struct docker *d, const char *id)
{
    char path[PATH_TEXT_MAX] = "";
    (void)pthread_mutex_lock(&d->lock);
    struct container *c = map_get(&d->containers, str_from(id));
    if (c && c->has_sidecar && c->is_up && !c->is_leaving && !c->lost_sidecar &&
        (c->state == RT_RUNNING || c->state == RT_PAUSED)) {
        c->lost_sidecar = true;
        (void)snprintf(path, sizeof(path), "/containers/%s/kill", c->cid);
    }
    (void)pthread_mutex_unlock(&d->lock);
    struct err e = {0};
    if (!path[0]) {
        return;
    }
    log_error("an egress sidecar ended; its sandbox has no network any more and is ended",
              LOG_S("id", id));
    if (engine_run(&d->engine, "POST", path, 409, "kill", &e) < 0) {
        log_warn("the sandbox could not be ended", LOG_S("id", id), LOG_ERR(&e));
    }
}

static bool has_guarded(struct docker *d)
{
    size_t it = 0;
    void *value;
    bool found = false;
    (void)pthread_mutex_lock(&d->lock);
    while (!found && map_next(&d->containers, &it, NULL, &value)) {
        found = ((const struct container *)value)->has_sidecar;
    }
    (void)pthread_mutex_unlock(&d->lock);
    return found;
}

int sidecars_check(struct docker *d, struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer a = {0};
    struct engine_call call = {.path = SIDECARS_PATH};
    if (!has_guarded(d)) {
        return 0;
    }
    if (engine_do(&d->engine, &call, &a, e) < 0 || engine_check(&a, "list of sidecars", e) < 0) {
        return -1;
    }
    for (size_t i = 0; json_is_array(a.json) && i < json_len(a.json); i++) {
        const struct json *j = json_item(a.json, i);
        const char *of = label_get(json_get(j, "Labels"), LABEL_SIDECAR);
        const char *state = json_cstr(json_get(j, "State"));
        if (of && state && (strcmp(state, "exited") == 0 || strcmp(state, "dead") == 0)) {
            sidecar_lost(d, of);
        }
    }
    return 0;
}
