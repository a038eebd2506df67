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

int windows_check(const struct docker *d, const struct runtime_spec *spec, struct err *e)
{
    const struct runtime_limits *l = &spec->limits;
    if (!*d->cfg->runtime.execd_image) {
        return err_set(e, ERR_INVALID,
                       "platform windows needs runtime.execd_image, which has execd.exe");
    }
    /* Of an engine elsewhere only the engine knows; its refusal is told as well. */
    if (!d->engine.host && (access("/dev/kvm", F_OK) < 0 || access("/dev/net/tun", F_OK) < 0)) {
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

/* The list with one value for `key`: of two, programs take the first they find. */
static void set_env(struct json *body, const char *key, const char *value)
{
    struct json *env = json_array_new();
    const struct json *old = json_get(body, "Env");
    cleanup_free char *text = xasprintf("%s=%s", key, value);
    struct str name = str_n(text, strlen(key) + 1);
    for (size_t i = 0; i < json_len(old); i++) {
        const struct json *one = json_item(old, i);
        if (!str_starts(json_str(one), name)) {
            json_push(env, json_clone(one));
        }
    }
    json_push(env, json_string_new(str_from(text)));
    json_set(body, "Env", env);
}

static void set_size(struct json *body, const char *key, uint64_t bytes)
{
    if (bytes) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%lluG", (unsigned long long)((bytes + GIB - 1) / GIB));
        set_env(body, key, text);
    }
}

static bool list_has(struct str list, struct str word)
{
    while (list.p) {
        if (str_eq(str_trim(str_cut(&list, ',')), word)) {
            return true;
        }
    }
    return false;
}

/* USER_PORTS of the request, with those of ours that are not among them. */
static void set_ports(const struct making *m, struct json *body)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(64u << 10);
    for (size_t i = 0; i < m->spec->n_env; i++) {
        if (strcmp(m->spec->env[i].key, "USER_PORTS") == 0) {
            buf_clear(&text);
            (void)buf_add_cstr(&text, m->spec->env[i].value);
        }
    }
    struct str rest = STR(PORTS);
    while (rest.p) {
        struct str port = str_cut(&rest, ',');
        if (!list_has(buf_str(&text), port)) {
            (void)buf_printf(&text, "%s%.*s", text.len ? "," : "", STR_FMT(port));
        }
    }
    set_env(body, "USER_PORTS", buf_cstr(&text));
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
    if (l->cpu_millis) {
        char text[32];
        (void)snprintf(text, sizeof(text), "%llu",
                       (unsigned long long)((l->cpu_millis + 999) / 1000));
        set_env(body, "CPU_CORES", text);
    }
    set_size(body, "RAM_SIZE", l->memory_bytes);
    set_size(body, "DISK_SIZE", l->disk_bytes);
    set_ports(m, body);
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
