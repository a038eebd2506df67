/* Disjoint id ranges for sandboxes, and the user namespaces that map them. */

#include "server/runtime/oci/idrange.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "server/runtime/oci/childstack.h"

int idrange_init(struct idrange *r, int64_t base, int64_t count, int64_t ranges, struct err *e)
{
    *r = (struct idrange){0};
    /* 2^32 - 1 means "no id" to the kernel. */
    if (base < 1 || count < 1 || ranges < 1 || base + count * ranges > INT64_C(4294967295)) {
        return err_set(e, ERR_INVALID,
                       "[oci].id_base + id_count * id_ranges must stay below 4294967295");
    }
    (void)pthread_mutex_init(&r->lock, NULL);
    r->base = (uint32_t)base;
    r->count = (uint32_t)count;
    r->n = (uint32_t)ranges;
    r->taken = xcalloc((r->n + 63) / 64, sizeof(uint64_t));
    return 0;
}

void idrange_done(struct idrange *r)
{
    if (r->taken) {
        free(r->taken);
        (void)pthread_mutex_destroy(&r->lock);
    }
    *r = (struct idrange){0};
}

static bool is_taken(const struct idrange *r, uint32_t i)
{
    return r->taken[i / 64] >> (i % 64) & 1;
}

int idrange_take(struct idrange *r)
{
    int found = -1;
    (void)pthread_mutex_lock(&r->lock);
    for (uint32_t k = 0; r->n_taken < r->n && k < r->n; k++) {
        uint32_t i = (r->next + k) % r->n;
        if (!is_taken(r, i)) {
            r->taken[i / 64] |= UINT64_C(1) << (i % 64);
            r->n_taken++;
            r->next = (i + 1) % r->n;
            found = (int)i;
            break;
        }
    }
    (void)pthread_mutex_unlock(&r->lock);
    return found;
}

bool idrange_reserve(struct idrange *r, uint32_t i)
{
    bool ok = false;
    (void)pthread_mutex_lock(&r->lock);
    if (i < r->n && !is_taken(r, i)) {
        r->taken[i / 64] |= UINT64_C(1) << (i % 64);
        r->n_taken++;
        ok = true;
    }
    (void)pthread_mutex_unlock(&r->lock);
    return ok;
}

void idrange_release(struct idrange *r, uint32_t i)
{
    (void)pthread_mutex_lock(&r->lock);
    if (i < r->n && is_taken(r, i)) {
        r->taken[i / 64] &= ~(UINT64_C(1) << (i % 64));
        r->n_taken--;
    }
    (void)pthread_mutex_unlock(&r->lock);
}

uint32_t idrange_first(const struct idrange *r, uint32_t i)
{
    return r->base + i * r->count;
}

/* Shares our memory, thread-local storage included, and waits for its death: no libc call that
 * could touch either. Should we die first, it follows. */
_Noreturn static int userns_holder(void *arg)
{
    pid_t parent = *(const pid_t *)arg;
    (void)syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    while (syscall(SYS_getppid) == parent) {
        (void)syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
    }
    (void)syscall(SYS_exit_group, 0);
    __builtin_unreachable();
}

static int map_write(pid_t pid, const char *file, uint32_t first, uint32_t count)
{
    char path[64], text[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
    (void)snprintf(text, sizeof(text), "0 %u %u", first, count);
    return file_write(AT_FDCWD, path, str_from(text));
}

#define HOLDER_STACK (32u << 10)

int userns_make(uint32_t first, uint32_t count, struct err *e)
{
    char *stack = childstack_make(HOLDER_STACK);
    if (!stack) {
        return err_sys(e, errno, "user namespace: stack");
    }
    pid_t self = getpid();
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* no handler of ours may run in the holder */
    pid_t pid =
        clone(userns_holder, stack + HOLDER_STACK, CLONE_NEWUSER | CLONE_VM | SIGCHLD, &self);
    int clone_errno = errno;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    int fd = -1, r = 0;
    if (pid > 0) {
        char path[64];
        r = map_write(pid, "uid_map", first, count);
        r = r < 0 ? r : map_write(pid, "gid_map", first, count);
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
        fd = r < 0 ? -1 : open(path, O_RDONLY | O_CLOEXEC);
        r = r < 0 ? r : fd < 0 ? -errno : 0;
        (void)kill(pid, SIGKILL);
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    childstack_free(stack, HOLDER_STACK);
    if (pid < 0) {
        return err_sys(e, clone_errno, "make a user namespace");
    }
    return r < 0 ? err_sys(e, r, "map ids %u..%u into a user namespace", first, first + count - 1)
                 : fd;
}
