/* What the engine is asked to create. */

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

#define MITM_ENV "OPENSANDBOX_EGRESS_MITMPROXY_TRANSPARENT"

const char *spec_image(const struct runtime_spec *spec, char out[PATH_TEXT_MAX])
{
    if (!spec->snapshot_id) {
        return spec->image;
    }
    (void)snprintf(out, PATH_TEXT_MAX, SNAPSHOT_REPO ":%s", spec->snapshot_id);
    return out;
}

static void set_text(struct json *obj, const char *key, const char *value)
{
    json_set(obj, key, json_string_new(str_from(value ? value : "")));
}

static void push_text(struct json *arr, const char *value)
{
    json_push(arr, json_string_new(str_from(value)));
}

/* ---- labels ---- */

static void set_port(struct json *labels, const char *name, uint16_t port)
{
    char text[8] = "";
    if (port) {
        (void)snprintf(text, sizeof(text), "%u", port);
    }
    set_text(labels, name, text);
}

static void set_list(struct json *labels, const char *name, const struct json *list)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(256u << 10);
    if (json_len(list)) {
        (void)json_dump(list, &text, 0);
    }
    set_text(labels, name, buf_cstr(&text));
}

/* Every label of the system, also those that do not apply: empty means absent. The engine merges
 * the labels of the image in, and an image that was a snapshot has those of its source. */
static struct json *labels_make(const struct making *m)
{
    const struct runtime_spec *s = m->spec;
    struct json *labels = json_object_new();
    for (size_t i = 0; i < s->n_labels; i++) {
        set_text(labels, s->labels[i].key, s->labels[i].value);
    }
    char expires[RFC3339_MAX] = "", extend[24] = "";
    if (s->expires_us) {
        rfc3339_format(s->expires_us, 6, expires);
        /* As the reference writes it: with an offset. */
        (void)snprintf(expires + strlen(expires) - 1, 7, "+00:00");
    }
    if (s->renew_extend_s) {
        (void)snprintf(extend, sizeof(extend), "%lld", (long long)s->renew_extend_s);
    }
    set_text(labels, LABEL_ID, s->id);
    set_text(labels, LABEL_SERVER, m->d->server);
    set_text(labels, LABEL_EXPIRES, expires);
    set_text(labels, LABEL_MANUAL, s->expires_us ? "" : "true");
    set_text(labels, LABEL_OS, s->os);
    set_text(labels, LABEL_ARCH, s->arch);
    set_text(labels, LABEL_SNAPSHOT, s->snapshot_id);
    set_text(labels, LABEL_RENEW, extend);
    set_port(labels, LABEL_EXECD_PORT, m->execd_port);
    set_port(labels, LABEL_HTTP_PORT, m->http_port);
    set_text(labels, LABEL_TOKEN, m->sidecar[0] ? s->egress_token : "");
    set_text(labels, LABEL_SIDECAR, "");
    set_list(labels, LABEL_VOLUMES, m->volumes.managed);
    set_list(labels, LABEL_OSSFS, m->volumes.ossfs);
    return labels;
}

/* ---- network ---- */

static void publish(const struct making *m, struct json *bindings, struct json *exposed,
                    const char *inside, uint16_t outside)
{
    char text[8];
    if (!outside) {
        return;
    }
    (void)snprintf(text, sizeof(text), "%u", outside);
    struct json *one = json_object_new(), *list = json_array_new();
    set_text(one, "HostIp", m->d->publish_ip);
    set_text(one, "HostPort", text);
    json_push(list, one);
    json_set(bindings, inside, list);
    json_set(exposed, inside, json_object_new());
}

struct json *body_port_bindings(const struct making *m, struct json *ret_exposed)
{
    struct json *bindings = json_object_new();
    publish(m, bindings, ret_exposed, "44772/tcp", m->execd_port);
    publish(m, bindings, ret_exposed, "8080/tcp", m->http_port);
    publish(m, bindings, ret_exposed, "18080/tcp", m->egress_port);
    publish(m, bindings, ret_exposed, "3389/tcp", m->extra_ports[0]);
    publish(m, bindings, ret_exposed, "3389/udp", m->extra_ports[1]);
    publish(m, bindings, ret_exposed, "8006/tcp", m->extra_ports[2]);
    return bindings;
}

static void network_into(const struct making *m, struct json *body, struct json *host)
{
    char mode[CONTAINER_ID_MAX + 16];
    if (m->sidecar[0]) {
        (void)snprintf(mode, sizeof(mode), "container:%s", m->sidecar);
        set_text(host, "NetworkMode", mode);
        return;
    }
    set_text(host, "NetworkMode", m->d->dc->network_mode);
    if (m->d->mode != NET_HOST) {
        struct json *exposed = json_object_new();
        json_set(host, "PortBindings", body_port_bindings(m, exposed));
        json_set(body, "ExposedPorts", exposed);
    }
}

/* ---- confinement ---- */

