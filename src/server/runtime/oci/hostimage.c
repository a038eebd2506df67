/* Builds the tree behind the image `host`. */

#include "server/runtime/oci/hostimage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"

#define FILE_MAX (8u << 20)   /* bytes of one file copied out of the host's /etc */
#define TREE_FILES_MAX 20000u /* files copied in all */
#define TREE_DEPTH_MAX 6

static const struct {
    const char *path;
    mode_t mode;
} dirs[] = {
    {"etc", 0755},       {"root", 0700},     {"home", 0755},    {"tmp", 01777},
    {"var", 0755},       {"var/tmp", 01777}, {"var/lib", 0755}, {"var/cache", 0755},
    {"var/log", 0755},   {"opt", 0755},      {"srv", 0755},     {"mnt", 0755},
    {"media", 0755},     {"run", 0755},      {"dev", 0755},     {"proc", 0555},
    {"sys", 0555},       {"usr", 0755},      {"etc/ssl", 0755}, {"opt/opensandbox", 0755},
    {"workspace", 0755},
};

static const struct {
    const char *path, *text;
} files[] = {
    {"etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"
                   "daemon:x:1:1:daemon:/usr/sbin:/usr/sbin/nologin\n"
                   "bin:x:2:2:bin:/bin:/usr/sbin/nologin\n"
                   "mail:x:8:8:mail:/var/mail:/usr/sbin/nologin\n"
                   "www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n"
                   "sandbox:x:1000:1000:sandbox:/home:/bin/bash\n"
                   "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"},
    {"etc/group", "root:x:0:\ndaemon:x:1:\nbin:x:2:\nadm:x:4:\ntty:x:5:\ndisk:x:6:\nmail:x:8:\n"
                  "www-data:x:33:\nstaff:x:50:\nusers:x:100:\nsandbox:x:1000:\nnogroup:x:65534:\n"},
    {"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
                          "networks: files\nprotocols: files\nservices: files\n"},
    {"etc/shells", "/bin/sh\n/bin/bash\n/usr/bin/sh\n/usr/bin/bash\n"},
    {"etc/profile", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
                    "export PATH\n"},
    {"etc/timezone", "Etc/UTC\n"},
};

static const struct {
    const char *path, *target;
} links[] = {
    {"etc/localtime", "/usr/share/zoneinfo/Etc/UTC"},
    {"etc/os-release", "../usr/lib/os-release"},
    {"etc/mtab", "../proc/self/mounts"},
    {"var/run", "/run"},
    {"var/lock", "/run/lock"},
};

/* What is taken over from the host's /etc where it is there: tables and configuration that programs
 * below /usr point to. Only regular files that everybody may read, and links. */
static const char *const etc_taken[] = {
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "services",
    "protocols",
    "mime.types",
    "magic",
    "debian_version",
    "python3",
    "perl",
    "fonts",
    "inputrc",
    "pki/tls/certs",
    "ca-certificates/extracted",
};
static const char *const etc_taken_prefix[] = {"python3.", "java-", "ImageMagick-"};

/* bin, lib, ... of the root directory: links into /usr today, directories on older hosts. */
static const char *const usr_twins[] = {"bin", "sbin", "lib", "lib32", "lib64", "libx32"};

struct builder {
    int root_fd;
    uint64_t hash; /* over everything put in: names the tree */
    unsigned n_files;
    bool dry; /* only hash */
    struct err *e;
};

static void hash_add(struct builder *b, const void *p, size_t n)
{
    const unsigned char *c = p;
    for (size_t i = 0; i < n; i++) { /* FNV-1a: tells versions apart, guards nothing */
        b->hash = (b->hash ^ c[i]) * UINT64_C(1099511628211);
    }
}

static int put_dir(struct builder *b, const char *path, mode_t mode)
{
    hash_add(b, path, strlen(path) + 1);
    if (b->dry) {
        return 0;
    }
    int r = dir_make(b->root_fd, path, 0755);
    if (r == 0 && fchmodat(b->root_fd, path, mode, 0) < 0) {
        r = -errno;
    }
    return r < 0 ? err_sys(b->e, r, "image host: %s", path) : 0;
}

static int put_file(struct builder *b, const char *path, struct str text, mode_t mode)
{
    hash_add(b, path, strlen(path) + 1);
    hash_add(b, text.p, text.n);
    if (b->dry) {
        return 0;
    }
    cleanup_close int fd =
        openat(b->root_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    int r = fd < 0 ? -errno : fd_write_full(fd, text.p, text.n);
    if (r == 0 && fchmod(fd, mode) < 0) {
        r = -errno;
    }
    return r < 0 ? err_sys(b->e, r, "image host: %s", path) : 0;
}

static int put_link(struct builder *b, const char *path, const char *target)
{
    hash_add(b, path, strlen(path) + 1);
    hash_add(b, target, strlen(target) + 1);
    if (b->dry || symlinkat(target, b->root_fd, path) == 0 || errno == EEXIST) {
        return 0;
    }
    return err_sys(b->e, errno, "image host: %s", path);
}

/* `path` is relative to / on both sides. Unreadable, private and odd files are left out. */
static int take_one(struct builder *b, int host_root, const char *path, int depth);

static int take_dir(struct builder *b, int host_root, const char *path, int depth)
{
    cleanup_free struct dirent **list = NULL;
    char abs[PATH_MAX];
    (void)snprintf(abs, sizeof(abs), "/%s", path);
    /* Sorted, for the hash to be the same each time. */
    int n = scandir(abs, &list, NULL, alphasort), r = 0;
    if (n < 0) {
        return 0;
    }
    if (put_dir(b, path, 0755) < 0) {
        r = -1;
    }
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        char sub[PATH_MAX];
        int len = snprintf(sub, sizeof(sub), "%s/%s", path, name);
        if (r == 0 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && len < PATH_MAX) {
            r = take_one(b, host_root, sub, depth + 1);
        }
        free(list[i]);
    }
    return r;
}

