/* osb server: start, stop and look at a server on this machine. Its state is in
 * ~/.opensandbox/server. */

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/limits.h"

#define SERVER_NAME "opensandbox-server"

static char *state_path(const char *name)
{
    const char *home = getenv("HOME");
    return xasprintf("%s/.opensandbox/server/%s", home && home[0] ? home : ".", name);
}

/* Beside osb, or in PATH. */
static char *server_path(void)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (n > 0) {
        self[n] = '\0';
        char *slash = strrchr(self, '/');
        cleanup_free char *beside = xasprintf("%.*s/" SERVER_NAME, (int)(slash - self), self);
        if (access(beside, X_OK) == 0) {
            return take_ptr(&beside);
        }
    }
    return xstrdup(SERVER_NAME);
}

/* The process of the pid file, if it is a server; else 0. */
static pid_t running_pid(void)
{
    cleanup_free char *path = state_path("pid");
    cleanup_(buf_done) struct buf b = BUF_INIT(64);
    char exe[64], target[PATH_MAX];
    uint64_t pid;
    if (file_read(AT_FDCWD, path, &b) < 0 || parse_u64(str_trim(buf_str(&b)), &pid) < 0 ||
        pid > INT_MAX) {
        return 0;
    }
    (void)snprintf(exe, sizeof(exe), "/proc/%llu/exe", (unsigned long long)pid);
    ssize_t n = readlink(exe, target, sizeof(target) - 1);
    bool ours = n > 0 && str_find_str(str_n(target, (size_t)n), STR(SERVER_NAME)) >= 0;
    return ours ? (pid_t)pid : 0;
}

/* The address in what the server printed, or NULL. */
static char *address_of(void)
{
    cleanup_free char *path = state_path("out");
    cleanup_(buf_done) struct buf b = BUF_INIT(64u << 10);
    if (file_read(AT_FDCWD, path, &b) < 0) {
        return NULL;
    }
    struct str text = buf_str(&b);
    ptrdiff_t at = str_find_str(text, STR("listening on "));
    struct str rest = at < 0 ? STR_NULL : str_sub(text, (size_t)at + 13, text.n);
    ptrdiff_t end = str_find(rest, '\n');
    return end < 0 ? NULL : str_dup(str_sub(rest, 0, (size_t)end));
}

static int write_config(struct cli *x, char **ret_path)
{
    cleanup_free char *path = state_path("server.toml"), *data = state_path("data");
    cleanup_(buf_done) struct buf b = BUF_INIT(8192);
    (void)buf_printf(&b, "[server]\nhost = \"127.0.0.1\"\nport = %lld\ndata_dir = \"%s\"\n",
                     (long long)arg_int(&x->args, "port", 8080), data);
    int r = file_write_atomic(AT_FDCWD, path, buf_str(&b), 0600);
    if (r < 0) {
        return cli_fail(x, "%s: %s", path, strerror(-r));
    }
    *ret_path = take_ptr(&path);
    return 0;
}

/* A session of its own, output into files. The pid, or a negative errno. */
static pid_t spawn_server(const char *exe, const char *config, const char *out, const char *log)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t usual;
    pid_t pid;
    char *name = xstrdup(SERVER_NAME), *flag = xstrdup("--config"), *file = xstrdup(config);
    char *const argv[] = {name, flag, file, NULL};
    (void)sigemptyset(&usual);
    (void)sigaddset(&usual, SIGPIPE);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setsigdefault(&attr, &usual);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
    (void)posix_spawn_file_actions_init(&files);
    (void)posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    (void)posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out, O_WRONLY | O_CREAT | O_TRUNC,
                                           0600);
    (void)posix_spawn_file_actions_addopen(&files, STDERR_FILENO, log,
                                           O_WRONLY | O_CREAT | O_APPEND, 0600);
    int r = posix_spawnp(&pid, exe, &files, &attr, argv, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attr);
    free(name);
    free(flag);
    free(file);
    return r == 0 ? pid : -r;
}

/* Of a file, or "". */
static char *last_line(const char *path)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(64u << 20);
    (void)file_read(AT_FDCWD, path, &text); /* the log is named beside it */
    struct str s = str_trim_space(buf_str(&text));
    return str_dup(str_sub(s, (size_t)(str_rfind(s, '\n') + 1), s.n));
}

