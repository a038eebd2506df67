/* The engine's stream of events: one thread that listens, corrects the index, and tells the
 * lifecycle what happened behind its back. When the stream breaks everything is listed anew, so
 * that nothing of an outage is missed; until the engine is back nobody is told that anything is
 * lost. */

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

/* {"type":["container"],"event":["start","pause","unpause","die","destroy"]}. Not by label:
 * sandboxes and sidecars have different ones, and the engine takes two for "both". */
#define EVENT_FILTER                                                                               \
    "%7B%22type%22%3A%5B%22container%22%5D%2C%22event%22%3A%5B%22start%22%2C%22pause%22%2C"        \
    "%22unpause%22%2C%22die%22%2C%22destroy%22%5D%7D"
#define REPLAY_S 5 /* seconds before the list that are heard again: clocks are coarse */

static bool is_stopping(const struct docker *d)
{
    return __atomic_load_n(&d->stopping, __ATOMIC_RELAXED);
}

/* Asks the lifecycle to look again; it inspects, whatever made it. */
static void tell(struct docker *d, const char *id)
{
    if (d->rt.on_exit) {
        const struct runtime_status unknown = {.state = RT_MISSING};
        d->rt.on_exit(id, &unknown, d->rt.on_exit_arg);
    }
}

static bool state_of_action(const char *action, enum runtime_state *ret)
{
    static const struct {
        const char *action;
        enum runtime_state state;
    } rows[] = {{"start", RT_RUNNING},
                {"unpause", RT_RUNNING},
                {"pause", RT_PAUSED},
                {"die", RT_EXITED},
                {"destroy", RT_MISSING}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        if (strcmp(action, rows[i].action) == 0) {
            *ret = rows[i].state;
            return true;
        }
    }
    return false;
}

int events_line(struct str line, void *arg)
{
    struct docker *d = arg;
    struct err e = {0};
    cleanup_(json_free) struct json *j = json_parse(line, &e);
    const char *id = json_cstr(json_get(json_at(j, "Actor.Attributes"), LABEL_ID));
    const char *cid = json_cstr(json_at(j, "Actor.ID"));
    const char *action = json_cstr(json_get(j, "Action"));
    const char *sidecar_of = label_get(json_at(j, "Actor.Attributes"), LABEL_SIDECAR);
    enum runtime_state state;
    if (sidecar_of && action && strcmp(action, "die") == 0) {
        sidecar_lost(d, sidecar_of);
    }
    if (!id || !cid || !action || !state_of_action(action, &state)) {
        return 0;
    }
    bool news = false;
    (void)pthread_mutex_lock(&d->lock);
    struct container *c = map_get(&d->containers, str_from(id));
    if (c && strcmp(c->cid, cid) == 0) {
        /* What we do ourselves, and what a create at work notices by itself, is no news. */
        news = c->is_up && !c->is_leaving && c->state != state && c->expected != state;
        c->state = state;
        (void)pthread_cond_broadcast(&d->changed);
    }
    (void)pthread_mutex_unlock(&d->lock);
    if (news) {
        log_debug("the engine tells of a change", LOG_S("id", id), LOG_S("action", action));
        tell(d, id);
    }
    return 0;
}

struct stream {
    struct docker *d;
    struct engine_lines lines;
};

static int on_data(struct str data, void *arg)
{
    struct stream *s = arg;
    return engine_lines_add(&s->lines, data);
}

static bool stream_cancelled(void *arg)
{
    const struct stream *s = arg;
    return is_stopping(s->d);
}

/* ---- catching up ---- */

/* Ids that the index has and the list has not. */
static size_t missing_ids(struct docker *d, const struct map *listed, char (**ret)[SANDBOX_ID_MAX])
{
    size_t n = 0, it = 0;
    struct str key;
    void *value;
    (void)pthread_mutex_lock(&d->lock);
    *ret = xcalloc(map_len(&d->containers) + 1, sizeof(**ret));
    while (map_next(&d->containers, &it, &key, &value)) {
        struct container *c = value;
        if (!map_get(listed, key) && c->is_up && !c->is_leaving) {
            c->state = RT_MISSING;
            memcpy((*ret)[n++], c->id, SANDBOX_ID_MAX);
        }
    }
    (void)pthread_mutex_unlock(&d->lock);
    return n;
}

