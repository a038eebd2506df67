/* Making and entering network namespaces. */

#include "server/runtime/oci/netns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/str.h"
#include "server/runtime/oci/netlink.h"

/* Low ports and ping for everybody inside, instead of capabilities. No IPv6 but on loopback, until
 * a link is told to have it. */
static const struct {
    const char *path, *value;
    bool optional;
} settings[] = {
    {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0", false},
    {"/proc/sys/net/ipv4/ping_group_range", "0 2147483647", false},
    {"/proc/sys/net/ipv6/conf/default/disable_ipv6", "1", true},
};

static int self_ns_open(void)
{
    int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int settings_apply(struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
        int r = file_write(AT_FDCWD, settings[i].path, str_from(settings[i].value));
        if (r < 0 && !settings[i].optional) {
            return err_sys(e, r, "set %s in a new network namespace", settings[i].path);
        }
    }
    return 0;
}

/* On a thread that is inside. */
static int setup_inside(struct err *e)
{
    struct netlink nl = NETLINK_INIT;
    int r = netlink_open(&nl);
    r = r < 0 ? r : link_up(&nl, 1); /* loopback is always the first */
    netlink_close(&nl);
    if (r < 0) {
        return err_sys(e, r, "loopback in a new network namespace");
    }
    if (settings_apply(e) < 0) {
        return -1;
    }
    r = self_ns_open();
    return r < 0 ? err_sys(e, r, "open a new network namespace") : r;
}

int netns_make(struct err *e)
{
    cleanup_close int home = self_ns_open();
    if (home < 0) {
        return err_sys(e, home, "open /proc/thread-self/ns/net");
    }
    if (unshare(CLONE_NEWNET) < 0) {
        return err_sys(e, errno, "make a network namespace");
    }
    int fd = setup_inside(e);
    must(setns(home, CLONE_NEWNET) == 0); /* a thread lost in a sandbox's network must not go on */
    return fd;
}

int netns_run(int ns_fd, int (*fn)(void *arg), void *arg)
{
    cleanup_close int home = self_ns_open();
    if (home < 0) {
        return home;
    }
    if (setns(ns_fd, CLONE_NEWNET) < 0) {
        return -errno;
    }
    int r = fn(arg);
    must(setns(home, CLONE_NEWNET) == 0);
    return r;
}

int netns_of_pid(int pid, struct err *e)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? err_sys(e, errno, "open %s", path) : fd;
}
