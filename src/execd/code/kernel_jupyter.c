/* Kernels of a Jupyter server: found and made by REST, spoken to through one WebSocket that stays
 * open from run to run.
 *
 *   LOOKUP   the address of its host
 *   FIND     GET /api/kernelspecs, again and again while it does not answer or has no such kernel:
 *            images start Jupyter and install kernels while they are already being used
 *   CREATE   POST /api/sessions
 *   SYNC     the WebSocket, and kernel_info_request until reply and echo have both come
 *   LIVE
 *
 * A connection that breaks goes back to SYNC with the next run. What waits to be executed is sent
 * when LIVE is reached. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/must.h"
#include "execd/code/context.h"
#include "execd/code/kernel.h"
#include "execd/code/kernelspec.h"
#include "execd/code/rest.h"
#include "execd/limits.h"
#include "execd/lookup.h"
#include "execd/task.h"
#include "http/ws.h"

#define AGAIN_MS 500u
#define NUDGE_MS 250u
#define PYTHON3_AFTER_MS 3000u /* see kernelspec_rank() */

enum step { LOOKUP, FIND, CREATE, SYNC, LIVE };

struct kernel_jupyter {
    struct kernel base;
    struct execd *x;
    struct arena arena;
    struct jupyter_server server;
    const char *language, *cwd;
    enum step step;
    struct task task;
    bool looking, freed; /* looking: a worker has it */
    int lookup_error;
    struct rest *rest;
    struct ws_connect *connecting;
    struct ws_conn *ws;
    struct message_session session;
    char *session_id, *kernel_id;
    bool was_live, answered, heard, paused;
    bool seen; /* something has come since it was last asked whether it responds */
    char probe_id[UUID_LEN + 1]; /* of a question asked behind the code that runs, or "" */
    bool overtaken;              /* and answered before that code has ended */
    char info_id[UUID_LEN + 1];
    char *wait_id, *wait_code; /* to be executed */
    const char *first_code;    /* sets what was asked for in a new interpreter, or NULL */
    bool fresh;                /* it is one */
    uint64_t started_ms;
    struct io_timer timer; /* the next attempt */
    struct io_timer deadline;
};

static struct kernel_jupyter *of(struct kernel *k)
{
    return container_of(k, struct kernel_jupyter, base);
}

/* ---- end ---- */

static void drop_connection(struct kernel_jupyter *k)
{
    io_timer_stop(&k->timer);
    io_timer_stop(&k->deadline);
    rest_cancel(take_ptr(&k->rest));
    if (k->connecting) {
        ws_connect_cancel(take_ptr(&k->connecting));
    }
    if (k->ws) {
        ws_leave(take_ptr(&k->ws), 1000, STR(""));
    }
    k->step = SYNC;
}

static void destroy(void *arg)
{
    struct kernel_jupyter *k = arg;
    free(k->session_id);
    free(k->kernel_id);
    free(k->wait_id);
    free(k->wait_code);
    arena_done(&k->arena);
    free(k);
}

static void jupyter_free(struct kernel *base)
{
    struct kernel_jupyter *k = of(base);
    drop_connection(k);
    if (k->session_id) {
        cleanup_free char *path = xasprintf("/api/sessions/%s", k->session_id);
        (void)rest_start(k->x, &k->server, "DELETE", path, STR_NULL, NULL, NULL);
    }
    k->freed = true;
    if (!k->looking) {
        io_defer(k->x->loop, destroy, k);
    }
}

/* It will not be, or is no more: whatever the owner has to hear. */
static void fail(struct kernel_jupyter *k, enum err_code code, const char *why)
{
    drop_connection(k);
    if (k->was_live) {
        k->base.events->on_lost(&k->base, why, true);
        return;
    }
    struct err e = {0};
    err_set(&e, code, "%s", why);
    k->base.events->on_ready(&k->base, &e);
}

static void on_deadline(struct io_timer *t)
{
    struct kernel_jupyter *k = container_of(t, struct kernel_jupyter, deadline);
    fail(k, ERR_TIMEOUT, "the kernel did not answer Jupyter in time");
}

/* ---- live ---- */

static void send_shell(struct kernel_jupyter *k, const char *type, const char *msg_id,
                       struct str content)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(EXECD_KERNEL_SEND_MAX);
    message_add_websocket(&out, &k->session, "shell", type, msg_id, content);
    (void)ws_send(k->ws, WS_TEXT, buf_str(&out));
}

