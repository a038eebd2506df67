/* Commands, shell sessions and code: requests whose answer is a stream of events.
 *
 * Events are JSON objects, one per line, with or without a "data:" prefix. */

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/must.h"
#include "base/num.h"
#include "client/internal.h"

#define MAX_TRACEBACK 256

struct osb_result {
    char *id;
    struct buf out, err;
    char *text;
    bool is_code; /* texts are pieces of the output, not lines; there is no exit code */
    bool has_error, complete;
    char *name, *value;
    char **traceback;
};

/* A stream being read into a result. */
struct reader {
    struct osb_result *r;
    const struct osb_run_opts *o;
    struct buf line;
    size_t n_events;
    bool overflow;
    char service_code[64], service_message[256]; /* an error object in place of an event */
};

/* ---- the result ---- */

void osb_result_free(struct osb_result *r)
{
    if (!r) {
        return;
    }
    for (char **p = r->traceback; p && *p; p++) {
        free(*p);
    }
    free(r->traceback);
    buf_done(&r->out);
    buf_done(&r->err);
    free(r->id);
    free(r->text);
    free(r->name);
    free(r->value);
    free(r);
}

const char *osb_result_id(const struct osb_result *r)
{
    return r->id ? r->id : "";
}

bool osb_result_has_exit_code(const struct osb_result *r)
{
    int64_t v;
    if (r->is_code) {
        return false;
    }
    return r->has_error ? parse_i64(str_from(r->value), &v) == 0 : r->complete;
}

int osb_result_exit_code(const struct osb_result *r)
{
    int64_t v = -1;
    if (r->has_error) {
        return parse_i64(str_from(r->value), &v) == 0 ? (int)v : -1;
    }
    return r->complete ? 0 : -1;
}

static const char *text_of(const struct buf *b)
{
    return b->p ? b->p : "";
}

const char *osb_result_stdout(const struct osb_result *r)
{
    return text_of(&r->out);
}

const char *osb_result_stderr(const struct osb_result *r)
{
    return text_of(&r->err);
}

const char *osb_result_text(const struct osb_result *r)
{
    return r->text;
}

const char *osb_result_error_name(const struct osb_result *r)
{
    return r->name;
}

const char *osb_result_error_value(const struct osb_result *r)
{
    return r->value;
}

const char *const *osb_result_traceback(const struct osb_result *r)
{
    return (const char *const *)r->traceback;
}

/* ---- events ---- */

static const struct {
    const char *name;
    enum osb_event_type type;
} event_types[] = {
    {"init", OSB_EV_INIT},
    {"stdout", OSB_EV_STDOUT},
    {"stderr", OSB_EV_STDERR},
    {"result", OSB_EV_RESULT},
    {"execution_count", OSB_EV_COUNT},
    {"error", OSB_EV_ERROR},
    {"execution_complete", OSB_EV_COMPLETE},
};

static bool event_type(const char *name, enum osb_event_type *ret)
{
    for (size_t i = 0; name && i < ARRAY_LEN(event_types); i++) {
        if (strcmp(name, event_types[i].name) == 0) {
            *ret = event_types[i].type;
            return true;
        }
    }
    return false;
}

/* Lines come without their terminator; a blank line is the text "\n". Code's output comes as is. */
static void collect(struct reader *rd, struct buf *b, struct str text)
{
    if (rd->o->discard || rd->overflow) {
        return;
    }
    bool ends = rd->r->is_code || (text.n > 0 && text.p[text.n - 1] == '\n');
    if (buf_add_str(b, text) < 0 || (!ends && buf_add_char(b, '\n') < 0) || buf_cstr(b) == NULL) {
        rd->overflow = true;
    }
}

static char **copy_traceback(const struct json *list)
{
    size_t n = MIN(json_len(list), (size_t)MAX_TRACEBACK);
    char **out = xcalloc(n + 1, sizeof(*out));
    for (size_t i = 0; i < n; i++) {
        const char *s = json_cstr(json_item(list, i));
        out[i] = xstrdup(s ? s : "");
    }
    return out;
}

static void keep_error(struct osb_result *r, const struct json *error)
{
    const char *name = json_cstr(json_get(error, "ename")),
               *value = json_cstr(json_get(error, "evalue"));
    if (r->has_error) {
        return;
    }
    r->has_error = true;
    r->name = xstrdup(name ? name : "Error");
    r->value = xstrdup(value ? value : "");
    r->traceback = copy_traceback(json_get(error, "traceback"));
}

