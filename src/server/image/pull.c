/* Pulling an image: manifest, config, layers in parallel, record. */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/image/digest.h"
#include "server/image/internal.h"
#include "server/image/layer.h"
#include "server/image/limits.h"
#include "server/image/registry.h"

/* A layer as the manifest names it; its diff id is in the image. */
struct remote_layer {
    char digest[IMAGE_DIGEST_MAX];
    uint64_t size;
};

/* One pull. The layer threads share it. */
struct pull {
    struct image_store *s;
    const struct image_pull *p;
    const char *key; /* of its flight */
    struct registry *reg;
    struct image *img;
    struct remote_layer layers[IMAGE_MAX_LAYERS];
    uint64_t total, done;
    size_t next; /* layer to be taken by the next free thread */
    bool cancelled;
    bool failed;
    struct err e;
    pthread_mutex_t lock;
};

static void report(struct pull *pl, const char *layer, const char *what, uint64_t done,
                   uint64_t total)
{
    flight_report(pl->s, pl->key, what, done, total);
    if (pl->p->progress && !pl->p->progress(layer, what, done, total, pl->p->arg)) {
        (void)pthread_mutex_lock(&pl->lock);
        pl->cancelled = true;
        (void)pthread_mutex_unlock(&pl->lock);
    }
}

static void on_bytes(uint64_t n, void *arg)
{
    struct pull *pl = arg;
    (void)pthread_mutex_lock(&pl->lock);
    pl->done += n;
    uint64_t done = pl->done, total = pl->total;
    (void)pthread_mutex_unlock(&pl->lock);
    report(pl, "", total ? "downloading" : "resolving", done, total);
}

/* Asked now and then while a registry is silent: so is whoever wants the image. */
static bool pull_cancelled(void *arg)
{
    struct pull *pl = arg;
    on_bytes(0, pl);
    (void)pthread_mutex_lock(&pl->lock);
    bool stop = pl->cancelled || pl->failed;
    (void)pthread_mutex_unlock(&pl->lock);
    return stop;
}

/* ---- manifest and config ---- */

static bool is_index(const struct json *j, const char *media_type)
{
    return strstr(media_type, "image.index") || strstr(media_type, "manifest.list") ||
           json_is_array(json_get(j, "manifests"));
}

/* The entry of an index for linux and the wanted architecture. */
static const char *choose_platform(const struct json *index, const char *arch)
{
    struct json *list = json_get(index, "manifests");
    for (size_t i = 0; i < json_len(list); i++) {
        struct json *m = json_item(list, i);
        struct str os = json_str(json_at(m, "platform.os")),
                   a = json_str(json_at(m, "platform.architecture"));
        const char *digest = json_cstr(json_get(m, "digest"));
        if (str_eq(os, STR("linux")) && str_eq(a, str_from(arch)) && digest &&
            image_digest_valid(str_from(digest))) {
            return digest;
        }
    }
    return NULL;
}

static struct json *read_manifest(struct pull *pl, const char *reference, char media_type[128],
                                  struct err *e)
{
    struct registry_manifest m;
    if (registry_get_manifest(pl->reg, reference, &m, e) < 0) {
        return NULL;
    }
    struct json *j = json_parse(buf_str(&m.body), e);
    memcpy(media_type, m.media_type, sizeof(m.media_type));
    memcpy(pl->img->digest, m.digest, sizeof(m.digest));
    registry_manifest_done(&m);
    if (!j) {
        (void)err_wrap(e, "manifest of %s", pl->img->name);
    }
    return j;
}

/* The manifest for the platform, through an index where the registry has one. */
static struct json *get_manifest(struct pull *pl, const struct image_ref *ref, const char *arch,
                                 struct err *e)
{
    char type[128];
    struct json *j = read_manifest(pl, image_ref_reference(ref), type, e);
    if (!j || !is_index(j, type)) {
        return j;
    }
    const char *digest = choose_platform(j, arch);
    if (!digest) {
        (void)err_set(e, ERR_NOT_FOUND, "image %s does not exist for linux/%s", pl->img->name,
                      arch);
        json_free(j);
        return NULL;
    }
    struct json *inner = read_manifest(pl, digest, type, e);
    json_free(j);
    if (inner && is_index(inner, type)) {
        (void)err_set(e, ERR_INVALID, "image %s: an index inside an index", pl->img->name);
        json_free(inner);
        return NULL;
    }
    return inner;
}

