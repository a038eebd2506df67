/* Create: image, volumes, sidecar, container, execd, start, answer. Whatever fails, nothing is left
 * behind. */

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

/* ---- one container ---- */

static int post_create(struct docker *d, const struct runtime_spec *spec, const char *name,
                       const struct json *body, struct engine_answer *ret, struct err *e)
{
    char path[PATH_TEXT_MAX];
    bool platform = spec->os && !spec_is_windows(spec) && strcmp(d->engine.version, "1.41") >= 0;
    (void)snprintf(path, sizeof(path), "/containers/create?name=%s%s%s%s%s", name,
                   platform ? "&platform=" : "", platform ? spec->os : "", platform ? "%2F" : "",
                   platform ? spec->arch : "");
    struct engine_call c = {.method = "POST", .path = path, .body = body};
    return engine_do(&d->engine, &c, ret, e);
}

static bool names_image(const struct engine_answer *a)
{
    struct str m = str_from(a->message);
    return a->status == 404 && (str_find_str(m, STR("mage")) >= 0);
}

static int fetch_image(struct making *m, const char *image, const struct runtime_spec *pull,
                       enum runtime_stage *ret_stage, struct err *e)
{
    *ret_stage = STAGE_IMAGE;
    if (pull->snapshot_id) {
        return err_set(e, ERR_IO, "the engine has no image %s any more", image);
    }
    log_debug("pulling an image", LOG_S("id", m->spec->id), LOG_S("image", image));
    return image_pull(m->d, pull, image, e);
}

int container_make(struct making *m, const char *name, struct json *body, const char *image,
                   const struct runtime_spec *pull, char ret_cid[CONTAINER_ID_MAX],
                   enum runtime_stage *ret_stage, struct err *e)
{
    bool pulled = false;
    uint64_t deadline = clock_mono_ms() + DOCKER_REMOVE_WAIT_MS;
    for (;;) {
        cleanup_(engine_answer_done) struct engine_answer a;
        *ret_stage = STAGE_START;
        if (post_create(m->d, pull, name, body, &a, e) < 0) {
            return -1;
        }
        const char *cid = json_cstr(json_get(a.json, "Id"));
        if (a.status == 201 && cid) {
            (void)snprintf(ret_cid, CONTAINER_ID_MAX, "%s", cid);
            return limits_kept(json_get(a.json, "Warnings"), &pull->limits, e);
        }
        if (names_image(&a) && !pulled) {
            if (fetch_image(m, image, pull, ret_stage, e) < 0) {
                return -1;
            }
            pulled = true;
            continue;
        }
        /* What a create of this id left that was cut short. The engine may still be at it: then the
         * name is taken before there is anything to remove. */
        if (a.status == 409 && clock_mono_ms() < deadline) {
            if (container_remove(m->d, name, e) < 0) {
                return -1;
            }
            struct timespec pause = {0, 20 * 1000000L};
            (void)nanosleep(&pause, NULL);
            continue;
        }
        (void)engine_check(&a, "create", e);
        engine_err_as_io(e);
        if (str_find_str(str_from(a.message), STR("storage-opt")) >= 0) {
            e->code = ERR_INVALID; /* resourceLimits.disk, on an engine elsewhere */
        }
        return -1;
    }
}

int container_start(struct making *m, const char *cid, struct err *e)
{
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/containers/%s/start", cid);
    struct engine_call c = {.method = "POST", .path = path};
    cleanup_(engine_answer_done) struct engine_answer a;
    if (engine_do(&m->d->engine, &c, &a, e) < 0) {
        return -1;
    }
    if (engine_check(&a, "start", e) == 0) {
        return 0;
    }
    struct str text = str_from(a.message);
    bool network = a.status == 404 && str_find_str(text, STR("network")) >= 0;
    e->code = network ? ERR_INVALID : e->code == ERR_UNAVAILABLE ? e->code : ERR_IO;
    if (str_find_str(text, STR("could not select device driver")) >= 0) {
        e->code = ERR_INVALID;
        (void)err_wrap(e, "resourceLimits.gpu: the engine has no driver for GPUs");
    } else if (str_find_str(text, STR("gathering device information")) >= 0) {
        e->code = ERR_INVALID;
        (void)err_wrap(e, "the engine's machine lacks a device");
    }
    if (str_find_str(text, STR("port is already allocated")) >= 0 ||
        str_find_str(text, STR("address already in use")) >= 0) {
        e->sys = EADDRINUSE;
    }
    return -1;
}

/* ---- the sandbox ---- */

