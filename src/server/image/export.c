/* Export and push. Layers are kept unpacked, so an image that leaves is packed anew: each layer as
 * a tar archive, a config that names them, a manifest. The digests are therefore not those it was
 * pulled with; the content is. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/image/archive.h"
#include "server/image/digest.h"
#include "server/image/internal.h"
#include "server/image/layer.h"
#include "server/image/limits.h"
#include "server/image/registry.h"
#include "server/image/ustar.h"

#define MANIFEST_TYPE "application/vnd.oci.image.manifest.v1+json"
#define CONFIG_TYPE "application/vnd.oci.image.config.v1+json"
#define LAYER_TYPE "application/vnd.oci.image.layer.v1.tar"
#define COPY_BLOCK (256u << 10)

/* An image packed into files of a temporary directory, each named by its digest. */
struct pack {
    struct image_store *s;
    char temp[64];
    int dir_fd;
    struct layer_result layers[IMAGE_MAX_LAYERS];
    size_t n_layers;
    struct buf config, manifest;
    char config_digest[IMAGE_DIGEST_MAX], manifest_digest[IMAGE_DIGEST_MAX];
};

static void pack_done(struct pack *p)
{
    if (p->dir_fd >= 0) {
        (void)close(p->dir_fd);
        image_store_temp_remove(p->s, p->temp);
    }
    buf_done(&p->config);
    buf_done(&p->manifest);
}

