/* Tar writer for layers. Walks with descriptors, never follows a link. */

#include "server/layer/pack.h"

#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/map.h"
#include "base/must.h"
#include "server/image/digest.h"
#include "server/image/limits.h"

#define COPY_BLOCK (256u << 10)
#define MAX_DEPTH 256

struct writer {
    struct archive *a;
    int fd;
    struct digest *digest;
    uint64_t size, entries;
    struct map inodes; /* "dev:ino" of files with several names → first path */
    char *block;
    struct err *e;
};

static la_ssize_t on_write(struct archive *a, void *arg, const void *p, size_t n)
{
    struct writer *w = arg;
    int r = fd_write_full(w->fd, p, n);
    if (r < 0) {
        archive_set_error(a, -r, "writing the archive");
        return -1;
    }
    digest_add(w->digest, p, n);
    w->size += n;
    return (la_ssize_t)n;
}

static int failed(struct writer *w, const char *path)
{
    return err_set(w->e, ERR_IO, "archiving '%s': %s", path, archive_error_string(w->a));
}

static void add_xattrs(struct archive_entry *ent, int fd)
{
    char names[4096], value[4096];
    ssize_t n = flistxattr(fd, names, sizeof(names));
    for (char *p = names; n > 0 && p < names + n; p += strlen(p) + 1) {
        bool wanted = strncmp(p, "user.", 5) == 0 || strcmp(p, "security.capability") == 0;
        ssize_t len = wanted ? fgetxattr(fd, p, value, sizeof(value)) : -1;
        if (len >= 0) {
            archive_entry_xattr_add_entry(ent, p, value, (size_t)len);
        }
    }
}

static int write_header(struct writer *w, const char *path, const struct stat *st, const char *link,
                        const char *hardlink, int fd)
{
    struct archive_entry *ent = archive_entry_new();
    archive_entry_copy_stat(ent, st);
    archive_entry_set_pathname(ent, path);
    if (link) {
        archive_entry_set_symlink(ent, link);
    }
    if (hardlink) {
        archive_entry_set_hardlink(ent, hardlink);
        archive_entry_set_size(ent, 0);
    }
    if (fd >= 0 && !hardlink) {
        add_xattrs(ent, fd);
    }
    int r = archive_write_header(w->a, ent);
    archive_entry_free(ent);
    return r == ARCHIVE_OK || r == ARCHIVE_WARN ? 0 : failed(w, path);
}

static int write_content(struct writer *w, const char *path, int fd)
{
    for (;;) {
        ssize_t n = read(fd, w->block, COPY_BLOCK);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return err_sys(w->e, errno, "reading '%s'", path);
        }
        if (n == 0) {
            return 0;
        }
        if (archive_write_data(w->a, w->block, (size_t)n) < 0) {
            return failed(w, path);
        }
    }
}

static int write_file(struct writer *w, int dir_fd, const char *name, const char *path,
                      const struct stat *st)
{
    char key[48];
    (void)snprintf(key, sizeof(key), "%llx:%llx", (unsigned long long)st->st_dev,
                   (unsigned long long)st->st_ino);
    const char *first = st->st_nlink > 1 ? map_get(&w->inodes, str_from(key)) : NULL;
    if (first) {
        return write_header(w, path, st, NULL, first, -1);
    }
    if (st->st_nlink > 1) {
        (void)map_put(&w->inodes, str_from(key), xstrdup(path));
    }
    cleanup_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(w->e, errno, "opening '%s'", path);
    }
    return write_header(w, path, st, NULL, NULL, fd) < 0 ? -1 : write_content(w, path, fd);
}

/* A file of length 0 named .wh.<name>, which hides <name> below. */
static int write_whiteout(struct writer *w, const char *dir, const char *name)
{
    char path[PATH_MAX];
    struct stat st = {.st_mode = S_IFREG | 0644, .st_nlink = 1};
    int n = snprintf(path, sizeof(path), "%s%s.wh.%s", dir, dir[0] ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof(path)) {
        return err_set(w->e, ERR_LIMIT, "path too long: %s", name);
    }
    return write_header(w, path, &st, NULL, NULL, -1);
}