static int wait_listening(struct cli *x, pid_t pid, const char *log)
{
    for (int waited = 0; waited < CLI_SERVER_START_MS; waited += 50) {
        int status;
        cleanup_free char *url = address_of();
        if (url) {
            cleanup_free char *key = state_path("data/api-key");
            cleanup_(json_free) struct json *j =
                jobject("url", url, "key_file", key, "log", log, NULL);
            json_set(j, "pid", json_int_new(pid));
            out_panel(&x->out, "Server Started", j);
            return 0;
        }
        if (waitpid(pid, &status, WNOHANG) == pid) {
            cleanup_free char *why = last_line(log);
            return cli_fail(x, "The server ended at once; its log is %s\n%s", log, why);
        }
        (void)poll(NULL, 0, 50);
    }
    return cli_fail(x, "The server does not listen after %d s; its log is %s",
                    CLI_SERVER_START_MS / 1000, log);
}

static int run_start(struct cli *x)
{
    cleanup_free char *dir = state_path(""), *config = NULL, *exe = server_path();
    cleanup_free char *out = state_path("out"), *log = state_path("log"),
                      *pidfile = state_path("pid");
    char number[24];
    if (running_pid()) {
        return cli_fail(x, "A server is running already (pid %d).", (int)running_pid());
    }
    int r = dir_make(AT_FDCWD, dir, 0700);
    if (r < 0) {
        return cli_fail(x, "%s: %s", dir, strerror(-r));
    }
    const char *given = arg_get(&x->args, "config-file");
    if (given) {
        config = xstrdup(given);
    } else if (write_config(x, &config) != 0) {
        return 1;
    }
    (void)unlink(out);
    pid_t pid = spawn_server(exe, config, out, log);
    if (pid < 0) {
        return cli_fail(x, "%s: %s", exe, strerror(-pid));
    }
    (void)snprintf(number, sizeof(number), "%d", (int)pid);
    (void)file_write_atomic(AT_FDCWD, pidfile, str_from(number), 0600);
    return wait_listening(x, pid, log);
}

static int run_stop(struct cli *x)
{
    cleanup_free char *pidfile = state_path("pid");
    pid_t pid = running_pid();
    if (!pid) {
        return cli_fail(x, "No server of this user is running.");
    }
    if (kill(pid, SIGTERM) < 0) {
        return cli_fail(x, "pid %d: %s", (int)pid, strerror(errno));
    }
    for (int waited = 0; waited < CLI_SERVER_STOP_MS; waited += 50) {
        if (running_pid() != pid) {
            (void)unlink(pidfile);
            out_ok(&x->out, "Server stopped: pid %d", (int)pid);
            return 0;
        }
        (void)poll(NULL, 0, 50);
    }
    return cli_fail(x, "The server (pid %d) does not end.", (int)pid);
}

static int run_status(struct cli *x)
{
    pid_t pid = running_pid();
    cleanup_free char *url = pid ? address_of() : NULL, *log = state_path("log");
    cleanup_(json_free) struct json *j = jobject("status", pid ? "running" : "stopped", NULL);
    json_set(j, "pid", pid ? json_int_new(pid) : json_null_new());
    json_set(j, "url", jtext(url));
    json_set(j, "log", jtext(log));
    out_model(&x->out, "Server", j);
    return pid ? 0 : 1;
}

static const struct cli_opt start_opts[] = {
    {.name = "port",
     .letter = 'p',
     .type = ARG_INT,
     .min = 0,
     .max = 65535,
     .fallback = "8080",
     .help = "Port on 127.0.0.1; 0: any."},
    {.name = "config-file", .type = ARG_FILE, .help = "Configuration of the server."},
    OPT_OUTPUT("table|json|yaml"),
    {0},
};
static const struct cli_opt output[] = {OPT_OUTPUT("table|json|yaml"), {0}};
static const struct cli_cmd start = {
    .name = "start", .help = "Start a server.", .opts = start_opts, .run = run_start};
static const struct cli_cmd stop = {
    .name = "stop", .help = "Stop it.", .opts = output, .run = run_stop};
static const struct cli_cmd status = {
    .name = "status", .help = "Is it running? Exit code 1: no.", .opts = output, .run = run_status};
static const struct cli_cmd *const subs[] = {&start, &stop, &status, NULL};
const struct cli_cmd cmd_server = {
    .name = "server", .help = "A server on this machine.", .subs = subs};
