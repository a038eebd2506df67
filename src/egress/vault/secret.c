/* Locked memory for secrets. */

#include "egress/vault/secret.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"
#include "base/must.h"

struct secret_block {
    char *p;
    size_t len, cap; /* cap: whole pages */
    bool is_locked;
};

struct secret_block *secret_block_new(size_t n)
{
    struct secret_block *b = NEW(struct secret_block);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    b->cap = (n / page + 1) * page;
    b->p = mmap(NULL, b->cap, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(b->p != MAP_FAILED);
    b->is_locked = mlock(b->p, b->cap) == 0;
    /* Both only fail for addresses that are not ours. */
    must(madvise(b->p, b->cap, MADV_DONTDUMP) == 0);
    must(madvise(b->p, b->cap, MADV_DONTFORK) == 0);
    return b;
}

void secret_block_free(struct secret_block *b)
{
    if (b) {
        explicit_bzero(b->p, b->cap);
        must(munmap(b->p, b->cap) == 0);
        free(b);
    }
}

struct str secret_block_add(struct secret_block *b, struct str s)
{
    must(s.n < b->cap - b->len);
    char *at = b->p + b->len;
    if (s.n) {
        memcpy(at, s.p, s.n);
    }
    at[s.n] = 0;
    b->len += s.n + 1;
    return str_n(at, s.n);
}

bool secret_block_is_locked(const struct secret_block *b)
{
    return b->is_locked;
}

void secret_wipe(struct str s)
{
    if (s.n) {
        explicit_bzero((void *)(uintptr_t)s.p, s.n);
    }
}

void secret_harden_process(void)
{
    const struct rlimit none = {0, 0};
    struct rlimit lock;

    if (prctl(PR_SET_DUMPABLE, 0) < 0 || setrlimit(RLIMIT_CORE, &none) < 0) {
        log_warn("core dumps cannot be switched off", LOG_S("reason", strerror(errno)));
    }
    /* With a limit, locking what is allocated later would make allocations fail. */
    if (getrlimit(RLIMIT_MEMLOCK, &lock) == 0 && lock.rlim_cur == RLIM_INFINITY &&
        mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) < 0) {
        log_debug("memory is locked for secrets only", LOG_S("reason", strerror(errno)));
    }
}
