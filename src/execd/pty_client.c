/* The client of a terminal session: frames both ways. */

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "execd/limits.h"
#include "execd/pty.h"
#include "model/pty.h"
#include "json/json.h"

#define CLOSE_NORMAL 1000
#define CLOSE_INTERNAL 1011
#define CLOSE_TAKEN_OVER 4001

/* ---- to the client ---- */

static void send_text(struct pty *p, const char *const *pairs, const char *int_key, int64_t value)
{
    cleanup_(buf_done) struct buf b = BUF_INIT(8 << 10);
    struct json_out o;
    json_out_init(&o, &b);
    json_obj_begin(&o);
    for (size_t i = 0; pairs[i]; i += 2) {
        json_key(&o, pairs[i]);
        json_put_cstr(&o, pairs[i + 1]);
    }
    if (int_key) {
        json_key(&o, int_key);
        json_put_int(&o, value);
    }
    json_obj_end(&o);
    (void)ws_send(p->client, WS_TEXT, buf_str(&b)); /* short, and rare: may go over the mark */
}

static void send_error(struct pty *p, const char *code, const char *message)
{
    const char *const pairs[] = {"type", "error", "error", message, "code", code, NULL};
    send_text(p, pairs, NULL, 0);
}

static void set_blocked(struct pty *p, bool blocked)
{
    p->blocked = blocked;
    if (blocked) {
        io_timer_start(&p->stuck, EXECD_PTY_WRITE_TIMEOUT_MS);
    } else {
        io_timer_stop(&p->stuck);
    }
}

void pty_client_output(struct pty *p, char channel, char *frame, size_t len)
{
    if (p->client) {
        frame[0] = channel;
        if (!ws_send(p->client, WS_BINARY, str_n(frame, len + 1))) {
            set_blocked(p, true);
        }
    }
}

static void detach(struct pty *p)
{
    p->client = NULL;
    p->input_paused = false;
    set_blocked(p, false);
}

static void say_goodbye(struct pty *p, unsigned code, struct str reason)
{
    struct ws_conn *ws = p->client;
    detach(p);
    ws_leave(ws, code, reason);
}

void pty_client_drop(struct pty *p, unsigned code, struct str reason)
{
    if (p->client) {
        say_goodbye(p, code, reason);
        pty_resume_output(p);
        pty_maybe_free(p);
    }
}

void pty_client_exit(struct pty *p)
{
    if (!p->client) {
        return;
    }
    const char *const pairs[] = {"type", "exit", NULL};
    send_text(p, pairs, "exit_code", p->exit_code);
    say_goodbye(p, CLOSE_NORMAL, STR("process exited"));
}

void pty_client_input_failed(struct pty *p, int error)
{
    if (p->client) {
        send_error(p, "STDIN_WRITE_FAILED", strerror(-error));
    }
}

void pty_client_input_room(struct pty *p)
{
    if (p->client && p->input_paused) {
        p->input_paused = false;
        ws_resume(p->client);
    }
}

static void on_stuck(struct io_timer *t)
{
    struct pty *p = container_of(t, struct pty, stuck);
    struct ws_conn *ws = p->client;
    detach(p);
    ws_abort(ws); /* it takes no bytes, so it would not take a close frame either */
    pty_resume_output(p);
    pty_maybe_free(p);
}

void pty_client_init(struct pty *p)
{
    io_timer_init(&p->stuck, p->x->loop, on_stuck);
}

/* ---- from the client ---- */

static void input(struct pty *p, struct str data)
{
    if (data.n && !pty_write_input(p, data) && p->client) {
        p->input_paused = true;
        ws_pause(p->client);
    }
}

static void control_signal(struct pty *p, const char *name)
{
    static const struct {
        const char *name;
        int signo;
    } known[] = {{"SIGINT", SIGINT},
                 {"SIGTERM", SIGTERM},
                 {"SIGKILL", SIGKILL},
                 {"SIGQUIT", SIGQUIT},
                 {"SIGHUP", SIGHUP}};
    for (size_t i = 0; name && i < ARRAY_LEN(known); i++) {
        if (strcmp(known[i].name, name) == 0) {
            pty_signal(p, known[i].signo);
        }
    }
}

