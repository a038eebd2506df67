#include "execd/fs_path.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/must.h"
#include "execd/limits.h"

static int clean_into(char *out, size_t *len, struct str path)
{
    struct str rest = path;
    while (rest.p) {
        struct str part = str_cut(&rest, '/');
        if (part.n == 0 || str_eq(part, STR("."))) {
            continue;
        }
        if (str_eq(part, STR(".."))) {
            while (*len > 0 && out[--*len] != '/') {
            }
            continue;
        }
        if (*len + 1 + part.n >= FS_PATH_MAX) {
            return -ENAMETOOLONG;
        }
        out[(*len)++] = '/';
        memcpy(out + *len, part.p, part.n);
        *len += part.n;
    }
    return 0;
}

char *fs_path_clean(struct arena *a, struct str cwd, struct str path, struct err *e)
{
    if (path.n == 0) {
        (void)err_set(e, ERR_IO, "the path is empty");
        return NULL;
    }
    if (memchr(path.p, '\0', path.n)) {
        (void)err_set(e, ERR_IO, "the path contains a NUL byte");
        return NULL;
    }
    char out[FS_PATH_MAX];
    size_t len = 0;
    int r = path.p[0] == '/' ? 0 : clean_into(out, &len, cwd);
    if (r == 0) {
        r = clean_into(out, &len, path);
    }
    if (r < 0) {
        (void)err_sys(e, r, "a path of %zu bytes", path.n);
        return NULL;
    }
    if (len == 0) {
        out[len++] = '/';
    }
    return arena_str(a, str_n(out, len));
}

static bool is_name_char(char c, bool first)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
}

/* The variable named at the front of s ("$NAME" or "${NAME}"): its length in s, or 0. */
static size_t variable_at(struct str s, struct str *ret_name)
{
    size_t i = 1;
    bool braced = s.n > 1 && s.p[1] == '{';
    if (braced) {
        i++;
    }
    size_t from = i;
    while (i < s.n && is_name_char(s.p[i], i == from)) {
        i++;
    }
    if (i == from || (braced && (i >= s.n || s.p[i] != '}'))) {
        return 0;
    }
    *ret_name = str_sub(s, from, i);
    return braced ? i + 1 : i;
}

static int expand_variables(struct buf *out, struct str path, fs_env_fn *env, void *arg,
                            struct err *e)
{
    for (size_t i = 0; i < path.n;) {
        struct str name = STR_NULL;
        size_t n = path.p[i] == '$' ? variable_at(str_sub(path, i, path.n), &name) : 0;
        char key[256];
        const char *value = NULL;
        if (n > 0 && str_to_cstr(name, key, sizeof(key)) == 0) {
            value = env(key, arg);
            if (!value && i == 0) {
                return err_set(e, ERR_IO, "path references undefined environment variables: %s",
                               key);
            }
        }
        if (value) {
            (void)buf_add_cstr(out, value);
            i += n;
        } else {
            (void)buf_add_char(out, path.p[i]);
            i++;
        }
    }
    return 0;
}

char *fs_path_expand(struct arena *a, struct str path, fs_env_fn *env, void *arg, struct err *e)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(FS_PATH_MAX);
    if (expand_variables(&out, path, env, arg, e) < 0) {
        return NULL;
    }
    struct str s = buf_str(&out);
    const char *home = "";
    if (s.n > 0 && s.p[0] == '~' && (s.n == 1 || s.p[1] == '/')) {
        home = env("HOME", arg);
        if (!home) {
            (void)err_set(e, ERR_IO, "cannot expand '~': HOME is not set");
            return NULL;
        }
        s = str_sub(s, 1, s.n);
    }
    if (buf_failed(&out)) {
        (void)err_sys(e, ENAMETOOLONG, "the expanded path");
        return NULL;
    }
    return arena_printf(a, "%s%.*s", home, STR_FMT(s));
}

static const char *env_of_process(const char *name, void *arg)
{
    (void)arg;
    return getenv(name);
}

