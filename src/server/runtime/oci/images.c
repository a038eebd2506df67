/* Images of sandboxes. */

#include "server/runtime/oci/images.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "server/image/derive.h"

/* ---- the store ---- */

static bool in_list(const struct str_list *l, const char *host)
{
    for (size_t i = 0; i < l->n; i++) {
        if (strcmp(l->v[i], host) == 0) {
            return true;
        }
    }
    return false;
}

/* One entry for every registry that some option names. */
static size_t registries(const struct config_images *c, struct image_registry_conf *out)
{
    size_t n = 0;
    const char *const *lists[] = {c->plain_http.v, c->skip_verify.v};
    const size_t lens[] = {c->plain_http.n, c->skip_verify.n};
    const struct str_map *maps[] = {&c->mirrors, &c->ca_files};
    for (size_t k = 0; k < ARRAY_LEN(maps); k++) {
        for (size_t i = 0; i < maps[k]->n; i++) {
            out[n++].host = maps[k]->v[i].key;
        }
    }
    for (size_t k = 0; k < ARRAY_LEN(lists); k++) {
        for (size_t i = 0; i < lens[k]; i++) {
            out[n++].host = lists[k][i];
        }
    }
    for (size_t i = 0; i < n; i++) {
        out[i].mirror = str_map_get(&c->mirrors, out[i].host);
        out[i].ca_file = str_map_get(&c->ca_files, out[i].host);
        out[i].insecure = in_list(&c->plain_http, out[i].host);
        out[i].skip_verify = in_list(&c->skip_verify, out[i].host);
    }
    return n;
}

int images_open(struct oci *o, struct err *e)
{
    const struct config_images *c = &o->cfg->images;
    size_t max = c->mirrors.n + c->ca_files.n + c->plain_http.n + c->skip_verify.n;
    cleanup_free struct image_registry_conf *regs = xcalloc(max + 1, sizeof(*regs));
    struct image_store_opts so = {
        .dir = c->root,
        .docker_config = *c->docker_config ? c->docker_config : NULL,
        .registries = regs,
        .n_registries = registries(c, regs),
    };
    o->images = image_store_open(&so, e);
    return o->images ? 0 : -1;
}

/* ---- the image of a create ---- */

static const char *image_name(const struct runtime_spec *spec, struct arena *a)
{
    return spec->snapshot_id ? arena_printf(a, IMAGE_SNAPSHOT_PREFIX "%s", spec->snapshot_id)
                             : spec->image;
}

static bool is_builtin(const struct oci *o, const char *name)
{
    return strcmp(name, "host") == 0 || str_map_get(&o->oci->rootfs, name);
}

int images_check(const struct oci *o, const struct runtime_spec *spec, struct err *e)
{
    struct image_ref ref;
    if (spec->snapshot_id || !spec->image || is_builtin(o, spec->image)) {
        return 0;
    }
    return image_ref_parse(str_from(spec->image), &ref, e) < 0 ? err_wrap(e, "image.uri") : 0;
}

bool images_must_fetch(struct runtime *rt, const struct runtime_spec *spec)
{
    struct oci *o = oci_of(rt);
    const char *policy = o->cfg->images.pull_policy;
    if (spec->snapshot_id || !spec->image || is_builtin(o, spec->image) ||
        strcmp(policy, "never") == 0) {
        return false;
    }
    return strcmp(policy, "always") == 0 || !image_store_has(o->images, spec->image);
}

static bool on_progress(const char *layer, const char *what, uint64_t done, uint64_t total,
                        void *arg)
{
    (void)layer;
    const struct runtime_spec *spec = arg;
    return !spec->progress || spec->progress(what, done, total, spec->progress_arg);
}

static struct image *take_snapshot(struct oci *o, const char *name, struct err *e)
{
    struct image *img = image_store_get(o->images, name, NULL, e);
    if (img && !image_store_pin_image(o->images, img)) {
        (void)err_set(e, ERR_NOT_FOUND, "layers of %s are missing", name);
        image_free(img);
        return NULL;
    }
    return img;
}

static struct image *fetch(struct oci *o, const struct runtime_spec *spec, const char *name,
                           struct err *e)
{
    const char *policy = o->cfg->images.pull_policy;
    if (spec->snapshot_id || strcmp(policy, "never") == 0) {
        struct image *img = take_snapshot(o, name, e);
        return img ? img
                   : ((void)err_wrap(e, spec->snapshot_id ? "snapshot" : "pulling is turned off"),
                      NULL);
    }
    struct image_pull p = {
        .name = name,
        .user = spec->image_user,
        .password = spec->image_password,
        .always = strcmp(policy, "always") == 0,
        .progress = on_progress,
        .arg = (void *)(uintptr_t)spec,
    };
    return image_store_pull(o->images, &p, e);
}

