/* Named volumes: those that are made for a sandbox carry its id, and go when it goes. */

#include <stdio.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

#define MANAGED "server"

void named_volumes_init(struct volume_plan *v)
{
    v->binds = json_array_new();
    v->managed = json_array_new();
    v->ossfs = json_array_new();
}

void named_volumes_done(struct volume_plan *v)
{
    json_free(v->binds);
    json_free(v->managed);
    json_free(v->ossfs);
}

static void volume_path(struct buf *out, const char *name)
{
    (void)buf_add_cstr(out, "/volumes/");
    (void)percent_encode(out, str_from(name), false);
}

/* `goes_with`: the id of a sandbox, or NULL when it stays. */
static int create(struct docker *d, const char *name, const char *goes_with, struct err *e)
{
    cleanup_(json_free) struct json *body = json_object_new();
    struct json *labels = json_object_new();
    json_set(labels, LABEL_VOLUMES, json_string_new(STR(MANAGED)));
    json_set(labels, LABEL_SERVER, json_string_new(str_from(d->server)));
    if (goes_with) {
        json_set(labels, LABEL_VOLUME_OF, json_string_new(str_from(goes_with)));
    }
    json_set(body, "Name", json_string_new(str_from(name)));
    json_set(body, "Labels", labels);
    struct engine_call c = {.method = "POST", .path = "/volumes/create", .body = body};
    cleanup_(engine_answer_done) struct engine_answer a;
    return engine_do(&d->engine, &c, &a, e) < 0 ? -1 : engine_check(&a, "volume", e);
}

static void remove_named(struct docker *d, const char *name)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(4096);
    struct err e = {0};
    volume_path(&path, name);
    if (engine_run(&d->engine, "DELETE", buf_cstr(&path), 404, "volume", &e) < 0) {
        log_warn("a volume could not be removed yet", LOG_S("volume", name), LOG_ERR(&e));
    }
}

int named_volume_make(struct docker *d, const char *name, const char *id, bool goes_with_it,
                      struct volume_plan *v, struct err *e)
{
    if (v->n_made == ARRAY_LEN(v->made)) {
        return err_set(e, ERR_LIMIT, "too many volumes");
    }
    if (create(d, name, goes_with_it ? id : NULL, e) < 0) {
        return -1;
    }
    (void)snprintf(v->made[v->n_made++], sizeof(v->made[0]), "%s", name);
    if (goes_with_it) {
        json_push(v->managed, json_string_new(str_from(name)));
    }
    return 0;
}

int named_volume_inspect(struct docker *d, const char *name, struct engine_answer *ret,
                         struct err *e)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(4096);
    volume_path(&path, name);
    struct engine_call c = {.path = buf_cstr(&path)};
    return engine_do(&d->engine, &c, ret, e);
}

int named_volumes_prepare(struct docker *d, const struct runtime_spec *spec, struct volume_plan *v,
                          enum runtime_stage *ret_stage, struct err *e)
{
    *ret_stage = STAGE_PREPARE;
    char name[128];
    if (spec->credential_proxy) {
        (void)snprintf(name, sizeof(name), RUNTIME_VOLUME, spec->id);
        cleanup_free char *bind = xasprintf("%s:" OPT_DIR ":rw", name);
        if (named_volume_make(d, name, spec->id, true, v, e) < 0) {
            return -1;
        }
        json_push(v->binds, json_string_new(str_from(bind)));
    }
    if (spec_is_windows(spec)) {
        (void)snprintf(name, sizeof(name), OEM_VOLUME, spec->id);
        if (named_volume_make(d, name, spec->id, true, v, e) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < spec->n_volumes; i++) {
        if (bind_add(d, spec, &spec->volumes[i], v, ret_stage, e) < 0) {
            return -1;
        }
    }
    return 0;
}

void named_volumes_undo(struct docker *d, struct volume_plan *v)
{
    for (size_t i = 0; i < v->n_made; i++) {
        remove_named(d, v->made[i]);
    }
    v->n_made = 0;
}

/* Only what a server made: the label on the container may be one of the image's. */
static bool is_managed(struct docker *d, const char *name)
{
    struct err e = {0};
    cleanup_(engine_answer_done) struct engine_answer a;
    return named_volume_inspect(d, name, &a, &e) == 0 && a.status == 200 &&
           label_is(json_get(a.json, "Labels"), LABEL_VOLUMES, MANAGED);
}

void named_volumes_remove_managed(struct docker *d, const char *label)
{
    struct err ignored = {0};
    cleanup_(json_free) struct json *names = json_parse(str_from(label), &ignored);
    for (size_t i = 0; json_is_array(names) && i < json_len(names); i++) {
        const char *name = json_cstr(json_item(names, i));
        if (name && is_managed(d, name)) {
            remove_named(d, name);
        }
    }
}

void named_volume_lost_user(struct docker *d, const char *name)
{
    char cid[CONTAINER_ID_MAX];
    struct err e = {0}, none = {0};
    cleanup_(engine_answer_done) struct engine_answer a;
    if (named_volume_inspect(d, name, &a, &e) < 0 || a.status != 200) {
        return;
    }
    const struct json *labels = json_get(a.json, "Labels");
    const char *of = label_get(labels, LABEL_VOLUME_OF);
    if (of && label_is(labels, LABEL_SERVER, d->server) && !index_is_creating(d, of) &&
        container_find(d, of, cid, &none) < 0 && none.code == ERR_NOT_FOUND) {
        remove_named(d, name); /* unless there are others still */
    }
}

void named_volumes_of(struct docker *d, const char *id)
{
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path),
                   "/volumes?filters=%%7B%%22label%%22%%3A%%5B%%22opensandbox.io%%2Fvolume-of%%3D"
                   "%s%%22%%5D%%7D",
                   id);
    struct engine_call c = {.path = path};
    cleanup_(engine_answer_done) struct engine_answer a;
    struct err ignored = {0}; /* the sweep looks again */
    if (engine_do(&d->engine, &c, &a, &ignored) < 0) {
        return;
    }
    const struct json *all = json_get(a.json, "Volumes");
    for (size_t i = 0; json_is_array(all) && i < json_len(all); i++) {
        const struct json *v = json_item(all, i);
        const char *name = json_cstr(json_get(v, "Name"));
        if (name && label_is(json_get(v, "Labels"), LABEL_SERVER, d->server)) {
            remove_named(d, name);
        }
    }
}

int named_volumes_sweep(struct docker *d, bool (*is_known)(const char *id, void *arg), void *arg,
                        struct err *e)
{
    struct engine_call c = {.path = "/volumes?filters=%7B%22label%22%3A%5B%22opensandbox.io%2F"
                                    "volume-of%22%5D%7D"};
    cleanup_(engine_answer_done) struct engine_answer a;
    if (engine_do(&d->engine, &c, &a, e) < 0 || engine_check(&a, "list of volumes", e) < 0) {
        return -1;
    }
    const struct json *all = json_get(a.json, "Volumes");
    int n = 0;
    for (size_t i = 0; json_is_array(all) && i < json_len(all); i++) {
        const struct json *v = json_item(all, i), *labels = json_get(v, "Labels");
        const char *of = label_get(labels, LABEL_VOLUME_OF), *name = json_cstr(json_get(v, "Name"));
        if (of && name && label_is(labels, LABEL_SERVER, d->server) && !is_known(of, arg)) {
            remove_named(d, name);
            n++;
        }
    }
    return n;
}
