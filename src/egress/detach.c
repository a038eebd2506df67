/* Going into the background, with a pipe that leads from the first worker to whoever waits. */

#include "egress/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/must.h"
#include "base/num.h"

#define READY_ENV "OPENSANDBOX_EGRESS_READY_FD"

int detach(struct err *e)
{
    int pipe_fd[2];
    char c, number[16];
    ssize_t n;
    if (pipe2(pipe_fd, O_CLOEXEC) < 0) {
        return err_sys(e, errno, "pipe");
    }
    pid_t pid = fork();
    if (pid < 0) {
        return err_sys(e, errno, "fork");
    }
    if (pid > 0) {
        (void)close(pipe_fd[1]);
        do {
            n = read(pipe_fd[0], &c, 1);
        } while (n < 0 && errno == EINTR);
        _exit(n == 1 ? 0 : 1);
    }
    (void)close(pipe_fd[0]);
    (void)setsid(); /* cannot fail in a new process */
    (void)snprintf(number, sizeof(number), "%d", pipe_fd[1]);
    must(setenv(READY_ENV, number, 1) == 0);
    return 0;
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
