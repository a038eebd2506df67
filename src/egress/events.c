/* A ring of the latest refusals. Repetitions of the same one become a count, so that a sandbox
 * cannot push the interesting ones out by knocking at one door, nor fill the log. */

#include "egress/events.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "egress/limits.h"
#include "json/json.h"

#define TARGET_MAX 256
#define DETAIL_MAX 96
#define REPEAT_MS 1000
#define LINES_PER_SECOND 50u

struct event {
    const char *kind;
    char target[TARGET_MAX], detail[DETAIL_MAX];
    int64_t first_us, last_us;
    uint64_t count;
};

struct events {
    struct io_loop *loop;
    const char *sandbox_id;
    void (*on_name)(struct str name, void *arg);
    void *on_name_arg;
    struct event *ring; /* allocated with the first refusal */
    size_t next, n;
    uint64_t total, second;
    unsigned lines, suppressed;
};

struct events *events_new(struct io_loop *l, const char *sandbox_id)
{
    struct events *v = NEW(struct events);
    v->loop = l;
    v->sandbox_id = sandbox_id;
    return v;
}

void events_free(struct events *v)
{
    if (v) {
        free(v->ring);
        free(v);
    }
}

void events_on_name(struct events *v, void (*fn)(struct str name, void *arg), void *arg)
{
    v->on_name = fn;
    v->on_name_arg = arg;
}

uint64_t events_count(const struct events *v)
{
    return v->total;
}

static void cut(struct str s, char *out, size_t size)
{
    size_t n = MIN(s.n, size - 1);
    if (n) {
        memcpy(out, s.p, n);
    }
    out[n] = 0;
}

static struct event *find(struct events *v, const char *kind, const char *target)
{
    for (size_t i = 0; i < v->n; i++) {
        struct event *ev = &v->ring[i];
        if (strcmp(ev->kind, kind) == 0 && strcmp(ev->target, target) == 0) {
            return ev;
        }
    }
    return NULL;
}

static void write_line(struct events *v, const struct event *ev)
{
    uint64_t second = io_now_ms(v->loop) / 1000;
    if (second != v->second) {
        if (v->suppressed) {
            log_warn("more was refused than is logged", LOG_I("lines", v->suppressed));
        }
        v->second = second;
        v->lines = v->suppressed = 0;
    }
    if (++v->lines > LINES_PER_SECOND) {
        v->suppressed++;
        return;
    }
    log_warn("refused", LOG_S("opensandbox.event", "egress.denied"), LOG_S("kind", ev->kind),
             LOG_S("target.host", ev->target), LOG_S("detail", ev->detail),
             LOG_S("sandbox_id", v->sandbox_id), LOG_I("count", ev->count));
}

void events_refused(struct events *v, const char *kind, struct str target, struct str detail)
{
    char text[TARGET_MAX];
    int64_t now = clock_wall_us();
    v->total++;
    cut(target, text, sizeof(text));
    if (!v->ring) {
        v->ring = xcalloc(EGRESS_MAX_EVENTS, sizeof(*v->ring));
    }
    struct event *ev = find(v, kind, text);
    bool again = ev && now - ev->last_us < REPEAT_MS * 1000;
    if (!ev) {
        ev = &v->ring[v->next];
        v->next = (v->next + 1) % EGRESS_MAX_EVENTS;
        v->n = MIN(v->n + 1, (size_t)EGRESS_MAX_EVENTS);
        *ev = (struct event){.kind = kind, .first_us = now};
        cut(target, ev->target, sizeof(ev->target));
    }
    cut(detail, ev->detail, sizeof(ev->detail));
    ev->count++;
    ev->last_us = again ? ev->last_us : now;
    if (!again) {
        write_line(v, ev);
    }
    if (v->on_name && strcmp(kind, "name") == 0) {
        v->on_name(str_from(text), v->on_name_arg);
    }
}

void events_format(const struct events *v, struct buf *out)
{
    struct json_out o;
    char when[RFC3339_MAX];
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "total");
    json_put_int(&o, (int64_t)v->total);
    json_key(&o, "events");
    json_arr_begin(&o);
    for (size_t i = 0; i < v->n; i++) {
        const struct event *ev =
            &v->ring[(v->next + EGRESS_MAX_EVENTS - 1 - i) % EGRESS_MAX_EVENTS];
        json_obj_begin(&o);
        json_key(&o, "kind");
        json_put_cstr(&o, ev->kind);
        json_key(&o, "target");
        json_put_cstr(&o, ev->target);
        if (ev->detail[0]) {
            json_key(&o, "detail");
            json_put_cstr(&o, ev->detail);
        }
        json_key(&o, "count");
        json_put_int(&o, (int64_t)ev->count);
        json_key(&o, "firstSeen");
        rfc3339_format(ev->first_us, 3, when);
        json_put_cstr(&o, when);
        json_key(&o, "lastSeen");
        rfc3339_format(ev->last_us, 3, when);
        json_put_cstr(&o, when);
        json_obj_end(&o);
    }
    json_arr_end(&o);
    json_obj_end(&o);
}
