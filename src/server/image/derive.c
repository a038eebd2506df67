/* One more layer on top of an image. */

#include "server/image/derive.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/image/internal.h"
#include "server/image/layer.h"
#include "server/image/limits.h"
#include "server/image/tree.h"

struct image *image_clone(const struct image *img)
{
    cleanup_(json_free) struct json *j = image_to_json(img);
    struct image *copy = image_from_json(j, NULL);
    must(copy);
    copy->used_us = img->used_us;
    return copy;
}

int image_write_record(const struct image *img, int dir_fd, const char *file, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(IMAGE_MAX_RECORD);
    cleanup_(json_free) struct json *j = image_to_json(img);
    if (json_dump(j, &text, 0) < 0) {
        return err_set(e, ERR_LIMIT, "image config too large");
    }
    cleanup_close int fd =
        openat(dir_fd, file, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : fd_write_full(fd, buf_cstr(&text), text.len);
    return r < 0 ? err_sys(e, r, "recording image %s", img->name) : 0;
}

struct image *image_read_record(int dir_fd, const char *file, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(IMAGE_MAX_RECORD);
    int r = file_read(dir_fd, file, &text);
    if (r < 0) {
        (void)err_sys(e, r, "image record");
        return NULL;
    }
    cleanup_(json_free) struct json *j = json_parse(buf_str(&text), e);
    return j ? image_from_json(j, e) : NULL;
}

static struct image *derive(struct image_store *s, const struct image_derive *d,
                            const char *layer_id, uint64_t size, struct err *e)
{
    if (d->base->n_layers >= IMAGE_MAX_LAYERS) {
        (void)err_set(e, ERR_LIMIT, "image %s has %zu layers already, more are not possible",
                      d->base->name, d->base->n_layers);
        return NULL;
    }
    if (strlen(layer_id) >= LAYER_ID_MAX || strchr(layer_id, '/') || layer_id[0] == '.') {
        (void)err_set(e, ERR_INVALID, "'%s' cannot be the id of a layer", layer_id);
        return NULL;
    }
    struct image *img = image_clone(d->base);
    free(img->name);
    img->name = xstrdup(d->name);
    img->digest[0] = '\0';
    img->pulled = false;
    img->created_us = clock_wall_us();
    struct image_layer *l = &img->layers[img->n_layers++];
    (void)snprintf(l->id, sizeof(l->id), "%s", layer_id);
    l->size = size;
    img->size += size;
    if (image_store_adopt(s, d->temp_name, layer_id, size, e) < 0) {
        image_free(img);
        return NULL;
    }
    FAULT_POINT("image.derive.adopted");
    if (image_store_record(s, img, e) < 0) {
        image_free(img);
        return NULL;
    }
    return img;
}

struct image *image_derive(struct image_store *s, const struct image_derive *d, struct err *e)
{
    uint64_t size = d->size;
    if (!size) {
        cleanup_close int fd =
            openat(s->tmp_fd, d->temp_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        size = fd < 0 ? 0 : tree_bytes(fd);
    }
    store_adding(s, 1);
    struct image *img = NULL;
    if (image_store_pin_image(s, d->base)) {
        img = derive(s, d, d->layer_id, size, e);
        image_store_unpin_image(s, d->base);
    } else {
        (void)err_set(e, ERR_NOT_FOUND, "layers of image %s are missing", d->base->name);
    }
    if (!img) {
        image_store_temp_remove(s, d->temp_name);
    }
    store_adding(s, -1);
    return img;
}

struct image *image_derive_tar(struct image_store *s, const struct image_derive *d, int tar_fd,
                               struct err *e)
{
    char temp[64];
    cleanup_close int root = -1;
    struct layer_result st;
    if (image_store_temp(s, temp, &root, e) < 0) {
        return NULL;
    }
    struct layer_job job = {.program = s->layer_program, .archive_fd = tar_fd, .root_fd = root};
    if (layer_job_unpack(&job, &st, e) < 0) {
        image_store_temp_remove(s, temp);
        return NULL;
    }
    struct image_derive same = *d;
    same.temp_name = temp;
    same.size = st.bytes;
    if (!same.layer_id) {
        same.layer_id = st.digest + strlen("sha256:");
    }
    return image_derive(s, &same, e);
}
