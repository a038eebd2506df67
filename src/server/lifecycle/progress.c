/* What a create that fetches its image shows meanwhile: an event when it begins, and how far it is
 * in the status, in memory only. */

#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"

#define REASON "IMAGE_PULLING"

static void show(struct lifecycle *lc, struct sandbox *sb, const char *message)
{
    registry_write(&lc->reg);
    if (sb->state == SB_PENDING && !sb->removing) {
        sandbox_set_state(sb, SB_PENDING, REASON, message, sb->transition_us);
    }
    registry_unlock(&lc->reg);
}

static void begin(struct lifecycle *lc, struct sandbox *sb)
{
    struct err e = {0};
    char message[320];
    (void)snprintf(message, sizeof(message), "pulling image %.256s", sb->image ? sb->image : "");
    struct store_event ev = event_make(sb, &caller_runtime, "image_pull", REASON, message);
    if (store_event_add(lc->store, &ev, &e) < 0) {
        log_warn("cannot record an event", LOG_S("id", sb->id), LOG_ERR(&e));
    }
    show(lc, sb, message);
    event_publish(lc, &ev, sb);
}

void progress_report(struct lifecycle *lc, struct sandbox *sb, struct progress *p, const char *what,
                     uint64_t done, uint64_t total)
{
    char message[320];
    uint64_t now = clock_mono_ms();
    (void)pthread_mutex_lock(&p->lock);
    bool first = !p->what;
    bool due = first || strcmp(p->what, what) != 0 || now - p->shown_ms >= PROGRESS_INTERVAL_MS;
    if (due) {
        p->what = what;
        p->shown_ms = now;
    }
    (void)pthread_mutex_unlock(&p->lock);
    if (!due) {
        return;
    }
    if (first) {
        begin(lc, sb);
    }
    if (total) {
        (void)snprintf(message, sizeof(message), "image %.200s: %s, %llu of %llu bytes",
                       sb->image ? sb->image : "", what, (unsigned long long)done,
                       (unsigned long long)total);
    } else {
        (void)snprintf(message, sizeof(message), "image %.200s: %s", sb->image ? sb->image : "",
                       what);
    }
    show(lc, sb, message);
}