static int write_dir(struct writer *w, int fd, const char *path, unsigned depth);

static int write_entry(struct writer *w, int dir_fd, const char *dir, const char *name,
                       unsigned depth)
{
    char path[PATH_MAX], target[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof(path), "%s%s%s", dir, dir[0] ? "/" : "", name);
    if (n < 0 || (size_t)n >= sizeof(path) || ++w->entries > IMAGE_MAX_ENTRIES) {
        return err_set(w->e, ERR_LIMIT, "layer too deep or too large at '%s'", name);
    }
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(w->e, errno, "reading '%s'", path);
    }
    if (S_ISDIR(st.st_mode)) {
        cleanup_close int fd =
            openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0) {
            return err_sys(w->e, errno, "opening '%s'", path);
        }
        return write_header(w, path, &st, NULL, NULL, fd) < 0 ? -1
                                                              : write_dir(w, fd, path, depth + 1);
    }
    if (S_ISREG(st.st_mode)) {
        return write_file(w, dir_fd, name, path, &st);
    }
    if (S_ISLNK(st.st_mode)) {
        ssize_t len = readlinkat(dir_fd, name, target, sizeof(target) - 1);
        if (len < 0) {
            return err_sys(w->e, errno, "reading link '%s'", path);
        }
        target[len] = '\0';
        return write_header(w, path, &st, target, NULL, -1);
    }
    if (S_ISCHR(st.st_mode) && st.st_rdev == makedev(0, 0)) {
        return write_whiteout(w, dir, name);
    }
    if (S_ISFIFO(st.st_mode)) {
        return write_header(w, path, &st, NULL, NULL, -1);
    }
    return 0; /* sockets and devices do not travel */
}

static int not_dots(const struct dirent *d)
{
    return strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0;
}

static int write_dir(struct writer *w, int fd, const char *path, unsigned depth)
{
    struct dirent **list;
    char opaque[2];
    int r = 0;
    if (depth > MAX_DEPTH) {
        return err_set(w->e, ERR_LIMIT, "layer too deep at '%s'", path);
    }
    if (fgetxattr(fd, "trusted.overlay.opaque", opaque, sizeof(opaque)) == 1 && opaque[0] == 'y') {
        r = write_whiteout(w, path, ".wh..opq");
    }
    int n = scandirat(fd, ".", &list, not_dots, alphasort);
    if (n < 0) {
        return err_sys(w->e, errno, "reading '%s'", path);
    }
    for (int i = 0; i < n; i++) {
        if (r == 0) {
            r = write_entry(w, fd, path, list[i]->d_name, depth);
        }
        free(list[i]);
    }
    free(list);
    return r;
}

static void inodes_done(struct map *m)
{
    size_t it = 0;
    struct str key;
    void *value;
    while (map_next(m, &it, &key, &value)) {
        free(value);
    }
    map_done(m);
}

int layer_pack(int root_fd, int fd, struct layer_result *ret, struct err *e)
{
    struct writer w = {.fd = fd, .e = e, .digest = digest_new(), .block = xmalloc(COPY_BLOCK)};
    w.a = archive_write_new();
    must(w.a);
    archive_write_set_format_pax_restricted(w.a);
    archive_write_set_bytes_in_last_block(w.a, 1);
    int r =
        archive_write_open(w.a, &w, NULL, on_write, NULL) == ARCHIVE_OK ? 0 : failed(&w, "layer");
    if (r == 0) {
        r = write_dir(&w, root_fd, "", 0);
    }
    if (archive_write_close(w.a) != ARCHIVE_OK && r == 0) {
        r = failed(&w, "layer");
    }
    archive_write_free(w.a);
    *ret = (struct layer_result){.bytes = w.size, .entries = w.entries};
    digest_final(w.digest, ret->digest);
    digest_free(w.digest);
    inodes_done(&w.inodes);
    free(w.block);
    return r;
}
