/* The directory, its records, and who is fetching what. */

#include "server/image/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "base/rand.h"
#include "server/image/digest.h"
#include "server/image/internal.h"
#include "server/image/limits.h"

#define MAX_RECORD (1u << 20)

struct flight {
    struct list node;
    char *key;
};

const char *image_host_arch(void)
{
    static const struct {
        const char *machine, *arch;
    } table[] = {{"x86_64", "amd64"},    {"aarch64", "arm64"},   {"armv7l", "arm"},
                 {"riscv64", "riscv64"}, {"ppc64le", "ppc64le"}, {"s390x", "s390x"}};
    struct utsname u;
    if (uname(&u) == 0) {
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
            if (strcmp(u.machine, table[i].machine) == 0) {
                return table[i].arch;
            }
        }
    }
    return "amd64";
}

/* ---- open and close ---- */

static int open_subdir(const struct image_store *s, const char *name, int *ret, struct err *e)
{
    int r = dir_make(s->dir_fd, name, 0700);
    *ret = r < 0 ? r : openat(s->dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return *ret < 0 ? err_sys(e, r < 0 ? r : errno, "image store %s/%s", s->dir, name) : 0;
}

static void copy_registries(struct image_store *s, const struct image_store_opts *o)
{
    s->registries = xcalloc(o->n_registries + 1, sizeof(*s->registries));
    s->n_registries = o->n_registries;
    for (size_t i = 0; i < o->n_registries; i++) {
        const struct image_registry_conf *r = &o->registries[i];
        s->registries[i] =
            (struct image_registry_conf){.host = xstrdup(r->host),
                                         .ca_file = r->ca_file ? xstrdup(r->ca_file) : NULL,
                                         .mirror = r->mirror ? xstrdup(r->mirror) : NULL,
                                         .insecure = r->insecure};
    }
}

struct image_store *image_store_open(const struct image_store_opts *o, struct err *e)
{
    struct image_store *s = NEW(struct image_store);
    s->dir = xstrdup(o->dir);
    s->docker_config = o->docker_config ? xstrdup(o->docker_config) : NULL;
    s->dir_fd = s->refs_fd = s->layers_fd = s->tmp_fd = s->parts_fd = -1;
    s->max_bytes = o->max_bytes;
    s->in_use = o->in_use;
    s->in_use_arg = o->in_use_arg;
    list_init(&s->flights);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->settled, NULL);
    copy_registries(s, o);

    int r = dir_make(AT_FDCWD, s->dir, 0700);
    s->dir_fd = r < 0 ? r : open(s->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->dir_fd < 0) {
        (void)err_sys(e, r < 0 ? r : errno, "image store %s", s->dir);
        image_store_close(s);
        return NULL;
    }
    (void)dir_remove(s->dir_fd, "tmp", true); /* what a crash left; failing to is found below */
    if (open_subdir(s, "refs", &s->refs_fd, e) < 0 ||
        open_subdir(s, "layers", &s->layers_fd, e) < 0 ||
        open_subdir(s, "tmp", &s->tmp_fd, e) < 0 || open_subdir(s, "parts", &s->parts_fd, e) < 0) {
        image_store_close(s);
        return NULL;
    }
    return s;
}

void image_store_close(struct image_store *s)
{
    if (!s) {
        return;
    }
    const int fds[] = {s->dir_fd, s->refs_fd, s->layers_fd, s->tmp_fd, s->parts_fd};
    for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
        if (fds[i] >= 0) {
            (void)close(fds[i]);
        }
    }
    for (size_t i = 0; i < s->n_registries; i++) {
        free((void *)(uintptr_t)s->registries[i].host);
        free((void *)(uintptr_t)s->registries[i].ca_file);
        free((void *)(uintptr_t)s->registries[i].mirror);
    }
    free(s->registries);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->settled);
    free(s->docker_config);
    free(s->dir);
    free(s);
}

int image_store_layers_fd(const struct image_store *s)
{
    return s->layers_fd;
}

const char *image_store_dir(const struct image_store *s)
{
    return s->dir;
}

/* ---- flights ---- */

static struct flight *flight_find(struct image_store *s, const char *key)
{
    list_each (it, &s->flights) {
        struct flight *f = list_entry(it, struct flight, node);
        if (strcmp(f->key, key) == 0) {
            return f;
        }
    }
    return NULL;
}

