#pragma once
/* A directory of a test's own: its path in `top`, open as `top_fd`. For setup and teardown of a
 * test or of a group. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fd.h"

static char top[32];
static int top_fd = -1;

static inline int top_make(void **state)
{
    (void)snprintf(top, sizeof(top), "/tmp/osb-test-XXXXXX");
    top_fd = mkdtemp(top) ? open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return top_fd < 0 ? -1 : 0;
}

static inline int top_remove(void **state)
{
    (void)close(top_fd);
    return dir_remove(AT_FDCWD, top, true);
}
