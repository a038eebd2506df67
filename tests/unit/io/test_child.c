/* Real processes: their output, end, identity, terminal and what they leave behind. Run again for
 * each way around a missing kernel feature. */

#include "on_loop.h"

#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/child.h"
#include "io/spawn.h"

struct run {
    struct io_child *c;
    struct io_child_status st;
    int n_ends;
    struct io_stream *out, *err;
    struct buf text;
    int n_open;
};

static int no_child_left(void **state)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nor a zombie */
    assert_int_equal(errno, ECHILD);
    return loop_close(state);
}

static void on_end(struct io_child *c, const struct io_child_status *st, void *arg)
{
    struct run *r = arg;

    assert_ptr_equal(c, r->c);
    assert_false(io_child_claims(io_child_pid(c)));
    r->st = *st;
    r->n_ends++;
}

static void on_output(struct io_stream *s, unsigned events, void *arg)
{
    struct run *r = arg;
    char chunk[4096];
    ssize_t n = io_stream_read(s, chunk, sizeof(chunk));

    if (n > 0) {
        assert_int_equal(buf_add(&r->text, chunk, (size_t)n), 0);
    } else if (n != -EAGAIN) {
        assert_int_equal(n, 0);
        io_stream_close(s);
        r->n_open--;
    }
}

static void attach(struct run *r, struct io_stream *s)
{
    if (s) {
        io_stream_set_cb(s, on_output, r);
        io_stream_want(s, IO_READABLE);
        r->n_open++;
    }
}

static void start(struct run *r, const struct io_child_opts *o)
{
    int error = 0;

    *r = (struct run){.text = BUF_INIT(1u << 20)};
    r->c = io_child_spawn(loop, o, on_end, r, &error);
    if (!r->c) {
        fail_msg("spawn: %s", strerror(-error));
    }
    r->out = io_child_take_stdout(r->c);
    r->err = io_child_take_stderr(r->c);
    attach(r, r->out);
    attach(r, r->err);
}

static void finish(struct run *r)
{
    TURN_UNTIL(loop, r->n_ends && !r->n_open);
    assert_int_equal(r->n_ends, 1);
    io_child_free(r->c);
}

#define SH(script) ((const char *const[]){"sh", "-c", script, NULL})
#define OUT_PIPE .out = {IO_STDIO_PIPE}, .err = {IO_STDIO_PIPE}

static void expect(const struct io_child_opts *o, const char *text)
{
    struct run r;

    start(&r, o);
    finish(&r);
    assert_string_equal(buf_cstr(&r.text), text);
    buf_done(&r.text);
    assert_int_equal(r.st.end, IO_CHILD_EXITED);
    assert_int_equal(r.st.code, 0);
}

static void test_exit_code_and_output(void **state)
{
    struct run r;

    (void)state;
    start(&r, &(struct io_child_opts){"/bin/sh", SH("echo out; echo err >&2; exit 42"), OUT_PIPE});
    assert_true(io_child_claims(io_child_pid(r.c)));
    assert_null(io_child_take_stdout(r.c));
    assert_null(io_child_take_stdin(r.c));
    finish(&r);
    assert_int_equal(r.text.len, 8);
    assert_int_equal(r.st.end, IO_CHILD_EXITED);
    assert_int_equal(r.st.code, 42);
    buf_done(&r.text);
}

static void test_signals_told_apart(void **state)
{
    struct run r;

    (void)state;
    start(&r, &(struct io_child_opts){"/bin/sleep", (const char *const[]){"sleep", "1000", NULL}});
    assert_int_equal(io_child_signal(r.c, SIGTERM), 0);
    finish(&r);
    assert_int_equal(r.st.end, IO_CHILD_SIGNALED);
    assert_int_equal(r.st.signal, SIGTERM);

    start(&r, &(struct io_child_opts){"sleep", (const char *const[]){"sleep", "1000", NULL},
                                      .timeout_ms = 20});
    finish(&r);
    assert_int_equal(r.st.end, IO_CHILD_TIMEOUT);
    assert_int_equal(r.st.signal, SIGKILL);
}