static int read_layers(struct pull *pl, const struct json *manifest, struct err *e)
{
    struct json *layers = json_get(manifest, "layers");
    if (json_len(layers) != pl->img->n_layers) {
        return err_set(e, ERR_INVALID, "image %s: manifest and config disagree about the layers",
                       pl->img->name);
    }
    for (size_t i = 0; i < pl->img->n_layers; i++) {
        struct json *l = json_item(layers, i);
        struct str digest = json_str(json_get(l, "digest"));
        int64_t size = json_int(json_get(l, "size"), -1);
        if (!image_digest_valid(digest) || size < 0) {
            return err_set(e, ERR_INVALID, "image %s: unreadable layer in its manifest",
                           pl->img->name);
        }
        (void)str_to_cstr(digest, pl->layers[i].digest, IMAGE_DIGEST_MAX);
        pl->layers[i].size = (uint64_t)size;
        if (!image_store_has_layer(pl->s, pl->img->layers[i].id)) {
            pl->total += (uint64_t)size;
        }
    }
    return 0;
}

static int read_image(struct pull *pl, const struct image_ref *ref, const char *arch, struct err *e)
{
    cleanup_(json_free) struct json *manifest = get_manifest(pl, ref, arch, e);
    if (!manifest) {
        return -1;
    }
    const char *digest = json_cstr(json_at(manifest, "config.digest"));
    if (!digest || !image_digest_valid(str_from(digest))) {
        return err_set(e, ERR_UNSUPPORTED,
                       "image %s: manifest format not supported (OCI or Docker schema 2 needed)",
                       pl->img->name);
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(IMAGE_MAX_MANIFEST);
    if (registry_get_blob(pl->reg, digest, &text, e) < 0) {
        return -1;
    }
    cleanup_(json_free) struct json *config = json_parse(buf_str(&text), e);
    if (!config) {
        return err_wrap(e, "config of %s", pl->img->name);
    }
    if (image_apply_config(pl->img, config, e) < 0 || read_layers(pl, manifest, e) < 0) {
        return -1;
    }
    if (pl->img->arch[0] && strcmp(pl->img->arch, arch) != 0) {
        return err_set(e, ERR_NOT_FOUND, "image %s is for %s, not for %s", pl->img->name,
                       pl->img->arch, arch);
    }
    (void)snprintf(pl->img->arch, sizeof(pl->img->arch), "%s", arch);
    return 0;
}

/* ---- layers ---- */

static bool unpack_cancelled(void *arg)
{
    struct pull *pl = arg;
    report(pl, "", "unpacking", 0, 0);
    (void)pthread_mutex_lock(&pl->lock);
    bool stop = pl->cancelled || pl->failed;
    (void)pthread_mutex_unlock(&pl->lock);
    return stop;
}

/* Unpacks a downloaded blob and puts it into place under its diff id. */
static int install_layer(struct pull *pl, size_t i, int blob_fd, struct err *e)
{
    char temp[64];
    cleanup_close int root = -1;
    struct layer_result stats = {0};
    struct image_layer *l = &pl->img->layers[i];
    report(pl, pl->layers[i].digest, "unpacking", 0, pl->layers[i].size);
    if (image_store_temp(pl->s, temp, &root, e) < 0) {
        return -1;
    }
    struct layer_job job = {.program = pl->s->layer_program,
                            .archive_fd = blob_fd,
                            .root_fd = root,
                            .cancelled = unpack_cancelled,
                            .arg = pl};
    int r = lseek(blob_fd, 0, SEEK_SET) < 0 ? err_sys(e, errno, "layer")
                                            : layer_job_unpack(&job, &stats, e);
    if (r == 0 && strcmp(stats.digest + strlen("sha256:"), l->id) != 0) {
        r = err_set(e, ERR_INVALID, "layer %s unpacks to %s, not to what the image config names",
                    pl->layers[i].digest, stats.digest);
    }
    FAULT_POINT("image.pull.unpacked");
    if (r < 0) {
        image_store_temp_remove(pl->s, temp);
        return err_wrap(e, "image %s", pl->img->name);
    }
    return image_store_adopt(pl->s, temp, l->id, stats.bytes, e);
}

static int fetch_layer(struct pull *pl, struct registry *reg, size_t i, struct err *e)
{
    const char *part = pl->layers[i].digest;
    cleanup_close int fd =
        openat(pl->s->parts_fd, part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return err_sys(e, errno, "image store %s", pl->s->dir);
    }
    int r = registry_fetch_blob(reg, part, pl->layers[i].size, fd, on_bytes, pl, e);
    FAULT_POINT("image.pull.downloaded");
    if (r == 0) {
        r = install_layer(pl, i, fd, e);
    } else {
        (void)err_wrap(e, "image %s", pl->img->name);
    }
    /* A broken transfer is resumed by the next pull; wrong or used-up bytes are of no use. */
    if (r == 0 || e->code == ERR_INVALID) {
        (void)unlinkat(pl->s->parts_fd, part, 0);
    }
    return r;
}

/* Another pull fetches a layer of ours. */
static bool layer_watch(const char *what, uint64_t done, uint64_t total, void *arg)
{
    (void)what, (void)done, (void)total;
    return !pull_cancelled(arg);
}

/* Fetches layer i unless it is there, or another pull is at it. */
static int ensure_layer(struct pull *pl, struct registry *reg, size_t i, struct err *e)
{
    const char *id = pl->img->layers[i].id;
    struct flight_watch w = {layer_watch, pl};
    while (!image_store_has_layer(pl->s, id)) {
        enum flight_end end = flight_begin(pl->s, id, &w, e);
        if (end == FLIGHT_LEFT) {
            return -1;
        }
        if (end != FLIGHT_MINE) {
            continue;
        }
        int r = image_store_has_layer(pl->s, id) ? 0 : fetch_layer(pl, reg, i, e);
        flight_end(pl->s, id, r < 0 ? e : NULL, false); /* the others may have better access */
        return r;
    }
    return 0;
}

static void *layer_thread(void *arg)
{
    struct pull *pl = arg;
    struct registry *reg = registry_clone(pl->reg);
    registry_on_cancel(reg, pull_cancelled, pl);
    for (;;) {
        struct err e = {0};
        (void)pthread_mutex_lock(&pl->lock);
        size_t i = pl->failed || pl->cancelled ? pl->img->n_layers : pl->next++;
        (void)pthread_mutex_unlock(&pl->lock);
        if (i >= pl->img->n_layers) {
            break;
        }
        if (ensure_layer(pl, reg, i, &e) < 0) {
            (void)pthread_mutex_lock(&pl->lock);
            if (!pl->failed) {
                pl->failed = true;
                pl->e = e;
            }
            (void)pthread_mutex_unlock(&pl->lock);
        }
    }
    registry_free(reg);
    return NULL;
}

static int fetch_layers(struct pull *pl, struct err *e)
{
    pthread_t threads[IMAGE_PULL_PARALLEL];
    size_t n = 0, want = MIN(pl->img->n_layers, (size_t)IMAGE_PULL_PARALLEL);
    while (n < want && pthread_create(&threads[n], NULL, layer_thread, pl) == 0) {
        n++;
    }
    if (n == 0 && want > 0) {
        (void)layer_thread(pl); /* no thread to be had: one after the other, here */
    }
    for (size_t i = 0; i < n; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    if (pl->failed) {
        *e = pl->e;
        return -1;
    }
    return pl->cancelled ? err_sys(e, ECANCELED, "pull of %s", pl->img->name) : 0;
}

/* ---- the whole ---- */

/* The layers are pinned from the moment their names are known, so that those which are here already
 * stay. */
static int pull_layers(struct pull *pl, struct err *e)
{
    struct image_store *s = pl->s;
    for (size_t i = 0; i < pl->img->n_layers; i++) {
        image_store_pin(s, pl->img->layers[i].id);
    }
    int r = fetch_layers(pl, e);
    FAULT_POINT("image.pull.layers");
    for (size_t i = 0; r == 0 && i < pl->img->n_layers; i++) {
        pl->img->layers[i].size = image_store_layer_size(s, pl->img->layers[i].id);
        pl->img->size += pl->img->layers[i].size;
    }
    r = r < 0 ? r : image_store_record(s, pl->img, e);
    if (r < 0) {
        image_store_unpin_image(s, pl->img);
    }
    return r;
}

/* From one place: the mirror of the registry, or the registry. */
static int pull_from(struct pull *pl, const struct image_ref *ref, const char *name, bool mirror,
                     struct err *e)
{
    const char *arch = pl->p->arch ? pl->p->arch : image_host_arch();
    pl->total = pl->done = 0;
    pl->next = 0;
    pl->failed = false;
    pl->img = NEW(struct image);
    pl->img->name = xstrdup(name);
    pl->img->pulled = true;
    pl->img->created_us = clock_wall_us();
    pl->reg = store_open_registry(pl->s, ref, pl->p->user, pl->p->password, mirror);
    registry_on_cancel(pl->reg, pull_cancelled, pl);
    report(pl, "", "resolving", 0, 0);
    int r = read_image(pl, ref, arch, e);
    r = r < 0 ? r : pull_layers(pl, e);
    registry_free(pl->reg);
    pl->reg = NULL;
    if (r < 0) {
        image_free(pl->img);
        pl->img = NULL;
    }
    return r;
}

/* A mirror is a shortcut: whatever is wrong with it, the registry has the last word. Layers and
 * parts of layers that came from it are kept, as they go by their digests. */
static int pull_around(struct pull *pl, const struct image_ref *ref, const char *name,
                       const char *mirror, struct err *e)
{
    struct err first = *e;
    *e = (struct err){0};
    log_warn("a mirror failed, asking the registry itself", LOG_S("image", name),
             LOG_S("mirror", mirror), LOG_ERR(&first));
    int r = pull_from(pl, ref, name, false, e);
    if (r < 0) {
        struct err second = *e;
        (void)err_set(e, second.code, "%.*s (and its mirror %.100s: %.*s)", ERR_MSG_MAX / 3,
                      second.msg, mirror, ERR_MSG_MAX / 3, first.msg);
        e->sys = second.sys;
    }
    return r;
}

static struct image *pull_now(struct image_store *s, const struct image_pull *p,
                              const struct image_ref *ref, const char *name, const char *key,
                              struct err *e)
{
    const char *mirror = store_mirror_of(s, ref->registry);
    struct pull pl = {.s = s, .p = p, .key = key};
    (void)pthread_mutex_init(&pl.lock, NULL);
    store_adding(s, 1);
    int r = pull_from(&pl, ref, name, mirror != NULL, e);
    if (r < 0 && mirror && !pl.cancelled) {
        r = pull_around(&pl, ref, name, mirror, e);
    }
    store_adding(s, -1);
    if (r == 0) {
        report(&pl, "", "ready", pl.total, pl.total);
    } else if (pl.cancelled) {
        (void)err_sys(e, ECANCELED, "pull of %s", name);
    }
    (void)pthread_mutex_destroy(&pl.lock);
    return pl.img;
}

/* One pull for all who ask with the same credentials: then its failure is everybody's. */
static char *flight_key(const struct image_pull *p, const char *name)
{
    char digest[IMAGE_DIGEST_MAX] = "";
    if (p->user) {
        char *secret = xasprintf("%s\n%s", p->user, p->password ? p->password : "");
        digest_of(str_from(secret), digest);
        explicit_bzero(secret, strlen(secret));
        free(secret);
    }
    return xasprintf("%s %s %s", name, p->arch ? p->arch : image_host_arch(), digest);
}

static bool watch_other(const char *what, uint64_t done, uint64_t total, void *arg)
{
    const struct image_pull *p = arg;
    return !p->progress || p->progress("", what, done, total, p->arg);
}

static bool would_fail_again(const struct err *e)
{
    return e->sys != ECANCELED;
}

/* What is here, pinned. */
static struct image *take(struct image_store *s, const char *name, const char *arch)
{
    struct image *img = image_store_get(s, name, arch, NULL);
    if (img && !image_store_pin_image(s, img)) {
        image_free(img);
        img = NULL;
    }
    return img;
}

struct image *image_store_pull(struct image_store *s, const struct image_pull *p, struct err *e)
{
    struct image_ref ref;
    char name[IMAGE_MAX_REF * 2];
    if (image_ref_parse(str_from(p->name), &ref, e) < 0) {
        return NULL;
    }
    if (image_ref_format(&ref, name, sizeof(name)) < 0) {
        (void)err_set(e, ERR_INVALID, "image name too long");
        return NULL;
    }
    cleanup_free char *key = flight_key(p, name);
    struct flight_watch w = {watch_other, (void *)(uintptr_t)p};
    /* Whoever waited for another pull takes its result, even where `always` was asked for. */
    for (bool waited = false;; waited = true) {
        struct image *img = p->always && !waited ? NULL : take(s, name, p->arch);
        if (img) {
            return img;
        }
        switch (flight_begin(s, key, &w, e)) {
        case FLIGHT_MINE:
            img = waited || !p->always ? take(s, name, p->arch) : NULL;
            img = img ? img : pull_now(s, p, &ref, name, key, e);
            flight_end(s, key, img ? NULL : e, !img && would_fail_again(e));
            return img;
        case FLIGHT_DONE:
            break;
        case FLIGHT_FAILED:
        case FLIGHT_LEFT:
            return NULL;
        }
    }
}