static int take_one(struct builder *b, int host_root, const char *path, int depth)
{
    struct stat st;
    if (depth > TREE_DEPTH_MAX || b->n_files >= TREE_FILES_MAX ||
        fstatat(host_root, path, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0;
    }
    b->n_files++;
    if (S_ISDIR(st.st_mode)) {
        return (st.st_mode & 0005) == 0005 ? take_dir(b, host_root, path, depth) : 0;
    }
    if (S_ISLNK(st.st_mode)) {
        char target[PATH_MAX];
        ssize_t n = readlinkat(host_root, path, target, sizeof(target) - 1);
        if (n <= 0) {
            return 0;
        }
        target[n] = 0;
        return put_link(b, path, target);
    }
    if (!S_ISREG(st.st_mode) || !(st.st_mode & 0004) || st.st_size > FILE_MAX) {
        return 0;
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(FILE_MAX + 1);
    if (file_read(host_root, path, &text) < 0) {
        return 0;
    }
    return put_file(b, path, buf_str(&text), st.st_mode & 0111 ? 0755 : 0644);
}

static int take_etc(struct builder *b, int host_root)
{
    for (size_t i = 0; i < ARRAY_LEN(etc_taken); i++) {
        char path[PATH_MAX];
        struct stat st;
        (void)snprintf(path, sizeof(path), "etc/%s", etc_taken[i]);
        if (fstatat(host_root, path, &st, 0) < 0) {
            continue;
        }
        const char *slash = strrchr(path, '/');
        char parent[PATH_MAX];
        (void)snprintf(parent, sizeof(parent), "%.*s", (int)(slash - path), path);
        if (put_dir(b, parent, 0755) < 0 || take_one(b, host_root, path, 0) < 0) {
            return -1;
        }
    }
    cleanup_free struct dirent **list = NULL;
    int n = scandir("/etc", &list, NULL, alphasort), r = 0;
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; r == 0 && k < ARRAY_LEN(etc_taken_prefix); k++) {
            if (str_starts(str_from(list[i]->d_name), str_from(etc_taken_prefix[k]))) {
                char path[PATH_MAX];
                (void)snprintf(path, sizeof(path), "etc/%s", list[i]->d_name);
                r = take_one(b, host_root, path, 0);
            }
        }
        free(list[i]);
    }
    return r;
}

static int put_twins(struct builder *b, struct host_image *h)
{
    static const char *const bound[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
    h->n_binds = 0;
    h->binds[h->n_binds++] = "/usr";
    for (size_t i = 0; i < ARRAY_LEN(usr_twins); i++) {
        char target[PATH_MAX];
        struct stat st;
        if (lstat(bound[i], &st) < 0) {
            continue;
        }
        if (S_ISDIR(st.st_mode)) {
            h->binds[h->n_binds++] = bound[i];
            if (put_dir(b, usr_twins[i], 0755) < 0) {
                return -1;
            }
            continue;
        }
        ssize_t n = readlink(bound[i], target, sizeof(target) - 1);
        if (n > 0) {
            target[n] = 0;
            if (put_link(b, usr_twins[i], target) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

static int build(struct builder *b, struct host_image *h)
{
    cleanup_close int host_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (host_root < 0) {
        return err_sys(b->e, errno, "image host: open /");
    }
    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        if (put_dir(b, dirs[i].path, dirs[i].mode) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        if (put_file(b, files[i].path, str_from(files[i].text), 0644) < 0) {
            return -1;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(links); i++) {
        if (put_link(b, links[i].path, links[i].target) < 0) {
            return -1;
        }
    }
    return put_twins(b, h) < 0 ? -1 : take_etc(b, host_root);
}

int host_image_make(int images_fd, const char *images, struct host_image *ret, struct err *e)
{
    char name[64], tmp[80];
    struct builder b = {.dry = true, .hash = UINT64_C(14695981039346656037), .e = e};
    *ret = (struct host_image){0};
    if (build(&b, ret) < 0) {
        return -1;
    }
    (void)snprintf(name, sizeof(name), "host-%016llx", (unsigned long long)b.hash);
    ret->dir = xasprintf("%s/%s", images, name);
    if (faccessat(images_fd, name, F_OK, 0) == 0) {
        return 0;
    }
    (void)snprintf(tmp, sizeof(tmp), ".%s.new", name);
    int r = dir_remove(images_fd, tmp, true);
    r = r < 0 ? r : dir_make(images_fd, tmp, 0755);
    if (r < 0) {
        return err_sys(e, r, "image host");
    }
    struct builder real = {.hash = b.hash, .e = e};
    real.root_fd = openat(images_fd, tmp, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (real.root_fd < 0) {
        return err_sys(e, errno, "image host");
    }
    r = build(&real, ret);
    (void)close(real.root_fd);
    if (r == 0 && renameat(images_fd, tmp, images_fd, name) < 0) {
        r = err_sys(e, errno, "image host");
    }
    return r;
}

void host_image_done(struct host_image *h)
{
    free(h->dir);
    *h = (struct host_image){0};
}
