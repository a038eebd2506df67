/* execd: the process inside every sandbox. */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "execd/clone3.h"
#include "execd/code/context.h"
#include "execd/code/port.h"
#include "execd/config.h"
#include "execd/init.h"
#include "execd/notify.h"
#include "execd/serve.h"
#include "execd/stop.h"
#include "execd/supervise.h"

static void on_stop_signal(int signo, void *arg)
{
    execd_stop(arg);
}

/* EXECD_CLONE3_COMPAT=reexec: the filter is inherited, and has then been there from the program's
 * first instruction. Comes before anything is taken from the environment or the descriptors. */
static int refuse_clone3_and_restart(char *const *argv, struct err *e)
{
    const char *mode = getenv("EXECD_CLONE3_COMPAT");
    if (!mode || strcmp(mode, "reexec") != 0) {
        return 0;
    }
    if (clone3_refuse(e) < 0) {
        return -1;
    }
    (void)unsetenv("EXECD_CLONE3_COMPAT"); /* cannot fail for a valid name */
    (void)execv("/proc/self/exe", argv);
    return err_sys(e, errno, "EXECD_CLONE3_COMPAT=reexec");
}

static int serve(struct execd *x)
{
    (void)signal(SIGPIPE, SIG_IGN);
    io_signal_watch(x->loop, SIGTERM, on_stop_signal, x);
    io_signal_watch(x->loop, SIGINT, on_stop_signal, x);
    io_signal_watch(x->loop, SIGQUIT, on_stop_signal, x);
    log_info("listening", LOG_I("port", x->port), LOG_S("version", OSB_VERSION));
    code_port_update(x);
    notify_ready(x->cfg.notify_fd, x->port);
    struct init *in = x->cfg.init ? init_start(x) : NULL;
    code_prestart(x, x->cfg.code_prestart);
    io_loop_run(x->loop);
    int status = in ? init_status(in) : 0;
    init_free(in);
    return status;
}

static int run(struct execd_config *cfg)
{
    execd_log_start(cfg);
    struct err e = {0};
    struct execd *x = NULL;
    if (!cfg->clone3_compat || clone3_refuse(&e) == 0) {
        x = execd_new(cfg, &e);
    }
    if (!x) {
        log_error("cannot start", LOG_ERR(&e));
        return 1;
    }
    int status = serve(x);
    execd_free(x);
    return status;
}

/* `execd supervise …`, or the program under its other name. */
static bool is_supervisor(int argc, char **argv)
{
    const char *slash = argc > 0 ? strrchr(argv[0], '/') : NULL;
    const char *name = slash ? slash + 1 : argc > 0 ? argv[0] : "";
    return strcmp(name, "opensandbox-supervisor") == 0;
}

static int supervise(int argc, char **argv)
{
    struct supervise_config c;
    struct err e = {0};
    if (supervise_parse(&c, argc, argv, &e) < 0) {
        if (e.code == ERR_UNSUPPORTED) {
            supervise_usage();
            return 0;
        }
        fprintf(stderr, "opensandbox-supervisor: %s\n", e.msg);
        return 2;
    }
    log_init(c.log_level, LOG_JSON, STDERR_FILENO);
    return supervise_run(&c);
}

int main(int argc, char **argv)
{
    if (is_supervisor(argc, argv)) {
        return supervise(argc, argv);
    }
    if (argc > 1 && strcmp(argv[1], "supervise") == 0) {
        return supervise(argc - 1, argv + 1);
    }
    struct execd_config cfg;
    struct err e = {0};
    if (refuse_clone3_and_restart(argv, &e) < 0) {
        fprintf(stderr, "execd: %s\n", e.msg);
        return 1;
    }
    if (argc > 1 && strcmp(argv[1], "init") == 0) {
        init_prepare_environment();
    }
    switch (config_parse(&cfg, argc, argv, &e)) {
    case CONFIG_HELP:
        config_usage();
        return 0;
    case CONFIG_VERSION:
        printf("execd %s\n", OSB_VERSION);
        return 0;
    case CONFIG_BAD:
        fprintf(stderr, "execd: %s\n", e.msg);
        return 2;
    case CONFIG_RUN:
        break;
    }
    return run(&cfg);
}