static struct json *security_make(const struct docker *d)
{
    struct json *opts = json_array_new();
    if (d->dc->no_new_privileges) {
        push_text(opts, "no-new-privileges:true");
    }
    if (*d->dc->apparmor_profile) {
        cleanup_free char *text = xasprintf("apparmor=%s", d->dc->apparmor_profile);
        push_text(opts, text);
    }
    if (d->seccomp) {
        push_text(opts, d->seccomp);
    }
    return opts;
}

static struct json *drop_make(const struct making *m)
{
    struct json *drop = json_array_new();
    bool has_admin = false, has_raw = false;
    for (size_t i = 0; i < m->d->dc->drop_capabilities.n; i++) {
        const char *cap = m->d->dc->drop_capabilities.v[i];
        bool admin = strcmp(cap, "NET_ADMIN") == 0, raw = strcmp(cap, "NET_RAW") == 0;
        has_admin |= admin;
        has_raw |= raw;
        /* The machine inside a Windows sandbox makes its own network. */
        if (!m->is_windows || (!admin && !raw)) {
            push_text(drop, cap);
        }
    }
    /* It shares the sidecar's network: it must not change the rules, nor mark or forge packets. */
    if (m->sidecar[0] && !has_admin) {
        push_text(drop, "NET_ADMIN");
    }
    if (m->sidecar[0] && !has_raw) {
        push_text(drop, "NET_RAW");
    }
    return drop;
}

static void limits_into(const struct making *m, struct json *host)
{
    const struct runtime_limits *l = &m->spec->limits;
    uint64_t pids = l->pids ? l->pids : (uint64_t)m->d->dc->pids_limit;
    if (pids) {
        json_set(host, "PidsLimit", json_int_new((int64_t)pids));
    }
    if (m->is_windows) {
        return; /* of the machine inside, as environment */
    }
    if (l->memory_bytes) {
        json_set(host, "Memory", json_int_new((int64_t)l->memory_bytes));
        json_set(host, "MemorySwap", json_int_new((int64_t)l->memory_bytes));
    }
    if (l->cpu_millis) {
        json_set(host, "NanoCpus", json_int_new((int64_t)l->cpu_millis * 1000000));
    }
    engine_disk_into(m->d, l, host);
    if (l->gpus) {
        struct json *request = json_object_new(), *caps = json_array_new(), *all = json_array_new();
        push_text(caps, "gpu");
        json_push(all, caps);
        set_text(request, "Driver", "");
        json_set(request, "Count", json_int_new(l->gpus == UINT32_MAX ? -1 : (int64_t)l->gpus));
        json_set(request, "DeviceIDs", json_array_new());
        json_set(request, "Capabilities", all);
        json_set(request, "Options", json_object_new());
        struct json *requests = json_array_new();
        json_push(requests, request);
        json_set(host, "DeviceRequests", requests);
    }
}

/* ---- all of it ---- */

static struct json *env_make(const struct making *m)
{
    struct json *env = json_array_new();
    for (size_t i = 0; i < m->spec->n_env; i++) {
        const struct runtime_kv *kv = &m->spec->env[i];
        if (m->spec->credential_proxy && strcmp(kv->key, MITM_ENV) == 0) {
            continue;
        }
        cleanup_free char *text = xasprintf("%s=%s", kv->key, kv->value);
        push_text(env, text);
    }
    if (m->spec->credential_proxy) {
        push_text(env, MITM_ENV "=true");
    }
    return env;
}

static struct json *binds_make(const struct making *m)
{
    struct json *binds = json_array_new();
    for (size_t i = 0; i < json_len(m->volumes.binds); i++) {
        json_push(binds, json_clone(json_item(m->volumes.binds, i)));
    }
    if (!m->is_windows) {
        stage_binds(m->d, binds);
    }
    return binds;
}

struct json *body_make(const struct making *m)
{
    char image[PATH_TEXT_MAX];
    struct json *body = json_object_new(), *host = json_object_new();
    set_text(body, "Image", spec_image(m->spec, image));
    if (!m->is_windows) {
        struct json *entry = json_array_new();
        push_text(entry, OPT_DIR "/bootstrap.sh");
        json_set(body, "Entrypoint", entry);
    }
    struct json *cmd = json_array_new();
    for (size_t i = 0; m->spec->entrypoint && m->spec->entrypoint[i]; i++) {
        push_text(cmd, m->spec->entrypoint[i]);
    }
    json_set(body, "Cmd", cmd);
    json_set(body, "Env", env_make(m));
    json_set(body, "Labels", labels_make(m));
    json_set(body, "AttachStdout", json_bool_new(true));
    json_set(body, "AttachStderr", json_bool_new(true));
    if (m->spec->hostname) {
        set_text(body, "Hostname", m->spec->hostname);
    }
    network_into(m, body, host);
    json_set(host, "SecurityOpt", security_make(m->d));
    json_set(host, "CapDrop", drop_make(m));
    limits_into(m, host);
    if (m->d->runtime_name) {
        set_text(host, "Runtime", m->d->runtime_name);
    }
    if (m->spec->read_only_rootfs) {
        json_set(host, "ReadonlyRootfs", json_bool_new(true));
    }
    json_set(host, "Binds", binds_make(m));
    if (m->is_windows) {
        windows_body(m, body, host);
    }
    json_set(body, "HostConfig", host);
    return body;
}