/* The group dies with the deadline, not only the leader: else the pipe would stay open. */
static void test_timeout_kills_the_group(void **state)
{
    struct run r;

    (void)state;
    start(&r,
          &(struct io_child_opts){"sh", SH("sleep 1000 & sleep 1000"), OUT_PIPE, .timeout_ms = 50});
    finish(&r);
    assert_int_equal(r.st.end, IO_CHILD_TIMEOUT);
}

static void test_group_signal_outlives_the_leader(void **state)
{
    struct run r;

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    start(&r, &(struct io_child_opts){"sh", SH("sleep 1000 & exit 0"), OUT_PIPE});
    TURN_UNTIL(loop, r.n_ends);
    assert_int_equal(r.st.code, 0);
    assert_int_equal(r.n_open, 2); /* the background job holds them */
    assert_int_equal(io_child_signal(r.c, SIGTERM), -ESRCH);
    assert_int_equal(io_child_signal_group(r.c, SIGKILL), 0);
    TURN_UNTIL(loop, !r.n_open);
    int n_reaped = 0;
    TURN_UNTIL(loop, (n_reaped += io_child_reap_orphans(NULL, NULL)) == 1);
    assert_int_equal(io_child_signal_group(r.c, 0), -ESRCH);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
    io_child_free(r.c);
    buf_done(&r.text);
}

static void test_exec_failure_is_an_error(void **state)
{
    int error = 0;
    struct io_child_opts o = {"/proc/nonexistent/program", SH("x"), OUT_PIPE};

    (void)state;
    assert_null(io_child_spawn(loop, &o, on_end, NULL, &error));
    assert_int_equal(error, -ENOENT);
    o.path = "no-such-program-anywhere";
    assert_null(io_child_spawn(loop, &o, on_end, NULL, &error));
    assert_int_equal(error, -ENOENT);
    o.path = "/etc/passwd";
    assert_null(io_child_spawn(loop, &o, on_end, NULL, &error));
    assert_int_equal(error, -EACCES);
    o.path = "";
    assert_null(io_child_spawn(loop, &o, on_end, NULL, &error));
    assert_int_equal(error, -ENOENT);
    o.path = "sh";
    o.cwd = "/proc/nonexistent";
    assert_null(io_child_spawn(loop, &o, on_end, NULL, &error));
    assert_int_equal(error, -ENOENT);
}

static void test_path_env_cwd(void **state)
{
    (void)state;
    expect(&(struct io_child_opts){"sh", SH("echo $FOO; pwd"), OUT_PIPE, .cwd = "/usr",
                                   .envp = (const char *const[]){"FOO=bar", "PATH=/nope:/bin", 0}},
           "bar\n/usr\n");
    expect(&(struct io_child_opts){"./sh", SH("pwd"), OUT_PIPE, .cwd = "/bin/",
                                   .envp = (const char *const[]){NULL}},
           "/usr/bin\n");
}

static void test_stdin_pipe_and_merge(void **state)
{
    struct run r;

    (void)state;
    start(&r, &(struct io_child_opts){"sh", SH("cat; echo e >&2"), .in = {IO_STDIO_PIPE},
                                      .out = {IO_STDIO_PIPE}, .merge_err = true});
    assert_null(r.err);
    struct io_stream *in = io_child_take_stdin(r.c);
    assert_int_equal(io_stream_write(in, "abc\n", 4), 4);
    assert_int_equal(io_stream_shutdown(in), 0);
    finish(&r);
    assert_string_equal(buf_cstr(&r.text), "abc\ne\n");
    buf_done(&r.text);
    io_stream_close(in);
}

