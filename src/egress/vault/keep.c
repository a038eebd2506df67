/* The two-slot file in memory. */

#include "egress/vault/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "egress/vault/limits.h"

#define KEEP_MAGIC 0x4f53425641554c54u /* "OSBVAULT" */
#define KEEP_HEADER 4096u
#define KEEP_SIZE (KEEP_HEADER + 2u * VAULT_KEEP_SLOT)

#ifndef SECRETMEM_MAGIC
#define SECRETMEM_MAGIC 0x5345434d
#endif

struct header {
    uint64_t magic;          /* 0: fresh */
    _Atomic uint32_t active; /* 0: none; 1 or 2: that slot */
    uint32_t len[2];
    uint64_t sum[2];
};

struct vault_keep {
    char *p;
};

static struct header *header_of(const struct vault_keep *k)
{
    return (struct header *)(void *)k->p;
}

static char *slot_of(const struct vault_keep *k, uint32_t i)
{
    return k->p + KEEP_HEADER + (size_t)i * VAULT_KEEP_SLOT;
}

/* FNV-1a: against a torn write, not against an enemy, who could not write here. */
static uint64_t sum(const char *p, size_t n)
{
    uint64_t h = 14695981039346656037u;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ (uint8_t)p[i]) * 1099511628211u;
    }
    return h;
}

static char *map(int fd)
{
    char *p = mmap(NULL, KEEP_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* memfd_secret where kernel and limits allow: both show only when it is mapped. */
static int create_secret(void)
{
#ifdef SYS_memfd_secret
    cleanup_close int fd = (int)syscall(SYS_memfd_secret, O_CLOEXEC);
    if (fd < 0 || ftruncate(fd, KEEP_SIZE) < 0) {
        return -1;
    }
    char *p = map(fd);
    if (!p) {
        return -1;
    }
    must(munmap(p, KEEP_SIZE) == 0);
    return take_fd(&fd);
#else
    return -1;
#endif
}

int vault_keep_create(void)
{
    int secret = create_secret();
    if (secret >= 0) {
        return secret;
    }
    cleanup_close int fd = memfd_create("opensandbox-vault", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, KEEP_SIZE) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        return -errno;
    }
    return take_fd(&fd);
}

struct vault_keep *vault_keep_open(int fd, struct err *e)
{
    struct stat st;
    struct statfs fs;
    if (fstat(fd, &st) < 0 || fstatfs(fd, &fs) < 0) {
        (void)err_sys(e, errno, "%s", VAULT_KEEP_ENV);
        return NULL;
    }
    /* Never a file that somebody could find by a name. */
    bool nameless = fs.f_type == SECRETMEM_MAGIC || (fs.f_type == TMPFS_MAGIC && st.st_nlink == 0);
    if (st.st_size != KEEP_SIZE || !nameless) {
        (void)err_set(e, ERR_INVALID, "%s: descriptor %d is not a vault's memory", VAULT_KEEP_ENV,
                      fd);
        return NULL;
    }
    char *p = map(fd);
    if (!p) {
        (void)err_sys(e, errno, "%s: map", VAULT_KEEP_ENV);
        return NULL;
    }
    /* Pages that memfd_secret gave are locked by themselves and never in a core dump. */
    (void)mlock(p, KEEP_SIZE);
    (void)madvise(p, KEEP_SIZE, MADV_DONTDUMP);
    struct vault_keep *k = NEW(struct vault_keep);
    k->p = p;
    if (header_of(k)->magic != KEEP_MAGIC) {
        *header_of(k) = (struct header){.magic = KEEP_MAGIC};
    }
    return k;
}

void vault_keep_close(struct vault_keep *k)
{
    if (k) {
        must(munmap(k->p, KEEP_SIZE) == 0);
        free(k);
    }
}

int vault_keep_write(struct vault_keep *k, struct str s)
{
    struct header *h = header_of(k);
    uint32_t old = atomic_load(&h->active), next = old == 1 ? 2 : 1;

    if (s.n > VAULT_KEEP_SLOT) {
        return -EFBIG;
    }
    if (s.n) {
        memcpy(slot_of(k, next - 1), s.p, s.n);
    }
    h->len[next - 1] = (uint32_t)s.n;
    h->sum[next - 1] = sum(s.p, s.n);
    atomic_store(&h->active, s.n ? next : 0);
    if (old == 1 || old == 2) {
        explicit_bzero(slot_of(k, old - 1), h->len[old - 1]);
    }
    return 0;
}

struct str vault_keep_read(const struct vault_keep *k)
{
    const struct header *h = header_of(k);
    uint32_t active = atomic_load(&h->active);

    if (active != 1 && active != 2) {
        return STR_NULL;
    }
    uint32_t n = h->len[active - 1];
    const char *p = slot_of(k, active - 1);
    return n <= VAULT_KEEP_SLOT && sum(p, n) == h->sum[active - 1] ? str_n(p, n) : STR_NULL;
}
