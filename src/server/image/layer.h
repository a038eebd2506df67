#pragma once
/* Layers between archives and directories. The work is done by opensandbox-layer, one process for
 * each, so that a layer made to break its reader breaks nothing but that. Blocking. */

#include <stdbool.h>

#include "base/err.h"
#include "server/layer/result.h"

struct layer_job {
    const char *program;          /* path of opensandbox-layer */
    int archive_fd;               /* read from, or written at, its current position */
    int root_fd;                  /* a directory: empty, or the layer to pack */
    bool plain;                   /* unpack: whiteout names are ordinary files */
    bool (*cancelled)(void *arg); /* asked now and then: true ends it with ECANCELED; or NULL */
    void *arg;
};

/* After a failure what was unpacked so far is the caller's to remove. */
int layer_job_unpack(const struct layer_job *j, struct layer_result *ret, struct err *e);
int layer_job_pack(const struct layer_job *j, struct layer_result *ret, struct err *e);

/* Where opensandbox-layer is: beside this program, or in libexec. Heap. */
char *layer_program_find(void);