static int pack_layer(struct pack *p, const char *id, struct err *e)
{
    struct layer_result *t = &p->layers[p->n_layers];
    cleanup_close int root =
        openat(p->s->layers_fd, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_close int fd =
        openat(p->dir_fd, "packing", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (root < 0 || fd < 0) {
        return err_sys(e, errno, "packing layer %s", id);
    }
    struct layer_job job = {.program = p->s->layer_program, .archive_fd = fd, .root_fd = root};
    if (layer_job_pack(&job, t, e) < 0) {
        return -1;
    }
    if (renameat(p->dir_fd, "packing", p->dir_fd, t->digest) < 0) {
        return err_sys(e, errno, "packing layer %s", id);
    }
    p->n_layers++;
    return 0;
}

static void pack_config(struct pack *p, const struct image *img)
{
    struct json_out o;
    char when[RFC3339_MAX];
    rfc3339_format(img->created_us, 0, when);
    json_out_init(&o, &p->config);
    json_obj_begin(&o);
    json_key(&o, "created");
    json_put_cstr(&o, when);
    json_key(&o, "architecture");
    json_put_cstr(&o, img->arch[0] ? img->arch : image_host_arch());
    json_key(&o, "os");
    json_put_cstr(&o, "linux");
    json_key(&o, "config");
    json_obj_begin(&o);
    json_key(&o, "Env");
    json_arr_begin(&o);
    for (char **v = img->env; v && *v; v++) {
        json_put_cstr(&o, *v);
    }
    json_arr_end(&o);
    if (img->user) {
        json_key(&o, "User");
        json_put_cstr(&o, img->user);
    }
    if (img->working_dir) {
        json_key(&o, "WorkingDir");
        json_put_cstr(&o, img->working_dir);
    }
    if (img->labels || img->base) {
        /* What is below the layers and cannot go along is named: whoever imports it has its own. */
        cleanup_(json_free) struct json *labels =
            img->labels ? json_clone(img->labels) : json_object_new();
        if (img->base) {
            json_set(labels, IMAGE_BASE_LABEL, json_string_new(str_from(img->base)));
        }
        json_key(&o, "Labels");
        json_put_tree(&o, labels);
    }
    json_obj_end(&o);
    json_key(&o, "rootfs");
    json_obj_begin(&o);
    json_key(&o, "type");
    json_put_cstr(&o, "layers");
    json_key(&o, "diff_ids");
    json_arr_begin(&o);
    for (size_t i = 0; i < p->n_layers; i++) {
        json_put_cstr(&o, p->layers[i].digest);
    }
    json_arr_end(&o);
    json_obj_end(&o);
    json_obj_end(&o);
    digest_of(buf_str(&p->config), p->config_digest);
}

static void put_descriptor(struct json_out *o, const char *type, const char *digest, uint64_t size)
{
    json_obj_begin(o);
    json_key(o, "mediaType");
    json_put_cstr(o, type);
    json_key(o, "digest");
    json_put_cstr(o, digest);
    json_key(o, "size");
    json_put_int(o, (int64_t)size);
    json_obj_end(o);
}

static void pack_manifest(struct pack *p)
{
    struct json_out o;
    json_out_init(&o, &p->manifest);
    json_obj_begin(&o);
    json_key(&o, "schemaVersion");
    json_put_int(&o, 2);
    json_key(&o, "mediaType");
    json_put_cstr(&o, MANIFEST_TYPE);
    json_key(&o, "config");
    put_descriptor(&o, CONFIG_TYPE, p->config_digest, p->config.len);
    json_key(&o, "layers");
    json_arr_begin(&o);
    for (size_t i = 0; i < p->n_layers; i++) {
        put_descriptor(&o, LAYER_TYPE, p->layers[i].digest, p->layers[i].bytes);
    }
    json_arr_end(&o);
    json_obj_end(&o);
    digest_of(buf_str(&p->manifest), p->manifest_digest);
}

static int pack_image(struct pack *p, struct image_store *s, const struct image *img, struct err *e)
{
    *p = (struct pack){.s = s,
                       .dir_fd = -1,
                       .config = BUF_INIT(IMAGE_MAX_MANIFEST),
                       .manifest = BUF_INIT(IMAGE_MAX_MANIFEST)};
    if (image_store_temp(s, p->temp, &p->dir_fd, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < img->n_layers; i++) {
        if (pack_layer(p, img->layers[i].id, e) < 0) {
            return err_wrap(e, "image %s", img->name);
        }
    }
    pack_config(p, img);
    pack_manifest(p);
    return buf_failed(&p->config) || buf_failed(&p->manifest)
               ? err_set(e, ERR_LIMIT, "image config too large")
               : 0;
}

/* ---- export ---- */

static int put_padding(int fd, uint64_t size)
{
    static const char zeros[USTAR_BLOCK];
    return fd_write_full(fd, zeros, ustar_padding(size));
}

static int put_header(int fd, const char *path, uint64_t size)
{
    char h[USTAR_BLOCK];
    ustar_header(h, path, '0', 0644, size);
    return fd_write_full(fd, h, sizeof(h));
}

static int put_text(int fd, const char *path, struct str text)
{
    int r = put_header(fd, path, text.n);
    r = r < 0 ? r : fd_write_full(fd, text.p, text.n);
    return r < 0 ? r : put_padding(fd, text.n);
}

static int put_blob(int out, const struct pack *p, const struct layer_result *t)
{
    char path[128];
    uint64_t done = 0;
    cleanup_free char *block = xmalloc(COPY_BLOCK);
    cleanup_close int fd = openat(p->dir_fd, t->digest, O_RDONLY | O_CLOEXEC);
    (void)snprintf(path, sizeof(path), "blobs/sha256/%s", t->digest + strlen("sha256:"));
    int r = fd < 0 ? -errno : put_header(out, path, t->bytes);
    while (r == 0) {
        ssize_t n = read(fd, block, COPY_BLOCK);
        if (n == 0) {
            break;
        }
        done += n > 0 ? (uint64_t)n : 0;
        r = n < 0 ? -errno : done > t->bytes ? -EIO : fd_write_full(out, block, (size_t)n);
    }
    r = r == 0 && done != t->bytes ? -EIO : r; /* the header has said how long it is */
    return r < 0 ? r : put_padding(out, t->bytes);
}

static void put_index(const struct pack *p, const char *name, struct buf *out)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "schemaVersion");
    json_put_int(&o, 2);
    json_key(&o, "manifests");
    json_arr_begin(&o);
    json_obj_begin(&o);
    json_key(&o, "mediaType");
    json_put_cstr(&o, MANIFEST_TYPE);
    json_key(&o, "digest");
    json_put_cstr(&o, p->manifest_digest);
    json_key(&o, "size");
    json_put_int(&o, (int64_t)p->manifest.len);
    json_key(&o, "annotations");
    json_obj_begin(&o);
    json_key(&o, "org.opencontainers.image.ref.name");
    json_put_cstr(&o, name);
    json_obj_end(&o);
    json_obj_end(&o);
    json_arr_end(&o);
    json_obj_end(&o);
}

static int write_layout(const struct pack *p, const char *name, int fd)
{
    static const char end[2 * USTAR_BLOCK];
    char path[128];
    cleanup_(buf_done) struct buf index = BUF_INIT(IMAGE_MAX_MANIFEST);
    put_index(p, name, &index);
    int r = put_text(fd, "oci-layout", STR("{\"imageLayoutVersion\":\"1.0.0\"}"));
    if (r == 0) {
        r = put_text(fd, "index.json", buf_str(&index));
    }
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "blobs/sha256/%s",
                       p->manifest_digest + strlen("sha256:"));
        r = put_text(fd, path, buf_str(&p->manifest));
    }
    if (r == 0) {
        (void)snprintf(path, sizeof(path), "blobs/sha256/%s", p->config_digest + strlen("sha256:"));
        r = put_text(fd, path, buf_str(&p->config));
    }
    for (size_t i = 0; r == 0 && i < p->n_layers; i++) {
        r = put_blob(fd, p, &p->layers[i]);
    }
    return r < 0 ? r : fd_write_full(fd, end, sizeof(end));
}

