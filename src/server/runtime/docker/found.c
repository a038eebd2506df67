/* Sandboxes that another server of the protocol made on this engine: what their labels say. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "server/runtime/docker/docker.h"

#define METADATA_FILE_MAX (1u << 20)

struct finding {
    struct docker *d;
    struct arena *a;
    const struct json *labels; /* of the container */
    const struct json *image;  /* of its image: what both have was inherited */
};

/* NULL when absent, empty, or inherited from the image. */
static const char *own_label(const struct finding *f, const char *name)
{
    const char *v = label_get(f->labels, name);
    return v && !label_is(f->image, name, v) ? v : NULL;
}

static bool is_foreign_key(const char *key)
{
    static const char *const prefixes[] = {LABEL_PREFIX, "org.opencontainers.image.", "com.docker.",
                                           "desktop.docker."};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        if (str_starts(str_from(key), str_from(prefixes[i]))) {
            return true;
        }
    }
    return false;
}

static void map_add(struct str_map *m, struct arena *a, const char *key, const char *value)
{
    m->v[m->n++] = (struct str_pair){arena_strdup(a, key), arena_strdup(a, value)};
}

/* The reference keeps changed metadata in a file, which wins entirely. */
static struct json *metadata_file(const char *id)
{
    const char *home = getenv("HOME");
    cleanup_free char *path = xasprintf("%s/.opensandbox/metadata/%s.json", home ? home : "", id);
    cleanup_(buf_done) struct buf text = BUF_INIT(METADATA_FILE_MAX);
    struct err ignored = {0};
    return file_read(AT_FDCWD, path, &text) < 0 ? NULL : json_parse(buf_str(&text), &ignored);
}

static void find_metadata(const struct finding *f, const char *id, struct str_map *ret)
{
    cleanup_(json_free) struct json *file = metadata_file(id);
    const struct json *from = json_is_object(file) ? file : f->labels;
    void *it = NULL;
    const char *key;
    struct json *v;
    ret->v = arena_array(f->a, json_len(from) + 1, sizeof(*ret->v));
    while (json_is_object(from) && json_next(from, &it, &key, &v)) {
        const char *value = json_cstr(v);
        if (value && (file || (!is_foreign_key(key) && !label_is(f->image, key, value)))) {
            map_add(ret, f->a, key, value);
        }
    }
    ret->has = ret->n > 0;
}

static void find_entrypoint(const struct finding *f, const struct json *cmd, struct str_list *ret)
{
    ret->v = arena_array(f->a, json_len(cmd) + 1, sizeof(*ret->v));
    for (size_t i = 0; json_is_array(cmd) && i < json_len(cmd); i++) {
        const char *word = json_cstr(json_item(cmd, i));
        ret->v[ret->n++] = arena_strdup(f->a, word ? word : "");
    }
}

static int64_t time_of(const char *text)
{
    int64_t us = 0;
    return text && rfc3339_parse(str_from(text), &us) == 0 ? us : 0;
}

static int64_t number_of(const char *text)
{
    int64_t v = 0;
    return text && parse_i64(str_from(text), &v) == 0 ? v : 0;
}

static int one_found(struct docker *d, const char *cid, struct arena *a, struct runtime_found *ret,
                     struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer c = {0}, image = {0};
    if (container_inspect(d, cid, &c, e) < 0) {
        return -1;
    }
    const char *image_id = json_cstr(json_get(c.json, "Image"));
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/images/%s/json", image_id ? image_id : "");
    struct engine_call call = {.path = path};
    if (engine_do(&d->engine, &call, &image, e) < 0) {
        return -1;
    }
    struct finding f = {d, a, json_at(c.json, "Config.Labels"),
                        json_at(image.json, "Config.Labels")};
    struct container known;
    container_from_inspect(c.json, &known);
    known.has_volumes = own_label(&f, LABEL_VOLUMES) || own_label(&f, LABEL_OSSFS);
    known.has_sidecar = own_label(&f, LABEL_TOKEN) != NULL;
    const char *uri = json_cstr(json_at(c.json, "Config.Image"));
    const char *os = own_label(&f, LABEL_OS), *arch = own_label(&f, LABEL_ARCH);
    const char *token = own_label(&f, LABEL_TOKEN), *snapshot = own_label(&f, LABEL_SNAPSHOT);
    *ret = (struct runtime_found){
        .id = arena_strdup(a, known.id),
        .image = arena_strdup(a, uri ? uri : ""),
        .snapshot_id = snapshot ? arena_strdup(a, snapshot) : NULL,
        .os = os && arch ? arena_strdup(a, os) : NULL,
        .arch = os && arch ? arena_strdup(a, arch) : NULL,
        .egress_token = token ? arena_strdup(a, token) : NULL,
        .created_us = time_of(json_cstr(json_get(c.json, "Created"))),
        .expires_us = time_of(own_label(&f, LABEL_EXPIRES)),
        .renew_extend_s = number_of(own_label(&f, LABEL_RENEW)),
    };
    status_from_inspect(c.json, &ret->status);
    find_metadata(&f, known.id, &ret->metadata);
    find_entrypoint(&f, json_at(c.json, "Config.Cmd"), &ret->entrypoint);
    known.is_up = true;
    index_put(d, &known);
    return 0;
}

/* Whole, and not one that a server at work is just making. */
static bool is_wanted(const struct docker *d, const struct json *labels, const struct container *c)
{
    const char *server = label_get(labels, LABEL_SERVER);
    bool adopt =
        strcmp(d->dc->adopt, "all") == 0 || (strcmp(d->dc->adopt, "reference") == 0 && !server);
    return adopt && c->state != RT_CREATED && c->state != RT_MISSING &&
           !(server && strcmp(server, d->server) == 0);
}

int docker_found(struct runtime *rt, bool (*is_known)(const char *id, void *arg),
                 void (*fn)(const struct runtime_found *f, void *arg), void *arg, struct err *e)
{
    struct docker *d = docker_of(rt);
    cleanup_(engine_answer_done) struct engine_answer a = {0};
    if (strcmp(d->dc->adopt, "none") == 0) {
        return 0;
    }
    if (index_refresh(d, &a, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < json_len(a.json); i++) {
        const struct json *j = json_item(a.json, i);
        struct container c;
        if (!container_from_list(j, &c) || !is_wanted(d, json_get(j, "Labels"), &c) ||
            is_known(c.id, arg)) {
            continue;
        }
        /* Looked at once more after it was found unknown: it may have been ours, removed just now.
         */
        cleanup_(arena_done) struct arena arena = {0};
        struct runtime_found f;
        struct err gone = {0};
        if (one_found(d, c.cid, &arena, &f, &gone) == 0) {
            fn(&f, arg);
        } else if (gone.code != ERR_NOT_FOUND) {
            *e = gone;
            return -1;
        }
    }
    return 0;
}