static void execute(struct kernel_jupyter *k, const char *id, struct str code, bool silent)
{
    cleanup_(buf_done) struct buf content = BUF_INIT(EXECD_KERNEL_SEND_MAX);
    message_execute_content(&content, code, silent);
    send_shell(k, "execute_request", id, buf_str(&content));
}

static void send_waiting(struct kernel_jupyter *k)
{
    cleanup_free char *id = take_ptr(&k->wait_id);
    cleanup_free char *code = take_ptr(&k->wait_code);
    if (id) {
        execute(k, id, str_from(code), false);
    }
}

static void become_live(struct kernel_jupyter *k)
{
    k->step = LIVE;
    io_timer_stop(&k->timer);
    io_timer_stop(&k->deadline);
    if (k->fresh && k->first_code) {
        char id[UUID_LEN + 1];
        rand_uuid(id);
        execute(k, id, str_from(k->first_code), true);
    }
    k->fresh = false;
    send_waiting(k);
    if (!k->was_live) {
        k->was_live = true;
        k->base.events->on_ready(&k->base, NULL);
    }
}

/* Until the kernel answers on both channels. */
static void begin_sync(struct kernel_jupyter *k)
{
    k->step = SYNC;
    k->answered = k->heard = false;
    rand_uuid(k->info_id);
    io_timer_start(&k->timer, 0);
    io_timer_start(&k->deadline, EXECD_KERNEL_START_MS);
}

/* Who waited for its code to be sent has been told otherwise. */
static void forget_waiting(struct kernel_jupyter *k)
{
    free(take_ptr(&k->wait_id));
    free(take_ptr(&k->wait_code));
}

/* Jupyter watches the process, and says so itself: these have no parent. True: dealt with. */
static bool is_obituary(struct kernel_jupyter *k, const struct kernel_message *m)
{
    struct str state = strcmp(m->type, "status") == 0
                           ? json_str(json_get(m->content, "execution_state"))
                           : STR_NULL;
    if (str_eq(state, STR("dead"))) {
        fail(k, ERR_IO, "the kernel died, and Jupyter could not start it again");
        return true;
    }
    if (!str_eq(state, STR("restarting")) && !str_eq(state, STR("autorestarting"))) {
        return false;
    }
    if (k->was_live) {
        begin_sync(k);
        k->fresh = true;
        forget_waiting(k);
        k->base.events->on_lost(&k->base, "the kernel died and was restarted; its state is lost",
                                false);
    }
    return true;
}

static void on_message(struct ws_conn *ws, enum ws_opcode opcode, struct str data, void *arg)
{
    struct kernel_jupyter *k = arg;
    cleanup_(message_trees_done) struct message_trees trees = {0};
    struct kernel_message m;
    k->seen = true;
    if (opcode != WS_TEXT || message_from_websocket(data, &trees, &m) < 0 || is_obituary(k, &m)) {
        return;
    }
    if (k->step == LIVE) {
        k->overtaken |= *k->probe_id && strcmp(m.parent_id, k->probe_id) == 0 &&
                        strcmp(m.type, "kernel_info_reply") == 0;
        k->base.events->on_message(&k->base, &m);
    } else if (strcmp(m.parent_id, k->info_id) == 0) {
        bool reply = strcmp(m.type, "kernel_info_reply") == 0;
        k->answered |= reply;
        k->heard |= !reply;
        if (k->answered && k->heard) {
            become_live(k);
        }
    }
}

static void on_close(struct ws_conn *ws, unsigned code, struct str reason, void *arg)
{
    struct kernel_jupyter *k = arg;
    k->ws = NULL;
    if (!k->was_live) {
        fail(k, ERR_IO, "Jupyter closed the connection to the kernel");
        return;
    }
    bool waiting = k->wait_id != NULL;
    drop_connection(k);
    forget_waiting(k);
    k->base.events->on_lost(&k->base,
                            code == 1009 ? "the kernel sent more than 32 MiB in one piece"
                                         : "the connection to Jupyter broke",
                            waiting);
}

static void on_connected(struct ws_conn *ws, int error, int status, void *arg)
{
    struct kernel_jupyter *k = arg;
    k->connecting = NULL;
    k->ws = ws;
    if (!ws) {
        cleanup_free char *why = xasprintf("Jupyter does not connect the kernel (%s%.0d)",
                                           status == 404 ? "it is gone: HTTP "
                                           : status      ? "HTTP "
                                                         : strerror(-error),
                                           status);
        fail(k, ERR_IO, why);
        return;
    }
    if (k->paused) {
        ws_pause(ws);
    }
    begin_sync(k);
}

