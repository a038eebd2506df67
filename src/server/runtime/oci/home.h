#pragma once
/* The directory of one sandbox with everything that can be in it before it is known whose it will
 * be: the files that execd writes to, and the writable layer. Made ahead of time and renamed when
 * it is needed, since making files is what takes time. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define HOME_DISK "disk.img" /* the writable layer when its size is limited */
#define HOME_RW "rw"         /* its directory when not */
#define HOME_EXECD_LOG "execd.log"
#define HOME_LIFE "life.jsonl"
#define HOME_FROZEN "frozen" /* there while a snapshot holds its processes still */
#define HOME_LOG_0 "log.0"
#define HOME_LOG_1 "log.1"

struct home {
    int dir_fd;
    int rw_fd;    /* directory with `upper` and `work` */
    bool mounted; /* it is the root of a detached mount, with the limited size */
};

#define HOME_NONE ((struct home){.dir_fd = -1, .rw_fd = -1})

/* Makes the directory `name` below at_fd. disk_bytes 0: no limit; see disk.h for templates_fd. On
 * failure what was made may be left; whoever owns at_fd's entries removes it. */
int home_make(int at_fd, const char *name, uint64_t disk_bytes, int templates_fd, struct home *ret,
              struct err *e);
void home_close(struct home *h);