static int take_ports(struct making *m, struct err *e)
{
    struct docker *d = m->d;
    if (d->mode == NET_HOST || !d->dc->publish_ports) {
        return 0;
    }
    struct {
        bool want;
        uint16_t *to;
    } wants[] = {{true, &m->execd_port},
                 {true, &m->http_port},
                 {m->spec->egress_policy != NULL, &m->egress_port},
                 {m->is_windows, &m->extra_ports[0]},
                 {m->is_windows, &m->extra_ports[1]},
                 {m->is_windows, &m->extra_ports[2]}};
    for (size_t i = 0; i < ARRAY_LEN(wants); i++) {
        if (wants[i].want && !(*wants[i].to = ports_take(&d->ports))) {
            return err_set(e, ERR_IO, "no free host port was found between %u and %u",
                           DOCKER_PORT_FIRST, DOCKER_PORT_LAST);
        }
    }
    return 0;
}

static void give_ports(struct making *m)
{
    uint16_t *all[] = {&m->execd_port,     &m->http_port,      &m->egress_port,
                       &m->extra_ports[0], &m->extra_ports[1], &m->extra_ports[2]};
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        ports_give(&m->d->ports, *all[i]);
        *all[i] = 0;
    }
}

/* Takes down what this try made, but for volumes. */
static void undo(struct making *m)
{
    struct err e = {0};
    index_leaving(m->d, m->spec->id, true);
    if ((m->cid[0] && container_remove(m->d, m->cid, &e) < 0) ||
        (m->sidecar[0] && container_remove(m->d, m->sidecar, &e) < 0)) {
        log_warn("what a failed create left could not be removed yet", LOG_S("id", m->spec->id),
                 LOG_ERR(&e));
    }
    index_del(m->d, m->spec->id);
    m->cid[0] = m->sidecar[0] = 0;
}

static int start_container(struct making *m, const struct sidecar_at *sidecar, struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer a = {0};
    if (container_start(m, m->cid, e) < 0) {
        return -1;
    }
    FAULT_POINT("docker.create.started");
    if (container_inspect(m->d, m->cid, &a, e) < 0) {
        engine_err_as_io(e);
        return -1;
    }
    struct container c;
    container_from_inspect(a.json, &c);
    if (m->sidecar[0]) {
        memcpy(c.ip, sidecar->ip, sizeof(c.ip));
        c.sidecar = *sidecar;
    }
    if (!c.is_host_net && !c.ip[0] && c.state == RT_RUNNING && !m->d->engine.host) {
        return err_set(e, ERR_IO, "the engine gave the container no address");
    }
    index_put(m->d, &c);
    if (m->is_windows) {
        return 0; /* it boots for minutes; execd inside answers when it does */
    }
    return ping_execd(m->d, &c, e);
}

static int try_once(struct making *m, enum runtime_stage *ret_stage, struct err *e)
{
    char name[CONTAINER_ID_MAX], text[PATH_TEXT_MAX];
    struct sidecar_at sidecar = {0};
    const struct runtime_spec *spec = m->spec;
    *ret_stage = STAGE_START;
    if (take_ports(m, e) < 0 ||
        (spec->egress_policy && sidecar_start(m, &sidecar, ret_stage, e) < 0)) {
        return -1;
    }
    FAULT_POINT("docker.create.sidecar");
    cleanup_(json_free) struct json *body = body_make(m);
    (void)snprintf(name, sizeof(name), CONTAINER_NAME, spec->id);
    if (container_make(m, name, body, spec_image(spec, text), spec, m->cid, ret_stage, e) < 0) {
        return -1;
    }
    FAULT_POINT("docker.create.made");
    *ret_stage = STAGE_EXECD;
    int r = m->is_windows ? windows_stage(m, e) : stage_upload(m->d, m->cid, e);
    if (r < 0) {
        engine_err_as_io(e);
        return err_wrap(e, "execd");
    }
    FAULT_POINT("docker.create.staged");
    *ret_stage = STAGE_START;
    return start_container(m, &sidecar, e);
}

/* Ended between its answer and now? Events of it are told from here on. */
static int settle(struct making *m, struct err *e)
{
    struct container c;
    index_set_up(m->d, m->spec->id);
    if (!index_get(m->d, m->spec->id, &c) || c.state == RT_MISSING) {
        return err_set(e, ERR_IO, "the container was removed by somebody else");
    }
    if (c.state != RT_RUNNING && m->d->rt.on_exit) {
        const struct runtime_status st = {.state = c.state};
        m->d->rt.on_exit(m->spec->id, &st,
                         m->d->rt.on_exit_arg); /* asks once this create is over */
    }
    return 0;
}