static void test_no_descriptor_but_the_named(void **state)
{
    int open_fd = dup(1), keep_fd = fcntl(1, F_DUPFD_CLOEXEC, 20);
    char want[64];

    (void)state;
    (void)snprintf(want, sizeof(want), "0\n1\n2\n%d\n", keep_fd);
    expect(&(struct io_child_opts){"sh",
                                   SH("for f in /proc/$$/fd/*; do "
                                      "[ -e $f ] && echo ${f##*/}; done; true"),
                                   OUT_PIPE, .keep_fds = &keep_fd, .n_keep_fds = 1},
           want);
    (void)close(open_fd);
    (void)close(keep_fd);
}

static void test_fd_kinds(void **state)
{
    int fd[2];
    char got[16] = {0};

    (void)state;
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    /* Standard output of the child is our descriptor; its error output our standard input. */
    expect(&(struct io_child_opts){"sh", SH("echo hi; [ -c /proc/self/fd/0 ]"),
                                   .out = {IO_STDIO_FD, fd[1]}, .err = {IO_STDIO_FD, 0}},
           "");
    assert_int_equal(read(fd[0], got, sizeof(got)), 3);
    assert_string_equal(got, "hi\n");
    (void)close(fd[0]);
    (void)close(fd[1]);
}

static void test_clean_signals(void **state)
{
    struct sigaction old;
    sigset_t block, before;

    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &(struct sigaction){.sa_handler = SIG_IGN}, &old), 0);
    (void)sigemptyset(&block);
    (void)sigaddset(&block, SIGUSR2);
    assert_int_equal(sigprocmask(SIG_BLOCK, &block, &before), 0);
    expect(&(struct io_child_opts){"sed",
                                   (const char *const[]){"sed", "-n", "/^Sig[BIC]/p",
                                                         "/proc/self/status", NULL},
                                   OUT_PIPE},
           "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\nSigCgt:\t0000000000000000\n");
    assert_int_equal(sigprocmask(SIG_SETMASK, &before, NULL), 0);
    assert_int_equal(sigaction(SIGUSR1, &old, NULL), 0);
}

static void test_identity(void **state)
{
    const gid_t groups[] = {1234, 4321};

    (void)state;
    if (getuid() != 0) {
        skip();
    }
    expect(&(struct io_child_opts){"sh", SH("id -u; id -g; id -G; id -ru"), OUT_PIPE,
                                   .set_ids = true, .uid = 65534, .gid = 4242, .groups = groups,
                                   .n_groups = 2},
           "65534\n4242\n4242 1234 4321\n65534\n");
    assert_int_equal(getuid(), 0);
    int error = 0;
    struct io_child_opts o = {"sh",         SH("true"),   .set_ids = true,
                              .uid = 65534, .gid = 65534, .cwd = "/root"};
    assert_int_equal(chmod("/root", 0700), 0);
    assert_null(io_child_spawn(loop, &o, on_end, NULL, &error));
    assert_int_equal(error, -EACCES); /* the directory is entered as that user */
}

static void test_session_or_group(void **state)
{
    struct run r;
    pid_t sid = getsid(0);

    (void)state;
    start(&r, &(struct io_child_opts){"sleep", (const char *const[]){"sleep", "1000", NULL}});
    assert_int_equal(getpgid(io_child_pid(r.c)), io_child_pid(r.c));
    assert_int_equal(getsid(io_child_pid(r.c)), sid);
    assert_int_equal(io_child_signal_group(r.c, SIGKILL), 0);
    finish(&r);
    start(&r, &(struct io_child_opts){"sleep", (const char *const[]){"sleep", "1000", NULL},
                                      .new_session = true});
    assert_int_equal(getsid(io_child_pid(r.c)), io_child_pid(r.c));
    assert_int_equal(io_child_signal_group(r.c, SIGKILL), 0);
    finish(&r);
}

