/* Listening and dialling: TCP, Unix sockets, deadlines, network namespaces, running out of
 * descriptors. */

#include "on_loop.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/log.h"
#include "io/dial.h"
#include "io/listener.h"

static struct io_stream *accepted[128];
static int n_accepted;
static struct io_stream *dialled;
static int n_dialled, dial_error;

static int setup(void **state)
{
    n_accepted = n_dialled = 0;
    dialled = NULL;
    return loop_open(state);
}

static int teardown(void **state)
{
    for (int i = 0; i < n_accepted; i++) {
        io_stream_close(accepted[i]);
    }
    io_stream_close(dialled);
    return loop_close(state);
}

static void on_accept(struct io_stream *s, void *arg)
{
    assert_int_equal(io_stream_wanted(s), 0);
    accepted[n_accepted++] = s;
}

static void on_dial(struct io_stream *s, int error, void *arg)
{
    io_stream_close(dialled);
    dialled = s;
    dial_error = error;
    n_dialled++;
    assert_int_equal(s == NULL, error < 0);
}

static struct io_listener *listen_on(const char *ip, struct io_addr *ret)
{
    struct err e = {0};
    struct io_addr a;

    assert_int_equal(io_addr_ip(str_from(ip), 0, &a), 0);
    struct io_listener *l = io_listen(loop, &a, NULL, on_accept, NULL, &e);
    if (!l) {
        fail_msg("%s", e.msg);
    }
    assert_int_equal(io_listener_addr(l, ret), 0);
    assert_true(io_addr_port(ret) > 0);
    return l;
}

static void check_bytes(void)
{
    char got[8];

    assert_int_equal(io_stream_write(dialled, "ping", 4), 4);
    io_stream_want(accepted[0], IO_READABLE);
    TURN_UNTIL(loop, io_stream_read(accepted[0], got, 8) == 4);
}

static void test_tcp(void **state)
{
    struct io_addr a, peer;

    (void)state;
    struct io_listener *l = listen_on("127.0.0.1", &a);
    assert_non_null(io_dial_start(loop, &a, -1, WAIT_MS, on_dial, NULL));
    assert_int_equal(n_dialled, 0);
    TURN_UNTIL(loop, n_dialled && n_accepted);
    assert_int_equal(dial_error, 0);
    assert_int_equal(io_stream_peer(dialled, &peer), 0);
    assert_true(io_addr_eq(&peer, &a));
    check_bytes();
    io_listener_close(l);
    io_listener_close(NULL);
}

static void test_refused(void **state)
{
    struct io_addr a;

    (void)state;
    io_listener_close(listen_on("127.0.0.1", &a));
    (void)io_dial_start(loop, &a, -1, WAIT_MS, on_dial, NULL);
    assert_int_equal(n_dialled, 0);
    TURN_UNTIL(loop, n_dialled);
    assert_int_equal(dial_error, -ECONNREFUSED);
}

static void test_unix(void **state)
{
    char dir[] = "/tmp/io-dial-XXXXXX", path[64];
    struct io_addr a;
    struct err e = {0};
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/s", dir);
    assert_int_equal(io_addr_unix(str_from(path), &a), 0);

    (void)io_dial_start(loop, &a, -1, WAIT_MS, on_dial, NULL);
    assert_int_equal(n_dialled, 0); /* fails at once, but not from inside */
    TURN_UNTIL(loop, n_dialled == 1);
    assert_int_equal(dial_error, -ENOENT);

    struct io_listen_opts o = {.unix_mode = 0660};
    struct io_listener *l = io_listen(loop, &a, &o, on_accept, NULL, &e);
    assert_non_null(l);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0660);
    assert_null(io_listen(loop, &a, NULL, on_accept, NULL, &e)); /* it is alive: not stolen */
    assert_int_equal(e.sys, EADDRINUSE);
    n_accepted = 0; /* the probe above may have knocked */
    (void)io_dial_start(loop, &a, -1, WAIT_MS, on_dial, NULL);
    TURN_UNTIL(loop, n_dialled == 2 && n_accepted);
    assert_int_equal(dial_error, 0);
    io_listener_close(l);
    assert_int_equal(stat(path, &st), -1); /* removed */

    int stale = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0); /* what a crash leaves behind */
    assert_int_equal(bind(stale, &a.sa, a.len), 0);
    (void)close(stale);
    l = io_listen(loop, &a, NULL, on_accept, NULL, &e);
    assert_non_null(l);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    io_listener_close(l);
    assert_int_equal(rmdir(dir), 0);
}

