/* Waiting for what runs inside a container to answer. */

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

#define PING_TIMEOUT_MS 2000
#define PING_FIRST_MS 2u /* between tries, doubled up to the next */
#define PING_LAST_MS 100u
#define LOOK_MS 2000u /* how often the engine is asked whether it still runs */

int ping(const char *url, const char *header)
{
    struct fetch *f = fetch_new();
    struct fetch_opts o = {
        .url = url,
        .no_proxy = true,
        .headers = {header},
        .connect_timeout_ms = PING_TIMEOUT_MS,
        .total_timeout_ms = PING_TIMEOUT_MS,
    };
    struct fetch_resp resp;
    struct err ignored = {0};
    int r = fetch_do(f, &o, &resp, &ignored);
    bool ok = r == 0 && resp.status >= 200 && resp.status < 300;
    fetch_resp_done(&resp);
    fetch_free(f);
    return ok ? 0 : -EAGAIN;
}

static void ping_url(const struct docker *d, const struct container *c, char out[PATH_TEXT_MAX])
{
    if (c->is_host_net) {
        (void)snprintf(out, PATH_TEXT_MAX, "http://%s:%d/ping",
                       d->engine.host ? d->engine.host : "127.0.0.1", EXECD_PORT);
    } else if (d->engine.host && c->execd_port) {
        (void)snprintf(out, PATH_TEXT_MAX, "http://%s:%u/ping", d->engine.host, c->execd_port);
    } else {
        bool v6 = strchr(c->ip, ':');
        (void)snprintf(out, PATH_TEXT_MAX, "http://%s%s%s:%d/ping", v6 ? "[" : "", c->ip,
                       v6 ? "]" : "", EXECD_PORT);
    }
}

/* The state by the engine's events, for at most wait_ms; asked for when those are silent. */
static enum runtime_state watch_state(struct docker *d, const char *id, uint64_t wait_ms)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)wait_ms * 1000000;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    enum runtime_state state = RT_MISSING;
    (void)pthread_mutex_lock(&d->lock);
    for (;;) {
        const struct container *c = map_get(&d->containers, str_from(id));
        state = c ? c->state : RT_MISSING;
        if (state != RT_RUNNING || pthread_cond_timedwait(&d->changed, &d->lock, &until) != 0) {
            break;
        }
    }
    (void)pthread_mutex_unlock(&d->lock);
    return state;
}

static enum runtime_state ask_state(struct docker *d, const struct container *c)
{
    cleanup_(engine_answer_done) struct engine_answer a = {0};
    struct runtime_status st = {.state = RT_RUNNING};
    struct err e = {0};
    if (container_inspect(d, c->cid, &a, &e) == 0) {
        status_from_inspect(a.json, &st);
    } else if (e.code == ERR_NOT_FOUND) {
        st.state = RT_MISSING;
    }
    return st.state;
}

/* The last words of what did not come up. */
static int explain(struct docker *d, const struct container *c, enum err_code code,
                   const char *what, struct err *e)
{
    cleanup_(buf_done) struct buf words = BUF_INIT(DOCKER_LOGS_MAX);
    struct err ignored = {0};
    (void)container_logs(d, c->cid, 3, 0, &words, &ignored);
    struct str text = str_trim(buf_str(&words));
    text = text.n > 300 ? str_sub(text, text.n - 300, text.n) : text;
    if (str_find_str(text, STR("exec format error")) >= 0) {
        return err_set(e, ERR_INVALID,
                       "the image is for another architecture than the engine's machine, which is "
                       "%s: %.*s",
                       d->arch, STR_FMT(text));
    }
    return err_set(e, code, "%s%s%.*s", what, text.n ? ": " : "", STR_FMT(text));
}

/* execd's own word that it listens. */
static bool has_spoken(struct docker *d, const struct container *c)
{
    cleanup_(buf_done) struct buf words = BUF_INIT(DOCKER_LOGS_MAX);
    struct err ignored = {0};
    return container_logs(d, c->cid, 50, 0, &words, &ignored) == 0 &&
           str_find_str(buf_str(&words), STR("\"listening\"")) >= 0;
}

int ping_execd(struct docker *d, const struct container *c, struct err *e)
{
    char url[PATH_TEXT_MAX];
    ping_url(d, c, url);
    uint64_t begin = clock_mono_ms(), asked = begin, wait = PING_FIRST_MS;
    uint64_t deadline = begin + (uint64_t)d->dc->start_timeout_seconds * 1000;
    for (;;) {
        /* On the machine's own network anybody may answer on that port. */
        if (ping(url, NULL) == 0 && (!c->is_host_net || has_spoken(d, c))) {
            return 0;
        }
        enum runtime_state state = watch_state(d, c->id, wait);
        uint64_t now = clock_mono_ms();
        if (state == RT_RUNNING && now - asked > LOOK_MS) {
            state = ask_state(d, c);
            asked = now;
        }
        if (state == RT_EXITED && has_spoken(d, c)) {
            return 0; /* it came up; its entrypoint was quick */
        }
        if (state == RT_EXITED || state == RT_MISSING) {
            return explain(d, c, ERR_IO, "the sandbox ended before it answered", e);
        }
        if (now >= deadline) {
            return explain(d, c, ERR_TIMEOUT, "the sandbox did not answer in time", e);
        }
        wait = MIN(wait * 2, PING_LAST_MS);
    }
}