static void test_terminal(void **state)
{
    struct run r;
    struct io_child_opts o = {"sh",
                              SH("stty size; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo tty; "
                                 "trap 'stty size; exit 3' WINCH; echo ready; "
                                 "while :; do sleep 0.02; done"),
                              .in = {IO_STDIO_PTY},
                              .out = {IO_STDIO_PTY},
                              .err = {IO_STDIO_PTY},
                              .pty_rows = 31,
                              .pty_cols = 77};

    (void)state;
    start(&r, &o);
    assert_non_null(r.out);
    assert_null(r.err); /* there is one master */
    assert_null(io_child_take_stdin(r.c));
    assert_int_equal(getsid(io_child_pid(r.c)), io_child_pid(r.c));
    TURN_UNTIL(loop, strstr(buf_cstr(&r.text), "ready"));
    assert_int_equal(io_child_resize(r.c, 40, 100), 0);
    TURN_UNTIL(loop, r.n_ends && !r.n_open);
    assert_int_equal(io_child_resize(r.c, 1, 1), -ENOTTY); /* the stream is closed */
    io_child_free(r.c);
    assert_string_equal(buf_cstr(&r.text), "31 77\r\ntty\r\nready\r\n40 100\r\n");
    assert_int_equal(r.st.code, 3);
    buf_done(&r.text);
}

static void test_terminal_hangup(void **state)
{
    struct run r;

    (void)state;
    start(&r, &(struct io_child_opts){"sleep", (const char *const[]){"sleep", "1000", NULL},
                                      .in = {IO_STDIO_PTY}, .out = {IO_STDIO_PTY},
                                      .err = {IO_STDIO_PTY}});
    io_stream_close(r.out); /* the last master: the session is hung up */
    r.n_open = 0;
    finish(&r);
    assert_int_equal(r.st.signal, SIGHUP);
}

static void test_terminal_without_its_child(void **state)
{
    struct io_child_opts o = {"true", (const char *const[]){"true", NULL}, .in = {IO_STDIO_PTY},
                              .out = {IO_STDIO_PTY}, .err = {IO_STDIO_PTY}};
    int error = 0;

    (void)state;
    struct io_child *c = io_child_spawn(loop, &o, on_end, NULL, &error);
    pid_t pid = io_child_pid(c);
    assert_int_equal(io_child_resize(c, 10, 10), 0);
    io_child_free(c); /* nobody took the master */
    TURN_UNTIL(loop, !io_child_claims(pid));
    c = io_child_spawn(loop, &o, on_end, NULL, &error);
    pid = io_child_pid(c);
    struct io_stream *s = io_child_take_stdin(c);
    io_child_free(c); /* the stream lives longer than the child object */
    TURN_UNTIL(loop, !io_child_claims(pid));
    io_loop_turn(loop, false);
    io_stream_close(s);
}

static void test_max_fds(void **state)
{
    struct rlimit before, after;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    expect(&(struct io_child_opts){"sh", SH("ulimit -Sn"), OUT_PIPE, .max_fds = 77}, "77\n");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &after), 0);
    assert_int_equal(before.rlim_cur, after.rlim_cur);
}

