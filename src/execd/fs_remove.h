#pragma once
/* Removing files and trees. Blocking: for workers. */

#include "base/err.h"

/* A file, link or special file. Missing is success; a directory is an error. */
int fs_remove_file(const char *abs, struct err *e);
/* A whole tree, or a single file. Missing is success; "/" is refused. */
int fs_remove_tree(const char *abs, struct err *e);
