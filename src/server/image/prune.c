/* What leaves the store: an image somebody removes, and those that are pruned. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/must.h"
#include "base/rand.h"
#include "server/image/internal.h"
#include "server/image/limits.h"

static bool is_pinned(const struct image_store *s, const struct image *img)
{
    for (size_t i = 0; i < img->n_layers; i++) {
        if (map_get(&s->pins, str_from(img->layers[i].id))) {
            return true;
        }
    }
    return false;
}

static bool layer_wanted(const struct image_list *l, const char *id)
{
    for (size_t i = 0; i < l->n; i++) {
        for (size_t k = 0; k < l->v[i]->n_layers; k++) {
            if (strcmp(l->v[i]->layers[k].id, id) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* Moved to tmp/ first, so that they are gone at once and whole; deleted without the lock. */
struct drops {
    char (*v)[ID_HEX_LEN + 1];
    size_t n;
    uint64_t bytes;
};

static void layer_drop(struct image_store *s, const char *id, struct drops *d)
{
    char name[ID_HEX_LEN + 1];
    uint64_t size = image_store_layer_size(s, id);
    rand_id_hex(name);
    if (renameat(s->layers_fd, id, s->tmp_fd, name) == 0) {
        d->v = xreallocarray(d->v, d->n + 1, sizeof(*d->v));
        memcpy(d->v[d->n++], name, sizeof(name));
        d->bytes += size;
    }
}

static void drops_delete(struct image_store *s, struct drops *d)
{
    FAULT_POINT("image.remove.dropped");
    for (size_t i = 0; i < d->n; i++) {
        image_store_temp_remove(s, d->v[i]);
    }
    free(d->v);
    d->v = NULL;
    d->n = 0;
}

/* Drops an image's record and those of its layers that no other image and no sandbox needs. With
 * the lock held: nobody can pin them meanwhile. */
static int image_drop(struct image_store *s, const struct image *img, struct drops *d,
                      struct err *e)
{
    char file[IMAGE_RECORD_FILE_MAX];
    struct image_list rest;
    image_record_file(img->name, img->arch[0] ? img->arch : NULL, file);
    if (unlinkat(s->refs_fd, file, 0) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "removing image %s", img->name);
    }
    FAULT_POINT("image.remove.unrecorded");
    if (image_list_read(s, &rest, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < img->n_layers; i++) {
        const char *id = img->layers[i].id;
        if (!layer_wanted(&rest, id) && !map_get(&s->pins, str_from(id))) {
            layer_drop(s, id, d);
        }
    }
    image_list_done(&rest);
    return 0;
}

int image_store_remove(struct image_store *s, const char *name, struct err *e)
{
    struct drops d = {0};
    cleanup_(image_free) struct image *img = image_store_peek(s, name, NULL, e);
    if (!img) {
        return -1;
    }
    (void)pthread_mutex_lock(&s->lock);
    int r = is_pinned(s, img) ? err_set(e, ERR_CONFLICT, "image %s is in use", img->name)
                              : image_drop(s, img, &d, e);
    (void)pthread_mutex_unlock(&s->lock);
    drops_delete(s, &d);
    return r;
}

static void collect(struct image_store *s, const char *const *ids, size_t n, struct drops *d)
{
    struct image_list l;
    if (image_list_read(s, &l, NULL) < 0) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (!layer_wanted(&l, ids[i]) && !map_get(&s->pins, str_from(ids[i]))) {
            layer_drop(s, ids[i], d);
        }
    }
    image_list_done(&l);
}

void image_store_collect(struct image_store *s, const char *const *layer_ids, size_t n)
{
    struct drops d = {0};
    (void)pthread_mutex_lock(&s->lock);
    collect(s, layer_ids, n, &d);
    (void)pthread_mutex_unlock(&s->lock);
    drops_delete(s, &d);
}

