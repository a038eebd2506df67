/* /command: run, status, logs, interrupt. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "base/num.h"
#include "base/utf8.h"
#include "execd/code/context.h"
#include "execd/command.h"
#include "execd/env.h"
#include "execd/limits.h"
#include "execd/passwd.h"
#include "execd/reply.h"
#include "execd/routes.h"
#include "execd/session.h"
#include "execd/session_script.h"
#include "execd/shell.h"
#include "execd/tmpfile.h"
#include "execd/workdir.h"
#include "model/command.h"

#define MAX_GROUPS 256
#define ARGUMENT_MAX (128u << 10) /* the kernel's limit for one, with its NUL */

/* ---- run ---- */

static int validate(const struct command_request *cr, struct err *e)
{
    bool text = cr->command && *cr->command;
    if (!text && !cr->argv.v) {
        return err_set(e, ERR_INVALID, "field 'command' failed on the 'required' tag");
    }
    if (text && cr->argv.v) {
        return err_set(e, ERR_INVALID, "field 'argv' failed on the 'excluded_with' tag");
    }
    if (cr->argv.v && (cr->argv.n == 0 || !*cr->argv.v[0])) {
        return err_set(e, ERR_INVALID, "field 'argv' needs the name of a program");
    }
    if (cr->timeout.has && cr->timeout.v < 0) {
        return err_set(e, ERR_INVALID, "field 'timeout' failed on the 'gte' tag");
    }
    if (cr->gid.has && !cr->uid.has) {
        return err_set(e, ERR_INVALID, "uid is required when gid is provided");
    }
    return 0;
}

/* Without a passwd entry the group is the user's own number, never root's. */
static void resolve_ids(struct arena *a, const struct command_request *cr, struct job_spec *spec)
{
    if (!cr->uid.has) {
        return;
    }
    spec->set_ids = true;
    spec->uid = (uid_t)cr->uid.v;
    cleanup_(passwd_done) struct passwd_db db;
    passwd_load(&db);
    const struct passwd_user *u = passwd_user_by_uid(&db, spec->uid);
    spec->gid = cr->gid.has ? (gid_t)cr->gid.v : u ? u->gid : (gid_t)spec->uid;
    gid_t *groups = arena_array(a, MAX_GROUPS, sizeof(*groups));
    groups[0] = spec->gid;
    spec->groups = groups;
    spec->n_groups = u ? passwd_groups_of(&db, u->name, spec->gid, groups, MAX_GROUPS) : (size_t)1;
}

/* A name without a slash is the program's of that name in the command's own PATH; execve says what
 * is wrong with one that is nowhere. */
static void use_argv(struct arena *a, const struct str_list *words, const struct env *env,
                     struct job_spec *spec)
{
    const char **argv = arena_array(a, words->n + 1, sizeof(*argv));
    memcpy(argv, words->v, words->n * sizeof(*argv));
    const char *path = argv[0];
    if (!strchr(path, '/')) {
        path = shell_lookup_in(a, str_from(env_get(env, STR("PATH"))), path);
    }
    spec->path = path ? path : "";
    spec->argv = argv;
}

/* 0 or -errno. Then spec->stdin_fd, if there is one, is the caller's to close. */
static int use_shell(struct execd *x, struct arena *a, const char *command, struct job_spec *spec)
{
    struct shell shell;
    shell_find(a, &shell);
    const char **argv = arena_array(a, 4, sizeof(*argv));
    argv[0] = shell.is_bash ? "bash" : "sh";
    argv[1] = "-c";
    argv[2] = command;
    spec->path = shell.path;
    spec->argv = argv;
    if (strlen(command) < ARGUMENT_MAX) {
        return 0;
    }
    argv[2] = long_command_script(shell.is_bash);
    spec->stdin_fd = tmpfile_input(x->cfg.tmp_dir, -1, str_from(command));
    return spec->stdin_fd < 0 ? spec->stdin_fd : 0;
}

static int build_spec(struct execd *x, struct arena *a, const struct command_request *cr,
                      const struct env *env, struct job_spec *spec)
{
    spec->envp = env->v;
    spec->stdin_fd = -1;
    spec->timeout_ms = cr->timeout.has ? (uint64_t)cr->timeout.v : 0;
    resolve_ids(a, cr, spec);
    if (cr->argv.v) {
        use_argv(a, &cr->argv, env, spec);
        return 0;
    }
    return use_shell(x, a, cr->command, spec);
}

static void start(struct execd *x, struct http_req *req, const struct command_request *cr,
                  const struct env *env, struct job_spec *spec)
{
    struct arena *a = http_req_arena(req);
    const char *text = cr->argv.v ? shell_join(a, cr->argv.v, cr->argv.n) : cr->command;
    int r = build_spec(x, a, cr, env, spec);
    if (r < 0) {
        reply_error(req, 500, CODE_RUNTIME_ERROR, "error running commands %s", strerror(-r));
    } else if (cr->background.has && cr->background.v) {
        command_start_background(x, req, text, spec);
    } else {
        command_start_foreground(x, req, text, spec);
    }
    if (spec->stdin_fd >= 0) {
        (void)close(spec->stdin_fd);
    }
}

