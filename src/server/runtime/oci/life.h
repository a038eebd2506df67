#pragma once
/* The life file of a sandbox: JSON lines that execd appends to a descriptor it inherited. It says
 * that execd listens, and how the entrypoint ended; and since it is a file, it says so to a server
 * that was not running at that moment. Nothing in it is trusted beyond its own sandbox. */

#include <stdbool.h>

#include "base/str.h"

struct life {
    bool is_ready;
    bool has_exit;
    int exit_code, signal; /* signal 0: none */
    bool oom;
    bool has_failed; /* the entrypoint could not be started */
    char error[200];
};

/* Pure. Lines that are not understood are skipped. */
void life_parse(struct str text, struct life *ret);
int life_read(int dir_fd, struct life *ret); /* 0 or -errno */