static void test_cgroup_file_oom_score(void **state)
{
    char path[] = "/tmp/io-child-XXXXXX", got[8] = {0};
    int fd = mkostemp(path, O_CLOEXEC);

    (void)state;
    expect(&(struct io_child_opts){"cat",
                                   (const char *const[]){"cat", "/proc/self/oom_score_adj", NULL},
                                   OUT_PIPE, .oom_score_adj = 987,
                                   .cgroup_procs = (const char *const[]){path, NULL}},
           "987\n");
    assert_int_equal(read(fd, got, sizeof(got)), 1);
    assert_string_equal(got, "0"); /* what a real file takes as "me" */
    /* A descriptor is used as it is: opened by somebody with more rights than we have. */
    char own[64];
    (void)snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    assert_int_equal(ftruncate(fd, 0), 0);
    expect(&(struct io_child_opts){"cat", (const char *const[]){"cat", "/dev/null", NULL}, OUT_PIPE,
                                   .cgroup_procs = (const char *const[]){own, NULL}},
           "");
    assert_int_equal(pread(fd, got, sizeof(got), 0), 1);
    assert_string_equal(got, "0");
    (void)close(fd);
    assert_int_equal(unlink(path), 0);
    int error = 0;
    struct io_child_opts bad = {"true", SH("true"),
                                .cgroup_procs = (const char *const[]){"/proc/self/fd/9999", 0}};
    assert_null(io_child_spawn(loop, &bad, on_end, NULL, &error));
    assert_int_equal(error, -EBADF);
    struct io_child_opts o = {"true", SH("true"), .cgroup_procs = (const char *const[]){path, 0}};
    assert_null(io_child_spawn(loop, &o, on_end, NULL, &error));
    assert_int_equal(error, -ENOENT);
}

/* A real cgroup v2 directory, if this machine lets us make one. */
static void test_real_cgroup(void **state)
{
    static const char *const roots[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    char dir[128] = "", procs[160], want[160];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(roots) && !dir[0]; i++) {
        (void)snprintf(procs, sizeof(procs), "%s/cgroup.controllers", roots[i]);
        if (access(procs, F_OK) == 0) {
            (void)snprintf(dir, sizeof(dir), "%s/io-test-child-%d", roots[i], getpid());
        }
    }
    if (!dir[0] || mkdir(dir, 0755) < 0) {
        skip();
    }
    (void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", dir);
    (void)snprintf(want, sizeof(want), "0::/io-test-child-%d\n", getpid());
    struct run r;
    start(&r, &(struct io_child_opts){"grep",
                                      (const char *const[]){"grep", "^0::", "/proc/self/cgroup", 0},
                                      OUT_PIPE, .cgroup_procs = (const char *const[]){procs, 0}});
    finish(&r);
    bool right = strcmp(buf_cstr(&r.text), want) == 0;
    buf_done(&r.text);
    TURN_UNTIL(loop, rmdir(dir) == 0);
    assert_true(right);
}

static void test_netns(void **state)
{
    char here[64] = {0};
    struct run r;
    int error = 0;
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int ns = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

    (void)state;
    struct io_child_opts o = {"readlink", (const char *const[]){"readlink", "/proc/self/ns/net", 0},
                              OUT_PIPE, .netns_fd = null_fd};
    assert_null(io_child_spawn(loop, &o, on_end, NULL, &error));
    assert_int_equal(error, -EINVAL); /* not a namespace */
    if (unshare(CLONE_NEWNET) == 0) { /* the child goes back to where we came from */
        o.netns_fd = ns;
        start(&r, &o);
        finish(&r);
        assert_int_equal(setns(ns, CLONE_NEWNET), 0);
        assert_true(readlink("/proc/self/ns/net", here, sizeof(here) - 2) > 0);
        here[strlen(here)] = '\n';
        assert_string_equal(buf_cstr(&r.text), here);
        buf_done(&r.text);
    }
    (void)close(ns);
    (void)close(null_fd);
}

static void test_forgotten_child_is_reaped(void **state)
{
    int error = 0;
    struct io_child_opts o = {"sh", SH("exit 1"), OUT_PIPE};

    (void)state;
    struct io_child *c = io_child_spawn(loop, &o, on_end, NULL, &error); /* arg NULL: would crash */
    pid_t pid = io_child_pid(c);
    io_child_free(c);
    io_child_free(NULL);
    TURN_UNTIL(loop, !io_child_claims(pid));
    io_loop_turn(loop, false);
}

static int n_many;

static void on_many(struct io_child *c, const struct io_child_status *st, void *arg)
{
    assert_int_equal(st->code, (intptr_t)arg);
    n_many++;
    io_child_free(c);
}

static void test_a_thousand_children(void **state)
{
    static const char *const exits[] = {"exit 0", "exit 1", "exit 2", "exit 3"};
    int error, started = 0;

    (void)state;
    n_many = 0;
    while (n_many < 1000) {
        if (started < 1000 && started - n_many < 16) {
            intptr_t code = started++ % 4;
            struct io_child_opts o = {"/bin/sh", SH(exits[code]), OUT_PIPE, .in = {IO_STDIO_PIPE}};
            assert_non_null(io_child_spawn(loop, &o, on_many, (void *)code, &error));
        } else {
            turn_(loop);
        }
    }
    /* the teardown counts descriptors and zombies */
}

static void on_orphan(pid_t pid, const struct io_child_status *st, void *arg)
{
    assert_int_equal(st->end, IO_CHILD_EXITED);
    assert_int_equal(st->code, 9);
    ++*(int *)arg;
}

static void test_reaping_as_pid_1(void **state)
{
    struct run r;
    int n_orphans = 0;

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    start(&r,
          &(struct io_child_opts){"sh", SH("(sh -c 'exit 9' &) ; (sh -c 'exit 9' &) ; exit 5")});
    uint64_t end = clock_mono_ms() + WAIT_MS;
    while (n_orphans < 2 && clock_mono_ms() < end) {
        (void)io_child_reap_orphans(on_orphan, &n_orphans);
        (void)usleep(500);
    }
    assert_int_equal(n_orphans, 2);
    finish(&r); /* ours was taken off the list as well, but its owner is told all the same */
    assert_int_equal(r.st.code, 5);
    assert_int_equal(io_child_reap_orphans(NULL, NULL), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}

static atomic_int n_running;

static void *run_many(void *arg)
{
    for (int i = 0; i < 25; i++) {
        struct io_child_status st = {0};
        struct io_child_opts o = {"sh", SH("exit 6"), OUT_PIPE};
        struct err e = {0};
        if (io_child_run(&o, NULL, NULL, &st, &e) < 0 || st.code != 6) {
            ++*(int *)arg;
        }
    }
    atomic_fetch_sub(&n_running, 1);
    return NULL;
}

/* Workers run programs while PID 1 reaps everything that moves: no child is taken from its owner.
 */
static void test_threads_and_reaper(void **state)
{
    pthread_t t[3];
    int n_wrong[3] = {0};

    (void)state;
    atomic_store(&n_running, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&t[i], NULL, run_many, &n_wrong[i]), 0);
    }
    while (atomic_load(&n_running)) {
        assert_int_equal(io_child_reap_orphans(NULL, NULL), 0);
        (void)usleep(100);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(t[i], NULL), 0);
        assert_int_equal(n_wrong[i], 0);
    }
}

