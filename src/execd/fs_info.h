#pragma once
/* What the protocol says about one file system entry. */

#include <sys/stat.h>

#include "base/err.h"
#include "execd/passwd.h"
#include "model/file.h"

/* Names of owners and groups, with the last ones found kept: listings ask for the same again. */
struct fs_names {
    struct passwd_db db;
    struct {
        bool has;
        uint32_t id;
        char text[64];
    } user, group;
};
void fs_names_load(struct fs_names *n);
void fs_names_done(struct fs_names *n);
static inline void fs_names_done_cleanup(struct fs_names *n)
{
    fs_names_done(n);
}

/* Fills *out; its strings are borrowed from `path` and, until the next call, from `n`. */
void fs_info_fill(struct file_info *out, const char *path, const struct stat *st,
                  struct fs_names *n);
/* The entry itself (a link, not what it points to). -1 with `e`. */
int fs_info_stat(const char *abs, struct stat *ret, struct err *e);