static int run(struct making *m, enum runtime_stage *ret_stage, struct err *e)
{
    for (unsigned i = 0;; i++) {
        *e = (struct err){0};
        int r = try_once(m, ret_stage, e);
        r = r < 0 ? r : settle(m, e);
        if (r == 0) {
            give_ports(m); /* the engine holds them now */
            return 0;
        }
        undo(m);
        give_ports(m);
        if (e->sys != EADDRINUSE || i == DOCKER_PORT_RETRIES) {
            return -1;
        }
        log_info("a host port was taken meanwhile; trying others", LOG_S("id", m->spec->id));
    }
}

/* ---- before anything is recorded ---- */

static int check_policy(const struct docker *d, const struct runtime_spec *spec, struct err *e)
{
    if (!spec->egress_policy) {
        return 0;
    }
    if (spec_is_windows(spec)) {
        return err_set(e, ERR_INVALID,
                       "networkPolicy and platform windows exclude each other: the machine inside "
                       "needs rights over the network that the policy must keep");
    }
    if (d->has_own_stack) {
        return err_set(
            e, ERR_INVALID,
            "networkPolicy cannot hold what runs in \"%s\": it has a network stack of its "
            "own, which passes the sidecar's rules by (with gVisor: give the engine's "
            "runtime --network=host)",
            d->runtime_name);
    }
    if (d->mode != NET_BRIDGE) {
        return err_set(e, ERR_INVALID,
                       "networkPolicy needs docker.network_mode = \"bridge\", which is \"%s\"",
                       d->dc->network_mode);
    }
    if (!*d->cfg->egress.image) {
        return err_set(e, ERR_INVALID, "networkPolicy needs egress.image to be configured");
    }
    return 0;
}

static int check_network(struct docker *d, struct err *e)
{
    if (d->mode != NET_CUSTOM) {
        return 0;
    }
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/networks/%s", d->dc->network_mode);
    cleanup_(engine_answer_done) struct engine_answer a;
    struct engine_call c = {.path = path};
    if (engine_do(&d->engine, &c, &a, e) < 0) {
        return -1;
    }
    return a.status == 404 ? err_set(e, ERR_INVALID,
                                     "the engine has no network '%s' "
                                     "(docker.network_mode)",
                                     d->dc->network_mode)
                           : engine_check(&a, "network", e);
}

static int check_spec(const struct docker *d, const struct runtime_spec *spec, struct err *e)
{
    if (spec->engine || spec->network != NETWORK_DEFAULT) {
        return err_set(e, ERR_INVALID,
                       "extensions \"oci.engine\" and \"oci.network\" belong to the embedded "
                       "runtime");
    }
    if (spec->arch && d->arch[0] && strcmp(spec->arch, d->arch) != 0) {
        return err_set(e, ERR_INVALID,
                       "platform %s/%s: the engine's machine, and with it the execd put into every "
                       "sandbox, is %s",
                       spec->os, spec->arch, d->arch);
    }
    if (spec_is_windows(spec) ? windows_check(d, spec, e) < 0
                              : engine_disk_check(d, &spec->limits, e) < 0) {
        return -1;
    }
    return check_policy(d, spec, e);
}

int docker_check(struct runtime *rt, const struct runtime_spec *spec, struct err *e)
{
    struct docker *d = docker_of(rt);
    return check_spec(d, spec, e) < 0 ? -1 : check_network(d, e);
}

int docker_create(struct runtime *rt, const struct runtime_spec *spec,
                  enum runtime_stage *ret_stage, struct err *e)
{
    struct making m = {
        .d = docker_of(rt),
        .spec = spec,
        .is_windows = spec_is_windows(spec),
    };
    *ret_stage = STAGE_PREPARE;
    if (check_spec(m.d, spec, e) < 0) {
        return -1;
    }
    FAULT_POINT("docker.create.begin");
    named_volumes_init(&m.volumes);
    m.volumes.id = spec->id;
    index_creating(m.d, spec->id, true);
    int r = named_volumes_prepare(m.d, spec, &m.volumes, ret_stage, e);
    FAULT_POINT("docker.create.volumes");
    r = r < 0 ? r : run(&m, ret_stage, e);
    ossfs_let_go(m.d, m.volumes.ossfs);
    if (r < 0) {
        named_volumes_undo(m.d, &m.volumes);
        ossfs_release(m.d, m.volumes.ossfs);
    }
    hold_drop(m.d, &m.volumes);
    named_volumes_done(&m.volumes);
    index_creating(m.d, spec->id, false);
    return r;
}
