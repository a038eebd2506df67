/* Buckets, mounted by the vendor's own programs: ossfs (version 1) and ossfs2. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "io/child.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/ossfs.h"

#define OUTPUT_MAX 4096

/* The sub path in its simplest form: what of the bucket is mounted. NULL when it leads out. */
static const char *prefix_of(const struct volume *v, struct arena *a)
{
    const char *prefix = "";
    struct str rest = str_from(v->sub_path);
    while (rest.n) {
        struct str part = str_cut(&rest, '/');
        if (str_eq(part, STR(".."))) {
            return NULL;
        }
        if (part.n && !str_eq(part, STR("."))) {
            prefix = arena_printf(a, "%s%s%.*s", prefix, *prefix ? "/" : "", STR_FMT(part));
        }
    }
    return prefix;
}

const char *ossfs_mount_point(const char *root, const struct volume *v, struct arena *a)
{
    const char *prefix = prefix_of(v, a);
    struct str base = str_from(root);
    while (base.n > 1 && base.p[base.n - 1] == '/') {
        base.n--;
    }
    return prefix ? arena_printf(a, "%.*s/%s%s%s", STR_FMT(base), v->ossfs->bucket,
                                 *prefix ? "/" : "", prefix)
                  : NULL;
}

static bool is_mount_point(const char *path)
{
    struct stat here, above;
    cleanup_free char *up = NULL;
    if (asprintf(&up, "%s/..", path) < 0 || lstat(path, &here) < 0 || lstat(up, &above) < 0) {
        /* A bucket whose program has died is mounted and cannot be looked at. */
        return errno == ENOTCONN;
    }
    return here.st_dev != above.st_dev || here.st_ino == above.st_ino;
}

/* A file for the program only; its name, or NULL. */
static char *secret_file(struct str text, struct err *e)
{
    const char *tmp = getenv("TMPDIR");
    char *path = NULL;
    if (asprintf(&path, "%s/ossfs-XXXXXX", tmp && *tmp == '/' ? tmp : "/tmp") < 0) {
        (void)err_set(e, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    cleanup_close int fd = mkostemp(path, O_CLOEXEC); /* mode 0600 */
    int r = fd < 0 ? -errno : fd_write_full(fd, text.p, text.n);
    if (r < 0) {
        (void)err_sys(e, r, "write %s", path);
        if (fd >= 0) {
            (void)unlink(path);
        }
        free(path);
        return NULL;
    }
    return path;
}

static int run(const char *const *argv, struct err *e)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(OUTPUT_MAX);
    struct io_child_status st;
    struct io_child_opts o = {
        .path = argv[0],
        .argv = argv,
        .timeout_ms = OCI_OSSFS_TIMEOUT_MS,
        .out = {.kind = IO_STDIO_PIPE},
        .merge_err = true,
    };
    if (io_child_run(&o, &out, NULL, &st, e) < 0) {
        return e->sys == ENOENT
                   ? err_set(e, ERR_UNSUPPORTED, "the program %s is not installed on this machine",
                             argv[0])
                   : -1;
    }
    if (st.end == IO_CHILD_TIMEOUT) {
        return err_set(e, ERR_TIMEOUT, "%s was not done after %u s", argv[0],
                       OCI_OSSFS_TIMEOUT_MS / 1000);
    }
    if (st.end != IO_CHILD_EXITED || st.code != 0) {
        struct str said = str_trim(buf_str(&out));
        return err_set(e, ERR_IO, "%s failed (exit %d): %.*s", argv[0], st.code,
                       (int)(said.n < 300 ? said.n : 300), said.n ? said.p : "");
    }
    return 0;
}

static const char *endpoint_url(const struct volume_ossfs *o, struct arena *a)
{
    return strstr(o->endpoint, "://") ? o->endpoint : arena_printf(a, "https://%s", o->endpoint);
}

static int mount_v1(const struct volume *v, const char *path, struct arena *a, struct err *e)
{
    const struct volume_ossfs *o = v->ossfs;
    const char *prefix = prefix_of(v, a);
    char *secret = arena_printf(a, "%s:%s:%s", o->bucket, o->access_key_id, o->access_key_secret);
    cleanup_free char *file = secret_file(str_from(secret), e);
    explicit_bzero(secret, strlen(secret));
    if (!file) {
        return -1;
    }
    const char **argv = arena_array(a, 8 + 2 * o->options.n, sizeof(*argv));
    size_t n = 0;
    argv[n++] = "ossfs";
    argv[n++] = *prefix ? arena_printf(a, "%s:/%s", o->bucket, prefix) : o->bucket;
    argv[n++] = path;
    argv[n++] = "-o";
    argv[n++] = arena_printf(a, "url=%s", endpoint_url(o, a));
    argv[n++] = "-o";
    argv[n++] = arena_printf(a, "passwd_file=%s", file);
    for (size_t i = 0; i < o->options.n; i++) {
        argv[n++] = "-o";
        argv[n++] = o->options.v[i];
    }
    int r = run(argv, e);
    (void)unlink(file);
    return r;
}

static int mount_v2(const struct volume *v, const char *path, struct arena *a, struct err *e)
{
    const struct volume_ossfs *o = v->ossfs;
    const char *prefix = prefix_of(v, a);
    cleanup_(buf_done) struct buf conf = BUF_INIT(64u << 10);
    (void)buf_printf(&conf, "--oss_endpoint=%s\n--oss_bucket=%s\n", endpoint_url(o, a), o->bucket);
    (void)buf_printf(&conf, "--oss_access_key_id=%s\n--oss_access_key_secret=%s\n",
                     o->access_key_id, o->access_key_secret);
    if (*prefix) {
        (void)buf_printf(&conf, "--oss_bucket_prefix=%s/\n", prefix);
    }
    for (size_t i = 0; i < o->options.n; i++) {
        (void)buf_printf(&conf, "--%s\n", o->options.v[i]);
    }
    if (buf_failed(&conf)) {
        return err_set(e, ERR_LIMIT, "the options are too long");
    }
    cleanup_free char *file = secret_file(buf_str(&conf), e);
    if (!file) {
        return -1;
    }
    const char *const argv[] = {"ossfs2", "mount", path, "-c", file, NULL};
    int r = run(argv, e);
    (void)unlink(file);
    return r;
}

int ossfs_mount(const struct volume *v, const char *path, struct arena *a, struct err *e)
{
    if (is_mount_point(path)) {
        return 0;
    }
    int r = dir_make(AT_FDCWD, path, 0755);
    if (r < 0) {
        return err_sys(e, r, "make %s", path);
    }
    bool first = v->ossfs->version && strcmp(v->ossfs->version, "1.0") == 0;
    return first ? mount_v1(v, path, a, e) : mount_v2(v, path, a, e);
}

int ossfs_unmount(const char *path, struct err *e)
{
    const char *const fuse[] = {"fusermount", "-u", path, NULL};
    const char *const plain[] = {"umount", path, NULL};
    struct err first = {0};
    if (!is_mount_point(path)) {
        return 0;
    }
    return run(fuse, &first) < 0 && run(plain, e) < 0 ? -1 : 0;
}
