/* Flags and environment. One line per flag in the table below. */

#include "execd/config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "execd/limits.h"

enum flag_kind {
    FLAG_TEXT,
    FLAG_PORT,
    FLAG_FD,
    FLAG_MS,
    FLAG_BYTES,
    FLAG_LEVEL,
    FLAG_SWITCH,
    FLAG_CGROUP
};

struct flag {
    const char *name;
    enum flag_kind kind;
    size_t offset;
    const char *env; /* read when the flag is not given */
    bool init_only;
    const char *help;
};

#define AT(member) offsetof(struct execd_config, member)

static const struct flag flags[] = {
    {"port", FLAG_PORT, AT(port), NULL, false, "TCP port to serve (0: any free one)"},
    {"address", FLAG_TEXT, AT(address), NULL, false, "numeric address to serve on"},
    {"listen", FLAG_TEXT, AT(listen_unix), NULL, false, "unix:/path to serve on instead of TCP"},
    {"listen-fd", FLAG_FD, AT(listen_fd), NULL, false, "inherited listening socket to serve on"},
    {"notify-fd", FLAG_FD, AT(notify_fd), NULL, false, "descriptor for JSON lines about our life"},
    {"access-token", FLAG_TEXT, AT(access_token), "EXECD_ACCESS_TOKEN", false,
     "token every request must carry"},
    {"log-level", FLAG_LEVEL, AT(log_level), NULL, false, "0-3 error, 4 warn, 5-6 info, 7 debug"},
    {"workload-cgroup", FLAG_CGROUP, AT(workload_procs), "EXECD_WORKLOAD_CGROUP", false,
     "cgroups, separated by ':', for everything we start: directories, or /proc/self/fd/N for an "
     "inherited descriptor of cgroup.procs"},
    {"stop-timeout", FLAG_MS, AT(stop_grace_ms), "EXECD_STOP_TIMEOUT", false,
     "on SIGTERM, time for processes to end before they are killed"},
    {"jupyter-host", FLAG_TEXT, AT(jupyter_host), "JUPYTER_HOST", false, "base URL of Jupyter"},
    {"jupyter-token", FLAG_TEXT, AT(jupyter_token), "JUPYTER_TOKEN", false, "its token"},
    {"jupyter-idle-poll-interval", FLAG_MS, AT(jupyter_idle_poll_ms),
     "EXECD_JUPYTER_IDLE_POLL_INTERVAL", false, "accepted and not needed"},
    {"code-prestart", FLAG_TEXT, AT(code_prestart), "EXECD_CODE_PRESTART", false,
     "languages, separated by ',', whose kernels are started ahead"},
    {"code-hang-timeout", FLAG_MS, AT(code_hang_ms), "EXECD_CODE_HANG_TIMEOUT", false,
     "a kernel that is stopped or does not take code for so long is ended (0: never)"},
    {"graceful-shutdown-timeout", FLAG_MS, SIZE_MAX, "EXECD_API_GRACE_SHUTDOWN", false,
     "accepted and not needed: streams end without waiting"},
    {"keep", FLAG_SWITCH, AT(keep), NULL, true, "go on serving when the entrypoint has ended"},
    {"exit-with-entrypoint", FLAG_SWITCH, SIZE_MAX, NULL, true, "end with it (the default)"},
    {"entrypoint-log", FLAG_FD, AT(entrypoint_log_fd), NULL, true,
     "descriptor for the entrypoint's stdout and stderr"},
    {"entrypoint-log2", FLAG_FD, AT(entrypoint_log2_fd), NULL, true,
     "descriptor to change to when that one is full, and back"},
    {"entrypoint-log-max", FLAG_BYTES, AT(entrypoint_log_max), NULL, true,
     "size of each (a time is then put in front of every line); 0: no end"},
    {"user", FLAG_TEXT, AT(user), NULL, true,
     "user[:group], by name or number, for what is started and for files"},
    {"control-fd", FLAG_FD, AT(control_fd), NULL, true,
     "listening socket on which the entrypoint is told later"},
    {"log-dir", FLAG_TEXT, AT(log_dir), NULL, true, "or a directory for entrypoint.log"},
};

void config_usage(void)
{
    printf(
        "usage: execd [flags]\n       execd init [flags] -- entrypoint [argument...]\n\nflags:\n");
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        printf("  --%-28s %s%s\n", flags[i].name, flags[i].help,
               flags[i].init_only ? " (init)" : "");
    }
}

