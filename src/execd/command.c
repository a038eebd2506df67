/* The table of commands. */

#include "execd/command.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/must.h"
#include "base/utf8.h"
#include "execd/limits.h"
#include "execd/telemetry.h"

static void command_free(struct command *c)
{
    struct command_table *t = c->x->commands;
    (void)map_del(&t->by_id, str_from(c->id));
    list_del(&c->node);
    job_detach(c->job);
    cmd_log_free(c->log);
    free(c->content);
    free(c->error);
    free(c);
}

static off_t log_bytes(const struct command *c)
{
    return c->log ? cmd_log_end(c->log) - cmd_log_start(c->log) : 0;
}

static void forget_log(struct command_table *t, struct command *c)
{
    if (c->log) {
        t->n_logs--;
        t->log_bytes -= MIN(t->log_bytes, (uint64_t)log_bytes(c));
        job_detach(take_ptr(&c->job)); /* a survivor may still write; nobody will read it */
        cmd_log_free(take_ptr(&c->log));
    }
}

static void forget_oldest_logs(struct command_table *t)
{
    list_each (it, &t->finished) {
        if (t->n_logs <= EXECD_MAX_LOGS && t->log_bytes <= EXECD_LOGS_TOTAL_MAX) {
            return;
        }
        forget_log(t, list_entry(it, struct command, node));
    }
}

/* Drops what is too old or too much, and comes back when the next one is due. */
static void expire(struct command_table *t)
{
    uint64_t now = clock_mono_ms();
    forget_oldest_logs(t);
    while (!list_empty(&t->finished)) {
        struct command *c = list_entry(list_first(&t->finished), struct command, node);
        uint64_t age = now - c->finished_mono_ms;
        if (age < EXECD_RECORD_TTL_MS && t->n_finished <= EXECD_MAX_RECORDS) {
            io_timer_start(&t->expiry, EXECD_RECORD_TTL_MS - age);
            return;
        }
        forget_log(t, c);
        t->n_finished--;
        command_free(c);
    }
}

static void on_expiry(struct io_timer *timer)
{
    expire(container_of(timer, struct command_table, expiry));
}

struct command_table *command_table_new(struct execd *x)
{
    struct command_table *t = NEW(struct command_table);
    t->x = x;
    list_init(&t->running);
    list_init(&t->finished);
    list_init(&t->interrupts);
    io_timer_init(&t->expiry, x->loop, on_expiry);
    return t;
}

void command_table_free(struct command_table *t)
{
    if (!t) {
        return;
    }
    io_timer_stop(&t->expiry);
    command_interrupts_free(t);
    struct list *const lists[] = {&t->running, &t->finished};
    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        while (!list_empty(lists[i])) {
            command_free(list_entry(list_first(lists[i]), struct command, node));
        }
    }
    map_done(&t->by_id);
    free(t);
}

struct command *command_find(struct execd *x, struct str id)
{
    return id.n ? map_get(&x->commands->by_id, id) : NULL;
}

size_t command_signal_all(struct execd *x, int signo)
{
    size_t n = 0;
    list_each (it, &x->commands->running) {
        struct command *c = list_entry(it, struct command, node);
        if (c->job && signo) {
            (void)job_signal(c->job, signo);
        }
        n++;
    }
    return n;
}

struct command *command_new(struct execd *x, const char *text, bool background)
{
    struct command *c = NEW(struct command);
    c->x = x;
    rand_id_hex(c->id);
    c->content = xstrdup(text);
    c->background = background;
    c->running = true;
    c->started_us = clock_wall_us();
    (void)map_put(&x->commands->by_id, str_from(c->id), c);
    list_push_back(&x->commands->running, &c->node);
    x->commands->n_running++;
    return c;
}

void command_drop(struct command *c)
{
    c->x->commands->n_running--;
    command_free(c);
}

/* A finished record lives long: it keeps no more than the beginning of a huge text. */
static void shorten_content(struct command *c)
{
    if (strlen(c->content) > EXECD_RECORD_CONTENT_MAX) {
        size_t n = utf8_floor(str_from(c->content), EXECD_RECORD_CONTENT_MAX);
        char *head = xstrndup(c->content, n);
        free(c->content);
        c->content = head;
    }
}

void command_finish(struct command *c, const struct outcome *o)
{
    struct command_table *t = c->x->commands;
    must(c->running);
    c->running = false;
    c->ending = false;
    c->exit_code = o->exit_code;
    c->error = o->ok ? NULL : xstrdup(o->error);
    c->finished_us = clock_wall_us();
    c->finished_mono_ms = clock_mono_ms();
    int64_t us = MAX(c->finished_us - c->started_us, 0);
    telemetry_execution(c->x->telemetry, TELEMETRY_RUN_COMMAND, o->ok, (uint64_t)us / 1000);
    shorten_content(c);
    list_del(&c->node);
    list_push_back(&t->finished, &c->node);
    t->n_running--;
    t->n_finished++;
    t->n_logs += c->log != NULL;
    t->log_bytes += (uint64_t)log_bytes(c);
    expire(t);
}
