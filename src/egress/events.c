/* A ring of the latest refusals. Repetitions of the same one become a count, so that a sandbox
 * cannot push the interesting ones out by knocking at one door, nor fill the log.
 *
 * Every one of the ring reaches the log: at once, or, when it repeats or there are too many lines
 * in this second, in a later one. Only what is pushed out of the ring before that is a mere number.
 */

#include "egress/events.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "egress/limits.h"
#include "io/timer.h"
#include "json/json.h"

#define TARGET_MAX 256
#define DETAIL_MAX 96

struct event {
    const char *kind;
    char target[TARGET_MAX], detail[DETAIL_MAX];
    int64_t first_us, last_us;
    uint64_t line_ms; /* when it was logged last; 0: never */
    uint64_t count, logged;
};

struct events {
    struct io_loop *loop;
    const char *sandbox_id;
    void (*on_name)(struct str name, void *arg);
    void *on_name_arg;
    struct event *ring; /* allocated with the first refusal */
    size_t next, n;
    uint64_t total, packets, names, second;
    uint64_t unlogged; /* pushed out before they were */
    unsigned lines;
    struct io_timer later;
};

static void on_later(struct io_timer *t);

struct events *events_new(struct io_loop *l, const char *sandbox_id)
{
    struct events *v = NEW(struct events);
    v->loop = l;
    v->sandbox_id = sandbox_id;
    io_timer_init(&v->later, l, on_later);
    return v;
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

uint64_t events_names(const struct events *v)
{
    return v->names;
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

static bool may_write(struct events *v)
{
    uint64_t second = io_now_ms(v->loop) / 1000;
    if (second != v->second) {
        v->second = second;
        v->lines = 0;
    }
    return v->lines < EGRESS_EVENT_LINES;
}

static void write_line(struct events *v, struct event *ev)
{
    v->lines++;
    log_warn("refused", LOG_S("opensandbox.event", "egress.denied"), LOG_S("kind", ev->kind),
             LOG_S("target.host", ev->target), LOG_S("detail", ev->detail),
             LOG_S("sandbox_id", v->sandbox_id), LOG_I("count", ev->count));
    ev->logged = ev->count;
    ev->line_ms = io_now_ms(v->loop);
}

static bool is_due(const struct events *v, const struct event *ev)
{
    return !ev->logged || io_now_ms(v->loop) - ev->line_ms >= EGRESS_EVENT_REPEAT_MS;
}

/* Oldest first, as far as lines are left in this second; `all` at the end. */
static bool write_waiting(struct events *v, bool all)
{
    bool waiting = false;
    for (size_t i = 0; i < v->n; i++) {
        struct event *ev = &v->ring[(v->next + EGRESS_MAX_EVENTS - v->n + i) % EGRESS_MAX_EVENTS];
        if (ev->count == ev->logged) {
            continue;
        }
        if (all || (is_due(v, ev) && may_write(v))) {
            write_line(v, ev);
        } else {
            waiting = true;
        }
    }
    if (v->unlogged) {
        log_warn("more was refused than is listed", LOG_I("count", v->unlogged),
                 LOG_S("sandbox_id", v->sandbox_id));
        v->unlogged = 0;
    }
    return waiting;
}

static void on_later(struct io_timer *t)
{
    struct events *v = container_of(t, struct events, later);
    if (write_waiting(v, false)) {
        io_timer_start(&v->later, EGRESS_EVENT_REPEAT_MS);
    }
}

static void write_later(struct events *v)
{
    if (!io_timer_armed(&v->later)) {
        io_timer_start(&v->later, EGRESS_EVENT_REPEAT_MS);
    }
}

void events_free(struct events *v)
{
    if (v) {
        io_timer_stop(&v->later);
        (void)write_waiting(v, true);
        free(v->ring);
        free(v);
    }
}

void events_untold(struct events *v, uint64_t n_packets)
{
    v->total += n_packets;
    v->packets += n_packets;
    v->unlogged += n_packets;
    write_later(v);
}

static struct event *event_new(struct events *v, const char *kind, struct str target)
{
    if (!v->ring) {
        v->ring = xcalloc(EGRESS_MAX_EVENTS, sizeof(*v->ring));
    }
    struct event *ev = &v->ring[v->next];
    if (v->n == EGRESS_MAX_EVENTS) {
        v->unlogged += ev->count - ev->logged;
    }
    v->next = (v->next + 1) % EGRESS_MAX_EVENTS;
    v->n = MIN(v->n + 1, (size_t)EGRESS_MAX_EVENTS);
    *ev = (struct event){.kind = kind, .first_us = clock_wall_us()};
    cut(target, ev->target, sizeof(ev->target));
    return ev;
}

void events_refused(struct events *v, const char *kind, struct str target, struct str detail)
{
    char text[TARGET_MAX];
    cut(target, text, sizeof(text));
    struct event *ev = find(v, kind, text);
    ev = ev ? ev : event_new(v, kind, target);
    cut(detail, ev->detail, sizeof(ev->detail));
    v->total++;
    v->packets += strcmp(kind, "packet") == 0 || strcmp(kind, "invalid") == 0;
    ev->count++;
    ev->last_us = clock_wall_us();
    if (is_due(v, ev) && may_write(v)) {
        write_line(v, ev);
    } else {
        write_later(v);
    }
    v->names += strcmp(kind, "name") == 0;
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
    json_key(&o, "packets");
    json_put_int(&o, (int64_t)v->packets);
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