/* Everything as the engine has it now; the lifecycle looks at whatever differs. */
static int catch_up(struct docker *d, int64_t *ret_since, struct err *e)
{
    cleanup_(engine_answer_done) struct engine_answer a;
    struct map listed = {0};
    int64_t now = clock_wall_us() / 1000000;
    if (index_refresh(d, &a, e) < 0) {
        return -1;
    }
    *ret_since = (a.date_s ? a.date_s : now) - REPLAY_S;
    for (size_t i = 0; i < json_len(a.json); i++) {
        struct container c, old;
        if (!container_from_list(json_item(a.json, i), &c)) {
            continue;
        }
        (void)map_put(&listed, str_from(c.id), d);
        if (!index_get(d, c.id, &old) || strcmp(old.cid, c.cid) != 0) {
            continue; /* of another server, or a create at work */
        }
        index_put(d, &c);
        /* Also what has ended and is known to have: whoever was told could not ask the engine while
         * it was going down. */
        if (old.is_up && !old.is_leaving && (old.state != c.state || c.state != RT_RUNNING)) {
            tell(d, c.id);
        }
    }
    char(*gone)[SANDBOX_ID_MAX];
    size_t n = missing_ids(d, &listed, &gone);
    for (size_t i = 0; i < n; i++) {
        tell(d, gone[i]);
    }
    free(gone);
    map_done(&listed);
    return sidecars_check(d, e);
}

static int listen_once(struct docker *d, struct err *e)
{
    int64_t since = 0;
    if (catch_up(d, &since, e) < 0) {
        return -1;
    }
    if (__atomic_exchange_n(&d->is_away, false, __ATOMIC_RELAXED)) {
        log_info("the Docker engine is back");
    }
    char path[PATH_TEXT_MAX];
    (void)snprintf(path, sizeof(path), "/events?since=%lld&filters=%s", (long long)since,
                   EVENT_FILTER);
    struct stream s = {d, {.on_line = events_line, .arg = d}};
    struct engine_call c = {
        .path = path,
        .is_stream = true,
        .on_data = on_data,
        .cancelled = stream_cancelled,
        .arg = &s,
    };
    cleanup_(engine_answer_done) struct engine_answer a;
    int r = engine_do(&d->engine, &c, &a, e);
    buf_done(&s.lines.rest);
    return r < 0 ? -1 : engine_check(&a, "events", e);
}

static void *events_run(void *arg)
{
    struct docker *d = arg;
    uint64_t wait_ms = DOCKER_RECONNECT_MIN_MS;
    while (!is_stopping(d)) {
        struct err e = {0};
        uint64_t begin = clock_mono_ms();
        int r = listen_once(d, &e);
        if (is_stopping(d)) {
            break;
        }
        if (r < 0 && !__atomic_exchange_n(&d->is_away, true, __ATOMIC_RELAXED)) {
            log_warn("the Docker engine is away; sandboxes are kept as they are", LOG_ERR(&e));
        }
        bool lasted = clock_mono_ms() - begin > DOCKER_RECONNECT_MAX_MS;
        wait_ms = lasted ? DOCKER_RECONNECT_MIN_MS : MIN(wait_ms * 2, DOCKER_RECONNECT_MAX_MS);
        (void)pthread_mutex_lock(&d->lock);
        struct timespec until;
        (void)clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
        until.tv_sec += (time_t)(wait_ms / 1000) + until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        while (!is_stopping(d) && pthread_cond_timedwait(&d->changed, &d->lock, &until) == 0) {
        }
        (void)pthread_mutex_unlock(&d->lock);
    }
    return NULL;
}

int events_start(struct docker *d, struct err *e)
{
    int r = pthread_create(&d->events, NULL, events_run, d);
    if (r != 0) {
        return err_sys(e, r, "a thread for the engine's events");
    }
    d->has_events = true;
    return 0;
}

void events_stop(struct docker *d)
{
    __atomic_store_n(&d->stopping, true, __ATOMIC_RELAXED);
    (void)pthread_mutex_lock(&d->lock);
    (void)pthread_cond_broadcast(&d->changed);
    (void)pthread_mutex_unlock(&d->lock);
    if (d->has_events) {
        (void)pthread_join(d->events, NULL);
        d->has_events = false;
    }
}
