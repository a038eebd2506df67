/* Snapshots: a commit is an image under the snapshot's id. One that is deleted while sandboxes were
 * made of it loses its name at once, and goes with the last of them. */

#include <stdio.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

#define COMMIT_TIMEOUT_MS 1800000u
/* {"label":["opensandbox.io/snapshot-by=..."]} */
#define IMAGES_PATH                                                                                \
    "/images/json?filters=%%7B%%22label%%22%%3A%%5B%%22opensandbox.io%%2Fsnapshot-by%%3D%s%%22"    \
    "%%5D%%7D"

int docker_snapshot(struct runtime *rt, const char *id, const char *snapshot_id, struct err *e)
{
    static const char *const own[] = {
        LABEL_ID,       LABEL_EXPIRES,    LABEL_MANUAL,    LABEL_OS,    LABEL_ARCH,
        LABEL_SNAPSHOT, LABEL_EXECD_PORT, LABEL_HTTP_PORT, LABEL_OSSFS, LABEL_VOLUMES,
        LABEL_TOKEN,    LABEL_RENEW,      LABEL_SIDECAR,   LABEL_SERVER};
    struct docker *d = docker_of(rt);
    char cid[CONTAINER_ID_MAX], path[PATH_TEXT_MAX];
    if (container_find(d, id, cid, e) < 0) {
        return -1;
    }
    /* The image shall not say of its sandboxes what was true of its source. */
    cleanup_(json_free) struct json *body = json_object_new();
    struct json *labels = json_object_new();
    for (size_t i = 0; i < ARRAY_LEN(own); i++) {
        json_set(labels, own[i], json_string_new(STR("")));
    }
    json_set(labels, LABEL_SNAPSHOT_BY, json_string_new(str_from(d->server)));
    json_set(body, "Labels", labels);
    (void)snprintf(path, sizeof(path),
                   "/commit?container=%s&repo=" SNAPSHOT_REPO "&tag=%s&pause=true", cid,
                   snapshot_id);
    /* It is paused meanwhile, and goes on by itself: no news. */
    index_expect(d, id, RT_PAUSED);
    FAULT_POINT("docker.snapshot.begin");
    struct engine_call c = {
        .method = "POST", .path = path, .body = body, .timeout_ms = COMMIT_TIMEOUT_MS};
    cleanup_(engine_answer_done) struct engine_answer a;
    (void)__atomic_add_fetch(&d->commits, 1, __ATOMIC_RELAXED);
    int r = engine_do(&d->engine, &c, &a, e);
    (void)__atomic_sub_fetch(&d->commits, 1, __ATOMIC_RELAXED);
    FAULT_POINT("docker.snapshot.committed");
    index_expect(d, id, RT_MISSING);
    return r < 0 ? -1 : engine_check(&a, "commit", e);
}

int docker_snapshot_remove(struct runtime *rt, const char *snapshot_id, struct err *e)
{
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/images/" SNAPSHOT_REPO ":%s?force=1", snapshot_id);
    FAULT_POINT("docker.snapshot.removing");
    return engine_run(&docker_of(rt)->engine, "DELETE", path, 404, "image of the snapshot", e);
}

static bool remove_image(struct docker *d, const char *image_id)
{
    char path[PATH_TEXT_MAX];
    struct err e = {0};
    (void)snprintf(path, sizeof(path), "/images/%s", image_id);
    int r = engine_run(&d->engine, "DELETE", path, 404, "image of a deleted snapshot", &e);
    if (r < 0 && e.code != ERR_CONFLICT) { /* a conflict: somebody still has it */
        log_warn("an image could not be removed yet", LOG_S("image", image_id), LOG_ERR(&e));
    }
    return r == 0;
}

void snapshot_image_release(struct docker *d, const char *image_id)
{
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/images/%s/json", image_id);
    struct engine_call c = {.path = path};
    cleanup_(engine_answer_done) struct engine_answer a;
    struct err ignored = {0}; /* the sweep looks again */
    /* By its number an image would go together with its only name. */
    if (engine_do(&d->engine, &c, &a, &ignored) == 0 && a.status == 200 &&
        json_len(json_get(a.json, "RepoTags")) == 0) {
        (void)remove_image(d, image_id);
    }
}

/* Which snapshot an entry of the engine's list is; NULL: it has no name of ours. */
static const char *snapshot_of(const struct json *image)
{
    const struct json *tags = json_get(image, "RepoTags");
    for (size_t i = 0; json_is_array(tags) && i < json_len(tags); i++) {
        const char *tag = json_cstr(json_item(tags, i));
        if (tag && str_starts(str_from(tag), STR(SNAPSHOT_REPO ":"))) {
            return tag + strlen(SNAPSHOT_REPO ":");
        }
    }
    return NULL;
}

/* Has it a name at all? An image without is listed with none, or as "<none>:<none>". */
static bool has_name(const struct json *image)
{
    const struct json *tags = json_get(image, "RepoTags");
    const char *first = json_cstr(json_item(tags, 0));
    return first && strcmp(first, "<none>:<none>") != 0;
}

int snapshots_sweep(struct docker *d, bool (*is_known)(const char *id, void *arg), void *arg,
                    struct err *e)
{
    char path[PATH_TEXT_MAX];
    int n = 0;
    if (__atomic_load_n(&d->commits, __ATOMIC_RELAXED)) {
        return 0; /* a commit has no name for a moment */
    }
    (void)snprintf(path, sizeof(path), IMAGES_PATH, d->server);
    struct engine_call c = {.path = path};
    cleanup_(engine_answer_done) struct engine_answer a;
    if (engine_do(&d->engine, &c, &a, e) < 0 || engine_check(&a, "list of images", e) < 0) {
        return -1;
    }
    for (size_t i = 0; json_is_array(a.json) && i < json_len(a.json); i++) {
        const struct json *image = json_item(a.json, i);
        const char *of = snapshot_of(image), *id = json_cstr(json_get(image, "Id"));
        if (of && is_known && !is_known(of, arg)) {
            /* The commit of one that was given up went on at the engine. */
            n += docker_snapshot_remove(&d->rt, of, e) == 0;
        } else if (!of && id && !has_name(image)) {
            n += remove_image(d, id);
        }
    }
    return n;
}

int docker_snapshot_exists(struct runtime *rt, const char *snapshot_id, struct err *e)
{
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/images/" SNAPSHOT_REPO ":%s/json", snapshot_id);
    struct engine_call c = {.path = path};
    cleanup_(engine_answer_done) struct engine_answer a;
    if (engine_do(&docker_of(rt)->engine, &c, &a, e) < 0) {
        return -1;
    }
    return a.status == 404 ? 0 : engine_check(&a, "image of the snapshot", e) < 0 ? -1 : 1;
}
