/* What is done to containers that exist. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

/* ---- remove ---- */

/* Somebody else is at it: until it is gone. */
static int wait_gone(struct docker *d, const char *name, struct err *e)
{
    uint64_t deadline = clock_mono_ms() + DOCKER_REMOVE_WAIT_MS;
    for (;;) {
        cleanup_(engine_answer_done) struct engine_answer a;
        *e = (struct err){0};
        if (container_inspect(d, name, &a, e) < 0) {
            return e->code == ERR_NOT_FOUND ? (*e = (struct err){0}, 0) : -1;
        }
        if (clock_mono_ms() >= deadline) {
            return err_set(e, ERR_IO, "the engine has not removed %s within %u s", name,
                           DOCKER_REMOVE_WAIT_MS / 1000);
        }
        struct timespec pause = {0, 20 * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
}

int container_remove(struct docker *d, const char *name, struct err *e)
{
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", name);
    cleanup_(engine_answer_done) struct engine_answer a;
    struct engine_call c = {.method = "DELETE", .path = path};
    if (engine_do(&d->engine, &c, &a, e) < 0) {
        return -1;
    }
    if (a.status == 404) {
        return 0;
    }
    if (a.status == 409) {
        return wait_gone(d, name, e);
    }
    return engine_check(&a, "remove", e);
}

/* What goes with a container: names and paths out of its labels. */
struct belongings {
    char *volumes, *ossfs;
    struct json *shared; /* names of volumes, also of those that it did not bring */
    char *image;         /* of a sandbox that began at a snapshot */
};

static void belongings_done(struct belongings *b)
{
    free(b->volumes);
    free(b->ossfs);
    free(b->image);
    json_free(b->shared);
}

static char *own_label(const struct json *labels, const struct json *image, const char *name)
{
    const char *v = label_get(labels, name);
    return v && !label_is(image, name, v) ? xstrdup(v) : NULL;
}

/* Labels that the image has as well belong to the sandbox that was the source of a snapshot. */
static void belongings_find(struct docker *d, const char *cid, struct belongings *ret)
{
    cleanup_(engine_answer_done) struct engine_answer a = {0}, image = {0};
    struct err e = {0};
    *ret = (struct belongings){0};
    if (container_inspect(d, cid, &a, &e) < 0) {
        return;
    }
    const struct json *labels = json_at(a.json, "Config.Labels");
    const char *image_id = json_cstr(json_get(a.json, "Image"));
    if (!label_get(labels, LABEL_SERVER)) { /* one of the reference's, which inherits labels */
        char path[PATH_TEXT_MAX];
        (void)snprintf(path, sizeof(path), "/images/%s/json", image_id ? image_id : "");
        struct engine_call c = {.path = path};
        if (engine_do(&d->engine, &c, &image, &e) < 0) {
            return;
        }
    }
    const struct json *inherited = json_at(image.json, "Config.Labels");
    ret->volumes = own_label(labels, inherited, LABEL_VOLUMES);
    ret->ossfs = own_label(labels, inherited, LABEL_OSSFS);
    const struct json *mounts = json_get(a.json, "Mounts");
    ret->shared = json_array_new();
    for (size_t i = 0; json_is_array(mounts) && i < json_len(mounts); i++) {
        struct str name = json_str(json_get(json_item(mounts, i), "Name"));
        if (name.p) {
            json_push(ret->shared, json_string_new(name));
        }
    }
    ret->image = label_get(labels, LABEL_SNAPSHOT) && image_id ? xstrdup(image_id) : NULL;
}

static void belongings_remove(struct docker *d, const struct belongings *b)
{
    if (b->volumes) {
        named_volumes_remove_managed(d, b->volumes);
    }
    if (b->ossfs) {
        struct err ignored = {0};
        cleanup_(json_free) struct json *paths = json_parse(str_from(b->ossfs), &ignored);
        ossfs_release(d, paths);
    }
    for (size_t i = 0; i < json_len(b->shared); i++) {
        named_volume_lost_user(d, json_cstr(json_item(b->shared, i)));
    }
    if (b->image) {
        snapshot_image_release(d, b->image);
    }
}

static int remove_all(struct docker *d, const char *id, const char *cid, bool sidecar,
                      struct err *e)
{
    if (container_remove(d, cid, e) < 0) {
        return -1;
    }
    FAULT_POINT("docker.remove.container");
    char name[CONTAINER_ID_MAX];
    (void)snprintf(name, sizeof(name), SIDECAR_NAME, id);
    return sidecar ? container_remove(d, name, e) : 0;
}

static int remove_found(struct docker *d, const char *id, const char *cid, bool sidecar,
                        bool has_belongings, struct err *e)
{
    struct belongings b = {0};
    if (has_belongings) {
        belongings_find(d, cid, &b);
    }
    int r = remove_all(d, id, cid, sidecar, e);
    if (r == 0) {
        belongings_remove(d, &b);
        FAULT_POINT("docker.remove.belongings");
    }
    belongings_done(&b);
    return r;
}

int docker_remove(struct runtime *rt, const char *id, struct err *e)
{
    struct docker *d = docker_of(rt);
    struct container c;
    char cid[CONTAINER_ID_MAX];
    FAULT_POINT("docker.remove.begin");
    bool known = index_get(d, id, &c);
    index_leaving(d, id, true);
    if (known) {
        (void)snprintf(cid, sizeof(cid), "%s", c.cid);
    } else if (container_find(d, id, cid, e) < 0) {
        if (e->code != ERR_NOT_FOUND) {
            return -1;
        }
        *e = (struct err){0};
        (void)snprintf(cid, sizeof(cid), CONTAINER_NAME, id);
    }
    bool belongings = !known || c.has_volumes || c.has_snapshot;
    if (remove_found(d, id, cid, !known || c.has_sidecar, belongings, e) < 0) {
        index_leaving(d, id, false);
        return -1;
    }
    if (!known) { /* a removal that was cut short: its container may have been all that went */
        named_volumes_of(d, id);
        (void)snapshots_sweep(d, NULL, NULL, e);
        *e = (struct err){0};
    }
    index_del(d, id);
    return 0;
}

/* ---- pause and resume ---- */

static int change(struct docker *d, const char *id, const char *verb, enum runtime_state to,
                  struct err *e)
{
    char cid[CONTAINER_ID_MAX], path[PATH_TEXT_MAX];
    if (container_find(d, id, cid, e) < 0) {
        return -1;
    }
    index_expect(d, id, to);
    (void)snprintf(path, sizeof(path), "/containers/%s/%s", cid, verb);
    int r = engine_run(&d->engine, "POST", path, 0, verb, e);
    index_expect(d, id, RT_MISSING);
    return r;
}

int docker_pause(struct runtime *rt, const char *id, struct err *e)
{
    FAULT_POINT("docker.pause.begin");
    int r = change(docker_of(rt), id, "pause", RT_PAUSED, e);
    FAULT_POINT("docker.pause.paused");
    return r;
}

int docker_resume(struct runtime *rt, const char *id, struct err *e)
{
    FAULT_POINT("docker.resume.begin");
    int r = change(docker_of(rt), id, "unpause", RT_RUNNING, e);
    FAULT_POINT("docker.resume.running");
    return r;
}

/* ---- looking ---- */

int docker_inspect(struct runtime *rt, const char *id, struct runtime_status *ret, struct err *e)
{
    struct docker *d = docker_of(rt);
    char cid[CONTAINER_ID_MAX];
    cleanup_(engine_answer_done) struct engine_answer a = {0};
    *ret = (struct runtime_status){.state = RT_MISSING};
    if (container_find(d, id, cid, e) < 0 || container_inspect(d, cid, &a, e) < 0) {
        if (e->code != ERR_NOT_FOUND) {
            return -1; /* the engine is away: nothing is known, least of all that it is gone */
        }
        *e = (struct err){0};
        return 0;
    }
    struct container c;
    container_from_inspect(a.json, &c);
    if (strcmp(c.id, id) == 0) {
        index_put(d, &c);
    }
    status_from_inspect(a.json, ret);
    if (ret->state == RT_EXITED && ret->exit_code != 0) {
        cleanup_(buf_done) struct buf said = BUF_INIT(DOCKER_BODY_MAX);
        struct err silent = {0}; /* a driver that keeps no logs: the exit code is all there is */
        struct last_words w;
        (void)container_logs(d, cid, DOCKER_EXECD_LINES, 0, &said, &silent);
        last_words_read(buf_str(&said), &w);
        /* The engine's flag is also set when only a child of the entrypoint was killed. */
        status_by_words(&w, json_bool(json_at(a.json, "State.OOMKilled"), false), ret);
    }
    if (ret->state == RT_EXITED && index_get(d, id, &c) && c.lost_sidecar) {
        (void)snprintf(ret->detail, sizeof(ret->detail),
                       "its egress sidecar ended, and its network with it");
    }
    return 0;
}

/* Of this server, of none (the reference's), or of any when all are to be taken over. */
static bool is_mine(const struct docker *d, const struct json *labels)
{
    const char *server = label_get(labels, LABEL_SERVER);
    return !server || strcmp(server, d->server) == 0 || strcmp(d->dc->adopt, "all") == 0;
}

int docker_list(struct runtime *rt,
                void (*fn)(const char *id, const struct runtime_status *st, void *arg), void *arg,
                struct err *e)
{
    struct docker *d = docker_of(rt);
    cleanup_(engine_answer_done) struct engine_answer a;
    if (index_refresh(d, &a, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < json_len(a.json); i++) {
        const struct json *j = json_item(a.json, i);
        struct container c;
        struct runtime_status st;
        if (container_from_list(j, &c) && is_mine(d, json_get(j, "Labels"))) {
            status_from_list(j, &st);
            fn(c.id, &st, arg);
        }
    }
    return 0;
}

/* ---- what belongs to nobody ---- */

static int sweep_containers(struct docker *d, bool (*is_known)(const char *id, void *arg),
                            void *arg, struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer a;
    int n = 0;
    if (index_refresh(d, &a, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < json_len(a.json); i++) {
        const struct json *j = json_item(a.json, i);
        struct container c;
        if (!container_from_list(j, &c) ||
            !label_is(json_get(j, "Labels"), LABEL_SERVER, d->server) || is_known(c.id, arg)) {
            continue;
        }
        if (remove_found(d, c.id, c.cid, c.has_sidecar, c.has_volumes || c.has_snapshot, e) < 0) {
            return -1;
        }
        index_del(d, c.id);
        n++;
    }
    return n;
}

static int sweep_sidecars(struct docker *d, bool (*is_known)(const char *id, void *arg), void *arg,
                          struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer a;
    struct engine_call call = {.path = SIDECARS_PATH};
    int n = 0;
    if (engine_do(&d->engine, &call, &a, e) < 0 || engine_check(&a, "list of sidecars", e) < 0) {
        return -1;
    }
    for (size_t i = 0; json_is_array(a.json) && i < json_len(a.json); i++) {
        const struct json *j = json_item(a.json, i), *labels = json_get(j, "Labels");
        const char *of = label_get(labels, LABEL_SIDECAR), *cid = json_cstr(json_get(j, "Id"));
        const char *server = label_get(labels, LABEL_SERVER);
        int64_t age = clock_wall_us() / 1000000 - json_int(json_get(j, "Created"), INT64_MAX / 2);
        /* One of the reference's exists for a moment before its sandbox does. */
        bool stray = server ? strcmp(server, d->server) == 0 : age > DOCKER_STRAY_AGE_S;
        char found[CONTAINER_ID_MAX];
        struct err none = {0};
        if (!of || !cid || !stray || is_known(of, arg) ||
            (!server && (container_find(d, of, found, &none) == 0 || none.code != ERR_NOT_FOUND))) {
            continue;
        }
        if (container_remove(d, cid, e) < 0) {
            return -1;
        }
        n++;
    }
    return n;
}

int docker_sweep(struct runtime *rt, bool (*is_known)(const char *id, void *arg), void *arg,
                 struct err *e)
{
    struct docker *d = docker_of(rt);
    int containers = sweep_containers(d, is_known, arg, e);
    int sidecars = containers < 0 ? -1 : sweep_sidecars(d, is_known, arg, e);
    int volumes = sidecars < 0 ? -1 : named_volumes_sweep(d, is_known, arg, e);
    int images = volumes < 0 ? -1 : snapshots_sweep(d, is_known, arg, e);
    return images < 0 ? -1 : containers + sidecars + volumes + images;
}