/* A listener whose queue is full and that never accepts. */
static void test_unix_queue_full_then_deadline(void **state)
{
    struct io_addr a;
    char name[64];
    int fds[64], n = 0;

    (void)state;
    (void)snprintf(name, sizeof(name), "@io-dial-%d", getpid());
    assert_int_equal(io_addr_unix(str_from(name), &a), 0);
    int lfd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(lfd, &a.sa, a.len), 0);
    assert_int_equal(listen(lfd, 1), 0);
    for (; n < 64; n++) {
        fds[n] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(fds[n], &a.sa, a.len) < 0) {
            assert_int_equal(errno, EAGAIN);
            break;
        }
    }
    io_clock_fake(loop);
    (void)io_dial_start(loop, &a, -1, 1000, on_dial, NULL);
    io_clock_advance(loop, 999);
    assert_int_equal(n_dialled, 0);
    io_clock_advance(loop, 1);
    assert_int_equal(n_dialled, 1);
    assert_int_equal(dial_error, -ETIMEDOUT);
    (void)io_dial_start(loop, &a, -1, 1000, on_dial, NULL);
    int one = accept(lfd, NULL, NULL); /* room again: the next try gets through */
    io_clock_advance(loop, 100);
    assert_int_equal(n_dialled, 2);
    assert_int_equal(dial_error, 0);
    (void)close(one);
    for (int i = 0; i <= n; i++) {
        (void)close(fds[i]);
    }
    (void)close(lfd);
}

static void test_cancel(void **state)
{
    struct io_addr a, gone;

    (void)state;
    struct io_listener *l = listen_on("127.0.0.1", &a);
    assert_int_equal(io_addr_unix(STR("/proc/nonexistent/socket"), &gone), 0);
    io_dial_cancel(io_dial_start(loop, &a, -1, WAIT_MS, on_dial, NULL));
    io_dial_cancel(io_dial_start(loop, &gone, -1, WAIT_MS, on_dial, NULL));
    io_dial_cancel(NULL);
    (void)io_dial_start(loop, &a, -1, WAIT_MS, on_dial, NULL);
    TURN_UNTIL(loop, n_dialled);
    io_loop_turn(loop, false);
    assert_int_equal(n_dialled, 1);
    io_listener_close(l);
}

static void test_loop_free_with_dials(void **state)
{
    struct io_addr a, gone;

    (void)state;
    (void)listen_on("127.0.0.1", &a);
    assert_int_equal(io_addr_unix(STR("/proc/nonexistent/socket"), &gone), 0);
    (void)io_dial_start(loop, &a, -1, WAIT_MS, on_dial, NULL);
    (void)io_dial_start(loop, &gone, -1, WAIT_MS, on_dial, NULL);
    io_loop_free(loop);
    assert_int_equal(n_dialled, 0); /* no callback comes from a loop that goes */
    loop = io_loop_new();
}

static void test_reuse_port_and_inherited(void **state)
{
    struct io_addr a, b;
    struct err e = {0};
    struct io_listen_opts o = {.reuse_port = true, .backlog = 16};

    (void)state;
    assert_int_equal(io_addr_ip(STR("127.0.0.1"), 0, &a), 0);
    struct io_listener *l1 = io_listen(loop, &a, &o, on_accept, NULL, &e);
    assert_non_null(l1);
    assert_int_equal(io_listener_addr(l1, &a), 0);
    struct io_listener *l2 = io_listen(loop, &a, &o, on_accept, NULL, &e);
    assert_non_null(l2);
    assert_null(io_listen(loop, &a, NULL, on_accept, NULL, &e));
    assert_int_equal(e.sys, EADDRINUSE);
    io_listener_close(l1);
    io_listener_close(l2);

    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(io_addr_ip(STR("127.0.0.1"), 0, &b), 0);
    assert_int_equal(bind(fd, &b.sa, b.len), 0);
    assert_int_equal(listen(fd, 4), 0);
    struct io_listener *l3 =
        io_listen(loop, NULL, &(struct io_listen_opts){.fd = fd}, on_accept, NULL, &e);
    assert_non_null(l3);
    assert_int_equal(io_listener_addr(l3, &b), 0);
    (void)io_dial_start(loop, &b, -1, WAIT_MS, on_dial, NULL);
    TURN_UNTIL(loop, n_dialled && n_accepted);
    /* left open: the loop closes it */
}

static struct io_listener *closing;

static void close_listener(struct io_stream *s, void *arg)
{
    on_accept(s, arg);
    io_listener_close(closing);
}

static void test_close_listener_inside_callback(void **state)
{
    struct io_addr a;
    struct err e = {0};
    struct io_stream *keep[2];

    (void)state;
    assert_int_equal(io_addr_ip(STR("::1"), 0, &a), 0);
    closing = io_listen(loop, &a, NULL, close_listener, NULL, &e);
    if (!closing) {
        skip(); /* no IPv6 here */
    }
    assert_int_equal(io_listener_addr(closing, &a), 0);
    for (int i = 0; i < 2; i++) { /* both wait in the queue before the loop turns */
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd, &a.sa, a.len), 0);
        keep[i] = io_stream_from_fd(loop, fd, NULL, NULL);
    }
    TURN_UNTIL(loop, n_accepted);
    assert_int_equal(n_accepted, 1);
    io_stream_close(keep[0]);
    io_stream_close(keep[1]);
}