static void on_run_body(struct http_req *req, struct str body, void *arg)
{
    struct execd *x = execd_of(req);
    struct arena *a = http_req_arena(req);
    struct command_request cr;
    struct err e = {0};
    bool malformed = false;
    if (request_decode(a, body, false, &command_request_table, &cr, &malformed, &e) < 0) {
        reply_error(req, 400, CODE_INVALID_BODY,
                    "error parsing request, MAYBE invalid body format. %s", e.msg);
        return;
    }
    struct env env;
    env_init(&env, a);
    env_add_file(&env, x->cfg.envs_path);
    env_add_map(&env, &cr.envs);
    struct job_spec spec = {0};
    bool ok = validate(&cr, &e) == 0;
    if (ok) {
        spec.cwd = workdir_check(&env, cr.cwd, &ok, &e);
    }
    if (!ok) {
        reply_error(req, 400, CODE_INVALID_BODY, "invalid request, validation error %s", e.msg);
        return;
    }
    if (x->stopping || x->commands->n_running >= EXECD_MAX_RUNNING) {
        reply_error(req, 503, x->stopping ? CODE_SHUTTING_DOWN : CODE_LIMIT_EXCEEDED,
                    "error running commands %s",
                    x->stopping ? "execd is shutting down" : "too many commands are running");
        return;
    }
    start(x, req, &cr, &env, &spec);
}

void command_run_body(struct http_req *req, struct str body)
{
    on_run_body(req, body, NULL);
}

void route_command_run(struct http_req *req)
{
    http_req_collect(req, EXECD_MAX_BODY, on_run_body, NULL);
}

/* ---- status ---- */

void route_command_status(struct http_req *req)
{
    struct str id = http_req_param(req, "id");
    const struct command *c = command_find(execd_of(req), id);
    if (!c) {
        reply_error(req, 404, CODE_INVALID_BODY, "command not found: %.*s", STR_FMT(id));
        return;
    }
    const struct command_status st = {
        .id = c->id,
        .content = c->content,
        .running = {true, c->running},
        .exit_code = {!c->running, c->exit_code},
        .error = c->error,
        .started_at = {true, c->started_us},
        .finished_at = {!c->running, c->finished_us},
    };
    cleanup_(buf_done) struct buf body = BUF_INIT(6 * (EXECD_MAX_BODY + 4096));
    struct json_out o;
    json_out_init(&o, &body);
    json_encode(&o, &command_status_table, &st);
    reply_json(req, 200, buf_str(&body));
}

/* ---- logs ---- */

/* Bytes at the end of the log that are the beginning of a character still to come. */
static off_t cut_character(const struct command *c, off_t from, off_t to)
{
    char tail[3];
    off_t at = MAX(from, to - (off_t)sizeof(tail));
    ssize_t n = to > at ? pread(cmd_log_fd(c->log), tail, (size_t)(to - at), at) : 0;
    return n > 0 ? (off_t)utf8_tail(str_n(tail, (size_t)n)) : 0;
}

static void send_log(struct http_req *req, const struct command *c, off_t cursor)
{
    off_t from = MAX(cursor, cmd_log_start(c->log)), to = cmd_log_end(c->log);
    if (c->running && to > from) {
        to -= cut_character(c, from, to);
    }
    char next[24];
    (void)snprintf(next, sizeof(next), "%lld", (long long)MAX(cursor, to));
    http_resp_header(req, STR("EXECD-COMMANDS-TAIL-CURSOR"), str_from(next));
    if (to <= from) {
        http_resp_send(req, 200, TEXT_CTYPE, STR(""));
        return;
    }
    int fd = fcntl(cmd_log_fd(c->log), F_DUPFD_CLOEXEC, 3);
    if (fd < 0) {
        reply_error(req, 400, CODE_INVALID_BODY,
                    "error open combined output file for command %s: %s", c->id, strerror(errno));
        return;
    }
    http_resp_start(req, 200, TEXT_CTYPE, to - from);
    http_resp_sendfile(req, fd, from, (uint64_t)(to - from));
    http_resp_end(req);
}

void route_command_logs(struct http_req *req)
{
    struct str id = http_req_param(req, "id");
    const struct command *c = command_find(execd_of(req), id);
    int64_t cursor = 0;
    if (parse_i64(http_req_query_get(req, "cursor", 0), &cursor) < 0) {
        cursor = 0;
    }
    if (!c) {
        reply_error(req, 400, CODE_INVALID_BODY, "command not found: %.*s", STR_FMT(id));
    } else if (!c->background) {
        reply_error(req, 400, CODE_INVALID_BODY, "command %s is not running in background", c->id);
    } else if (!c->log) {
        reply_error(req, 400, CODE_INVALID_BODY,
                    "error open combined output file for command %s: expired", c->id);
    } else if (cursor < 0) {
        reply_error(req, 400, CODE_INVALID_BODY, "error seek file: negative position");
    } else {
        send_log(req, c, cursor);
    }
}

/* ---- interrupt ---- */

void route_interrupt(struct http_req *req)
{
    struct execd *x = execd_of(req);
    struct str id = http_req_query_get(req, "id", 0);
    if (id.n == 0) {
        reply_missing_query(req, "id");
        return;
    }
    struct context *context = context_find(x, id);
    struct command *c = command_find(x, id);
    if (context) {
        code_run_interrupt(context);
        reply_empty(req);
    } else if (c) {
        command_interrupt(c, req);
    } else if (session_delete(x, id)) {
        reply_empty(req);
    } else {
        reply_error(req, 500, CODE_RUNTIME_ERROR,
                    "error interruptting code context. no such session");
    }
}
