/* Files and directories of a sandbox. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/rand.h"
#include "client/internal.h"

#define MAX_PATHS (1u << 20)

/* ---- upload ---- */

/* A multipart body made on the way: head, the caller's bytes, tail. */
struct upload {
    struct buf head, tail;
    size_t sent_head, sent_tail;
    osb_read_fn *read;
    void *arg;
    bool ended;
};

static size_t give(struct buf *b, size_t *sent, char *p, size_t n)
{
    size_t k = MIN(n, b->len - *sent);
    memcpy(p, b->p + *sent, k);
    *sent += k;
    return k;
}

static ssize_t upload_read(void *p, size_t n, void *arg)
{
    struct upload *u = arg;
    if (u->sent_head < u->head.len) {
        return (ssize_t)give(&u->head, &u->sent_head, p, n);
    }
    if (!u->ended) {
        ssize_t r = u->read(p, n, u->arg);
        if (r != 0) {
            return r;
        }
        u->ended = true;
    }
    return (ssize_t)give(&u->tail, &u->sent_tail, p, n);
}

static void put_attributes(struct json_out *o, const struct osb_write_opts *w)
{
    json_key(o, "mode");
    json_put_int(o, w && w->mode ? w->mode : 755);
    if (w && w->owner) {
        json_key(o, "owner");
        json_put_cstr(o, w->owner);
    }
    if (w && w->group) {
        json_key(o, "group");
        json_put_cstr(o, w->group);
    }
}

static void upload_frame(struct upload *u, const char *path, const struct osb_write_opts *w,
                         const char *boundary)
{
    struct json_out o;
    (void)buf_printf(
        &u->head,
        "--%s\r\nContent-Disposition: form-data; name=\"metadata\"; filename=\"metadata\"\r\n"
        "Content-Type: application/json\r\n\r\n",
        boundary);
    json_out_init(&o, &u->head);
    json_obj_begin(&o);
    json_key(&o, "path");
    json_put_cstr(&o, path);
    put_attributes(&o, w);
    json_obj_end(&o);
    (void)buf_printf(
        &u->head,
        "\r\n--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=\"file\"\r\n"
        "Content-Type: application/octet-stream\r\n\r\n",
        boundary);
    (void)buf_printf(&u->tail, "\r\n--%s--\r\n", boundary);
}

/* `len` -1: unknown, sent chunked. */
static int upload(struct osb_sandbox *s, const char *path, osb_read_fn *read, void *arg,
                  int64_t len, const struct osb_write_opts *o, struct osb_error *e)
{
    char boundary[ID_HEX_LEN + 1], type[96];
    struct upload u = {
        .head = BUF_INIT(64u << 10), .tail = BUF_INIT(256), .read = read, .arg = arg};
    rand_id_hex(boundary);
    (void)snprintf(type, sizeof(type), "multipart/form-data; boundary=%s", boundary);
    upload_frame(&u, path, o, boundary);
    struct transfer t = {.method = "POST",
                         .content_type = type,
                         .read = upload_read,
                         .read_arg = &u,
                         .no_timeout = true,
                         .read_len = len < 0 ? -1 : (int64_t)(u.head.len + u.tail.len) + len};
    if (o) {
        t.call = o->call;
    }
    int r = buf_failed(&u.head) ? osb_fail(e, OSB_EINVALID, "path too long")
                                : sandbox_transfer(s, OSB_EXECD, "/files/upload", &t, e);
    transfer_done(&t);
    buf_done(&u.head);
    buf_done(&u.tail);
    return r;
}

int osb_upload(struct osb_sandbox *s, const char *path, osb_read_fn *read, void *arg,
               const struct osb_write_opts *o, struct osb_error *e)
{
    return upload(s, path, read, arg, -1, o, e);
}

static ssize_t read_memory(void *p, size_t n, void *arg)
{
    struct str *rest = arg;
    size_t k = MIN(n, rest->n);
    if (k > 0) {
        memcpy(p, rest->p, k);
        *rest = str_sub(*rest, k, rest->n);
    }
    return (ssize_t)k;
}

int osb_write_file(struct osb_sandbox *s, const char *path, const void *data, size_t n,
                   const struct osb_write_opts *o, struct osb_error *e)
{
    struct str rest = str_n(data, n);
    return upload(s, path, read_memory, &rest, (int64_t)n, o, e);
}

static ssize_t read_fd(void *p, size_t n, void *arg)
{
    ssize_t r;
    do {
        r = read(*(int *)arg, p, n);
    } while (r < 0 && errno == EINTR);
    return r < 0 ? -errno : r;
}

int osb_upload_file(struct osb_sandbox *s, const char *local, const char *path,
                    const struct osb_write_opts *o, struct osb_error *e)
{
    struct stat st;
    cleanup_close int fd = open(local, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return osb_fail(e, OSB_EIO, "%s: %s", local, strerror(errno));
    }
    if (S_ISDIR(st.st_mode)) {
        return osb_fail(e, OSB_EINVALID, "%s is a directory", local);
    }
    return upload(s, path, read_fd, &fd, S_ISREG(st.st_mode) ? st.st_size : -1, o, e);
}

