/* opensandbox-egress: outbound policy and credential vault of one sandbox. */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "egress/detach.h"
#include "egress/egress.h"
#include "egress/guard.h"
#include "egress/intercept/intercept.h"
#include "egress/logfile.h"
#include "egress/privilege.h"
#include "egress/slim.h"
#include "egress/vault/api.h"

#ifdef __SANITIZE_ADDRESS__
/* Freed memory that is kept to catch its use counts in the sidecar's control group, which is small
 * and not made larger for tests. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=8:thread_local_quarantine_size_kb=64";
}
#endif

struct egress_part *const egress_parts[] = {
    &vault_part,
    &intercept_part,
    NULL,
};

static const char usage[] =
    "usage: opensandbox-egress [--supervise | --detach | --version | --help]\n"
    "\n"
    "  --supervise   start the sidecar again when it dies, with its vault\n"
    "  --detach      the same, in the background: returns when it is ready\n"
    "\n"
    "Everything else is told by the environment: see opensandbox-egress(8)"
    ".\n";

/* The first place of OPENSANDBOX_LOG_OUTPUT that can be opened. */
static int log_place(void)
{
    struct str rest = str_from(getenv("OPENSANDBOX_LOG_OUTPUT"));
    while (rest.p) {
        cleanup_free char *place = str_dup(str_trim(str_cut(&rest, ',')));
        if (strcmp(place, "stderr") == 0) {
            return STDERR_FILENO;
        }
        if (!*place || strcmp(place, "stdout") == 0) {
            continue;
        }
        int fd = open(place, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
        if (fd >= 0) {
            return fd;
        }
    }
    return STDOUT_FILENO;
}

static void on_stop(int signo, void *arg)
{
    struct egress *g = arg;
    io_loop_stop(g->loop);
}

/* What is kept over a restart is in one directory, which may be out of reach by its path for the
 * user we become: so it is our working directory. */
static int enter_state_dir(struct egress_config *c, struct err *e)
{
    if (!c->state_dir) {
        return 0;
    }
    if (chdir(c->state_dir) < 0) {
        return err_sys(e, errno, "%s", c->state_dir);
    }
    c->state_dir = ".";
    c->policy_file = c->policy_file ? c->policy_file : "policy.json";
    return 0;
}

static int run(int log_fd)
{
    struct egress_config cfg;
    struct err e = {0};
    if (egress_config_load(&cfg, &e) < 0) {
        log_error("cannot start", LOG_ERR(&e));
        return 1;
    }
    log_set_level(cfg.log_level);
    (void)signal(SIGPIPE, SIG_IGN);
    struct egress *g = NULL;
    struct slim slim;
    if (enter_state_dir(&cfg, &e) == 0 && privilege_drop(&cfg, &e) == 0) {
        g = egress_new(&cfg, egress_parts, &e);
    }
    if (!g) {
        log_error("cannot start", LOG_ERR(&e));
        egress_config_done(&cfg);
        return 1;
    }
    io_signal_watch(g->loop, SIGTERM, on_stop, g);
    io_signal_watch(g->loop, SIGINT, on_stop, g);
    log_info("ready", LOG_S("version", OSB_VERSION), LOG_I("port", g->api_port),
             LOG_S("mode", cfg.nft ? "dns+nft" : "dns"),
             LOG_S("layout", cfg.inside ? "gateway" : "shared"));
    detach_ready();
    struct logfile *log = logfile_new(g->loop, log_fd);
    slim_start(&slim, g->loop, g);
    io_loop_run(g->loop);
    slim_stop(&slim);
    logfile_free(log);
    egress_free(g);
    egress_config_done(&cfg);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        (void)printf("opensandbox-egress %s\n", OSB_VERSION);
        return 0;
    }
    int log_fd = log_place();
    log_init(LOG_INFO, LOG_JSON, log_fd);
    if (argc == 2 && strcmp(argv[1], "--supervise") == 0) {
        return guard_run();
    }
    if (argc == 2 && strcmp(argv[1], "--detach") == 0) {
        struct err e = {0};
        if (detach(&e) < 0) {
            log_error("cannot start", LOG_ERR(&e));
            return 1;
        }
        return 0;
    }
    if (argc > 1) {
        bool help = strcmp(argv[1], "--help") == 0;
        (void)fputs(usage, help ? stdout : stderr);
        return help ? 0 : 2;
    }
    return run(log_fd);
}
