/* Going into the background, with a pipe that leads from the first worker to whoever waits. */

#include "egress/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/must.h"
#include "base/num.h"
#include "io/child.h"

#define READY_ENV "OPENSANDBOX_EGRESS_READY_FD"

/* The first readiness, or the end of everybody who could tell. */
static bool wait_ready(int fd)
{
    char c;
    ssize_t n;
    do {
        n = read(fd, &c, 1);
    } while (n < 0 && errno == EINTR);
    return n == 1;
}

int detach(struct err *e)
{
    static const char *const argv[] = {"opensandbox-egress", "--supervise", NULL};
    int pipe_fd[2], error = 0;
    char number[16];
    if (pipe2(pipe_fd, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    (void)snprintf(number, sizeof(number), "%d", pipe_fd[1]);
    must(setenv(READY_ENV, number, 1) == 0);
    struct io_loop *loop = io_loop_new();
    const struct io_child_opts o = {
        .path = "/proc/self/exe",
        .argv = argv,
        .out = {IO_STDIO_FD, STDOUT_FILENO},
        .err = {IO_STDIO_FD, STDERR_FILENO},
        .new_session = true,
        .keep_fds = &pipe_fd[1],
        .n_keep_fds = 1,
    };
    struct io_child *c = io_child_spawn(loop, &o, NULL, NULL, &error);
    (void)close(pipe_fd[1]);
    if (!c) {
        return err_sys(e, error, "start the guard");
    }
    return wait_ready(pipe_fd[0]) ? 0 : err_set(e, ERR_IO, "the sidecar did not become ready");
}

int detach_fd(void)
{
    uint32_t fd;
    return parse_u32(str_from(getenv(READY_ENV)), &fd) < 0 || fd > 1024 ? -1 : (int)fd;
}

void detach_passed(void)
{
    int fd = detach_fd();
    if (fd >= 0) {
        (void)close(fd);
        (void)unsetenv(READY_ENV); /* cannot fail for a valid name */
    }
}

void detach_ready(void)
{
    int fd = detach_fd();
    if (fd >= 0) {
        (void)!write(fd, "r", 1); /* whoever waited may be gone */
        detach_passed();
    }
}