bool flight_begin(struct image_store *s, const char *key)
{
    bool mine = true;
    (void)pthread_mutex_lock(&s->lock);
    if (flight_find(s, key)) {
        mine = false;
        while (flight_find(s, key)) {
            (void)pthread_cond_wait(&s->settled, &s->lock);
        }
    } else {
        struct flight *f = NEW(struct flight);
        f->key = xstrdup(key);
        list_push_back(&s->flights, &f->node);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return mine;
}

void flight_end(struct image_store *s, const char *key)
{
    (void)pthread_mutex_lock(&s->lock);
    struct flight *f = flight_find(s, key);
    if (!bug_if(!f)) {
        list_del(&f->node);
        free(f->key);
        free(f);
    }
    (void)pthread_cond_broadcast(&s->settled);
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- records ---- */

/* refs/ file of a name on a platform. */
static void record_file(const char *name, const char *arch, char out[IMAGE_DIGEST_MAX + 8])
{
    char digest[IMAGE_DIGEST_MAX];
    cleanup_free char *key = xasprintf("%s %s", name, arch ? arch : image_host_arch());
    digest_of(str_from(key), digest);
    (void)snprintf(out, IMAGE_DIGEST_MAX + 8, "%s.json", digest + strlen("sha256:"));
}

static struct image *record_read(struct image_store *s, const char *file, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(MAX_RECORD);
    struct stat st;
    int r = file_read(s->refs_fd, file, &text);
    if (r < 0) {
        (void)err_sys(e, r, "image record");
        return NULL;
    }
    cleanup_(json_free) struct json *j = json_parse(buf_str(&text), e);
    struct image *img = j ? image_from_json(j, e) : NULL;
    if (img && fstatat(s->refs_fd, file, &st, 0) == 0) {
        img->used_us = (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
    }
    return img;
}

int image_store_record(struct image_store *s, const struct image *img, struct err *e)
{
    char file[IMAGE_DIGEST_MAX + 8];
    cleanup_(buf_done) struct buf text = BUF_INIT(MAX_RECORD);
    cleanup_(json_free) struct json *j = image_to_json(img);
    if (json_dump(j, &text, 0) < 0) {
        return err_set(e, ERR_LIMIT, "image config too large");
    }
    record_file(img->name, img->arch[0] ? img->arch : NULL, file);
    int r = file_write_atomic(s->refs_fd, file, buf_str(&text), 0600);
    return r < 0 ? err_sys(e, r, "recording image %s", img->name) : 0;
}

/* Canonical form of a name; names of imports and snapshots stay as they are. */
static int canonical(const char *name, char *out, size_t out_len, struct err *e)
{
    struct image_ref ref;
    if (strncmp(name, "snapshot:", 9) == 0) {
        return snprintf(out, out_len, "%s", name) < (int)out_len
                   ? 0
                   : err_set(e, ERR_INVALID, "name too long");
    }
    if (image_ref_parse(str_from(name), &ref, e) < 0) {
        return -1;
    }
    return image_ref_format(&ref, out, out_len) < 0 ? err_set(e, ERR_INVALID, "image name too long")
                                                    : 0;
}

static bool layers_present(struct image_store *s, const struct image *img)
{
    for (size_t i = 0; i < img->n_layers; i++) {
        if (!image_store_has_layer(s, img->layers[i].id)) {
            return false;
        }
    }
    return true;
}

struct image *image_store_get(struct image_store *s, const char *name, const char *arch,
                              struct err *e)
{
    char full[IMAGE_MAX_REF * 2], file[IMAGE_DIGEST_MAX + 8];
    if (canonical(name, full, sizeof(full), e) < 0) {
        return NULL;
    }
    record_file(full, arch, file);
    struct image *img = record_read(s, file, NULL);
    if (!img || !layers_present(s, img)) {
        image_free(img);
        (void)err_set(e, ERR_NOT_FOUND, "image %s is not in the store", full);
        return NULL;
    }
    (void)utimensat(s->refs_fd, file, NULL, 0); /* last use, for pruning; missing it is harmless */
    return img;
}

/* ---- layers ---- */

bool image_store_has_layer(struct image_store *s, const char *layer_id)
{
    struct stat st;
    return fstatat(s->layers_fd, layer_id, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

int image_store_temp(struct image_store *s, char ret_name[64], int *ret_fd, struct err *e)
{
    char id[ID_HEX_LEN + 1];
    rand_id_hex(id);
    (void)snprintf(ret_name, 64, "%s", id);
    if (mkdirat(s->tmp_fd, ret_name, 0755) < 0) {
        return err_sys(e, errno, "image store %s", s->dir);
    }
    *ret_fd = openat(s->tmp_fd, ret_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    return *ret_fd < 0 ? err_sys(e, errno, "image store %s", s->dir) : 0;
}

void image_store_temp_remove(struct image_store *s, const char *name)
{
    int r = dir_remove(s->tmp_fd, name, true);
    if (r < 0) {
        log_warn("image store: leftover stays until the next start", LOG_S("name", name),
                 LOG_I("errno", -r));
    }
}

/* The size travels with the layer: several images share it, and only the first one unpacked it. */
#define SIZE_XATTR "trusted.opensandbox.size"

uint64_t image_store_layer_size(struct image_store *s, const char *layer_id)
{
    char text[24];
    uint64_t size = 0;
    cleanup_close int fd =
        openat(s->layers_fd, layer_id, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd < 0 ? -1 : fgetxattr(fd, SIZE_XATTR, text, sizeof(text));
    return n > 0 && parse_u64(str_n(text, (size_t)n), &size) == 0 ? size : 0;
}

static void write_size(struct image_store *s, const char *temp_name, uint64_t size)
{
    char text[24];
    int n = snprintf(text, sizeof(text), "%llu", (unsigned long long)size);
    cleanup_close int fd =
        openat(s->tmp_fd, temp_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0) {
        (void)fsetxattr(fd, SIZE_XATTR, text, (size_t)n,
                        0); /* only used to say how much pruning frees */
    }
}

int image_store_adopt(struct image_store *s, const char *temp_name, const char *layer_id,
                      uint64_t size, struct err *e)
{
    write_size(s, temp_name, size);
    /* The data must be on disk before the name that says it is complete. */
    if (syncfs(s->tmp_fd) < 0) {
        return err_sys(e, errno, "image store %s", s->dir);
    }
    if (renameat(s->tmp_fd, temp_name, s->layers_fd, layer_id) == 0) {
        return fsync(s->layers_fd) < 0 ? err_sys(e, errno, "image store %s", s->dir) : 0;
    }
    if (errno == EEXIST || errno == ENOTEMPTY) { /* somebody else was quicker: the same content */
        image_store_temp_remove(s, temp_name);
        return 0;
    }
    return err_sys(e, errno, "image store %s", s->dir);
}

/* ---- all records ---- */

struct image_list {
    struct image **v;
    size_t n;
};

static void image_list_done(struct image_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        image_free(l->v[i]);
    }
    free(l->v);
}

static int by_use(const void *a, const void *b)
{
    const struct image *x = *(struct image *const *)a, *y = *(struct image *const *)b;
    return x->used_us < y->used_us ? 1 : x->used_us > y->used_us ? -1 : 0;
}

static int image_list_read(struct image_store *s, struct image_list *ret, struct err *e)
{
    *ret = (struct image_list){0};
    int fd = openat(s->dir_fd, "refs", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        return err_sys(e, errno, "image store %s", s->dir);
    }
    struct dirent *ent;
    while ((ent = readdir(d))) {
        struct image *img = str_ends(str_from(ent->d_name), STR(".json"))
                                ? record_read(s, ent->d_name, NULL)
                                : NULL;
        if (img) {
            ret->v = xreallocarray(ret->v, ret->n + 1, sizeof(*ret->v));
            ret->v[ret->n++] = img;
        }
    }
    if (ret->n > 1) {
        qsort(ret->v, ret->n, sizeof(*ret->v), by_use);
    }
    return 0;
}

int image_store_list(struct image_store *s, void (*fn)(const struct image *img, void *arg),
                     void *arg, struct err *e)
{
    struct image_list l;
    if (image_list_read(s, &l, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < l.n; i++) {
        fn(l.v[i], arg);
    }
    image_list_done(&l);
    return 0;
}

/* ---- removal ---- */

static bool image_in_use(struct image_store *s, const struct image *img)
{
    for (size_t i = 0; i < img->n_layers; i++) {
        if (s->in_use && s->in_use(img->layers[i].id, s->in_use_arg)) {
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

/* Moves a layer to tmp/ first, so that it is gone at once and whole. */
static void layer_drop(struct image_store *s, const char *id)
{
    char name[ID_HEX_LEN + 1];
    rand_id_hex(name);
    if (renameat(s->layers_fd, id, s->tmp_fd, name) == 0) {
        image_store_temp_remove(s, name);
    }
}

/* Drops an image's record and those of its layers that no other image and no sandbox needs. */
static int image_drop(struct image_store *s, const struct image *img, struct err *e)
{
    char file[IMAGE_DIGEST_MAX + 8];
    struct image_list rest;
    record_file(img->name, img->arch[0] ? img->arch : NULL, file);
    if (unlinkat(s->refs_fd, file, 0) < 0 && errno != ENOENT) {
        return err_sys(e, errno, "removing image %s", img->name);
    }
    if (image_list_read(s, &rest, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < img->n_layers; i++) {
        const char *id = img->layers[i].id;
        if (!layer_wanted(&rest, id) && !(s->in_use && s->in_use(id, s->in_use_arg))) {
            layer_drop(s, id);
        }
    }
    image_list_done(&rest);
    return 0;
}

int image_store_remove(struct image_store *s, const char *name, struct err *e)
{
    cleanup_(image_free) struct image *img = image_store_get(s, name, NULL, e);
    if (!img) {
        return -1;
    }
    if (image_in_use(s, img)) {
        return err_set(e, ERR_CONFLICT, "image %s is in use by a sandbox", img->name);
    }
    return image_drop(s, img, e);
}

int image_store_prune(struct image_store *s, uint64_t max_bytes, uint64_t *ret_freed, struct err *e)
{
    struct image_list l;
    uint64_t total = 0, freed = 0;
    int r = 0;
    if (image_list_read(s, &l, e) < 0) {
        return -1;
    }
    for (size_t i = 0; i < l.n; i++) {
        total += l.v[i]->size;
    }
    for (size_t i = l.n; r == 0 && i-- > 0 && total > max_bytes;) {
        if (image_in_use(s, l.v[i])) {
            continue;
        }
        r = image_drop(s, l.v[i], e);
        freed += l.v[i]->size;
        total -= l.v[i]->size;
    }
    image_list_done(&l);
    *ret_freed = freed;
    return r;
}