/* Takes an event into the result and passes it on. False: the listener has had enough. */
static bool take_event(struct reader *rd, const struct json *j, enum osb_event_type type)
{
    struct osb_result *r = rd->r;
    struct json *results = json_get(j, "results");
    struct str text = json_str(json_get(j, "text"));
    cleanup_(buf_done) struct buf all = BUF_INIT(CLIENT_MAX_EVENT);
    struct osb_event ev = {.type = type,
                           .timestamp_ms = json_int(json_get(j, "timestamp"), 0),
                           .execution_count = json_int(json_get(j, "execution_count"), 0),
                           .execution_ms = json_int(json_get(j, "execution_time"), 0)};
    switch (type) {
    case OSB_EV_INIT:
        free(r->id);
        r->id = str_dup(text);
        break;
    case OSB_EV_STDOUT:
        collect(rd, &r->out, text);
        break;
    case OSB_EV_STDERR:
        collect(rd, &r->err, text);
        break;
    case OSB_EV_RESULT:
        text = json_str(json_get(results, "text/plain"));
        text = text.p ? text : json_str(json_get(results, "text"));
        if (text.p) {
            free(r->text);
            r->text = str_dup(text);
        }
        (void)json_dump(results, &all, 0);
        ev.results_json = buf_cstr(&all);
        break;
    case OSB_EV_ERROR:
        keep_error(r, json_get(j, "error"));
        ev.name = r->name;
        ev.value = r->value;
        ev.traceback = (const char *const *)r->traceback;
        break;
    case OSB_EV_COMPLETE:
        r->complete = true;
        break;
    case OSB_EV_COUNT:
        break;
    }
    ev.text = text.p;
    ev.text_len = text.n;
    return !rd->o->on_event || rd->o->on_event(&ev, rd->o->arg);
}

static int take_line(struct reader *rd, struct str line)
{
    enum osb_event_type type;
    if (str_starts(line, STR("data:"))) {
        line = str_sub(line, 5, line.n);
    }
    line = str_trim(line);
    if (line.n == 0 || line.p[0] != '{') {
        return 0;
    }
    cleanup_(json_free) struct json *j = json_parse(line, NULL);
    if (!j) {
        return 0;
    }
    const char *name = json_cstr(json_get(j, "type"));
    if (!name && json_cstr(json_get(j, "code"))) {
        (void)snprintf(rd->service_code, sizeof(rd->service_code), "%s",
                       json_cstr(json_get(j, "code")));
        const char *msg = json_cstr(json_get(j, "message"));
        (void)snprintf(rd->service_message, sizeof(rd->service_message), "%s", msg ? msg : "");
    }
    if (!event_type(name, &type)) {
        return 0; /* ping, status, and what later versions may send */
    }
    rd->n_events++;
    return take_event(rd, j, type) ? 0 : -ECANCELED;
}

static int on_stream(struct str data, void *arg)
{
    struct reader *rd = arg;
    while (data.p) {
        ptrdiff_t end = str_find(data, '\n');
        if (end < 0) {
            return buf_add_str(&rd->line, data) < 0 ? -EMSGSIZE : 0;
        }
        struct str piece = str_sub(data, 0, (size_t)end);
        int r;
        if (rd->line.len > 0) {
            if (buf_add_str(&rd->line, piece) < 0) {
                return -EMSGSIZE;
            }
            r = take_line(rd, buf_str(&rd->line));
            buf_clear(&rd->line);
        } else {
            r = take_line(rd, piece);
        }
        if (r < 0) {
            return r;
        }
        data = str_sub(data, (size_t)end + 1, data.n);
        if (data.n == 0) {
            break;
        }
    }
    return 0;
}

