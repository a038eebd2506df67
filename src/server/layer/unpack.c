/* Unpacking a layer. Theory of operation:
 *
 * Two libarchive readers in a row. The first only decompresses ("raw" format), so that the bytes of
 * the tar archive pass through our hands and can be hashed for the diff id; the second reads tar
 * from them. Nothing is written with archive_write_disk: every name is split into parent and last
 * component, the parent is opened with RESOLVE_IN_ROOT below the layer's own root, and the last
 * component is created relative to that descriptor without following anything. A symbolic link in
 * the layer can therefore redirect a later entry only to another place of the same layer. */

#include "server/layer/unpack.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/image/digest.h"
#include "server/image/limits.h"

#define READ_BLOCK (256u << 10)
#define WHITEOUT ".wh."
#define OPAQUE ".wh..wh..opq"

struct dir_time {
    char *path;
    struct timespec mtime;
};

struct unpacker {
    int root_fd;
    bool whiteouts;
    struct archive *raw, *tar;
    struct digest *digest;
    char *block;
    struct layer_result stats;
    /* Entries of one directory come together: its descriptor is kept. */
    char parent[PATH_MAX];
    int parent_fd;
    struct dir_time *times;
    size_t n_times, cap_times;
    struct err *e;
};

/* What is being created: a name below an open directory. */
struct place {
    int dir_fd; /* borrowed from the unpacker */
    char name[NAME_MAX + 1];
};

static la_ssize_t read_plain(struct archive *a, void *arg, const void **ret)
{
    (void)a;
    struct unpacker *u = arg;
    la_ssize_t n = archive_read_data(u->raw, u->block, READ_BLOCK);
    if (n < 0) {
        archive_set_error(u->tar, EIO, "%s", archive_error_string(u->raw));
        return -1;
    }
    digest_add(u->digest, u->block, (size_t)n);
    *ret = u->block;
    return n;
}

static int open_readers(struct unpacker *u, int fd)
{
    struct archive_entry *ignored;
    u->raw = archive_read_new();
    u->tar = archive_read_new();
    must(u->raw && u->tar);
    archive_read_support_filter_gzip(u->raw);
    archive_read_support_filter_zstd(u->raw);
    archive_read_support_format_raw(u->raw);
    archive_read_support_format_empty(u->raw);
    archive_read_support_format_tar(u->tar);
    archive_read_support_format_empty(u->tar);
    int r = archive_read_open_fd(u->raw, fd, READ_BLOCK);
    if (r == ARCHIVE_OK) {
        r = archive_read_next_header(u->raw, &ignored);
    }
    if (r == ARCHIVE_EOF) {
        return err_set(u->e, ERR_INVALID, "layer is not a tar archive: it is empty");
    }
    if (r != ARCHIVE_OK && r != ARCHIVE_EOF) {
        return err_set(u->e, ERR_INVALID, "layer is not a tar archive: %s",
                       archive_error_string(u->raw));
    }
    if (archive_read_open(u->tar, u, NULL, read_plain, NULL) != ARCHIVE_OK) {
        return err_set(u->e, ERR_INVALID, "layer is not a tar archive: %s",
                       archive_error_string(u->tar));
    }
    return 0;
}

/* Writes the entry's path without leading "/" and "./" and without empty or "." components. Returns
 * its length, or -EINVAL for "..", over-long or empty names. */
static int clean_path(const char *in, char out[PATH_MAX])
{
    size_t n = 0;
    struct str rest = str_from(in);
    while (rest.p) {
        struct str part = str_cut(&rest, '/');
        if (part.n == 0 || str_eq(part, STR("."))) {
            continue;
        }
        if (str_eq(part, STR("..")) || part.n > NAME_MAX || n + part.n + 2 > PATH_MAX) {
            return -EINVAL;
        }
        if (n > 0) {
            out[n++] = '/';
        }
        memcpy(out + n, part.p, part.n);
        n += part.n;
    }
    out[n] = '\0';
    return (int)n;
}

