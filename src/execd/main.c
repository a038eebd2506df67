/* execd: the process inside every sandbox. */

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>

#include "base/log.h"
#include "execd/config.h"
#include "execd/notify.h"
#include "execd/serve.h"
#include "execd/stop.h"

static void on_stop_signal(int signo, void *arg)
{
    execd_stop(arg);
}

/* Logs are JSON lines on stderr, or in the file of EXECD_LOG_FILE. */
static void start_log(const struct execd_config *c)
{
    int fd = STDERR_FILENO;
    if (c->log_file && *c->log_file) {
        int file = open(c->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
        fd = file >= 0 ? file : fd;
    }
    log_init(c->log_level, LOG_JSON, fd);
}

static int run(struct execd_config *cfg)
{
    start_log(cfg);
    struct err e = {0};
    struct execd *x = execd_new(cfg, &e);
    if (!x) {
        log_error("cannot start", LOG_ERR(&e));
        return 1;
    }
    (void)signal(SIGPIPE, SIG_IGN);
    io_signal_watch(x->loop, SIGTERM, on_stop_signal, x);
    io_signal_watch(x->loop, SIGINT, on_stop_signal, x);
    log_info("listening", LOG_I("port", x->port), LOG_S("version", OSB_VERSION));
    notify_ready(x->cfg.notify_fd, x->port);
    io_loop_run(x->loop);
    execd_free(x);
    return 0;
}

int main(int argc, char **argv)
{
    struct execd_config cfg;
    struct err e = {0};
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