static void on_pong(struct ws_conn *ws, struct str data, void *arg)
{
    struct kernel_jupyter *k = arg;
    k->seen = true;
}

static void connect_ws(struct kernel_jupyter *k)
{
    static const struct ws_ops ops = {
        .on_message = on_message, .on_close = on_close, .on_pong = on_pong};
    const struct ws_opts opts = {.max_message = EXECD_KERNEL_MESSAGE_MAX};
    struct http_target target;
    struct h1_header headers[3];
    k->step = SYNC;
    jupyter_server_target(&k->server, &target);
    size_t n = jupyter_server_headers(&k->server, headers);
    cleanup_free char *path =
        xasprintf("%s/api/kernels/%s/channels?session_id=%s%s%s", k->server.prefix, k->kernel_id,
                  k->session.id, *k->server.token ? "&token=" : "", k->server.token);
    k->connecting =
        ws_connect(k->x->client, &target, str_from(path), headers, n, &opts, &ops, on_connected, k);
    io_timer_start(&k->deadline, EXECD_KERNEL_START_MS);
}

/* ---- birth ---- */

/* They become parts of paths. */
static bool is_id(const char *id)
{
    size_t n = id ? strlen(id) : 0;
    return n > 0 && n <= 128 && id[0] != '.' &&
           strspn(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.") == n;
}

static void on_created(int error, int status, const struct json *body, void *arg)
{
    struct kernel_jupyter *k = arg;
    k->rest = NULL;
    const char *id = json_cstr(json_get(body, "id"));
    const char *kernel = json_cstr(json_at(body, "kernel.id"));
    if (error || status / 100 != 2 || !is_id(id) || !is_id(kernel)) {
        const char *message = json_cstr(json_get(body, "message"));
        cleanup_free char *why = xasprintf("Jupyter does not start a kernel (%s%.0d)%s%.200s",
                                           error ? strerror(-error) : "HTTP ", status,
                                           message ? ": " : "", message ? message : "");
        fail(k, ERR_IO, why);
        return;
    }
    k->session_id = xstrdup(id);
    k->kernel_id = xstrdup(kernel);
    k->base.id = k->session_id;
    connect_ws(k);
}

static void create(struct kernel_jupyter *k, const char *kernel_name)
{
    char name[ID_HEX_LEN + 1];
    rand_id_hex(name);
    cleanup_free char *path =
        xasprintf("%s%s%s.ipynb", k->cwd ? k->cwd : "", k->cwd ? "/" : "", name);
    cleanup_(buf_done) struct buf body = BUF_INIT(64u << 10);
    struct json_out o;
    json_out_init(&o, &body);
    json_obj_begin(&o);
    json_key(&o, "path");
    json_put_cstr(&o, path);
    json_key(&o, "name");
    json_put_cstr(&o, name);
    json_key(&o, "type");
    json_put_cstr(&o, "notebook");
    json_key(&o, "kernel");
    json_obj_begin(&o);
    json_key(&o, "name");
    json_put_cstr(&o, kernel_name);
    json_obj_end(&o);
    json_obj_end(&o);
    k->step = CREATE;
    k->rest = rest_start(k->x, &k->server, "POST", "/api/sessions", buf_str(&body), on_created, k);
}

/* The best name for the language, or NULL; *ret_list is what there is instead. */
static const char *choose(const struct kernel_jupyter *k, const struct json *specs,
                          struct buf *ret_list)
{
    const char *name, *best = NULL;
    struct json *entry;
    void *it = NULL;
    while (json_next(specs, &it, &name, &entry)) {
        const char *language = json_cstr(json_at(entry, "spec.language"));
        if (!language) {
            continue;
        }
        (void)buf_printf(ret_list, "%s%s", ret_list->len ? ", " : "", language);
        if (strcasecmp(language, k->language) == 0 &&
            (!best || kernelspec_rank(name, k->language) < kernelspec_rank(best, k->language))) {
            best = name;
        }
    }
    return best;
}

static void find_again(struct kernel_jupyter *k, const char *why)
{
    if (io_now_ms(k->x->loop) - k->started_ms + AGAIN_MS > EXECD_KERNEL_FIND_MS) {
        fail(k, ERR_NOT_FOUND, why);
    } else {
        io_timer_start(&k->timer, AGAIN_MS);
    }
}

static void on_found(int error, int status, const struct json *body, void *arg)
{
    struct kernel_jupyter *k = arg;
    k->rest = NULL;
    if (status == 401 || status == 403) {
        fail(k, ERR_DENIED, "Jupyter refuses the token (JUPYTER_TOKEN)");
        return;
    }
    if (error || status != 200) {
        cleanup_free char *why = error ? xasprintf("Jupyter at %s does not answer: %s",
                                                   k->server.authority, strerror(-error))
                                       : xasprintf("Jupyter answers HTTP %d", status);
        find_again(k, why);
        return;
    }
    cleanup_(buf_done) struct buf list = BUF_INIT(4096);
    const char *name = choose(k, json_get(body, "kernelspecs"), &list);
    uint64_t waited = io_now_ms(k->x->loop) - k->started_ms;
    bool other_may_come = name && strcmp(name, "python3") == 0 && !k->x->code->python3_will_do;
    if (name && (!other_may_come || waited >= PYTHON3_AFTER_MS)) {
        k->x->code->python3_will_do |= other_may_come;
        create(k, name);
        return;
    }
    cleanup_free char *why = xasprintf("no kernel specs found for \"%s\"; this sandbox has: %s",
                                       k->language, list.len ? buf_cstr(&list) : "none");
    find_again(k, why);
}

static void find(struct kernel_jupyter *k)
{
    k->step = FIND;
    k->rest = rest_start(k->x, &k->server, "GET", "/api/kernelspecs", STR_NULL, on_found, k);
}

static void on_timer(struct io_timer *t)
{
    struct kernel_jupyter *k = container_of(t, struct kernel_jupyter, timer);
    if (k->step == FIND) {
        find(k);
    } else if (k->step == SYNC && k->ws) {
        send_shell(k, "kernel_info_request", k->info_id, STR("{}"));
        io_timer_start(&k->timer, NUDGE_MS);
    }
}

static void lookup(struct task *task)
{
    struct kernel_jupyter *k = container_of(task, struct kernel_jupyter, task);
    k->lookup_error = lookup_host(str_from(k->server.host), k->server.port, &k->server.addr);
}

static void looked_up(struct task *task)
{
    struct kernel_jupyter *k = container_of(task, struct kernel_jupyter, task);
    k->looking = false;
    if (k->freed) {
        destroy(k);
    } else if (k->lookup_error < 0) {
        fail(k, ERR_IO, "the host name in JUPYTER_HOST cannot be resolved");
    } else {
        find(k);
    }
}

/* ---- use ---- */

static void jupyter_execute(struct kernel *base, const char *msg_id, struct str code)
{
    struct kernel_jupyter *k = of(base);
    forget_waiting(k);
    k->probe_id[0] = 0;
    k->overtaken = false;
    k->wait_id = xstrdup(msg_id);
    k->wait_code = str_dup(code);
    if (k->step == LIVE) {
        send_waiting(k);
    } else if (!k->ws && !k->connecting) {
        connect_ws(k);
    }
}

static void jupyter_post(struct kernel_jupyter *k, const char *verb)
{
    cleanup_free char *path = xasprintf("/api/kernels/%s/%s", k->kernel_id, verb);
    (void)rest_start(k->x, &k->server, "POST", path, STR_NULL, NULL, NULL);
}

static void jupyter_interrupt(struct kernel *base)
{
    jupyter_post(of(base), "interrupt");
}

static void jupyter_kill(struct kernel *base)
{
    struct kernel_jupyter *k = of(base);
    jupyter_post(k, "restart");
    begin_sync(k);
    k->fresh = true;
    forget_waiting(k);
    base->events->on_lost(base, "the kernel was restarted", false);
}

static void jupyter_pause(struct kernel *base, bool on)
{
    struct kernel_jupyter *k = of(base);
    if (k->paused == on) {
        return;
    }
    k->paused = on;
    if (k->ws && on) {
        ws_pause(k->ws);
    } else if (k->ws) {
        ws_resume(k->ws);
    }
}

/* Somebody else may have removed or restarted the kernel, which Jupyter does not tell us. One that
 * it takes for idle while we wait for the end of a run (which others who talk to it can cause, too)
 * is asked something: requests are answered one after the other, so an answer before the end means
 * that the code is not known to it any more. */
static void on_state(int error, int status, const struct json *body, void *arg)
{
    struct kernel_jupyter *k = arg;
    k->rest = NULL;
    if (status == 404) {
        fail(k, ERR_IO, "the kernel is gone: Jupyter does not have it any more");
        return;
    }
    if (k->step != LIVE || k->paused ||
        !str_eq(json_str(json_get(body, "execution_state")), STR("idle"))) {
        return;
    }
    if (k->overtaken) {
        begin_sync(k);
        k->fresh = true;
        k->base.events->on_lost(&k->base, "the kernel was restarted; its state is lost", false);
    } else if (!*k->probe_id) {
        rand_uuid(k->probe_id);
        send_shell(k, "kernel_info_request", k->probe_id, STR("{}"));
    }
}

static bool jupyter_responds(struct kernel *base)
{
    struct kernel_jupyter *k = of(base);
    bool alive = k->seen || k->paused || k->step != LIVE;
    k->seen = false;
    if (k->step != LIVE || k->paused) {
        return alive;
    }
    (void)ws_send(k->ws, WS_PING, STR("")); /* refused when too much is queued: no answer */
    if (!k->rest) {
        cleanup_free char *path = xasprintf("/api/kernels/%s", k->kernel_id);
        k->rest = rest_start(k->x, &k->server, "GET", path, STR_NULL, on_state, k);
    }
    return alive;
}

static size_t jupyter_signal(struct kernel *base, int signo)
{
    return 0; /* its process is Jupyter's */
}

static const struct kernel_class jupyter_class = {
    .execute = jupyter_execute,
    .interrupt = jupyter_interrupt,
    .kill = jupyter_kill,
    .pause = jupyter_pause,
    .free = jupyter_free,
    .signal = jupyter_signal,
    .responds = jupyter_responds,
};

/* A session of Jupyter's takes no environment, and a directory only below the server's own: Python
 * is told, before any other code. */
static const char *first_code(struct arena *a, const struct kernel_opts *o)
{
    cleanup_(buf_done) struct buf code = BUF_INIT(EXECD_MAX_BODY);
    struct json_out out;
    if (strcmp(o->language, "python") != 0 || (!o->envs && !o->cwd)) {
        return NULL;
    }
    (void)buf_add_cstr(&code, "import os\nos.environ.update(");
    json_out_init(&out, &code);
    json_obj_begin(&out); /* an object of strings is a Python dictionary too */
    for (size_t i = 0; o->envs && o->envs[i]; i++) {
        struct str value = str_from(o->envs[i]), name = str_cut(&value, '=');
        json_key(&out, arena_str(a, name));
        json_put_str(&out, value);
    }
    json_obj_end(&out);
    (void)buf_add_char(&code, ')');
    if (o->cwd) {
        (void)buf_add_cstr(&code, "\nif os.path.isdir(");
        json_put_cstr(&out, o->cwd);
        (void)buf_add_cstr(&code, "):\n    os.chdir(");
        json_put_cstr(&out, o->cwd);
        (void)buf_add_char(&code, ')');
    }
    (void)buf_add_cstr(&code, "\ndel os");
    return buf_failed(&code) ? NULL : arena_str(a, buf_str(&code));
}

struct kernel *kernel_jupyter_new(struct execd *x, const struct kernel_opts *o,
                                  const struct kernel_events *ev, void *owner, struct err *e)
{
    if (o->envs && strcmp(o->language, "python") != 0) {
        err_set(e, ERR_UNSUPPORTED,
                "envs: a kernel of a Jupyter server (JUPYTER_HOST) can be given variables only for "
                "python");
        return NULL;
    }
    struct kernel_jupyter *k = NEW(struct kernel_jupyter);
    if (jupyter_server_parse(&k->arena, x->cfg.jupyter_host, x->cfg.jupyter_token, &k->server, e) <
        0) {
        destroy(k);
        return NULL;
    }
    k->base = (struct kernel){.cls = &jupyter_class, .events = ev, .owner = owner};
    k->x = x;
    k->language = arena_strdup(&k->arena, o->language);
    k->cwd = o->cwd ? arena_strdup(&k->arena, o->cwd) : NULL;
    k->first_code = first_code(&k->arena, o);
    k->fresh = true;
    k->started_ms = io_now_ms(x->loop);
    rand_uuid(k->session.id);
    io_timer_init(&k->timer, x->loop, on_timer);
    io_timer_init(&k->deadline, x->loop, on_deadline);
    k->task = (struct task){x->loop, lookup, looked_up};
    if (task_start(x->pool, &k->task) < 0) {
        destroy(k);
        err_set(e, ERR_UNAVAILABLE, "execd has too much to do");
        return NULL;
    }
    k->looking = true;
    return &k->base;
}
