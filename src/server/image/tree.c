/* Sizes of directories. */

#include "server/image/tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "server/image/limits.h"

static uint64_t dir_bytes(int dir_fd, unsigned depth)
{
    uint64_t sum = 0;
    int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_closedir DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *ent;
    while (d && (ent = readdir(d))) {
        struct stat st;
        if (!strcmp(ent->d_name, ".") || !strcmp(ent->d_name, "..") ||
            fstatat(dir_fd, ent->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        if (S_ISREG(st.st_mode)) {
            sum += (uint64_t)st.st_size / (st.st_nlink ? st.st_nlink : 1);
        } else if (S_ISDIR(st.st_mode) && depth < IMAGE_MAX_DEPTH) {
            cleanup_close int sub =
                openat(dir_fd, ent->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
            sum += sub < 0 ? 0 : dir_bytes(sub, depth + 1);
        }
    }
    return sum;
}

uint64_t tree_bytes(int root_fd)
{
    return dir_bytes(root_fd, 0);
}