/* Posts `body` and reads the events of the answer. */
static struct osb_result *stream(struct osb_sandbox *s, const char *path, const struct buf *body,
                                 const struct osb_run_opts *o, struct osb_error *e)
{
    static const struct osb_run_opts none;
    struct osb_result *r = NEW(struct osb_result);
    r->is_code = strcmp(path, "/code") == 0;
    r->out = BUF_INIT(CLIENT_MAX_OUTPUT);
    r->err = BUF_INIT(CLIENT_MAX_OUTPUT);
    struct reader rd = {.r = r, .o = o ? o : &none, .line = BUF_INIT(CLIENT_MAX_EVENT)};
    struct transfer t = {.method = "POST",
                         .body = buf_str(body),
                         .has_body = true,
                         .on_data = on_stream,
                         .arg = &rd,
                         .no_timeout = true,
                         .extra = {"Accept: text/event-stream"},
                         .call = rd.o->call};
    int ok = sandbox_transfer(s, OSB_EXECD, path, &t, e);
    if (ok == 0 && rd.line.len > 0) {
        (void)take_line(&rd, buf_str(&rd.line));
    }
    if (ok == 0 && rd.service_code[0] && !r->has_error && !r->complete) {
        ok = osb_fail(e, OSB_ESERVER, "%s",
                      rd.service_message[0] ? rd.service_message : rd.service_code);
        if (e) {
            (void)snprintf(e->api_code, sizeof(e->api_code), "%s", rd.service_code);
        }
    } else if (ok == 0 && rd.n_events == 0) {
        ok = osb_fail(e, OSB_EPROTOCOL, "the stream ended without an event");
    } else if (ok == 0 && rd.overflow) {
        ok = osb_fail(e, OSB_ELIMIT, "more than %u MiB of output: use on_event with discard",
                      CLIENT_MAX_OUTPUT >> 20);
    }
    buf_done(&rd.line);
    transfer_done(&t);
    if (ok < 0) {
        osb_result_free(r);
        return NULL;
    }
    return r;
}

static void put_opt(struct json_out *o, const char *key, const char *value)
{
    if (value) {
        json_key(o, key);
        json_put_cstr(o, value);
    }
}

static void put_run_opts(struct json_out *o, const struct osb_run_opts *opts)
{
    if (!opts) {
        return;
    }
    put_opt(o, "cwd", opts->cwd);
    pairs_put(o, "envs", opts->env);
    if (opts->timeout_ms) {
        json_key(o, "timeout");
        json_put_int(o, (int64_t)opts->timeout_ms);
    }
    if (opts->background) {
        json_key(o, "background");
        json_put_bool(o, true);
    }
    if (opts->has_uid) {
        json_key(o, "uid");
        json_put_int(o, opts->uid);
    }
    if (opts->has_gid) {
        json_key(o, "gid");
        json_put_int(o, opts->gid);
    }
}

struct osb_result *osb_run(struct osb_sandbox *s, const char *command, const struct osb_run_opts *o,
                           struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(16u << 20);
    struct json_out out;
    if (o && o->has_gid && !o->has_uid) {
        (void)osb_fail(e, OSB_EINVALID, "a gid needs a uid");
        return NULL;
    }
    json_out_init(&out, &body);
    json_obj_begin(&out);
    put_opt(&out, "command", command);
    put_run_opts(&out, o);
    json_obj_end(&out);
    return stream(s, "/command", &body, o, e);
}

/* ---- about a command ---- */

static char *id_path(const char *before, const char *id, const char *after)
{
    struct buf b = BUF_INIT(4096);
    (void)buf_add_cstr(&b, before);
    (void)percent_encode(&b, str_from(id), false);
    (void)buf_add_cstr(&b, after);
    return buf_take(&b);
}

static int simple(struct osb_sandbox *s, const char *method, const char *path, struct osb_error *e)
{
    struct transfer t = {.method = method};
    int r = sandbox_transfer(s, OSB_EXECD, path, &t, e);
    transfer_done(&t);
    return r;
}

int osb_interrupt(struct osb_sandbox *s, const char *execution_id, struct osb_error *e)
{
    cleanup_free char *path = id_path("/command?id=", execution_id, "");
    return simple(s, "DELETE", path, e);
}

static void copy_field(char *out, size_t n, const struct json *j, const char *key)
{
    const char *v = json_cstr(json_get(j, key));
    (void)snprintf(out, n, "%s", v ? v : "");
}

int osb_command_status(struct osb_sandbox *s, const char *execution_id,
                       struct osb_command_status *ret, struct osb_error *e)
{
    cleanup_free char *path = id_path("/command/status/", execution_id, "");
    struct transfer t = {.method = "GET"};
    int r = sandbox_transfer(s, OSB_EXECD, path, &t, e);
    if (r == 0) {
        cleanup_(json_free) struct json *j = json_parse(buf_str(&t.answer), NULL);
        *ret =
            (struct osb_command_status){.running = json_bool(json_get(j, "running"), false),
                                        .has_exit_code = json_is_int(json_get(j, "exit_code")),
                                        .exit_code = (int)json_int(json_get(j, "exit_code"), -1)};
        copy_field(ret->error, sizeof(ret->error), j, "error");
        copy_field(ret->started_at, sizeof(ret->started_at), j, "started_at");
        copy_field(ret->finished_at, sizeof(ret->finished_at), j, "finished_at");
        r = j ? 0 : osb_fail(e, OSB_EPROTOCOL, "unreadable command status");
    }
    transfer_done(&t);
    return r;
}

