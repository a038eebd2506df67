#include "execd/fs_remove.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "execd/fs_path.h"

int fs_remove_file(const char *abs, struct err *e)
{
    const char *leaf;
    cleanup_close int dir = fs_open_parent(abs, &leaf);
    if (dir == -ENOENT) {
        return 0;
    }
    if (dir < 0) {
        return err_sys(e, dir, "%s", abs);
    }
    if (strcmp(leaf, ".") == 0) {
        return err_set(e, ERR_IO, "path is a directory: %s", abs);
    }
    if (unlinkat(dir, leaf, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno == EISDIR) {
        return err_set(e, ERR_IO, "path is a directory: %s", abs);
    }
    return err_sys(e, errno, "%s", abs);
}

int fs_remove_tree(const char *abs, struct err *e)
{
    const char *leaf;
    cleanup_close int dir = fs_open_parent(abs, &leaf);
    if (dir == -ENOENT || dir == -ENOTDIR) {
        return 0;
    }
    if (dir < 0) {
        return err_sys(e, dir, "%s", abs);
    }
    if (strcmp(leaf, ".") == 0) {
        return err_set(e, ERR_DENIED, "refusing to remove the root directory");
    }
    int r = dir_remove(dir, leaf, false);
    return r < 0 ? err_sys(e, r, "%s", abs) : 0;
}