/* ---- download ---- */

struct sink {
    osb_write_fn *write;
    void *arg;
};

static int on_download(struct str data, void *arg)
{
    struct sink *k = arg;
    return k->write(data.p, data.n, k->arg);
}

int osb_download(struct osb_sandbox *s, const char *path, osb_write_fn *write, void *arg,
                 const struct osb_read_opts *o, struct osb_error *e)
{
    char number[24];
    cleanup_free char *range = o && o->range ? xasprintf("Range: %s", o->range) : NULL;
    cleanup_(buf_done) struct buf p = BUF_INIT(64u << 10);
    struct sink k = {write, arg};
    struct transfer t = {
        .method = "GET", .on_data = on_download, .arg = &k, .no_timeout = true, .extra = {range}};
    (void)buf_add_cstr(&p, "/files/download");
    (void)query_add(&p, "path", path);
    if (o && o->offset) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)o->offset);
        (void)query_add(&p, "offset", number);
    }
    if (o && o->limit) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)o->limit);
        (void)query_add(&p, "limit", number);
    }
    if (o) {
        t.call = o->call;
    }
    int r = sandbox_transfer(s, OSB_EXECD, buf_cstr(&p), &t, e);
    transfer_done(&t);
    return r;
}

static int write_buf(const void *p, size_t n, void *arg)
{
    return buf_add(arg, p, n);
}

char *osb_read_file(struct osb_sandbox *s, const char *path, const struct osb_read_opts *o,
                    size_t *ret_n, struct osb_error *e)
{
    struct buf b = BUF_INIT((size_t)4 << 30);
    if (osb_download(s, path, write_buf, &b, o, e) < 0) {
        buf_done(&b);
        return NULL;
    }
    if (ret_n) {
        *ret_n = b.len;
    }
    return buf_take(&b);
}

static int write_fd(const void *p, size_t n, void *arg)
{
    return fd_write_full(*(int *)arg, p, n);
}

int osb_download_file(struct osb_sandbox *s, const char *path, const char *local,
                      const struct osb_read_opts *o, struct osb_error *e)
{
    /* Beside the target, then renamed: a broken download leaves what was there. */
    char id[ID_HEX_LEN + 1];
    rand_id_hex(id);
    cleanup_free char *part = xasprintf("%s.%.8s.part", local, id);
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) {
        return osb_fail(e, OSB_EIO, "%s: %s", part, strerror(errno));
    }
    int r = osb_download(s, path, write_fd, &fd, o, e);
    if (close(fd) < 0 && r == 0) {
        r = osb_fail(e, OSB_EIO, "%s: %s", part, strerror(errno));
    }
    if (r == 0 && rename(part, local) < 0) {
        r = osb_fail(e, OSB_EIO, "%s: %s", local, strerror(errno));
    }
    if (r < 0) {
        (void)unlink(part);
    }
    return r;
}

/* ---- listings ---- */

void osb_file_list_done(struct osb_file_list *l)
{
    for (size_t i = 0; i < l->n; i++) {
        struct osb_file_info *f = &l->v[i];
        free(f->path);
        free(f->owner);
        free(f->group);
        free(f->type);
        free(f->modified_at);
        free(f->created_at);
    }
    free(l->v);
    *l = (struct osb_file_list){0};
}

static char *field(const struct json *j, const char *key)
{
    const char *s = json_cstr(json_get(j, key));
    return xstrdup(s ? s : "");
}

static void add_info(struct osb_file_list *l, const struct json *j)
{
    l->v = xreallocarray(l->v, l->n + 1, sizeof(*l->v));
    l->v[l->n++] = (struct osb_file_info){.path = field(j, "path"),
                                          .owner = field(j, "owner"),
                                          .group = field(j, "group"),
                                          .type = field(j, "type"),
                                          .mode = (int)json_int(json_get(j, "mode"), 0),
                                          .size = json_int(json_get(j, "size"), 0),
                                          .modified_at = field(j, "modified_at"),
                                          .created_at = field(j, "created_at")};
}

/* The answer is an array of infos, or an object of them by path. */
static int get_infos(struct osb_sandbox *s, const char *path, struct osb_file_list *ret,
                     struct osb_error *e)
{
    struct transfer t = {.method = "GET"};
    *ret = (struct osb_file_list){0};
    int r = sandbox_transfer(s, OSB_EXECD, path, &t, e);
    if (r == 0) {
        cleanup_(json_free) struct json *j = json_parse(buf_str(&t.answer), NULL);
        const char *key;
        struct json *value;
        void *it = NULL;
        while (json_is_object(j) && json_next(j, &it, &key, &value)) {
            add_info(ret, value);
        }
        for (size_t i = 0; json_is_array(j) && i < json_len(j); i++) {
            add_info(ret, json_item(j, i));
        }
        r = j ? 0 : osb_fail(e, OSB_EPROTOCOL, "unreadable listing");
    }
    transfer_done(&t);
    return r;
}