int image_export(struct image_store *s, const char *name, int fd, struct err *e)
{
    cleanup_(image_free) struct image *img = image_store_get(s, name, NULL, e);
    struct pack p;
    if (!img) {
        return -1;
    }
    int r = pack_image(&p, s, img, e);
    if (r == 0) {
        int wrote = write_layout(&p, img->name, fd);
        r = wrote < 0 ? err_sys(e, wrote, "exporting %s", img->name) : 0;
    }
    pack_done(&p);
    return r;
}

/* ---- push ---- */

static int push_text(struct registry *reg, const struct pack *p, const char *digest,
                     struct str text, struct err *e)
{
    int r = file_write_atomic(p->dir_fd, digest, text, 0600);
    cleanup_close int fd = r < 0 ? r : openat(p->dir_fd, digest, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, r < 0 ? r : errno, "image config")
                  : registry_put_blob(reg, digest, fd, text.n, e);
}

static int push_packed(struct registry *reg, const struct pack *p, const char *reference,
                       struct err *e)
{
    for (size_t i = 0; i < p->n_layers; i++) {
        cleanup_close int fd = openat(p->dir_fd, p->layers[i].digest, O_RDONLY | O_CLOEXEC);
        if (fd < 0) {
            return err_sys(e, errno, "layer");
        }
        if (registry_put_blob(reg, p->layers[i].digest, fd, p->layers[i].bytes, e) < 0) {
            return -1;
        }
    }
    if (push_text(reg, p, p->config_digest, buf_str(&p->config), e) < 0) {
        return -1;
    }
    return registry_put_manifest(reg, reference, MANIFEST_TYPE, buf_str(&p->manifest), e);
}

int image_push(struct image_store *s, const struct image_push *push, struct err *e)
{
    struct image_ref ref;
    struct pack p;
    cleanup_(image_free) struct image *img = image_store_get(s, push->name, NULL, e);
    if (!img || image_ref_parse(str_from(push->target ? push->target : img->name), &ref, e) < 0) {
        return -1;
    }
    int r = pack_image(&p, s, img, e);
    if (r == 0) {
        struct registry *reg = store_open_registry(s, &ref, push->user, push->password, false);
        r = push_packed(reg, &p, image_ref_reference(&ref), e);
        registry_free(reg);
    }
    pack_done(&p);
    return r;
}
