/* Giving memory back. Pages that came in since the last time are seen as page faults: a process
 * that idles has none, and nothing is done. */

#include "egress/slim.h"

#include <link.h>
#include <malloc.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/must.h"
#include "egress/egress.h"
#include "egress/enforcer.h"
#include "egress/limits.h"

/* Only segments that nobody can have written to: their pages are those of the file. */
static int drop_object(struct dl_phdr_info *info, size_t size, void *arg)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_LOAD || (p->p_flags & PF_W)) {
            continue;
        }
        uintptr_t from = (info->dlpi_addr + p->p_vaddr + page - 1) & ~(page - 1);
        uintptr_t to = (info->dlpi_addr + p->p_vaddr + p->p_memsz) & ~(page - 1);
        if (to > from) {
            /* All memory may be locked for the secrets in it; these pages hold none. Where either
             * call is refused the pages stay, which costs memory and nothing else. */
            (void)munlock((void *)from, to - from);
            (void)madvise((void *)from, to - from, MADV_DONTNEED);
        }
    }
    return 0;
}

static long page_faults(void)
{
    struct rusage u;
    return getrusage(RUSAGE_SELF, &u) == 0 ? u.ru_minflt : 0;
}

static void on_timer(struct io_timer *t)
{
    struct slim *s = container_of(t, struct slim, timer);
    if (page_faults() - s->faults > EGRESS_SLIM_FAULTS) {
        if (s->g) {
            enforcer_rest(s->g->enforcer);
        }
        (void)malloc_trim(0);
        (void)dl_iterate_phdr(drop_object, NULL);
        s->faults = page_faults();
    }
    io_timer_start(t, EGRESS_SLIM_MS);
}

void slim_start(struct slim *s, struct io_loop *l, struct egress *g)
{
    *s = (struct slim){.g = g};
    io_timer_init(&s->timer, l, on_timer);
    io_timer_start(&s->timer, EGRESS_SLIM_FIRST_MS);
}

void slim_stop(struct slim *s)
{
    io_timer_stop(&s->timer);
}