static void paths_query(struct buf *b, const char *base, const char *const *paths)
{
    (void)buf_add_cstr(b, base);
    for (; paths && *paths; paths++) {
        (void)query_add(b, "path", *paths);
    }
}

int osb_file_info(struct osb_sandbox *s, const char *const *paths, struct osb_file_list *ret,
                  struct osb_error *e)
{
    cleanup_(buf_done) struct buf p = BUF_INIT(MAX_PATHS);
    paths_query(&p, "/files/info", paths);
    return get_infos(s, buf_cstr(&p), ret, e);
}

int osb_search(struct osb_sandbox *s, const char *path, const char *pattern,
               struct osb_file_list *ret, struct osb_error *e)
{
    cleanup_(buf_done) struct buf p = BUF_INIT(MAX_PATHS);
    (void)buf_add_cstr(&p, "/files/search");
    (void)query_add(&p, "path", path);
    (void)query_add(&p, "pattern", pattern);
    return get_infos(s, buf_cstr(&p), ret, e);
}

int osb_list_dir(struct osb_sandbox *s, const char *path, int depth, struct osb_file_list *ret,
                 struct osb_error *e)
{
    char number[16];
    cleanup_(buf_done) struct buf p = BUF_INIT(MAX_PATHS);
    (void)buf_add_cstr(&p, "/directories/list");
    (void)query_add(&p, "path", path);
    if (depth) {
        (void)snprintf(number, sizeof(number), "%d", depth);
        (void)query_add(&p, "depth", number);
    }
    return get_infos(s, buf_cstr(&p), ret, e);
}

/* ---- changes ---- */

static int send(struct osb_sandbox *s, const char *method, const char *path, const struct buf *body,
                struct osb_error *e)
{
    struct transfer t = {.method = method, .has_body = body != NULL};
    if (body) {
        t.body = buf_str(body);
    }
    int r = sandbox_transfer(s, OSB_EXECD, path, &t, e);
    transfer_done(&t);
    return r;
}

int osb_delete_files(struct osb_sandbox *s, const char *const *paths, struct osb_error *e)
{
    cleanup_(buf_done) struct buf p = BUF_INIT(MAX_PATHS);
    paths_query(&p, "/files", paths);
    return send(s, "DELETE", buf_cstr(&p), NULL, e);
}

int osb_delete_dirs(struct osb_sandbox *s, const char *const *paths, struct osb_error *e)
{
    cleanup_(buf_done) struct buf p = BUF_INIT(MAX_PATHS);
    paths_query(&p, "/directories", paths);
    return send(s, "DELETE", buf_cstr(&p), NULL, e);
}

/* {path: {mode, owner, group}, ...} */
static void attribute_map(struct buf *body, const char *const *paths,
                          const struct osb_write_opts *w)
{
    struct json_out o;
    json_out_init(&o, body);
    json_obj_begin(&o);
    for (; paths && *paths; paths++) {
        json_key(&o, *paths);
        json_obj_begin(&o);
        put_attributes(&o, w);
        json_obj_end(&o);
    }
    json_obj_end(&o);
}

int osb_make_dirs(struct osb_sandbox *s, const char *const *paths, const struct osb_write_opts *o,
                  struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(MAX_PATHS);
    attribute_map(&body, paths, o);
    return send(s, "POST", "/directories", &body, e);
}

int osb_set_permissions(struct osb_sandbox *s, const char *path, const struct osb_write_opts *o,
                        struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(MAX_PATHS);
    const char *const paths[] = {path, NULL};
    attribute_map(&body, paths, o);
    return send(s, "POST", "/files/permissions", &body, e);
}

int osb_move(struct osb_sandbox *s, const struct osb_pair *moves, struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(MAX_PATHS);
    struct json_out o;
    json_out_init(&o, &body);
    json_arr_begin(&o);
    for (; moves && moves->key; moves++) {
        json_obj_begin(&o);
        json_key(&o, "src");
        json_put_cstr(&o, moves->key);
        json_key(&o, "dest");
        json_put_cstr(&o, moves->value);
        json_obj_end(&o);
    }
    json_arr_end(&o);
    return send(s, "POST", "/files/mv", &body, e);
}

int osb_replace(struct osb_sandbox *s, const char *path, const char *old_text, const char *new_text,
                int64_t *ret_count, struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(64u << 20);
    struct json_out o;
    struct transfer t = {.method = "POST", .has_body = true};
    json_out_init(&o, &body);
    json_obj_begin(&o);
    json_key(&o, path);
    json_obj_begin(&o);
    json_key(&o, "old");
    json_put_cstr(&o, old_text);
    json_key(&o, "new");
    json_put_cstr(&o, new_text);
    json_obj_end(&o);
    json_obj_end(&o);
    t.body = buf_str(&body);
    int r = sandbox_transfer(s, OSB_EXECD, "/files/replace?verbose=true", &t, e);
    if (r == 0 && ret_count) {
        cleanup_(json_free) struct json *j = json_parse(buf_str(&t.answer), NULL);
        *ret_count = json_int(json_get(json_get(j, path), "replacedCount"), 0);
    }
    transfer_done(&t);
    return r;
}