char *fs_path_resolve(struct arena *a, struct str given, struct err *e)
{
    char cwd[FS_PATH_MAX];
    if (!getcwd(cwd, sizeof(cwd))) {
        cwd[0] = '/'; /* the directory execd was started in is gone */
        cwd[1] = '\0';
    }
    char *literal = fs_path_clean(a, str_from(cwd), given, e);
    if (!literal || (given.p[0] != '~' && str_find(given, '$') < 0)) {
        return literal;
    }
    struct stat st;
    if (given.p[0] != '~' && fstatat(AT_FDCWD, literal, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        return literal;
    }
    const char *expanded = fs_path_expand(a, given, env_of_process, NULL, e);
    return expanded ? fs_path_clean(a, str_from(cwd), str_from(expanded), e) : NULL;
}

int fs_openat(int dir_fd, const char *path, int flags, mode_t mode)
{
    static atomic_bool is_missing; /* a kernel or a seccomp filter without openat2 */
    if (!atomic_load_explicit(&is_missing, memory_order_relaxed)) {
        struct open_how how = {
            .flags = (unsigned)(flags | O_CLOEXEC),
            .mode = flags & (O_CREAT | __O_TMPFILE) ? mode : 0,
            .resolve = RESOLVE_NO_MAGICLINKS,
        };
        long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
        if (fd >= 0) {
            return (int)fd;
        }
        if (errno != ENOSYS) {
            return -errno;
        }
        atomic_store_explicit(&is_missing, true, memory_order_relaxed);
    }
    int fd = openat(dir_fd, path, flags | O_CLOEXEC, mode);
    return fd >= 0 ? fd : -errno;
}

int fs_open(const char *abs, int flags, mode_t mode)
{
    return fs_openat(AT_FDCWD, abs, flags, mode);
}

/* Directory part of `path` below dir_fd, opened; *ret_leaf points into path. */
static int open_dir_of(int dir_fd, const char *path, const char **ret_leaf)
{
    const char *slash = strrchr(path, '/');
    const char *leaf = slash ? slash + 1 : path;
    char dir[FS_PATH_MAX];
    size_t n = (size_t)(leaf - path);
    if (n >= sizeof(dir)) {
        return -ENAMETOOLONG;
    }
    memcpy(dir, path, n);
    dir[n] = '\0';
    int fd = fs_openat(dir_fd, n ? dir : ".", O_PATH | O_DIRECTORY, 0);
    if (fd >= 0) {
        *ret_leaf = *leaf ? leaf : ".";
    }
    return fd;
}

int fs_open_parent(const char *abs, const char **ret_leaf)
{
    return open_dir_of(AT_FDCWD, abs, ret_leaf);
}

int fs_open_target(struct arena *a, const char *abs, const char **ret_leaf)
{
    const char *leaf = NULL;
    int fd = fs_open_parent(abs, &leaf);
    for (int i = 0; fd >= 0; i++) {
        char link[FS_PATH_MAX];
        ssize_t n = readlinkat(fd, leaf, link, sizeof(link));
        if (n < 0) { /* not a link, or not there */
            *ret_leaf = arena_strdup(a, leaf);
            return fd;
        }
        cleanup_close int from = fd;
        if (n == (ssize_t)sizeof(link) || i == FS_MAX_LINKS) {
            return i == FS_MAX_LINKS ? -ELOOP : -ENAMETOOLONG;
        }
        while (n > 1 && link[n - 1] == '/') { /* "dir/" names the directory itself */
            n--;
        }
        fd = open_dir_of(from, arena_str(a, str_n(link, (size_t)n)), &leaf);
    }
    return fd;
}

int fs_make_dirs(const char *abs, mode_t mode, bool *ret_created)
{
    cleanup_close int fd = fs_open("/", O_PATH | O_DIRECTORY, 0);
    if (fd < 0) {
        return fd;
    }
    bool created = false;
    struct str rest = str_from(abs);
    while (rest.p) {
        struct str part = str_cut(&rest, '/');
        if (part.n == 0) {
            continue;
        }
        char name[NAME_MAX + 1];
        if (str_to_cstr(part, name, sizeof(name)) < 0) {
            return -ENAMETOOLONG;
        }
        /* Looked at first: on a read-only file system mkdir says EROFS even for what exists. */
        int next = fs_openat(fd, name, O_PATH | O_DIRECTORY, 0);
        created = false;
        if (next == -ENOENT) {
            if (mkdirat(fd, name, mode) == 0) {
                created = true;
            } else if (errno != EEXIST) {
                return -errno;
            }
            next = fs_openat(fd, name, O_PATH | O_DIRECTORY, 0);
        }
        if (next < 0) {
            return next;
        }
        (void)close(fd);
        fd = next;
    }
    if (ret_created) {
        *ret_created = created;
    }
    return 0;
}

int fs_make_parents(struct arena *a, const char *abs, mode_t mode)
{
    const char *slash = strrchr(abs, '/');
    must(slash);
    return fs_make_dirs(arena_str(a, str_n(abs, (size_t)(slash - abs))), mode, NULL);
}
