#include "cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include "base/fd.h"

#define CTRL_P 0x10
#define CTRL_Q 0x11

struct terminal {
    struct cli *x;
    struct osb_pty *pty;
    int exit_code;
    bool has_exit, detached, is_tty;
    int quit_fd, signal_fd;
    struct termios before;
};

static void on_output(const void *p, size_t n, void *arg)
{
    struct terminal *t = arg;
    (void)out_write(&t->x->out, str_n(p, n));
}

static void on_exit_code(int code, void *arg)
{
    struct terminal *t = arg;
    t->has_exit = true;
    t->exit_code = code;
}

/* ---- the local side: keys and size, on a thread of their own ---- */

static void send_size(struct terminal *t)
{
    struct winsize w;
    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_row && w.ws_col) {
        (void)osb_pty_resize(t->pty, w.ws_row, w.ws_col);
    }
}

/* Passes keys on, and looks for Ctrl-P Ctrl-Q in them. False: detach. */
static bool pass_keys(struct terminal *t, const char *p, size_t n, bool *held)
{
    cleanup_(buf_done) struct buf out = BUF_INIT(1u << 20);
    for (size_t i = 0; i < n; i++) {
        if (*held) {
            *held = false;
            if (p[i] == CTRL_Q) {
                return false;
            }
            (void)buf_add_char(&out, CTRL_P);
        }
        if (t->is_tty && p[i] == CTRL_P) {
            *held = true;
        } else {
            (void)buf_add_char(&out, p[i]);
        }
    }
    while (osb_pty_write(t->pty, out.p, out.len) < 0) {
        (void)poll(NULL, 0, 10); /* the other side is slow: so are we */
    }
    return true;
}

static void *local_side(void *arg)
{
    struct terminal *t = arg;
    bool held = false;
    char keys[16384];
    struct pollfd fds[3] = {{.fd = t->quit_fd, .events = POLLIN},
                            {.fd = t->signal_fd, .events = POLLIN},
                            {.fd = STDIN_FILENO, .events = POLLIN}};
    for (;;) {
        if (poll(fds, 3, -1) < 0 && errno != EINTR) {
            return NULL;
        }
        if (fds[0].revents) {
            return NULL;
        }
        if (fds[1].revents) {
            struct signalfd_siginfo si;
            (void)fd_read_full(t->signal_fd, &si, sizeof(si));
            send_size(t);
        }
        if (fds[2].revents) {
            ssize_t n = read(STDIN_FILENO, keys, sizeof(keys));
            if (n <= 0) {
                (void)osb_pty_write(t->pty, "\004",
                                    1); /* the end of input, as a terminal says it */
                fds[2].fd = -1;
            } else if (!pass_keys(t, keys, (size_t)n, &held)) {
                t->detached = true;
                osb_pty_detach(t->pty);
                return NULL;
            }
        }
    }
}

static void raw_mode(struct terminal *t, bool on)
{
    struct termios raw;
    if (!t->is_tty) {
        return;
    }
    if (on) {
        (void)tcgetattr(STDIN_FILENO, &t->before);
        raw = t->before;
        cfmakeraw(&raw);
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    } else {
        (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &t->before);
    }
}

static int run_both_sides(struct terminal *t, struct osb_error *e)
{
    pthread_t thread;
    sigset_t winch;
    uint64_t one = 1;
    (void)sigemptyset(&winch);
    (void)sigaddset(&winch, SIGWINCH);
    (void)pthread_sigmask(SIG_BLOCK, &winch, NULL);
    t->signal_fd = signalfd(-1, &winch, SFD_CLOEXEC);
    t->quit_fd = eventfd(0, EFD_CLOEXEC);
    must(t->signal_fd >= 0 && t->quit_fd >= 0);
    raw_mode(t, true);
    send_size(t);
    must(pthread_create(&thread, NULL, local_side, t) == 0);
    int r = osb_pty_run(t->pty, e);
    (void)fd_write_full(t->quit_fd, &one, sizeof(one));
    (void)pthread_join(thread, NULL);
    raw_mode(t, false);
    (void)close(t->signal_fd);
    (void)close(t->quit_fd);
    return r;
}

int terminal_run(struct cli *x, struct osb_sandbox *s, const struct terminal_opts *o,
                 bool *ret_detached)
{
    struct osb_error e = {0};
    struct terminal t = {.x = x, .is_tty = isatty(STDIN_FILENO)};
    const struct osb_pty_ops ops = {.on_output = on_output, .on_exit = on_exit_code};
    const struct osb_pty_opts po = {
        .cwd = o->cwd, .command = o->command, .id = o->attach, .takeover = o->takeover};
    t.pty = osb_pty_open(s, &po, &ops, &t, &e);
    if (!t.pty) {
        return cli_error(x, &e, "Open terminal");
    }
    int r = run_both_sides(&t, &e);
    *ret_detached = t.detached || (r < 0 && e.code != OSB_ENOTFOUND);
    if (t.detached) {
        (void)fprintf(
            stderr,
            "\r\nDetached. The program goes on; come back with:\n  osb shell %s --attach %s\n",
            osb_sandbox_id(s), osb_pty_id(t.pty));
    } else if (r < 0) {
        r = cli_error(x, &e, "Terminal %s", osb_pty_id(t.pty));
    } else {
        (void)osb_pty_delete(s, osb_pty_id(t.pty), NULL);
        r = t.has_exit && t.exit_code >= 0 && t.exit_code < 256 ? t.exit_code : 1;
    }
    osb_pty_free(t.pty);
    return t.detached ? 0 : r;
}
