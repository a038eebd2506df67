/* One operation at a time per sandbox. One mutex and one condition for all of them: waiting is rare
 * and short, so that a condition per sandbox would only cost memory. */

#include <errno.h>

#include "base/clock.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"

int op_begin(struct lifecycle *lc, struct sandbox *sb, enum sandbox_op op, uint64_t wait_ms)
{
    uint64_t deadline = clock_mono_ms() + wait_ms;
    struct timespec ts = {.tv_sec = (time_t)(deadline / 1000),
                          .tv_nsec = (long)(deadline % 1000) * 1000000};
    int r = 0;
    (void)pthread_mutex_lock(&lc->op_lock);
    while (sb->op != OP_NONE && r == 0) {
        if (clock_mono_ms() >= deadline) {
            r = -EBUSY;
        } else {
            (void)pthread_cond_timedwait(&lc->op_cond, &lc->op_lock, &ts);
        }
    }
    if (r == 0) {
        sb->op = op;
    }
    (void)pthread_mutex_unlock(&lc->op_lock);
    return r;
}

void op_end(struct lifecycle *lc, struct sandbox *sb)
{
    (void)pthread_mutex_lock(&lc->op_lock);
    must(sb->op != OP_NONE);
    sb->op = OP_NONE;
    (void)pthread_cond_broadcast(&lc->op_cond);
    (void)pthread_mutex_unlock(&lc->op_lock);
}
