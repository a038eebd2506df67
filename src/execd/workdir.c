/* Working directories of requests. */

#include "execd/workdir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"

/* A directory that really has such a name is meant literally, whatever '$' and '~' are in it. */
static const char *expand(const struct env *env, const char *cwd, struct err *e)
{
    struct stat st;
    if (strpbrk(cwd, "$~") && stat(cwd, &st) == 0 && S_ISDIR(st.st_mode)) {
        return cwd;
    }
    struct err why = {0};
    const char *path = env_expand_path(env, cwd, &why);
    if (!path) {
        err_set(e, ERR_INVALID, "cannot resolve working directory \"%s\": %s", cwd, why.msg);
    }
    return path;
}

const char *workdir_check(const struct env *env, const char *cwd, bool *ret_ok, struct err *e)
{
    *ret_ok = true;
    if (!cwd || !*cwd) {
        return NULL;
    }
    *ret_ok = false;
    const char *path = expand(env, cwd, e);
    if (!path) {
        return NULL;
    }
    struct stat st;
    if (stat(path, &st) < 0) {
        if (errno == ENOENT || errno == ENOTDIR) {
            err_set(e, ERR_INVALID, "working directory does not exist: %s: stat %s: %s", cwd, path,
                    strerror(errno));
        } else {
            err_set(e, ERR_INVALID, "cannot access working directory: %s: stat %s: %s", cwd, path,
                    strerror(errno));
        }
        return NULL;
    }
    if (!S_ISDIR(st.st_mode)) {
        err_set(e, ERR_INVALID, "working directory path is not a directory: %s", cwd);
        return NULL;
    }
    *ret_ok = true;
    return path;
}

const char *workdir_make(const struct env *env, const char *cwd, bool *ret_ok, struct err *e)
{
    *ret_ok = true;
    if (!cwd || !*cwd) {
        return NULL;
    }
    *ret_ok = false;
    const char *path = expand(env, cwd, e);
    if (!path) {
        return NULL;
    }
    int r = dir_make(AT_FDCWD, path, 0755);
    struct stat st;
    if (r == 0 && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode))) {
        r = -ENOTDIR;
    }
    if (r < 0) {
        err_sys(e, r, "mkdir %s", path);
        return NULL;
    }
    *ret_ok = true;
    return path;
}
