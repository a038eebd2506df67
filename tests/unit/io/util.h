#pragma once
/* What the tests of this room share. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/must.h"
#include "base/rand.h"
#include "io/loop.h"
#include "io/stream.h"

#define WAIT_MS 60000 /* only a hang takes so long, also on a loaded machine */

static inline void turn_(struct io_loop *l)
{
    io_loop_turn(l, false);
    (void)usleep(200); /* paces the loop only; what is awaited is the condition */
}

/* Turns the loop until cond holds; a hang becomes a failure. */
#define TURN_UNTIL(loop, cond)                                                                     \
    do {                                                                                           \
        uint64_t end_ = clock_mono_ms() + WAIT_MS;                                                 \
        while (!(cond)) {                                                                          \
            if (clock_mono_ms() > end_) {                                                          \
                fail_msg("timed out waiting for %s", #cond);                                       \
            }                                                                                      \
            turn_(loop);                                                                           \
        }                                                                                          \
    } while (0)

static inline size_t n_open_fds(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");

    assert_non_null(d);
    while (readdir(d)) {
        n++;
    }
    (void)closedir(d);
    return n;
}

/* libuv keeps two descriptors for signals from the first loop on: open them before counting. */
static inline int first_loop(void **state)
{
    io_loop_free(io_loop_new());
    return 0;
}

static inline void socket_pair(int fd[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
}