static void control_resize(struct pty *p, const struct pty_control *c)
{
    bool usable = c->cols.v > 0 && c->rows.v > 0;
    if (usable && p->is_tty && p->child) {
        (void)io_child_resize(p->child, (uint16_t)MIN(c->rows.v, UINT16_MAX),
                              (uint16_t)MIN(c->cols.v, UINT16_MAX));
    }
}

static void control(struct pty *p, const struct pty_control *c)
{
    struct str type = str_from(c->type);
    if (str_eq(type, STR("stdin"))) {
        input(p, str_from(c->data));
    } else if (str_eq(type, STR("signal"))) {
        control_signal(p, c->signal);
    } else if (str_eq(type, STR("resize"))) {
        control_resize(p, c);
    } else if (str_eq(type, STR("eof"))) {
        pty_close_input(p);
    } else if (str_eq(type, STR("ping"))) {
        const char *const pairs[] = {"type", "pong", NULL};
        send_text(p, pairs, NULL, 0);
    } else {
        cleanup_free char *text =
            xasprintf("unknown frame type \"%.100s\"", c->type ? c->type : "");
        send_error(p, "INVALID_FRAME", text);
    }
}

static void on_text(struct pty *p, struct str data)
{
    struct err e = {0};
    cleanup_(json_free) struct json *tree = json_parse(data, &e);
    cleanup_(arena_done) struct arena a = {0};
    struct pty_control c;
    if (!tree || !json_is_object(tree)) {
        return; /* not JSON: ignored */
    }
    if (json_decode(&a, &pty_control_table, tree, &c, NULL, &e) < 0) {
        send_error(p, "INVALID_FRAME", e.msg);
        return;
    }
    control(p, &c);
}

static void on_message(struct ws_conn *ws, enum ws_opcode opcode, struct str data, void *arg)
{
    struct pty *p = arg;
    if (opcode == WS_TEXT) {
        on_text(p, data);
    } else if (data.n && data.p[0] == PTY_STDIN) {
        input(p, str_sub(data, 1, data.n));
    }
}

static void on_writable(struct ws_conn *ws, void *arg)
{
    struct pty *p = arg;
    set_blocked(p, false);
    pty_resume_output(p);
}

static void on_close(struct ws_conn *ws, unsigned code, struct str reason, void *arg)
{
    struct pty *p = arg;
    detach(p);
    pty_resume_output(p);
    pty_maybe_free(p);
}

static const struct ws_ops client_ops = {
    .on_message = on_message, .on_writable = on_writable, .on_close = on_close};

/* ---- attaching ---- */

static void send_replay(struct pty *p, uint64_t since)
{
    struct str pieces[2];
    uint64_t from = ring_since(&p->ring, since, pieces);
    if (pieces[0].n + pieces[1].n == 0) {
        return;
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(EXECD_PTY_RING + 16);
    (void)buf_add_char(&b, PTY_REPLAY);
    for (int shift = 56; shift >= 0; shift -= 8) {
        (void)buf_add_char(&b, (char)(from >> shift));
    }
    (void)buf_add_str(&b, pieces[0]);
    (void)buf_add_str(&b, pieces[1]);
    if (!ws_send(p->client, WS_BINARY, buf_str(&b))) {
        set_blocked(p, true);
    }
}

void pty_attach(struct pty *p, struct http_req *req, bool tty, uint64_t since)
{
    static const struct ws_opts opts = {
        .max_message = EXECD_PTY_MESSAGE_MAX,
        .ping_ms = EXECD_PTY_PING_MS,
        .idle_ms = EXECD_PTY_IDLE_MS,
    };
    struct ws_conn *ws = ws_accept(req, &opts, &client_ops, p);
    if (!ws) {
        return; /* not a WebSocket handshake; answered, and whoever is attached stays */
    }
    if (p->client) {
        say_goodbye(p, CLOSE_TAKEN_OVER, STR("TAKEN_OVER"));
    }
    p->client = ws;
    int r = p->child ? 0 : pty_start(p, tty);
    if (r < 0) {
        send_error(p, "START_FAILED", strerror(-r));
        pty_client_drop(p, CLOSE_INTERNAL, STR("start failed"));
        return;
    }
    send_replay(p, since);
    const char *const pairs[] = {
        "type", "connected", "session_id", p->id, "mode", p->is_tty ? "pty" : "pipe", NULL};
    send_text(p, pairs, NULL, 0);
    pty_resume_output(p);
}