/* "/sys/fs/cgroup/work:/x/cgroup.procs" -> paths of the files to write a pid to. */
static const char *const *parse_cgroups(struct str value)
{
    const char **paths = NULL;
    size_t n = 0;
    while (value.p) {
        struct str dir = str_cut(&value, ':');
        if (dir.n == 0) {
            continue;
        }
        paths = xreallocarray(paths, n + 2, sizeof(*paths));
        bool is_file = str_ends(dir, STR("/cgroup.procs")) || str_ends(dir, STR("/tasks")) ||
                       str_starts(dir, STR("/proc/self/fd/"));
        paths[n++] = xasprintf("%.*s%s", STR_FMT(dir), is_file ? "" : "/cgroup.procs");
        paths[n] = NULL;
    }
    return paths;
}

static void free_cgroups(const char *const *paths)
{
    union {
        const char *const *c;
        char **m;
    } u = {.c = paths};
    for (size_t i = 0; paths && paths[i]; i++) {
        free(u.m[i]);
    }
    free(u.m);
}

static int parse_level(struct str value, enum log_level *ret)
{
    uint64_t n;
    if (parse_u64(value, &n) < 0) {
        return log_level_parse(value, ret);
    }
    *ret = n <= 3 ? LOG_ERROR : n == 4 ? LOG_WARN : n <= 6 ? LOG_INFO : LOG_DEBUG;
    return 0;
}

static int set_text(struct execd_config *c, const struct flag *f, const char *value)
{
    void *at = (char *)c + f->offset;
    if (f->offset == AT(access_token)) {
        *(struct str *)at = str_from(value);
    } else if (f->offset == AT(listen_unix)) {
        if (!str_starts(str_from(value), STR("unix:/"))) {
            return -EINVAL;
        }
        *(const char **)at = value + 5;
    } else {
        *(const char **)at = value;
    }
    return 0;
}

static int set_port(struct execd_config *c, struct str value)
{
    uint32_t port;
    if (parse_u32(value, &port) < 0 || port > UINT16_MAX) {
        return -EINVAL;
    }
    c->port = (uint16_t)port;
    c->port_given = true;
    return 0;
}

static int set_fd(int *at, struct str value)
{
    uint32_t fd;
    if (parse_u32(value, &fd) < 0 || fd > INT32_MAX || fcntl((int)fd, F_GETFD) < 0) {
        return -EINVAL;
    }
    *at = (int)fd;
    return fd_set_cloexec((int)fd, true);
}

static int set_ms(struct execd_config *c, const struct flag *f, struct str value)
{
    int64_t ms;
    if (parse_duration_ms(value, &ms) < 0 || ms < 0) {
        return -EINVAL;
    }
    if (f->offset != SIZE_MAX) {
        *(int64_t *)(void *)((char *)c + f->offset) = ms;
    }
    return 0;
}

static int set_bytes(struct execd_config *c, const struct flag *f, struct str value)
{
    uint64_t bytes;
    if (parse_quantity_bytes(value, &bytes) < 0 || bytes > INT64_MAX) {
        return -EINVAL;
    }
    *(int64_t *)(void *)((char *)c + f->offset) = (int64_t)bytes;
    return 0;
}

static int set_switch(struct execd_config *c, const struct flag *f, const char *value)
{
    bool on = true;
    if (value && parse_bool(str_from(value), &on) < 0) {
        return -EINVAL;
    }
    if (f->offset == SIZE_MAX) {
        c->keep = !on;
    } else {
        *(bool *)((char *)c + f->offset) = on;
    }
    return 0;
}

static int flag_set(struct execd_config *c, const struct flag *f, const char *value)
{
    switch (f->kind) {
    case FLAG_TEXT:
        return set_text(c, f, value);
    case FLAG_LEVEL:
        return parse_level(str_from(value), &c->log_level);
    case FLAG_CGROUP:
        free_cgroups(c->workload_procs);
        c->workload_procs = parse_cgroups(str_from(value));
        return 0;
    case FLAG_SWITCH:
        return set_switch(c, f, value);
    case FLAG_PORT:
        return set_port(c, str_from(value));
    case FLAG_FD:
        return set_fd((int *)(void *)((char *)c + f->offset), str_from(value));
    case FLAG_MS:
        return set_ms(c, f, str_from(value));
    case FLAG_BYTES:
        return set_bytes(c, f, str_from(value));
    }
    return -EINVAL;
}

static const struct flag *flag_find(struct str name)
{
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        if (str_eq(str_from(flags[i].name), name)) {
            return &flags[i];
        }
    }
    return NULL;
}

/* "reexec" has been dealt with before we got here. */
static int clone3_mode(struct execd_config *c, const char *value, struct err *e)
{
    if (value && *value && parse_bool(str_from(value), &c->clone3_compat) < 0) {
        return err_set(e, ERR_INVALID, "EXECD_CLONE3_COMPAT: expected a boolean or \"reexec\"");
    }
    return 0;
}