char *osb_command_logs(struct osb_sandbox *s, const char *execution_id, int64_t *cursor,
                       struct osb_error *e)
{
    char after[40];
    (void)snprintf(after, sizeof(after), "/logs?cursor=%lld", (long long)*cursor);
    cleanup_free char *path = id_path("/command/", execution_id, after);
    struct transfer t = {.method = "GET"};
    char *out = NULL;
    if (sandbox_transfer(s, OSB_EXECD, path, &t, e) == 0) {
        (void)parse_i64(transfer_header(&t, "EXECD-COMMANDS-TAIL-CURSOR"), cursor);
        out = buf_take(&t.answer);
    }
    transfer_done(&t);
    return out;
}

/* ---- sessions ---- */

static int new_id(struct osb_sandbox *s, const char *path, const struct buf *body,
                  const char *field, char ret_id[64], struct osb_error *e)
{
    struct transfer t = {.method = "POST", .body = buf_str(body), .has_body = true};
    int r = sandbox_transfer(s, OSB_EXECD, path, &t, e);
    if (r == 0) {
        cleanup_(json_free) struct json *j = json_parse(buf_str(&t.answer), NULL);
        r = str_to_cstr(json_str(json_get(j, field)), ret_id, 64) == 0 && ret_id[0]
                ? 0
                : osb_fail(e, OSB_EPROTOCOL, "the answer has no %s", field);
    }
    transfer_done(&t);
    return r;
}

int osb_session_new(struct osb_sandbox *s, const char *cwd, char ret_id[64], struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(64u << 10);
    struct json_out o;
    json_out_init(&o, &body);
    json_obj_begin(&o);
    put_opt(&o, "cwd", cwd);
    json_obj_end(&o);
    return new_id(s, "/session", &body, "session_id", ret_id, e);
}

struct osb_result *osb_session_run(struct osb_sandbox *s, const char *session_id,
                                   const char *command, const struct osb_run_opts *o,
                                   struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(16u << 20);
    cleanup_free char *path = id_path("/session/", session_id, "/run");
    struct json_out out;
    json_out_init(&out, &body);
    json_obj_begin(&out);
    put_opt(&out, "command", command);
    if (o && o->cwd) {
        put_opt(&out, "cwd", o->cwd);
    }
    if (o && o->timeout_ms) {
        json_key(&out, "timeout");
        json_put_int(&out, (int64_t)o->timeout_ms);
    }
    json_obj_end(&out);
    return stream(s, path, &body, o, e);
}

int osb_session_delete(struct osb_sandbox *s, const char *session_id, struct osb_error *e)
{
    cleanup_free char *path = id_path("/session/", session_id, "");
    return simple(s, "DELETE", path, e);
}

/* ---- code ---- */

int osb_context_new(struct osb_sandbox *s, const char *language, const char *cwd, char ret_id[64],
                    struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(64u << 10);
    struct json_out o;
    json_out_init(&o, &body);
    json_obj_begin(&o);
    put_opt(&o, "language", language);
    put_opt(&o, "cwd", cwd);
    json_obj_end(&o);
    return new_id(s, "/code/context", &body, "id", ret_id, e);
}

char *osb_context_list_json(struct osb_sandbox *s, const char *language, struct osb_error *e)
{
    cleanup_free char *path =
        language ? id_path("/code/contexts?language=", language, "") : xstrdup("/code/contexts");
    return osb_sandbox_request(s, OSB_EXECD, &(struct osb_request){.method = "GET", .path = path},
                               e);
}

int osb_context_delete(struct osb_sandbox *s, const char *context_id, struct osb_error *e)
{
    cleanup_free char *path = id_path("/code/contexts/", context_id, "");
    return simple(s, "DELETE", path, e);
}

struct osb_result *osb_code_run(struct osb_sandbox *s, const char *context_id, const char *language,
                                const char *code, const struct osb_run_opts *o, struct osb_error *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(16u << 20);
    struct json_out out;
    json_out_init(&out, &body);
    json_obj_begin(&out);
    json_key(&out, "context");
    json_obj_begin(&out);
    put_opt(&out, "id", context_id);
    put_opt(&out, "language", language ? language : "python");
    json_obj_end(&out);
    put_opt(&out, "code", code);
    json_obj_end(&out);
    return stream(s, "/code", &body, o, e);
}

int osb_code_interrupt(struct osb_sandbox *s, const char *context_id, struct osb_error *e)
{
    cleanup_free char *path = id_path("/code?id=", context_id, "");
    return simple(s, "DELETE", path, e);
}
