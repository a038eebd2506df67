/* The one place every state change and every action on a sandbox passes: the record and its event
 * go to the store in one transaction, then memory follows, then whoever listens is told. */

#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "server/lifecycle/internal.h"
#include "server/lifecycle/pool.h"

const struct caller caller_expiry = {.actor = "expiry"};
const struct caller caller_reconcile = {.actor = "reconcile"};
const struct caller caller_runtime = {.actor = "runtime"};

void lifecycle_listen(struct lifecycle *lc, lifecycle_listener *fn, void *arg)
{
    must(lc->n_listeners < LIFECYCLE_LISTENERS_MAX);
    lc->listeners[lc->n_listeners].fn = fn;
    lc->listeners[lc->n_listeners].arg = arg;
    lc->n_listeners++;
}

struct store_event event_make(const struct sandbox *sb, const struct caller *c, const char *type,
                              const char *reason, const char *message)
{
    return (struct store_event){
        .at_us = clock_wall_us(),
        .sandbox_id = sb->id,
        .owner = sb->owner,
        .type = type,
        .actor = c->actor,
        .request_id = c->request_id,
        .reason = reason,
        .message = message,
    };
}

void event_publish(struct lifecycle *lc, const struct store_event *ev, const struct sandbox *sb)
{
    log_info("sandbox event", LOG_S("id", ev->sandbox_id), LOG_S("type", ev->type),
             LOG_S("actor", ev->actor), LOG_S("reason", ev->reason), LOG_S("message", ev->message));
    if (sb->is_member) {
        pool_on_event(lc, ev->type, sb);
    }
    for (size_t i = 0; i < lc->n_listeners; i++) {
        lc->listeners[i].fn(ev, sb, lc->listeners[i].arg);
    }
}

enum sandbox_state state_of(struct lifecycle *lc, const struct sandbox *sb)
{
    registry_read(&lc->reg);
    enum sandbox_state s = sb->state;
    registry_unlock(&lc->reg);
    return s;
}

int change_state(struct lifecycle *lc, struct sandbox *sb, const struct caller *c,
                 enum sandbox_state to, const char *type, const char *reason, const char *message,
                 struct err *e)
{
    struct store_event ev = event_make(sb, c, type, reason, message);
    if (store_sandbox_set_state(lc->store, sb->id, sandbox_state_name(to), reason, message,
                                ev.at_us, &ev, e) < 0) {
        return -1;
    }
    registry_write(&lc->reg);
    sandbox_set_state(sb, to, reason, message, ev.at_us);
    registry_unlock(&lc->reg);
    event_publish(lc, &ev, sb);
    return 0;
}