static int layers_of(struct oci *o, const struct image *img, struct arena *a, struct rootfs *ret,
                     struct err *e)
{
    struct rootfs below = {0};
    if (img->base) {
        int r = rootfs_builtin(o->oci, &o->host_image, img->base, &below, e);
        if (r <= 0) {
            return r < 0 ? -1
                         : err_set(e, ERR_NOT_FOUND, "image %s lies on '%s', which is not here",
                                   img->name, img->base);
        }
    }
    size_t n = img->n_layers + below.n_layers;
    if (n == 0) {
        return err_set(e, ERR_INVALID, "image %s is empty", img->name);
    }
    if (n > OCI_LAYERS_MAX) {
        return err_set(e, ERR_LIMIT, "image %s has %zu layers, at most %u are possible", img->name,
                       n, OCI_LAYERS_MAX);
    }
    *ret = below;
    for (size_t i = 0; i < img->n_layers; i++) { /* the store has the bottom first */
        ret->layers[i] = arena_printf(a, "%s/layers/%s", image_store_dir(o->images),
                                      img->layers[img->n_layers - 1 - i].id);
    }
    for (size_t i = 0; i < below.n_layers; i++) {
        ret->layers[img->n_layers + i] = below.layers[i];
    }
    ret->n_layers = n;
    return 0;
}

static void config_of(const struct image *img, struct arena *a, struct rootfs *ret)
{
    ret->env = (const char *const *)img->env;
    ret->user = img->user;
    if (img->working_dir) {
        ret->workdir = img->working_dir[0] == '/' ? img->working_dir
                                                  : arena_printf(a, "/%s", img->working_dir);
    }
}

int images_resolve(struct oci *o, const struct runtime_spec *spec, struct sandbox *sb,
                   struct arena *a, struct rootfs *ret, struct err *e)
{
    const char *name = image_name(spec, a);
    if (!name) {
        return err_set(e, ERR_INVALID, "neither an image nor a snapshot is given");
    }
    if (!spec->snapshot_id) {
        int r = rootfs_builtin(o->oci, &o->host_image, name, ret, e);
        if (r != 0) {
            return r < 0 ? -1 : 0;
        }
    }
    struct image *img = fetch(o, spec, name, e);
    if (!img) {
        return -1;
    }
    sb->image = img;
    if (layers_of(o, img, a, ret, e) < 0) {
        return -1;
    }
    config_of(img, a, ret);
    return 0;
}

int images_record(const struct sandbox *sb, int dir_fd, struct err *e)
{
    return sb->image ? image_write_record(sb->image, dir_fd, HOME_IMAGE, e) : 0;
}

/* ---- sandboxes that exist ---- */

void images_adopt(struct oci *o, struct sandbox *sb, int dir_fd)
{
    struct err e = {0};
    if (faccessat(dir_fd, HOME_IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) < 0) {
        return; /* one that needs no store */
    }
    sb->image = image_read_record(dir_fd, HOME_IMAGE, &e);
    if (!sb->image) {
        log_warn("the image of a sandbox is not known any more: its layers may be pruned",
                 LOG_S("id", sb->id), LOG_ERR(&e));
        return;
    }
    for (size_t i = 0; i < sb->image->n_layers; i++) {
        image_store_pin(o->images, sb->image->layers[i].id);
    }
}

/* A snapshot that was deleted while sandboxes were made of it goes with the last of them. */
static void collect(struct oci *o, const struct image *img)
{
    const char *ids[IMAGE_MAX_LAYERS];
    if (!str_starts(str_from(img->name), STR(IMAGE_SNAPSHOT_PREFIX))) {
        return;
    }
    cleanup_(image_free) struct image *still = image_store_peek(o->images, img->name, NULL, NULL);
    if (!still) {
        for (size_t i = 0; i < img->n_layers; i++) {
            ids[i] = img->layers[i].id;
        }
        image_store_collect(o->images, ids, img->n_layers);
    }
}

void images_release(struct oci *o, struct sandbox *sb)
{
    if (sb->image) {
        image_store_unpin_image(o->images, sb->image);
        collect(o, sb->image);
        image_free(sb->image);
        sb->image = NULL;
    }
}

struct image *images_of_sandbox(struct oci *o, const char *id, struct err *e)
{
    cleanup_(arena_done) struct arena a = {0};
    struct sandbox_state s;
    cleanup_close int dir = sandbox_dir_open(o, id, e);
    if (dir < 0 || state_read(dir, &a, &s, e) < 0) {
        return NULL;
    }
    if (faccessat(dir, HOME_IMAGE, F_OK, AT_SYMLINK_NOFOLLOW) == 0) {
        return image_read_record(dir, HOME_IMAGE, e);
    }
    struct image *img = NEW(struct image);
    img->name = xstrdup(s.image ? s.image : "host");
    img->base = xstrdup(img->name);
    (void)snprintf(img->os, sizeof(img->os), "linux");
    (void)snprintf(img->arch, sizeof(img->arch), "%s", image_host_arch());
    return img;
}
