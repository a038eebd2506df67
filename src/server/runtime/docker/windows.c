/* platform.os = "windows": a Linux container that runs a virtual machine. Limits become the
 * machine's size, and execd.exe is handed in as files that its first start installs. */

#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "base/num.h"
#include "server/runtime/docker/docker.h"

#define GIB (UINT64_C(1) << 30)
#define PORTS "44772,8080,3389,8006"

int windows_check(const struct runtime_spec *spec, struct err *e)
{
    const struct runtime_limits *l = &spec->limits;
    if (access("/dev/kvm", F_OK) < 0 || access("/dev/net/tun", F_OK) < 0) {
        return err_set(e, ERR_INVALID,
                       "platform windows needs /dev/kvm and /dev/net/tun on the engine's machine");
    }
    if (l->cpu_millis && l->cpu_millis < 2000) {
        return err_set(e, ERR_INVALID, "platform windows needs 2 CPUs or more");
    }
    if (l->memory_bytes && l->memory_bytes < 4 * UINT64_C(1000000000)) {
        return err_set(e, ERR_INVALID, "platform windows needs 4G of memory or more");
    }
    if (l->disk_bytes && l->disk_bytes < 64 * UINT64_C(1000000000)) {
        return err_set(e, ERR_INVALID, "platform windows needs 64G of disk or more");
    }
    return 0;
}

static void push_size(struct json *env, const char *key, uint64_t bytes)
{
    if (bytes) {
        char text[64];
        (void)snprintf(text, sizeof(text), "%s=%lluG", key,
                       (unsigned long long)((bytes + GIB - 1) / GIB));
        json_push(env, json_string_new(str_from(text)));
    }
}

/* USER_PORTS of the request, with ours added. */
static void push_ports(const struct making *m, struct json *env)
{
    const char *own = "";
    for (size_t i = 0; i < m->spec->n_env; i++) {
        if (strcmp(m->spec->env[i].key, "USER_PORTS") == 0) {
            own = m->spec->env[i].value;
        }
    }
    cleanup_free char *text = xasprintf("USER_PORTS=%s%s" PORTS, own, *own ? "," : "");
    json_push(env, json_string_new(str_from(text)));
}

static void push_device(struct json *devices, const char *path)
{
    struct json *d = json_object_new();
    json_set(d, "PathOnHost", json_string_new(str_from(path)));
    json_set(d, "PathInContainer", json_string_new(str_from(path)));
    json_set(d, "CgroupPermissions", json_string_new(STR("rwm")));
    json_push(devices, d);
}

void windows_body(const struct making *m, struct json *body, struct json *host)
{
    const struct runtime_limits *l = &m->spec->limits;
    struct json *env = json_get(body, "Env");
    if (l->cpu_millis) {
        char text[32];
        (void)snprintf(text, sizeof(text), "CPU_CORES=%llu",
                       (unsigned long long)((l->cpu_millis + 999) / 1000));
        json_push(env, json_string_new(str_from(text)));
    }
    push_size(env, "RAM_SIZE", l->memory_bytes);
    push_size(env, "DISK_SIZE", l->disk_bytes);
    push_ports(m, env);
    struct json *devices = json_array_new(), *caps = json_array_new();
    push_device(devices, "/dev/kvm");
    push_device(devices, "/dev/net/tun");
    json_set(host, "Devices", devices);
    json_push(caps, json_string_new(STR("NET_ADMIN")));
    json_push(caps, json_string_new(STR("NET_RAW")));
    json_set(host, "CapAdd", caps);
    json_del(host, "DeviceRequests");
    cleanup_free char *oem = xasprintf(OEM_VOLUME ":/oem:rw", m->spec->id);
    json_push(json_get(host, "Binds"), json_string_new(str_from(oem)));
}

/* One file out of a container that is not even started, as the archive the engine gives. */
static int copy_file(struct making *m, const char *from_cid, const char *name, struct err *e)
{
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/containers/%s/archive?path=/%s", from_cid, name);
    struct engine_call c = {.path = path};
    cleanup_(engine_answer_done) struct engine_answer a;
    if (engine_do(&m->d->engine, &c, &a, e) < 0 || engine_check(&a, name, e) < 0) {
        return -1;
    }
    return stage_put(m->d, m->cid, "/oem", buf_str(&a.body), e);
}

int windows_stage(struct making *m, struct err *e)
{
    const char *image = m->d->cfg->runtime.execd_image;
    if (!*image) {
        return err_set(e, ERR_INVALID,
                       "platform windows needs runtime.execd_image, which has execd.exe");
    }
    char name[CONTAINER_ID_MAX], cid[CONTAINER_ID_MAX];
    (void)snprintf(name, sizeof(name), "sandbox-execd-%s", m->spec->id);
    struct runtime_spec pull = {.progress = m->spec->progress,
                                .progress_arg = m->spec->progress_arg};
    cleanup_(json_free) struct json *body = json_object_new();
    struct json *cmd = json_array_new();
    json_push(cmd, json_string_new(STR("true")));
    json_set(body, "Image", json_string_new(str_from(image)));
    json_set(body, "Cmd", cmd);
    enum runtime_stage ignored;
    if (container_make(m, name, body, image, &pull, cid, &ignored, e) < 0) {
        return -1;
    }
    int r = copy_file(m, cid, "install.bat", e);
    r = r < 0 ? r : copy_file(m, cid, "execd.exe", e);
    struct err later = {0}; /* found by name and taken away by the next try */
    (void)container_remove(m->d, cid, &later);
    return r;
}
