/* opensandbox-server: arguments, init-config, --check, and the line that says it is ready. */

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/must.h"
#include "server/app_run.h"
#include "server/limits.h"

DEFINE_CLEANUP(struct config *, config_unref)

static const char usage[] =
    "usage: opensandbox-server [--config FILE] [--check]\n"
    "       opensandbox-server init-config [FILE] [--example oci|docker] [--force]\n"
    "       opensandbox-server --version | --help\n"
    "\n"
    "  --config FILE   configuration; else $SANDBOX_CONFIG_PATH, else ~/.sandbox.toml if it is\n"
    "                  there, else the defaults\n"
    "  --check         read the configuration, say what is wrong with it, and exit\n"
    "  init-config     write a configuration file (~/.sandbox.toml) to start from\n"
    "\n"
    "SIGHUP reloads the configuration, SIGTERM stops the server; sandboxes go on.\n";

/* ---- init-config ---- */
static int write_config(const char *path, const char *example, bool force, struct err *e)
{
    const char *home = getenv("HOME");
    cleanup_free char *full =
        path ? xstrdup(path) : xasprintf("%s/.sandbox.toml", home && *home ? home : "/root");
    struct buf text = BUF_INIT(1u << 20);
    int r = config_render(&text, example, e);
    if (r == 0 && !force && access(full, F_OK) == 0) {
        r = err_set(e, ERR_CONFLICT, "%s exists; use --force to replace it", full);
    }
    const char *slash = strrchr(full, '/');
    if (r == 0 && slash && slash != full) {
        cleanup_free char *dir = xstrndup(full, (size_t)(slash - full));
        int made = dir_make(AT_FDCWD, dir, 0755);
        r = made < 0 ? err_sys(e, made, "cannot create %s", dir) : 0;
    }
    if (r == 0) {
        int wrote = file_write_atomic(AT_FDCWD, full, buf_str(&text), 0600);
        r = wrote < 0 ? err_sys(e, wrote, "cannot write %s", full) : 0;
    }
    if (r == 0) {
        (void)printf("wrote %s\n", full);
    }
    buf_done(&text);
    return r;
}

static int init_config(int argc, char **argv)
{
    static const struct option opts[] = {
        {"example", required_argument, NULL, 'e'},
        {"force", no_argument, NULL, 'f'},
        {0},
    };
    const char *example = NULL;
    bool force = false;
    int c;
    while ((c = getopt_long(argc, argv, "", opts, NULL)) != -1) {
        if (c == 'e') {
            example = optarg;
        } else if (c == 'f') {
            force = true;
        } else {
            (void)fputs(usage, stderr);
            return 2;
        }
    }
    struct err e = {0};
    if (write_config(optind < argc ? argv[optind] : NULL, example, force, &e) < 0) {
        (void)printf("%s\n", e.msg);
        return 1;
    }
    return 0;
}

/* ---- running ---- */
static void log_setup(const struct config *cfg)
{
    enum log_level level = LOG_INFO;
    (void)log_level_parse(str_from(cfg->log.level), &level); /* checked when it was loaded */
    log_init(level, !strcmp(cfg->log.format, "json") ? LOG_JSON : LOG_HUMAN, STDERR_FILENO);
}

static void say_notes(const struct config_notes *notes)
{
    for (size_t i = 0; i < notes->n; i++) {
        log_warn(notes->v[i]);
    }
    if (notes->n_dropped) {
        log_warn("more remarks on the configuration", LOG_I("count", notes->n_dropped));
    }
}

/* Tells a service manager that started us with Type=notify. */
static void notify_ready(void)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    const char *path = getenv("NOTIFY_SOCKET");
    size_t n = path ? strlen(path) : 0;
    if (!n || n >= sizeof(un.sun_path)) {
        return;
    }
    memcpy(un.sun_path, path, n);
    if (un.sun_path[0] == '@') {
        un.sun_path[0] = '\0';
    }
    cleanup_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&un,
                     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    }
}

static int serve(struct config *cfg)
{
    struct err e = {0};
    struct app *app = app_new(cfg, &e);
    if (!app) {
        log_error("cannot start", LOG_ERR(&e));
        return 1;
    }
    char addr[IO_ADDR_TEXT_MAX];
    (void)printf("listening on http://%s\n", io_addr_format(&app->bound, addr));
    (void)fflush(stdout);
    notify_ready();
    app_run(app);
    app_free(app);
    log_info("stopped");
    return 0;
}

struct args {
    const char *config;
    bool check;
};

/* 0: go on; else the exit code + 1. */
static int parse_args(int argc, char **argv, struct args *a)
{
    static const struct option opts[] = {
        {"config", required_argument, NULL, 'c'}, {"check", no_argument, NULL, 'k'},
        {"reload", no_argument, NULL, 'r'},       {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},         {0},
    };
    int c;
    while ((c = getopt_long(argc, argv, "c:hv", opts, NULL)) != -1) {
        switch (c) {
        case 'c':
            a->config = optarg;
            break;
        case 'k':
            a->check = true;
            break;
        case 'r':
            (void)fputs("--reload has no effect: send SIGHUP instead\n", stderr);
            break;
        case 'v':
            (void)puts("opensandbox-server " OSB_VERSION);
            return 1;
        case 'h':
            (void)fputs(usage, stdout);
            return 1;
        default:
            (void)fputs(usage, stderr);
            return 3;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "unknown argument '%s'\n%s", argv[optind], usage);
        return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    /* Worker threads share two arenas: one each would cost a megabyte a thread. */
    (void)mallopt(M_ARENA_MAX, 2);
    /* A fixed border. The C library would raise it to 2 MB with the first batch of rules that is
     * freed, and from then on keep every buffer of that size in the heap. */
    (void)mallopt(M_MMAP_THRESHOLD, MALLOC_MAP_BYTES);
    (void)mallopt(M_TRIM_THRESHOLD, MALLOC_MAP_BYTES);
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && !strcmp(argv[1], "init-config")) {
        return init_config(argc - 1, argv + 1);
    }
    struct args a = {0};
    int r = parse_args(argc, argv, &a);
    if (r) {
        return r - 1;
    }
    struct config_notes notes = {0};
    struct err e = {0};
    cleanup_(config_unref) struct config *cfg = config_load(a.config, &notes, &e);
    if (!cfg) {
        config_notes_done(&notes);
        (void)fprintf(stderr, "opensandbox-server: %s\n", e.msg);
        return 1;
    }
    log_setup(cfg);
    say_notes(&notes);
    size_t ignored = notes.n;
    config_notes_done(&notes);
    if (a.check) {
        (void)printf(ignored ? "%s: fine, apart from what is ignored (above)\n" : "%s: fine\n",
                     cfg->path ? cfg->path : "defaults");
        return 0;
    }
    return serve(cfg);
}