static int read_environment(struct execd_config *c, bool again, struct err *e)
{
    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        const char *value = flags[i].env ? getenv(flags[i].env) : NULL;
        if (!value || !*value || (again && flags[i].kind == FLAG_CGROUP)) {
            continue;
        }
        if (flag_set(c, &flags[i], value) < 0) {
            return err_set(e, ERR_INVALID, "%s: invalid value", flags[i].env);
        }
    }
    c->envs_path = getenv("EXECD_ENVS");
    c->log_file = getenv("EXECD_LOG_FILE");
    c->tmp_dir = getenv("TMPDIR");
    if (!c->tmp_dir || c->tmp_dir[0] != '/') {
        c->tmp_dir = "/tmp";
    }
    return clone3_mode(c, getenv("EXECD_CLONE3_COMPAT"), e);
}

/* The token leaves the environment, and the memory the kernel shows as /proc/self/environ. */
static void hide_token(struct execd_config *c)
{
    char *env = getenv("EXECD_ACCESS_TOKEN");
    if (c->access_token.n) {
        c->access_token.p = xstrndup(c->access_token.p, c->access_token.n);
    }
    if (env) {
        memset(env, 0, strlen(env));
        (void)unsetenv("EXECD_ACCESS_TOKEN"); /* cannot fail for a valid name */
    }
}

/* One argument that starts with '-'. Returns how many arguments it took, or -1. */
static int parse_flag(struct execd_config *c, char *const *argv, struct err *e)
{
    struct str arg = str_from(argv[0]);
    arg = str_sub(arg, str_starts(arg, STR("--")) ? 2 : 1, arg.n);
    struct str name = str_cut(&arg, '=');
    const struct flag *f = flag_find(name);
    if (!f || (f->init_only && !c->init)) {
        return err_set(e, ERR_INVALID, "flag provided but not defined: -%.*s", STR_FMT(name));
    }
    bool separate = !arg.p && f->kind != FLAG_SWITCH;
    const char *value = arg.p ? arg.p : separate ? argv[1] : NULL;
    if (separate && !value) {
        return err_set(e, ERR_INVALID, "flag needs an argument: -%s", f->name);
    }
    if (flag_set(c, f, value) < 0) {
        return err_set(e, ERR_INVALID, "invalid value \"%s\" for flag -%s", value, f->name);
    }
    return separate ? 2 : 1;
}

static enum config_result parse_flags(struct execd_config *c, int argc, char *const *argv,
                                      struct err *e)
{
    int i = c->init ? 2 : 1;
    while (i < argc && argv[i][0] == '-' && argv[i][1]) {
        struct str arg = str_from(argv[i]);
        if (str_eq(arg, STR("--"))) {
            i++;
            break;
        }
        if (str_eq(arg, STR("--help")) || str_eq(arg, STR("-help")) || str_eq(arg, STR("-h"))) {
            return CONFIG_HELP;
        }
        if (str_eq(arg, STR("--version")) || str_eq(arg, STR("-version"))) {
            return CONFIG_VERSION;
        }
        int used = parse_flag(c, argv + i, e);
        if (used < 0) {
            return CONFIG_BAD;
        }
        i += used;
    }
    if (c->init && i < argc) {
        c->entrypoint = argv + i;
    }
    return CONFIG_RUN;
}

enum config_result config_parse(struct execd_config *c, int argc, char *const *argv, struct err *e)
{
    *c = (struct execd_config){
        .port = 44772,
        .address = "0.0.0.0",
        .log_level = LOG_INFO,
        .jupyter_host = "",
        .code_hang_ms = EXECD_KERNEL_HANG_MS,
        .jupyter_token = "",
        .jupyter_idle_poll_ms = 100,
        .listen_fd = -1,
        .notify_fd = -1,
        .entrypoint_log_fd = -1,
        .entrypoint_log2_fd = -1,
        .control_fd = -1,
        .stop_grace_ms = EXECD_STOP_GRACE_MS,
        .init = argc > 1 && str_eq(str_from(argv[1]), STR("init")),
    };
    if (read_environment(c, false, e) < 0) {
        return CONFIG_BAD;
    }
    enum config_result r = parse_flags(c, argc, argv, e);
    hide_token(c);
    return r;
}

int config_reread(struct execd_config *c, struct err *e)
{
    union {
        const char *c;
        char *m;
    } old = {.c = c->access_token.p};
    bool has_token = getenv("EXECD_ACCESS_TOKEN") != NULL;
    if (read_environment(c, true, e) < 0) {
        return -1;
    }
    if (has_token && c->access_token.p != old.c) {
        hide_token(c);
        free(old.m);
    }
    return 0;
}

void config_drop_cgroups(struct execd_config *c)
{
    free_cgroups(c->workload_procs);
    c->workload_procs = NULL;
}

void config_done(struct execd_config *c)
{
    union {
        const char *c;
        char *m;
    } token = {.c = c->access_token.p};
    free(token.m);
    free_cgroups(c->workload_procs);
    *c = (struct execd_config){0};
}
