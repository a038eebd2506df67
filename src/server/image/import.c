/* Import. The archive is unpacked once into the store's tmp/, without meaning; then one look tells
 * what it is. A plain root file system is a layer already and is moved into place as it is; the
 * others are directories of blobs, whose layers are unpacked like pulled ones. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/image/archive.h"
#include "server/image/digest.h"
#include "server/image/internal.h"
#include "server/image/layer.h"
#include "server/image/limits.h"

struct import {
    struct image_store *s;
    int dir_fd; /* the unpacked archive */
    const char *name;
    struct image *img;
};

static bool has_file(int dir_fd, const char *path)
{
    cleanup_close int fd = fd_open_beneath(dir_fd, path, O_RDONLY | O_CLOEXEC, 0);
    struct stat st;
    return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

static struct json *read_json(const struct import *im, const char *path, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(IMAGE_MAX_MANIFEST);
    cleanup_close int fd = fd_open_beneath(im->dir_fd, path, O_RDONLY | O_CLOEXEC, 0);
    int r = fd < 0 ? fd : buf_read_fd(&text, fd);
    if (r < 0) {
        (void)err_sys(e, r, "archive: %s", path);
        return NULL;
    }
    struct json *j = json_parse(buf_str(&text), e);
    if (!j) {
        (void)err_wrap(e, "archive: %s", path);
    }
    return j;
}

/* Canonical name: the caller's, else the archive's own. */
static int set_name(struct import *im, const char *from_archive, struct err *e)
{
    struct image_ref ref;
    char full[IMAGE_MAX_REF * 2];
    const char *name = im->name ? im->name : from_archive;
    if (!name) {
        return err_set(e, ERR_INVALID, "the archive does not name its image: give a name");
    }
    if (image_ref_parse(str_from(name), &ref, e) < 0) {
        return -1;
    }
    if (image_ref_format(&ref, full, sizeof(full)) < 0) {
        return err_set(e, ERR_INVALID, "image name too long");
    }
    free(im->img->name);
    im->img->name = xstrdup(full);
    return 0;
}

/* Unpacks one layer file of the archive under the diff id the config gives it. */
static int import_layer(struct import *im, size_t i, const char *path, struct err *e)
{
    char temp[64];
    struct layer_result st;
    const char *id = im->img->layers[i].id;
    if (image_store_has_layer(im->s, id)) {
        return 0;
    }
    cleanup_close int fd = fd_open_beneath(im->dir_fd, path, O_RDONLY | O_CLOEXEC, 0);
    cleanup_close int root = -1;
    if (fd < 0) {
        return err_sys(e, fd, "archive: layer %s", path);
    }
    if (image_store_temp(im->s, temp, &root, e) < 0) {
        return -1;
    }
    struct layer_job job = {.program = im->s->layer_program, .archive_fd = fd, .root_fd = root};
    int r = layer_job_unpack(&job, &st, e);
    if (r == 0 && strcmp(st.digest + strlen("sha256:"), id) != 0) {
        r = err_set(e, ERR_INVALID, "archive: layer %s is not the one its config names", path);
    }
    if (r < 0) {
        image_store_temp_remove(im->s, temp);
        return -1;
    }
    return image_store_adopt(im->s, temp, id, st.bytes, e);
}

static int blob_path(struct str digest, char out[128], struct err *e)
{
    if (!image_digest_valid(digest)) {
        return err_set(e, ERR_INVALID, "archive: '%.*s' is not a sha256 digest", STR_FMT(digest));
    }
    (void)snprintf(out, 128, "blobs/sha256/%.*s", (int)(digest.n - 7), digest.p + 7);
    return 0;
}

/* ---- docker save ---- */

static int import_docker(struct import *im, struct err *e)
{
    cleanup_(json_free) struct json *list = read_json(im, "manifest.json", e);
    struct json *m = json_item(list, 0), *layers = json_get(m, "Layers");
    const char *config_path = json_cstr(json_get(m, "Config"));
    if (!list) {
        return -1;
    }
    if (!config_path || json_len(list) != 1) {
        return err_set(e, ERR_INVALID, "archive: manifest.json must describe one image");
    }
    cleanup_(json_free) struct json *config = read_json(im, config_path, e);
    if (!config || image_apply_config(im->img, config, e) < 0 ||
        set_name(im, json_cstr(json_item(json_get(m, "RepoTags"), 0)), e) < 0) {
        return -1;
    }
    if (json_len(layers) != im->img->n_layers) {
        return err_set(e, ERR_INVALID, "archive: manifest and config disagree about the layers");
    }
    for (size_t i = 0; i < im->img->n_layers; i++) {
        const char *path = json_cstr(json_item(layers, i));
        if (!path || import_layer(im, i, path, e) < 0) {
            return path ? -1 : err_set(e, ERR_INVALID, "archive: unreadable layer name");
        }
    }
    return 0;
}

/* ---- OCI layout ---- */

/* The manifest for this machine: the only one, or the one of an index for its architecture. */
static struct json *oci_manifest(struct import *im, char **ret_name, struct err *e)
{
    char path[128];
    cleanup_(json_free) struct json *index = read_json(im, "index.json", e);
    struct json *list = json_get(index, "manifests");
    if (!index) {
        return NULL;
    }
    for (int depth = 0; depth < 3; depth++) {
        struct json *chosen = json_len(list) == 1 ? json_item(list, 0) : NULL;
        for (size_t i = 0; !chosen && i < json_len(list); i++) {
            if (str_eq(json_str(json_at(json_item(list, i), "platform.architecture")),
                       str_from(image_host_arch()))) {
                chosen = json_item(list, i);
            }
        }
        struct str tag = json_str(
            json_get(json_get(chosen, "annotations"), "org.opencontainers.image.ref.name"));
        struct str full =
            json_str(json_get(json_get(chosen, "annotations"), "io.containerd.image.name"));
        if (!chosen || blob_path(json_str(json_get(chosen, "digest")), path, e) < 0) {
            (void)err_set(e, ERR_INVALID, "archive: no image for linux/%s in it",
                          image_host_arch());
            return NULL;
        }
        if (!*ret_name && (full.n || str_find(tag, '/') >= 0)) {
            *ret_name = str_dup(full.n ? full : tag);
        }
        (void)str_to_cstr(json_str(json_get(chosen, "digest")), im->img->digest, IMAGE_DIGEST_MAX);
        struct json *j = read_json(im, path, e);
        if (!j || !json_is_array(json_get(j, "manifests"))) {
            return j;
        }
        json_free(index);
        index = j;
        list = json_get(index, "manifests");
    }
    (void)err_set(e, ERR_INVALID, "archive: index inside index inside index");
    return NULL;
}

static int import_oci(struct import *im, struct err *e)
{
    char path[128];
    cleanup_free char *own_name = NULL;
    cleanup_(json_free) struct json *m = oci_manifest(im, &own_name, e);
    if (!m || blob_path(json_str(json_at(m, "config.digest")), path, e) < 0) {
        return -1;
    }
    cleanup_(json_free) struct json *config = read_json(im, path, e);
    struct json *layers = json_get(m, "layers");
    if (!config || image_apply_config(im->img, config, e) < 0 || set_name(im, own_name, e) < 0) {
        return -1;
    }
    if (json_len(layers) != im->img->n_layers) {
        return err_set(e, ERR_INVALID, "archive: manifest and config disagree about the layers");
    }
    for (size_t i = 0; i < im->img->n_layers; i++) {
        if (blob_path(json_str(json_get(json_item(layers, i), "digest")), path, e) < 0 ||
            import_layer(im, i, path, e) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- plain root file system ---- */

static int import_rootfs(struct import *im, const char *temp, const struct layer_result *st,
                         struct err *e)
{
    static const char *const signs[] = {"bin", "usr", "etc", "sbin", "lib"};
    bool looks_right = false;
    for (size_t i = 0; i < ARRAY_LEN(signs); i++) {
        looks_right =
            looks_right || faccessat(im->dir_fd, signs[i], F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    }
    if (!looks_right) {
        return err_set(
            e, ERR_INVALID,
            "archive is neither an OCI layout, nor a docker archive, nor a root file system");
    }
    if (set_name(im, NULL, e) < 0) {
        return -1;
    }
    struct image *img = im->img;
    img->n_layers = 1;
    (void)str_to_cstr(str_from(st->digest + strlen("sha256:")), img->layers[0].id, LAYER_ID_MAX);
    (void)snprintf(img->os, sizeof(img->os), "linux");
    (void)snprintf(img->arch, sizeof(img->arch), "%s", image_host_arch());
    img->env = xcalloc(2, sizeof(*img->env));
    img->env[0] = xstrdup("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    return image_store_adopt(im->s, temp, img->layers[0].id, st->bytes, e);
}

/* ---- all ---- */

static int import_unpacked(struct import *im, const char *temp, const struct layer_result *st,
                           struct err *e)
{
    if (has_file(im->dir_fd, "oci-layout") && has_file(im->dir_fd, "index.json")) {
        return import_oci(im, e);
    }
    if (has_file(im->dir_fd, "manifest.json")) {
        return import_docker(im, e);
    }
    return import_rootfs(im, temp, st, e);
}

struct image *image_import(struct image_store *s, int fd, const char *name, struct err *e)
{
    char temp[64];
    struct layer_result st;
    struct import im = {.s = s, .dir_fd = -1, .name = name};
    if (image_store_temp(s, temp, &im.dir_fd, e) < 0) {
        return NULL;
    }
    im.img = NEW(struct image);
    im.img->created_us = clock_wall_us();
    store_adding(s, 1);
    struct layer_job job = {
        .program = s->layer_program, .archive_fd = fd, .root_fd = im.dir_fd, .plain = true};
    int r = layer_job_unpack(&job, &st, e);
    FAULT_POINT("image.import.unpacked");
    if (r == 0) {
        r = import_unpacked(&im, temp, &st, e);
    }
    for (size_t i = 0; r == 0 && i < im.img->n_layers; i++) {
        im.img->layers[i].size = image_store_layer_size(s, im.img->layers[i].id);
        im.img->size += im.img->layers[i].size;
    }
    FAULT_POINT("image.import.layers");
    if (r == 0) {
        r = image_store_record(s, im.img, e);
    }
    store_adding(s, -1);
    (void)close(im.dir_fd);
    image_store_temp_remove(s, temp); /* gone already when it became a layer */
    if (r < 0) {
        image_free(im.img);
        return NULL;
    }
    return im.img;
}