static void test_loop_free_lets_go(void **state)
{
    struct io_loop *l = io_loop_new();
    int error;
    struct io_child_opts o = {"true", (const char *const[]){"true", NULL}, OUT_PIPE};

    (void)state;
    struct io_child *c = io_child_spawn(l, &o, on_end, NULL, &error);
    pid_t pid = io_child_pid(c);
    io_loop_free(l);
    assert_false(io_child_claims(pid));
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void test_blocking_run(void **state)
{
    struct buf out = BUF_INIT(100), err = BUF_INIT(1000);
    struct io_child_status st;
    struct err e = {0};
    struct io_child_opts o = {"sh", SH("cat; head -c 300000 /dev/zero; echo err >&2; exit 4"),
                              OUT_PIPE, .in = {IO_STDIO_PIPE}};

    (void)state;
    assert_int_equal(io_child_run(&o, &out, &err, &st, &e), 0);
    assert_int_equal(st.end, IO_CHILD_EXITED);
    assert_int_equal(st.code, 4);
    assert_int_equal(out.len, 100);
    assert_true(buf_failed(&out));
    assert_string_equal(buf_cstr(&err), "err\n");
    assert_false(buf_failed(&err));
    buf_clear(&out);
    /* Somebody holds the pipe longer than the leader lives: its output is complete, nobody waits.
     */
    o.argv = SH("sleep 1000 & echo $!");
    assert_int_equal(io_child_run(&o, &out, NULL, &st, &e), 0);
    pid_t left = (pid_t)strtol(buf_cstr(&out), NULL, 10);
    assert_true(left > 1);
    assert_int_equal(kill(left, SIGKILL), 0);
    o.argv = SH("sleep 1000");
    o.timeout_ms = 30;
    assert_int_equal(io_child_run(&o, NULL, NULL, &st, &e), 0);
    assert_int_equal(st.end, IO_CHILD_TIMEOUT);
    o.path = "/proc/nonexistent";
    assert_int_equal(io_child_run(&o, NULL, NULL, &st, &e), -1);
    assert_int_equal(e.sys, ENOENT);
    assert_int_equal(e.code, ERR_NOT_FOUND);
    buf_done(&out);
    buf_done(&err);
}

struct doubt {
    unsigned n_asked;
};

static bool third_time(void *arg)
{
    struct doubt *d = arg;

    return ++d->n_asked == 3;
}

static void test_cancelled_run(void **state)
{
    struct doubt d = {0};
    struct io_child_status st;
    struct err e = {0};
    struct io_child_opts o = {"sh", SH("sleep 1000"), OUT_PIPE, .cancelled = third_time,
                              .cancel_arg = &d};

    (void)state;
    assert_int_equal(io_child_run(&o, NULL, NULL, &st, &e), -1);
    assert_int_equal(e.sys, ECANCELED);
    assert_int_equal(d.n_asked, 3); /* and not any more */
    o.argv = SH("exit 3");
    d.n_asked = 100;
    assert_int_equal(io_child_run(&o, NULL, NULL, &st, &e), 0);
    assert_int_equal(st.code, 3);
}

int main(void)
{
    static const unsigned ways[] = {
        0,
        SPAWN_NO_CLONE3,
        SPAWN_NO_SHARED_MEMORY,
        SPAWN_NO_SHARED_MEMORY | SPAWN_NO_CLONE3,
        SPAWN_NO_CLONE3 | SPAWN_NO_PIDFD,
        SPAWN_NO_INTO_CGROUP | SPAWN_NO_SHARED_MEMORY | SPAWN_NO_CLONE3 | SPAWN_NO_PIDFD,
    };
#define T(f) cmocka_unit_test_setup_teardown(f, loop_open, no_child_left)
    const struct CMUnitTest tests[] = {
        T(test_exit_code_and_output),
        T(test_signals_told_apart),
        T(test_timeout_kills_the_group),
        T(test_group_signal_outlives_the_leader),
        T(test_exec_failure_is_an_error),
        T(test_path_env_cwd),
        T(test_stdin_pipe_and_merge),
        T(test_no_descriptor_but_the_named),
        T(test_fd_kinds),
        T(test_clean_signals),
        T(test_identity),
        T(test_session_or_group),
        T(test_terminal),
        T(test_terminal_hangup),
        T(test_terminal_without_its_child),
        T(test_max_fds),
        T(test_cgroup_file_oom_score),
        T(test_real_cgroup),
        T(test_netns),
        T(test_forgotten_child_is_reaped),
        T(test_reaping_as_pid_1),
        T(test_threads_and_reaper),
        T(test_loop_free_lets_go),
        T(test_blocking_run),
        T(test_cancelled_run),
    };
    const struct CMUnitTest many[] = {T(test_a_thousand_children)};
    int failed = 0;
    for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
        spawn_avoid = ways[i];
        failed += cmocka_run_group_tests(tests, first_loop, NULL);
    }
    spawn_avoid = 0;
    failed += cmocka_run_group_tests(many, first_loop, NULL);
    return failed;
}