/* Opens `path` below the root, creating what is missing with the usual mode. */
static int open_dir(struct unpacker *u, const char *path)
{
    if (path[0] == '\0') {
        return fcntl(u->root_fd, F_DUPFD_CLOEXEC, 0);
    }
    int fd = fd_open_in_root(u->root_fd, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
    if (fd != -ENOENT) {
        return fd;
    }
    char parent[PATH_MAX];
    struct str whole = str_from(path);
    ptrdiff_t slash = str_rfind(whole, '/');
    (void)str_to_cstr(str_sub(whole, 0, slash < 0 ? 0 : (size_t)slash), parent, sizeof(parent));
    cleanup_close int up = open_dir(u, parent);
    if (up < 0) {
        return up;
    }
    if (mkdirat(up, path + slash + 1, 0755) < 0 && errno != EEXIST) {
        return -errno;
    }
    return fd_open_in_root(u->root_fd, path, O_DIRECTORY | O_RDONLY | O_CLOEXEC, 0);
}

static int place_open(struct unpacker *u, const char *path, struct place *ret)
{
    struct str whole = str_from(path);
    ptrdiff_t slash = str_rfind(whole, '/');
    char parent[PATH_MAX];
    (void)str_to_cstr(str_sub(whole, 0, slash < 0 ? 0 : (size_t)slash), parent, sizeof(parent));
    if (u->parent_fd < 0 || strcmp(parent, u->parent) != 0) {
        int fd = open_dir(u, parent);
        if (fd < 0) {
            return fd;
        }
        if (u->parent_fd >= 0) {
            (void)close(u->parent_fd);
        }
        u->parent_fd = fd;
        memcpy(u->parent, parent, sizeof(parent));
    }
    ret->dir_fd = u->parent_fd;
    return str_to_cstr(str_sub(whole, (size_t)(slash + 1), whole.n), ret->name, sizeof(ret->name));
}

/* Clears the way for an entry that is not a directory. */
static int place_clear(const struct place *p)
{
    if (unlinkat(p->dir_fd, p->name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return -errno;
    }
    return dir_remove(p->dir_fd, p->name, true);
}

static int write_data(struct unpacker *u, int fd)
{
    const void *p;
    size_t n;
    la_int64_t offset;
    for (;;) {
        int r = archive_read_data_block(u->tar, &p, &n, &offset);
        if (r == ARCHIVE_EOF) {
            break;
        }
        if (r != ARCHIVE_OK) {
            return err_set(u->e, ERR_INVALID, "layer is damaged: %s", archive_error_string(u->tar));
        }
        u->stats.bytes += n;
        if (u->stats.bytes > IMAGE_MAX_UNPACKED_BYTES || offset < 0 ||
            (uint64_t)offset > IMAGE_MAX_UNPACKED_BYTES) {
            return err_set(u->e, ERR_LIMIT, "layer unpacks to more than %llu GiB",
                           IMAGE_MAX_UNPACKED_BYTES >> 30);
        }
        for (size_t done = 0; done < n;) {
            ssize_t w = pwrite(fd, (const char *)p + done, n - done, offset + (la_int64_t)done);
            if (w < 0 && errno == EINTR) {
                continue;
            }
            if (w < 0) {
                return err_sys(u->e, errno, "writing a file of the layer");
            }
            done += (size_t)w;
        }
    }
    return 0;
}

static int make_regular(struct unpacker *u, struct archive_entry *ent, const struct place *p)
{
    la_int64_t size = archive_entry_size(ent);
    if (size < 0 || (uint64_t)size > IMAGE_MAX_UNPACKED_BYTES) {
        return err_set(u->e, ERR_LIMIT, "'%s' claims %lld bytes", p->name, (long long)size);
    }
    int fd = openat(p->dir_fd, p->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return err_sys(u->e, errno, "creating '%s'", p->name);
    }
    int r = write_data(u, fd);
    /* A sparse file may end in a hole. */
    if (r == 0 && ftruncate(fd, size) < 0) {
        r = err_sys(u->e, errno, "sizing '%s'", p->name);
    }
    (void)close(fd);
    return r;
}

static int make_hardlink(struct unpacker *u, struct archive_entry *ent, const struct place *p)
{
    char target[PATH_MAX];
    if (clean_path(archive_entry_hardlink(ent), target) <= 0) {
        return err_set(u->e, ERR_INVALID, "hard link '%s' leads out of the layer", p->name);
    }
    cleanup_close int fd = fd_open_in_root(u->root_fd, target, O_PATH | O_NOFOLLOW | O_CLOEXEC, 0);
    if (fd < 0) {
        return err_set(u->e, ERR_INVALID,
                       "hard link '%s' to '%s', which the layer does not contain", p->name, target);
    }
    if (linkat(fd, "", p->dir_fd, p->name, AT_EMPTY_PATH) < 0) {
        return err_sys(u->e, errno, "linking '%s'", p->name);
    }
    return 0;
}

static int make_directory(struct unpacker *u, const struct place *p)
{
    struct stat st;
    if (mkdirat(p->dir_fd, p->name, 0755) == 0) {
        return 0;
    }
    if (errno == EEXIST && fstatat(p->dir_fd, p->name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (S_ISDIR(st.st_mode)) {
            return 0;
        }
        if (unlinkat(p->dir_fd, p->name, 0) == 0 && mkdirat(p->dir_fd, p->name, 0755) == 0) {
            return 0;
        }
    }
    return err_sys(u->e, errno, "creating directory '%s'", p->name);
}

static void remember_time(struct unpacker *u, struct archive_entry *ent, const char *path)
{
    if (u->n_times >= IMAGE_MAX_DIR_TIMES) {
        return;
    }
    if (u->n_times == u->cap_times) {
        u->cap_times = u->cap_times ? u->cap_times * 2 : 64;
        u->times = xreallocarray(u->times, u->cap_times, sizeof(*u->times));
    }
    u->times[u->n_times++] =
        (struct dir_time){xstrdup(path), {archive_entry_mtime(ent), archive_entry_mtime_nsec(ent)}};
}

/* Directory times last: every file that is created in one changes them. */
static void restore_times(struct unpacker *u)
{
    for (size_t i = 0; i < u->n_times; i++) {
        struct timespec ts[2] = {u->times[i].mtime, u->times[i].mtime};
        cleanup_close int fd = fd_open_in_root(u->root_fd, u->times[i].path,
                                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
        if (fd >= 0) {
            (void)futimens(fd, ts); /* a time that cannot be set is no reason to refuse a layer */
        }
    }
}

static bool xattr_wanted(const char *name)
{
    return strncmp(name, "user.", 5) == 0 || strcmp(name, "security.capability") == 0;
}

static int set_xattrs(struct unpacker *u, struct archive_entry *ent, const struct place *p)
{
    const char *name;
    const void *value;
    size_t n;
    if (archive_entry_xattr_reset(ent) == 0) {
        return 0;
    }
    mode_t type = archive_entry_filetype(ent);
    if (type != AE_IFREG && type != AE_IFDIR) {
        return 0; /* the kernel keeps neither kind of attribute on anything else */
    }
    cleanup_close int fd = openat(p->dir_fd, p->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_sys(u->e, errno, "opening '%s' for its attributes", p->name);
    }
    while (archive_entry_xattr_next(ent, &name, &value, &n) == ARCHIVE_OK) {
        if (!xattr_wanted(name)) {
            continue; /* trusted.* is ours: it steers overlayfs */
        }
        if (n > IMAGE_MAX_XATTR) {
            return err_set(u->e, ERR_LIMIT, "extended attribute of '%s' too large", p->name);
        }
        if (fsetxattr(fd, name, value, n, 0) < 0 && errno != EOPNOTSUPP && errno != EPERM) {
            return err_sys(u->e, errno, "setting an attribute of '%s'", p->name);
        }
    }
    return 0;
}

static int set_owner_and_mode(struct unpacker *u, struct archive_entry *ent, const struct place *p)
{
    la_int64_t uid = archive_entry_uid(ent), gid = archive_entry_gid(ent);
    mode_t type = archive_entry_filetype(ent);
    if (uid < 0 || gid < 0 || uid >= UINT32_MAX || gid >= UINT32_MAX) {
        return err_set(u->e, ERR_INVALID, "owner of '%s' out of range", p->name);
    }
    if (fchownat(p->dir_fd, p->name, (uid_t)uid, (gid_t)gid, AT_SYMLINK_NOFOLLOW) < 0) {
        return err_sys(u->e, errno, "changing the owner of '%s'", p->name);
    }
    if (type == AE_IFLNK) {
        return 0;
    }
    /* After chown, which clears set-id bits. The name is one we have just made: not a link. */
    if (fchmodat(p->dir_fd, p->name, archive_entry_perm(ent) & 07777, 0) < 0) {
        return err_sys(u->e, errno, "changing the mode of '%s'", p->name);
    }
    return 0;
}

static void set_mtime(struct archive_entry *ent, const struct place *p)
{
    struct timespec t = {archive_entry_mtime(ent), archive_entry_mtime_nsec(ent)};
    struct timespec ts[2] = {t, t};
    (void)utimensat(p->dir_fd, p->name, ts, AT_SYMLINK_NOFOLLOW); /* see restore_times() */
}

/* 1 when the entry was a whiteout and has been dealt with. */
static int unpack_whiteout(struct unpacker *u, const struct place *p)
{
    if (!u->whiteouts || strncmp(p->name, WHITEOUT, strlen(WHITEOUT)) != 0) {
        return 0;
    }
    if (strcmp(p->name, OPAQUE) == 0) {
        if (fsetxattr(p->dir_fd, "trusted.overlay.opaque", "y", 1, 0) < 0) {
            return err_sys(u->e, errno, "marking a directory opaque");
        }
        return 1;
    }
    struct place hidden = {.dir_fd = p->dir_fd};
    (void)snprintf(hidden.name, sizeof(hidden.name), "%s", p->name + strlen(WHITEOUT));
    if (!hidden.name[0] || strcmp(hidden.name, ".") == 0 || strcmp(hidden.name, "..") == 0) {
        return err_set(u->e, ERR_INVALID, "whiteout without a name");
    }
    if (strncmp(hidden.name, WHITEOUT, strlen(WHITEOUT)) == 0) {
        return 1; /* metadata of aufs, which created the format: nothing to hide */
    }
    int r = place_clear(&hidden);
    if (r < 0 || mknodat(hidden.dir_fd, hidden.name, S_IFCHR, makedev(0, 0)) < 0) {
        return err_sys(u->e, r < 0 ? r : errno, "hiding '%s'", hidden.name);
    }
    return 1;
}

static int make_entry(struct unpacker *u, struct archive_entry *ent, const struct place *p)
{
    if (archive_entry_hardlink(ent)) {
        return make_hardlink(u, ent, p);
    }
    switch (archive_entry_filetype(ent)) {
    case AE_IFREG:
        return make_regular(u, ent, p);
    case AE_IFDIR:
        return make_directory(u, p);
    case AE_IFLNK:
        if (!archive_entry_symlink(ent) ||
            symlinkat(archive_entry_symlink(ent), p->dir_fd, p->name) < 0) {
            return err_sys(u->e, errno, "creating link '%s'", p->name);
        }
        return 0;
    case AE_IFIFO:
        if (mkfifoat(p->dir_fd, p->name, 0600) < 0) {
            return err_sys(u->e, errno, "creating fifo '%s'", p->name);
        }
        return 0;
    default:
        return err_set(u->e, ERR_INVALID, "'%s' is of an unknown type", p->name);
    }
}

static bool is_skipped(mode_t type)
{
    return type == AE_IFCHR || type == AE_IFBLK || type == AE_IFSOCK;
}

static int unpack_root(struct unpacker *u, struct archive_entry *ent)
{
    if (archive_entry_filetype(ent) != AE_IFDIR) {
        return err_set(u->e, ERR_INVALID, "the root of the layer is not a directory");
    }
    if (fchmod(u->root_fd, archive_entry_perm(ent) & 07777) < 0) {
        return err_sys(u->e, errno, "changing the mode of the root");
    }
    return 0;
}

static int unpack_entry(struct unpacker *u, struct archive_entry *ent)
{
    char path[PATH_MAX];
    const char *name = archive_entry_pathname(ent);
    if (++u->stats.entries > IMAGE_MAX_ENTRIES) {
        return err_set(u->e, ERR_LIMIT, "layer has more than %u entries", IMAGE_MAX_ENTRIES);
    }
    int n = name ? clean_path(name, path) : -EINVAL;
    if (n < 0) {
        return err_set(u->e, ERR_INVALID, "entry '%s' leads out of the layer or is too long",
                       name ? name : "(unreadable name)");
    }
    if (n == 0) {
        return unpack_root(u, ent);
    }
    struct place p;
    int r = place_open(u, path, &p);
    if (r < 0) {
        return err_sys(u->e, r, "entry '%s'", path);
    }
    r = unpack_whiteout(u, &p);
    if (r != 0) {
        return r < 0 ? -1 : 0;
    }
    if (!archive_entry_hardlink(ent) && is_skipped(archive_entry_filetype(ent))) {
        u->stats.devices_skipped++;
        return 0;
    }
    bool is_dir = !archive_entry_hardlink(ent) && archive_entry_filetype(ent) == AE_IFDIR;
    if (!is_dir && (r = place_clear(&p)) < 0) {
        return err_sys(u->e, r, "replacing '%s'", path);
    }
    if (make_entry(u, ent, &p) < 0) {
        return -1;
    }
    if (archive_entry_hardlink(ent)) {
        return 0; /* owner, mode and attributes are those of the file it links to */
    }
    if (set_owner_and_mode(u, ent, &p) < 0 || set_xattrs(u, ent, &p) < 0) {
        return -1;
    }
    if (is_dir) {
        remember_time(u, ent, path);
    } else {
        set_mtime(ent, &p);
    }
    return 0;
}

/* Reads what follows the end-of-archive marker, so that the digest covers the whole stream. */
static int drain(struct unpacker *u)
{
    la_ssize_t n;
    while ((n = archive_read_data(u->raw, u->block, READ_BLOCK)) > 0) {
        digest_add(u->digest, u->block, (size_t)n);
    }
    return n < 0 ? err_set(u->e, ERR_INVALID, "layer is damaged: %s", archive_error_string(u->raw))
                 : 0;
}

static int unpack_all(struct unpacker *u, int fd)
{
    struct archive_entry *ent;
    if (open_readers(u, fd) < 0) {
        return -1;
    }
    for (;;) {
        int r = archive_read_next_header(u->tar, &ent);
        if (r == ARCHIVE_EOF) {
            break;
        }
        if (r != ARCHIVE_OK && r != ARCHIVE_WARN) {
            return err_set(u->e, ERR_INVALID, "layer is damaged: %s", archive_error_string(u->tar));
        }
        if (unpack_entry(u, ent) < 0) {
            return -1;
        }
    }
    if (drain(u) < 0) {
        return -1;
    }
    restore_times(u);
    digest_final(u->digest, u->stats.digest);
    return 0;
}

int layer_unpack(int fd, int root_fd, bool whiteouts, struct layer_result *ret, struct err *e)
{
    struct unpacker u = {.root_fd = root_fd, .whiteouts = whiteouts, .parent_fd = -1, .e = e};
    u.digest = digest_new();
    u.block = xmalloc(READ_BLOCK);
    int r = unpack_all(&u, fd);
    if (u.tar) {
        archive_read_free(u.tar);
    }
    if (u.raw) {
        archive_read_free(u.raw);
    }
    if (u.parent_fd >= 0) {
        (void)close(u.parent_fd);
    }
    for (size_t i = 0; i < u.n_times; i++) {
        free(u.times[i].path);
    }
    free(u.times);
    free(u.block);
    digest_free(u.digest);
    *ret = u.stats;
    return r;
}
