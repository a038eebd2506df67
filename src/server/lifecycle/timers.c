/* The expiry timer on the control loop, and what a jump of the wall clock does to it: nothing to
 * the waiting, which is monotonic; the recorded times move along with the clock, so that a restart
 * sees the same time left. */

#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"
#include "server/lifecycle/pool.h"

static int64_t clock_offset(void)
{
    return clock_wall_us() - (int64_t)clock_mono_us();
}

struct shift_job {
    struct lifecycle *lc;
    int64_t by_us;
};

static void shift_run(void *arg)
{
    struct shift_job *job = arg;
    struct lifecycle *lc = job->lc;
    struct err e = {0};
    (void)pthread_mutex_lock(&lc->meta_lock);
    if (store_sandbox_shift_expiry(lc->store, job->by_us, &e) < 0) {
        log_error("cannot move the recorded expiries with the clock", LOG_ERR(&e));
    } else {
        registry_write(&lc->reg);
        for (size_t i = 0; i < lc->reg.n; i++) {
            struct sandbox *sb = lc->reg.ordered[i];
            if (sb->expires_us) {
                sb->expires_us += job->by_us;
            }
        }
        registry_unlock(&lc->reg);
    }
    (void)pthread_mutex_unlock(&lc->meta_lock);
    free(job);
}

static void check_clock(struct lifecycle *lc)
{
    int64_t now = clock_offset(), by = now - lc->clock_offset_us;
    if (by > -CLOCK_JUMP_US && by < CLOCK_JUMP_US) {
        return;
    }
    lc->clock_offset_us = now;
    log_warn("the wall clock jumped; expiries keep their time left", LOG_I("by_ms", by / 1000));
    struct shift_job *job = NEW(struct shift_job);
    *job = (struct shift_job){lc, by};
    if (io_pool_submit(lc->maint, shift_run, job) < 0) {
        free(job);
    }
}

static void expiry_tick(struct io_timer *t)
{
    struct lifecycle *lc = container_of(t, struct lifecycle, expiry_timer);
    check_clock(lc);
    uint64_t now = clock_mono_ms();
    for (struct sandbox *sb; (sb = expiry_pop(&lc->expiry, now));) {
        remove_async(lc, sb);
        sandbox_unref(sb);
    }
    uint64_t next = expiry_next(&lc->expiry);
    uint64_t wait = next == EXPIRY_NEVER ? EXPIRY_TICK_MS : next > now ? next - now : 0;
    io_timer_start(t, MAX(MIN(wait, EXPIRY_TICK_MS), 1u));
}

static void expiry_arm_on_loop(void *arg)
{
    struct lifecycle *lc = arg;
    if (io_timer_armed(&lc->expiry_timer)) {
        expiry_tick(&lc->expiry_timer);
    }
}

void expiry_arm(struct lifecycle *lc)
{
    if (!__atomic_load_n(&lc->stopping, __ATOMIC_RELAXED)) {
        io_post(lc->loop, expiry_arm_on_loop, lc);
    }
}

void expiry_schedule(struct lifecycle *lc, struct sandbox *sb)
{
    registry_read(&lc->reg);
    int64_t expires = sb->expires_us;
    bool failed = sb->state == SB_FAILED && sb->answered;
    registry_unlock(&lc->reg);
    int64_t now = clock_wall_us();
    if (!expires && failed) {
        expires = now + (int64_t)FAILED_CREATE_KEEP_S * 1000000;
    }
    if (!expires) {
        expiry_remove(&lc->expiry, sb);
        return;
    }
    uint64_t left_ms = expires > now ? (uint64_t)(expires - now) / 1000 : 0;
    if (expiry_set(&lc->expiry, sb, clock_mono_ms() + left_ms)) {
        expiry_arm(lc);
    }
}

void lifecycle_start(struct lifecycle *lc)
{
    lc->clock_offset_us = clock_offset();
    io_timer_init(&lc->expiry_timer, lc->loop, expiry_tick);
    io_timer_init(&lc->sweep_timer, lc->loop, reconcile_tick);
    io_timer_start(&lc->expiry_timer, 1);
    pools_start(lc->pools);
    io_timer_start(&lc->sweep_timer, RECONCILE_INTERVAL_MS);
}

void lifecycle_stop(struct lifecycle *lc)
{
    __atomic_store_n(&lc->stopping, true, __ATOMIC_RELAXED);
    io_timer_stop(&lc->expiry_timer);
    io_timer_stop(&lc->sweep_timer);
}
