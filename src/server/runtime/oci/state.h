#pragma once
/* What the runtime knows of one sandbox, on disk: state.json in its directory. Replaced as a whole
 * at each step, so that whoever starts next finds out what to take charge of and what to take down.
 * It need not survive a crash of the machine, since no sandbox does; so it is not synced. */

#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "server/runtime/runtime.h"
#include "json/field.h"

struct sandbox_state {
    const char *id;
    const char *phase;   /* creating, running, exited, removing */
    const char *boot_id; /* of the machine's run it belongs to */
    const char *engine, *image, *hostname;
    struct str_list entrypoint;
    struct str_list layers;  /* ids in the image store, for it to know what is in use */
    struct str_list volumes; /* directories of volume.h that it may hold */
    struct str_map labels;
    struct opt_bool standby;       /* its entrypoint is not known yet */
    struct opt_bool egress;        /* behind a gateway */
    struct opt_int pid, pid_start; /* of its first process; start time in clock ticks */
    struct opt_int id_range, ip;
    const char *link;
    struct opt_int cpu_millis, memory_bytes, pids, disk_bytes;
    struct opt_int created_us, started_us, finished_us;
    const char *exit_kind; /* code, signal, oom, unknown */
    struct opt_int exit_code;
    const char *detail;
};

#define STATE_FILE "state.json"

int state_write(int dir_fd, const struct sandbox_state *s, struct err *e);
/* ERR_NOT_FOUND without a file, ERR_INVALID when it is damaged. */
int state_read(int dir_fd, struct arena *a, struct sandbox_state *ret, struct err *e);
/* This run of the machine. */
const char *state_boot_id(void);
/* When the process started, in clock ticks since boot: with the pid it names one process. 0: gone.
 */
uint64_t state_pid_start(int pid);
const char *exit_kind_name(enum runtime_exit x);
enum runtime_exit exit_kind_parse(const char *name);
