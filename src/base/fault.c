/* See fault.h. The environment is read once; the counter is shared by all threads. */

#include "base/fault.h"

#ifdef OSB_FAULT_POINTS

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/num.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct str wanted;
static uint64_t wanted_n = 1;
static atomic_uint_fast64_t passed;

static void fault_init(void)
{
    struct str rest = str_from(getenv("OSB_FAULT"));
    wanted = str_cut(&rest, ':');
    if (rest.p && parse_u64(rest, &wanted_n) < 0) {
        wanted_n = 1;
    }
}

void fault_point(const char *name)
{
    (void)pthread_once(&once, fault_init);
    if (wanted.n && str_eq(wanted, str_from(name)) &&
        atomic_fetch_add(&passed, 1) + 1 == wanted_n) {
        (void)raise(SIGKILL);
    }
}

#endif
