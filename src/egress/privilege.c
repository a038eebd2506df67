/* Dropping privileges. */

#include "egress/privilege.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEPT (1u << CAP_NET_ADMIN | 1u << CAP_IPC_LOCK)

static int caps_keep(uint32_t mask)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {0};
    if (syscall(SYS_capget, &head, data) < 0) {
        return -errno;
    }
    data[0].permitted &= mask;
    data[0].effective = data[0].permitted;
    data[1].permitted = data[1].effective = 0;
    data[0].inheritable = data[1].inheritable = 0;
    return syscall(SYS_capset, &head, data) < 0 ? -errno : 0;
}

static int become(uint32_t uid, uint32_t gid)
{
    if (setgroups(0, NULL) < 0 || prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 ||
        setresgid(gid, gid, gid) < 0 || setresuid(uid, uid, uid) < 0) {
        return -errno;
    }
    return caps_keep(KEPT);
}

int privilege_drop(const struct egress_config *c, struct err *e)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    int r = c->uid ? become(c->uid, c->gid) : 0;
    if (r < 0) {
        return err_sys(e, r, "become user %u", c->uid);
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0) {
        return err_sys(e, errno, "give up privileges");
    }
    return 0;
}