static void test_out_of_descriptors_pauses(void **state)
{
    struct io_addr a;
    struct rlimit old, low;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    log_set_level(LOG_ERROR); /* the warning is expected */
    struct io_listener *l = listen_on("127.0.0.1", &a);
    io_clock_fake(loop);
    assert_int_equal(connect(fd, &a.sa, a.len), 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = 3; /* what is open stays open, nothing more can be opened */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (int i = 0; i < 20; i++) {
        io_loop_turn(loop, false);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(n_accepted, 0);
    for (int i = 0; i < 20; i++) {
        io_loop_turn(loop, false);
    }
    assert_int_equal(n_accepted, 0); /* still pausing */
    io_clock_advance(loop, 100);
    TURN_UNTIL(loop, n_accepted == 1);
    (void)close(fd);
    io_listener_close(l);
    log_set_level(LOG_INFO);
}

/* A child holds a fresh network namespace with loopback up and a listener in it. */
struct ns {
    int go[2]; /* the child waits for its end */
    int port[2];
    pid_t pid;
};

static void ns_child(struct ns *n)
{
    struct io_addr a;
    socklen_t len = sizeof(a.ss);
    char c;

    if (unshare(CLONE_NEWNET) < 0) {
        _exit(77);
    }
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct {
        char name[16];
        short flags;
        char pad[22];
    } ifr = {.name = "lo", .flags = 0x41}; /* IFF_UP | IFF_RUNNING */
    if (ioctl(fd, 0x8914 /* SIOCSIFFLAGS */, &ifr) < 0 || io_addr_ip(STR("127.0.0.1"), 0, &a) < 0 ||
        bind(fd, &a.sa, a.len) < 0 || listen(fd, 4) < 0 || getsockname(fd, &a.sa, &len) < 0) {
        _exit(1);
    }
    uint16_t port = io_addr_port(&a);
    (void)!write(n->port[1], &port, sizeof(port));
    (void)!read(n->go[0], &c, 1);
    _exit(0);
}

static void test_netns(void **state)
{
    struct ns n;
    struct io_addr a;
    uint16_t port = 0;
    char path[64];
    struct stat before, after, inside;
    int st;

    (void)state;
    assert_int_equal(pipe2(n.go, O_CLOEXEC), 0);
    assert_int_equal(pipe2(n.port, O_CLOEXEC), 0);
    n.pid = fork();
    if (n.pid == 0) {
        (void)close(n.go[1]);
        ns_child(&n);
    }
    (void)close(n.go[0]);
    (void)close(n.port[1]);
    bool ok = read(n.port[0], &port, sizeof(port)) == sizeof(port);
    (void)close(n.port[0]);
    if (ok) {
        (void)snprintf(path, sizeof(path), "/proc/%d/ns/net", n.pid);
        int ns_fd = open(path, O_RDONLY | O_CLOEXEC);
        assert_true(ns_fd >= 0);
        assert_int_equal(fstat(ns_fd, &inside), 0);
        assert_int_equal(stat("/proc/thread-self/ns/net", &before), 0);
        assert_int_not_equal(inside.st_ino, before.st_ino);
        assert_int_equal(io_addr_ip(STR("127.0.0.1"), port, &a), 0);
        (void)io_dial_start(loop, &a, ns_fd, WAIT_MS, on_dial, NULL);
        assert_int_equal(stat("/proc/thread-self/ns/net", &after), 0);
        assert_int_equal(before.st_ino, after.st_ino);
        TURN_UNTIL(loop, n_dialled);
        assert_int_equal(dial_error, 0);
        int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC); /* not a namespace */
        assert_int_equal(io_socket_in_netns(null_fd, AF_INET, SOCK_STREAM), -EINVAL);
        (void)close(null_fd);
        (void)close(ns_fd);
    }
    (void)close(n.go[1]);
    assert_int_equal(waitpid(n.pid, &st, 0), n.pid);
    if (!ok) {
        assert_int_equal(WEXITSTATUS(st), 77);
        skip(); /* not allowed to make namespaces here */
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_tcp),
        T(test_refused),
        T(test_unix),
        T(test_unix_queue_full_then_deadline),
        T(test_cancel),
        T(test_loop_free_with_dials),
        T(test_reuse_port_and_inherited),
        T(test_close_listener_inside_callback),
        T(test_out_of_descriptors_pauses),
        T(test_netns),
    };
    return cmocka_run_group_tests(tests, first_loop, NULL);
}