int image_store_forget(struct image_store *s, const char *name, struct err *e)
{
    struct drops d = {0};
    struct err missing = {0};
    cleanup_(image_free) struct image *img = image_store_peek(s, name, NULL, &missing);
    if (!img) {
        return 0;
    }
    (void)pthread_mutex_lock(&s->lock);
    int r = image_drop(s, img, &d, e);
    (void)pthread_mutex_unlock(&s->lock);
    drops_delete(s, &d);
    return r;
}

/* ---- pruning ---- */

/* Layers without a record: a crash, or a pull that failed halfway, left them. */
static void drop_orphans(struct image_store *s, const struct image_list *l, struct drops *d)
{
    int fd = openat(s->dir_fd, "layers", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *ent;
    while (dir && (ent = readdir(dir))) {
        if (ent->d_name[0] != '.' && !layer_wanted(l, ent->d_name) &&
            !map_get(&s->pins, str_from(ent->d_name))) {
            layer_drop(s, ent->d_name, d);
        }
    }
}

/* Downloads that nobody went on with. */
static void drop_parts(struct image_store *s, bool all)
{
    int fd = openat(s->dir_fd, "parts", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_closedir DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    int64_t now = clock_wall_us() / 1000000;
    struct dirent *ent;
    while (dir && (ent = readdir(dir))) {
        struct stat st;
        if (ent->d_name[0] != '.' && fstatat(s->parts_fd, ent->d_name, &st, 0) == 0 &&
            (all || now - st.st_mtim.tv_sec > IMAGE_PART_KEEP_SECONDS)) {
            (void)unlinkat(s->parts_fd, ent->d_name, 0);
        }
    }
}

/* Bytes on disk: a layer that several images share is there once. */
static uint64_t total_bytes(const struct image_list *l)
{
    uint64_t sum = 0;
    struct map seen = {0};
    for (size_t i = 0; i < l->n; i++) {
        for (size_t k = 0; k < l->v[i]->n_layers; k++) {
            struct image_layer *layer = &l->v[i]->layers[k];
            if (!map_put(&seen, str_from(layer->id), layer)) {
                sum += layer->size;
            }
        }
    }
    map_done(&seen);
    return sum;
}

uint64_t image_store_bytes(struct image_store *s)
{
    struct image_list l;
    uint64_t sum = 0;
    if (image_list_read(s, &l, NULL) == 0) {
        sum = total_bytes(&l);
        image_list_done(&l);
    }
    return sum;
}

static bool may_go(const struct image_store *s, const struct image *img, bool automatic)
{
    if (str_starts(str_from(img->name), STR("snapshot:")) || is_pinned(s, img)) {
        return false;
    }
    return !automatic || img->pulled;
}

static int prune(struct image_store *s, const struct image_prune *p, struct image_pruned *ret,
                 struct drops *d, struct err *e)
{
    struct image_list l;
    int r = 0;
    if (image_list_read(s, &l, e) < 0) {
        return -1;
    }
    if (s->n_adding == 0) {
        drop_orphans(s, &l, d);
        drop_parts(s, !p->automatic);
    }
    uint64_t total = total_bytes(&l);
    for (size_t i = l.n; r == 0 && i-- > 0 && total > p->max_bytes;) {
        if (!may_go(s, l.v[i], p->automatic)) {
            continue;
        }
        uint64_t before = d->bytes;
        r = image_drop(s, l.v[i], d, e);
        if (r == 0) {
            log_info("image pruned", LOG_S("image", l.v[i]->name),
                     LOG_I("bytes", d->bytes - before));
            total -= MIN(total, d->bytes - before);
            ret->images++;
        }
    }
    image_list_done(&l);
    ret->bytes = d->bytes;
    ret->left = total;
    return r;
}

int image_store_prune(struct image_store *s, const struct image_prune *p, struct image_pruned *ret,
                      struct err *e)
{
    struct drops d = {0};
    *ret = (struct image_pruned){0};
    (void)pthread_mutex_lock(&s->lock);
    int r = prune(s, p, ret, &d, e);
    (void)pthread_mutex_unlock(&s->lock);
    drops_delete(s, &d);
    return r;
}
