/* Looking a path up in layers. Each step asks the layers from the top for one more component, so
 * that a link of one layer that leads into another is followed there. */

#include "server/runtime/oci/merged.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"

static int open_in(const struct rootfs *r, size_t layer, const char *path, int flags)
{
    cleanup_close int dir = open(r->layers[layer], O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0) {
        return -errno;
    }
    return fd_openat2(dir, path, flags | O_NOFOLLOW, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

static bool is_opaque(const struct rootfs *r, size_t layer, const char *dir)
{
    char full[PATH_MAX], value[2];
    int n = snprintf(full, sizeof(full), "%s/%s", r->layers[layer], dir);
    return n < (int)sizeof(full) &&
           lgetxattr(full, "trusted.overlay.opaque", value, sizeof(value)) == 1 && value[0] == 'y';
}

/* Does this layer hide everything that lower ones have at or below a parent of `path`? */
static bool hides(const struct rootfs *r, size_t layer, const char *path)
{
    char parent[PATH_MAX];
    (void)snprintf(parent, sizeof(parent), "%s", path);
    for (char *slash; (slash = strrchr(parent, '/'));) {
        *slash = 0;
        if (is_opaque(r, layer, parent)) {
            return true;
        }
    }
    return false;
}

/* One path without links in its parents. */
static int find_plain(const struct rootfs *r, const char *path, struct merged *m)
{
    for (size_t i = 0; i < r->n_layers; i++) {
        cleanup_close int fd = open_in(r, i, path, O_PATH);
        if (fd >= 0) {
            if (fstat(fd, &m->st) < 0) {
                return -errno;
            }
            m->layer = i;
            return S_ISCHR(m->st.st_mode) && m->st.st_rdev == 0 ? -ENOENT : 0;
        }
        if (fd == -ENOTDIR || fd == -ELOOP) {
            return -ENOENT; /* a parent that is no directory here covers what is below */
        }
        if (fd != -ENOENT || hides(r, i, path)) {
            return fd;
        }
    }
    return -ENOENT;
}

static bool is_bound(const struct rootfs *r, const char *path)
{
    for (size_t i = 0; i < r->n_binds; i++) {
        const char *b = r->binds[i] + 1; /* absolute */
        size_t n = strlen(b);
        if (strncmp(path, b, n) == 0 && (path[n] == 0 || path[n] == '/')) {
            return true;
        }
    }
    return false;
}

/* Puts the target of the link `m` in front of `rest`, and cuts m->path back to where it counts
 * from. */
static int follow(const struct rootfs *r, struct merged *m, char rest[PATH_MAX])
{
    char target[PATH_MAX], left[PATH_MAX];
    cleanup_close int fd = open_in(r, m->layer, m->path, O_PATH);
    ssize_t n = fd < 0 ? -1 : readlinkat(fd, "", target, sizeof(target) - 1);
    if (n <= 0) {
        return fd < 0 ? fd : -EINVAL;
    }
    target[n] = 0;
    char *slash = strrchr(m->path, '/');
    if (target[0] == '/' || !slash) {
        m->path[0] = 0;
    } else {
        *slash = 0;
    }
    (void)snprintf(left, sizeof(left), "%s", rest);
    return snprintf(rest, PATH_MAX, "%s/%s", target, left) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Appends one component to m->path, or takes one away for "..". */
static int step(const struct rootfs *r, struct merged *m, struct str name)
{
    size_t len = strlen(m->path);
    if (str_eq(name, STR(".."))) {
        char *slash = strrchr(m->path, '/');
        *(slash ? slash : m->path) = 0;
        m->st.st_mode = S_IFDIR;
        return 0;
    }
    int n = snprintf(m->path + len, sizeof(m->path) - len, "%s%.*s", len ? "/" : "", STR_FMT(name));
    if (n >= (int)(sizeof(m->path) - len)) {
        return -ENAMETOOLONG;
    }
    return is_bound(r, m->path) ? -EXDEV : find_plain(r, m->path, m);
}

int merged_find(const struct rootfs *r, const char *path, struct merged *ret)
{
    struct merged m = {0};
    char rest[PATH_MAX], before[PATH_MAX];
    unsigned n_links = 0;

    if (snprintf(rest, sizeof(rest), "%s", path) >= (int)sizeof(rest)) {
        return -ENAMETOOLONG;
    }
    while (rest[0]) {
        struct str after = str_from(rest), name = str_cut(&after, '/');
        int e = 0;
        bool is_new = name.n && !str_eq(name, STR("."));
        if (is_new) {
            e = step(r, &m, name);
        }
        (void)snprintf(before, sizeof(before), "%.*s", STR_FMT(after));
        memcpy(rest, before, sizeof(rest));
        if (e == 0 && is_new && S_ISLNK(m.st.st_mode)) {
            e = ++n_links > MERGED_LINKS_MAX ? -ELOOP : follow(r, &m, rest);
        }
        if (e < 0) {
            return e;
        }
    }
    *ret = m;
    return 0;
}

int merged_read(const struct rootfs *r, const struct merged *m, struct buf *out)
{
    if (!S_ISREG(m->st.st_mode)) {
        return -EINVAL;
    }
    cleanup_close int fd = open_in(r, m->layer, m->path, O_RDONLY | O_NONBLOCK);
    if (fd < 0) {
        return fd;
    }
    int e = buf_read_fd(out, fd);
    return e == -ENOSPC ? -EFBIG : e;
}
