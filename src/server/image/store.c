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
#include "server/image/layer.h"
#include "server/image/limits.h"

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
                                         .insecure = r->insecure,
                                         .skip_verify = r->skip_verify};
    }
}

struct image_store *image_store_open(const struct image_store_opts *o, struct err *e)
{
    struct image_store *s = NEW(struct image_store);
    s->dir = xstrdup(o->dir);
    s->docker_config = o->docker_config ? xstrdup(o->docker_config) : NULL;
    s->layer_program = o->layer_program ? xstrdup(o->layer_program) : layer_program_find();
    s->dir_fd = s->refs_fd = s->layers_fd = s->tmp_fd = s->parts_fd = -1;
    list_init(&s->flights);
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_cond_init(&s->settled, NULL);
    copy_registries(s, o);

    if (access(s->layer_program, X_OK) < 0) {
        (void)err_sys(e, errno, "%s, which reads the layers of images", s->layer_program);
        image_store_close(s);
        return NULL;
    }
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
    size_t it = 0;
    void *pin;
    while (map_next(&s->pins, &it, NULL, &pin)) {
        free(pin);
    }
    map_done(&s->pins);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_cond_destroy(&s->settled);
    free(s->layer_program);
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

/* ---- records ---- */

/* refs/ file of a name on a platform. */
void image_record_file(const char *name, const char *arch, char out[IMAGE_RECORD_FILE_MAX])
{
    char digest[IMAGE_DIGEST_MAX];
    cleanup_free char *key = xasprintf("%s %s", name, arch ? arch : image_host_arch());
    digest_of(str_from(key), digest);
    (void)snprintf(out, IMAGE_RECORD_FILE_MAX, "%s.json", digest + strlen("sha256:"));
}

static struct image *record_read(struct image_store *s, const char *file, struct err *e)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(IMAGE_MAX_RECORD);
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
    char file[IMAGE_RECORD_FILE_MAX];
    cleanup_(buf_done) struct buf text = BUF_INIT(IMAGE_MAX_RECORD);
    cleanup_(json_free) struct json *j = image_to_json(img);
    if (json_dump(j, &text, 0) < 0) {
        return err_set(e, ERR_LIMIT, "image config too large");
    }
    image_record_file(img->name, img->arch[0] ? img->arch : NULL, file);
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

static struct image *find(struct image_store *s, const char *name, const char *arch, bool is_use,
                          struct err *e)
{
    char full[IMAGE_MAX_REF * 2], file[IMAGE_RECORD_FILE_MAX];
    if (canonical(name, full, sizeof(full), e) < 0) {
        return NULL;
    }
    image_record_file(full, arch, file);
    struct image *img = record_read(s, file, NULL);
    if (!img || !layers_present(s, img)) {
        image_free(img);
        (void)err_set(e, ERR_NOT_FOUND, "image %s is not in the store", full);
        return NULL;
    }
    if (is_use) {
        (void)utimensat(s->refs_fd, file, NULL, 0); /* for pruning; missing it is harmless */
    }
    return img;
}

struct image *image_store_get(struct image_store *s, const char *name, const char *arch,
                              struct err *e)
{
    return find(s, name, arch, true, e);
}

struct image *image_store_peek(struct image_store *s, const char *name, const char *arch,
                               struct err *e)
{
    return find(s, name, arch, false, e);
}

bool image_store_has(struct image_store *s, const char *name)
{
    char full[IMAGE_MAX_REF * 2], file[IMAGE_RECORD_FILE_MAX];
    if (canonical(name, full, sizeof(full), NULL) < 0) {
        return false;
    }
    image_record_file(full, NULL, file);
    return faccessat(s->refs_fd, file, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
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

void image_list_done(struct image_list *l)
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

int image_list_read(struct image_store *s, struct image_list *ret, struct err *e)
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
