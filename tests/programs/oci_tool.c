/* The embedded runtime on the command line, without a server around it: for its tests and for
 * looking at what it does.
 *
 *     oci_tool CONFIG create ID [--engine E] [--image I] [--memory N] [--cpu M] [--pids N] [--disk
 * N]
 *                               [--network none] [--read-only] [--env K=V] [--bind SRC:DST[:ro]]
 *                               [-- entrypoint ...]
 *     oci_tool CONFIG get ID PORT PATH           an HTTP GET through the sandbox's loopback
 *     oci_tool CONFIG run ID COMMAND             a command through execd, its event stream on
 * stdout oci_tool CONFIG pause|resume|remove|inspect|stats|logs|describe ID oci_tool CONFIG list |
 * sweep [KNOWN ...] | doctor oci_tool CONFIG wait ID                    until the sandbox ends by
 * itself; prints how oci_tool CONFIG bench N                    creates and removes, with times
 *
 * Every call is a restart of the runtime: it takes over what the calls before it made. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/must.h"
#include "base/num.h"
#include "io/dial.h"
#include "server/config/config.h"
#include "server/runtime/oci/host.h"
#include "server/runtime/runtime.h"
#include "json/json.h"

#define EXECD_PORT 44772
#define LIST_MAX 64

static _Noreturn void die(const struct err *e)
{
    (void)fprintf(stderr, "oci_tool: %s: %s\n", err_code_name(e->code), e->msg);
    exit(1);
}

static const char *state_name(enum runtime_state s)
{
    static const char *const names[] = {"missing", "created", "running", "paused", "exited"};
    return names[s];
}

static const char *exit_name(enum runtime_exit x)
{
    static const char *const names[] = {"none", "code", "signal", "oom", "unknown"};
    return names[x];
}

static void print_status(const char *id, const struct runtime_status *st, void *arg)
{
    (void)arg;
    printf("%s %s %s %d %s\n", id, state_name(st->state), exit_name(st->exit), st->exit_code,
           st->detail);
    (void)fflush(stdout);
}

/* ---- create ---- */

static const char *const stage_names[] = {"prepare", "image", "start", "execd"};

struct create_args {
    struct runtime_spec spec;
    struct runtime_kv env[LIST_MAX];
    struct runtime_mount mounts[LIST_MAX];
};

static void add_bind(struct create_args *c, char *text)
{
    char *target = strchr(text, ':');
    must(target);
    *target++ = 0;
    char *flag = strchr(target, ':');
    if (flag) {
        *flag++ = 0;
    }
    c->mounts[c->spec.n_mounts++] = (struct runtime_mount){
        .kind = MOUNT_BIND,
        .source_fd = open(text, O_PATH | O_CLOEXEC),
        .source = text,
        .target = target,
        .read_only = flag && strcmp(flag, "ro") == 0,
    };
}

static void parse_create(struct create_args *c, const char *id, int argc, char **argv)
{
    static const char *const idle[] = {"sleep", "infinity", NULL};
    struct runtime_limits *l = &c->spec.limits;
    c->spec.id = id;
    c->spec.image = "host";
    c->spec.entrypoint = idle;
    c->spec.env = c->env;
    c->spec.mounts = c->mounts;
    for (int i = 0; i < argc; i++) {
        const char *o = argv[i], *v = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(o, "--") == 0) {
            c->spec.entrypoint = (const char *const *)&argv[i + 1];
            return;
        }
        if (strcmp(o, "--read-only") == 0) {
            c->spec.read_only_rootfs = true;
            continue;
        }
        i++;
        if (strcmp(o, "--engine") == 0) {
            c->spec.engine = v;
        } else if (strcmp(o, "--image") == 0) {
            c->spec.image = v;
        } else if (strcmp(o, "--memory") == 0) {
            must(parse_u64(str_from(v), &l->memory_bytes) == 0);
        } else if (strcmp(o, "--cpu") == 0) {
            must(parse_u64(str_from(v), &l->cpu_millis) == 0);
        } else if (strcmp(o, "--pids") == 0) {
            must(parse_u64(str_from(v), &l->pids) == 0);
        } else if (strcmp(o, "--disk") == 0) {
            must(parse_u64(str_from(v), &l->disk_bytes) == 0);
        } else if (strcmp(o, "--gpu") == 0) {
            l->gpus = 1;
        } else if (strcmp(o, "--arch") == 0) {
            c->spec.arch = v;
        } else if (strcmp(o, "--hostname") == 0) {
            c->spec.hostname = v;
        } else if (strcmp(o, "--network") == 0) {
            c->spec.network = strcmp(v, "none") == 0 ? NETWORK_NONE : NETWORK_DEFAULT;
        } else if (strcmp(o, "--env") == 0) {
            char *eq = strchr(argv[i], '=');
            must(eq);
            *eq = 0;
            c->env[c->spec.n_env++] = (struct runtime_kv){argv[i], eq + 1};
        } else if (strcmp(o, "--bind") == 0) {
            add_bind(c, argv[i]);
        } else {
            (void)fprintf(stderr, "oci_tool: unknown option %s\n", o);
            exit(2);
        }
    }
}

static int cmd_create(struct runtime *rt, const char *id, int argc, char **argv)
{
    struct create_args c = {0};
    struct err e = {0};
    enum runtime_stage stage;
    parse_create(&c, id, argc, argv);
    uint64_t t0 = clock_mono_us();
    if (rt->ops->create(rt, &c.spec, &stage, &e) < 0) {
        (void)fprintf(stderr, "stage %s: ", stage_names[stage]);
        die(&e);
    }
    printf("created in %.1f ms\n", (double)(clock_mono_us() - t0) / 1000);
    return 0;
}

/* ---- talking to a sandbox ---- */

static int connect_port(struct runtime *rt, const char *id, uint16_t port)
{
    struct runtime_target t;
    int r = rt->ops->target(rt, id, port, &t);
    if (r < 0) {
        return r;
    }
    int fd = io_socket_in_netns(t.http.netns_fd, AF_INET, SOCK_STREAM);
    (void)close(t.http.netns_fd);
    if (fd < 0) {
        return fd;
    }
    if (connect(fd, &t.http.addr.sa, t.http.addr.len) < 0 && errno != EINPROGRESS) {
        r = -errno;
        (void)close(fd);
        return r;
    }
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int so = 0;
    socklen_t len = sizeof(so);
    if (poll(&p, 1, 10000) <= 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &so, &len) < 0 || so) {
        (void)close(fd);
        return so ? -so : -ETIMEDOUT;
    }
    (void)fcntl(fd, F_SETFL, 0);
    return fd;
}

static int exchange(struct runtime *rt, const char *id, uint16_t port, struct str request,
                    FILE *out)
{
    int fd = connect_port(rt, id, port);
    if (fd < 0) {
        (void)fprintf(stderr, "oci_tool: connect: %s\n", strerror(-fd));
        return 1;
    }
    if (write(fd, request.p, request.n) != (ssize_t)request.n) {
        (void)close(fd);
        return 1;
    }
    char chunk[16384];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
        (void)fwrite(chunk, 1, (size_t)n, out);
    }
    (void)close(fd);
    return n < 0;
}

static int cmd_get(struct runtime *rt, const char *id, const char *port, const char *path)
{
    cleanup_(buf_done) struct buf q = BUF_INIT(8192);
    uint16_t p;
    must(parse_port(str_from(port), &p) == 0);
    (void)buf_printf(&q, "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    return exchange(rt, id, p, buf_str(&q), stdout);
}

static int cmd_run(struct runtime *rt, const char *id, const char *command, FILE *out)
{
    cleanup_(buf_done) struct buf q = BUF_INIT(2u << 20), body = BUF_INIT(1u << 20);
    struct json_out o;
    json_out_init(&o, &body);
    json_obj_begin(&o);
    json_key(&o, "command");
    json_put_cstr(&o, command);
    json_obj_end(&o);
    (void)buf_printf(&q,
                     "POST /command HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: "
                     "application/json\r\nContent-Length: %zu\r\n\r\n",
                     body.len);
    (void)buf_add_str(&q, buf_str(&body));
    return exchange(rt, id, EXECD_PORT, buf_str(&q), out);
}

/* ---- the rest ---- */

static int cmd_stats(struct runtime *rt, const char *id)
{
    struct runtime_stats s;
    struct err e = {0};
    if (rt->ops->stats(rt, id, &s, &e) < 0) {
        die(&e);
    }
    printf("cpu_us %llu\nmemory %llu\nmemory_limit %llu\npids %llu\ndisk %llu\nrx %llu\ntx %llu\n",
           (unsigned long long)s.cpu_usage_us, (unsigned long long)s.memory_bytes,
           (unsigned long long)s.memory_limit, (unsigned long long)s.pids,
           (unsigned long long)s.disk_bytes, (unsigned long long)s.net_rx,
           (unsigned long long)s.net_tx);
    return 0;
}

static int cmd_text(struct runtime *rt, const char *what, const char *id, int argc, char **argv)
{
    struct buf out = BUF_INIT(16u << 20);
    struct err e = {0};
    uint32_t tail = 0;
    if (argc > 0) {
        must(parse_u32(str_from(argv[0]), &tail) == 0);
    }
    int r = strcmp(what, "logs") == 0 ? rt->ops->logs(rt, id, tail, 0, &out, &e)
                                      : rt->ops->describe(rt, id, &out, &e);
    if (r < 0) {
        die(&e);
    }
    (void)fwrite(out.p ? out.p : "", 1, out.len, stdout);
    buf_done(&out);
    return 0;
}

struct known {
    char **v;
    int n;
};

static bool is_known(const char *id, void *arg)
{
    const struct known *k = arg;
    for (int i = 0; i < k->n; i++) {
        if (strcmp(k->v[i], id) == 0) {
            return true;
        }
    }
    return false;
}

static pthread_mutex_t ended_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ended_cond = PTHREAD_COND_INITIALIZER;
static struct runtime_status ended;
static const char *ended_id;

static void on_exit_event(const char *id, const struct runtime_status *st, void *arg)
{
    (void)arg;
    (void)pthread_mutex_lock(&ended_lock);
    if (ended_id && strcmp(ended_id, id) == 0) {
        ended = *st;
        (void)pthread_cond_signal(&ended_cond);
    }
    (void)pthread_mutex_unlock(&ended_lock);
}

static int cmd_wait(struct runtime *rt, const char *id)
{
    struct err e = {0};
    struct runtime_status st;
    (void)pthread_mutex_lock(&ended_lock);
    if (rt->ops->inspect(rt, id, &st, &e) < 0) {
        die(&e);
    }
    while (ended.state == RT_MISSING && st.state != RT_EXITED && st.state != RT_MISSING) {
        (void)pthread_cond_wait(&ended_cond, &ended_lock);
        st = ended;
    }
    (void)pthread_mutex_unlock(&ended_lock);
    print_status(id, &st, NULL);
    return 0;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void print_times(const char *what, double *v, int n)
{
    qsort(v, (size_t)n, sizeof(*v), compare);
    printf("%-10s min %.2f  p50 %.2f  p90 %.2f  max %.2f ms\n", what, v[0], v[n / 2], v[n * 9 / 10],
           v[n - 1]);
}

/* Processor time of this thread. */
static double thread_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1e6;
}

static int cmd_bench(struct runtime *rt, int argc, char **argv)
{
    uint32_t n = 20;
    if (argc > 0) {
        must(parse_u32(str_from(argv[0]), &n) == 0);
    }
    double *create = xcalloc(n, sizeof(double)), *run = xcalloc(n, sizeof(double));
    double *gone = xcalloc(n, sizeof(double)), *ours = xcalloc(n, sizeof(double));
    double *theirs = xcalloc(n, sizeof(double));
    FILE *null = fopen("/dev/null", "we");
    must(null);
    for (uint32_t i = 0; i < n; i++) {
        struct create_args c = {0};
        struct err e = {0};
        enum runtime_stage stage;
        char id[32];
        (void)snprintf(id, sizeof(id), "bench-%u", i);
        parse_create(&c, id, argc - 1, argv + 1);
        struct runtime_stats st;
        double cpu0 = thread_ms();
        uint64_t t0 = clock_mono_us();
        if (rt->ops->create(rt, &c.spec, &stage, &e) < 0) {
            die(&e);
        }
        create[i] = (double)(clock_mono_us() - t0) / 1000;
        ours[i] = thread_ms() - cpu0;
        if (rt->ops->stats(rt, id, &st, &e) < 0) {
            die(&e);
        }
        theirs[i] = (double)st.cpu_usage_us / 1000;
        uint64_t t1 = clock_mono_us();
        (void)cmd_run(rt, id, "true", null);
        uint64_t t2 = clock_mono_us();
        if (rt->ops->remove(rt, id, &e) < 0) {
            die(&e);
        }
        run[i] = (double)(t2 - t1) / 1000;
        gone[i] = (double)(clock_mono_us() - t2) / 1000;
    }
    print_times("create", create, (int)n);
    print_times("cpu here", ours, (int)n);
    print_times("cpu engine", theirs, (int)n);
    print_times("command", run, (int)n);
    print_times("remove", gone, (int)n);
    (void)fclose(null);
    free(create);
    free(run);
    free(gone);
    free(ours);
    free(theirs);
    return 0;
}

static int cmd_doctor(const struct config *cfg)
{
    struct host_facts f;
    host_probe(&cfg->oci, &f);
    for (size_t i = 0; i < f.n; i++) {
        printf("%-16s %-4s %s\n", f.v[i].name, f.v[i].ok ? "ok" : "no", f.v[i].detail);
    }
    return 0;
}

static int cmd_sweep(struct runtime *rt, int argc, char **argv)
{
    struct known k = {argv, argc};
    struct err e = {0};
    int n = rt->ops->sweep(rt, is_known, &k, &e);
    if (n < 0) {
        die(&e);
    }
    printf("%d removed\n", n);
    return 0;
}

static int simple(int (*op)(struct runtime *rt, const char *id, struct err *e), struct runtime *rt,
                  const char *id)
{
    struct err e = {0};
    if (op(rt, id, &e) < 0) {
        die(&e);
    }
    return 0;
}

static int dispatch(struct runtime *rt, const char *cmd, int argc, char **argv)
{
    struct err e = {0};
    const char *id = argc > 0 ? argv[0] : "";
    if (strcmp(cmd, "list") == 0) {
        return rt->ops->list(rt, print_status, NULL, &e);
    }
    if (strcmp(cmd, "sweep") == 0) {
        return cmd_sweep(rt, argc, argv);
    }
    if (strcmp(cmd, "bench") == 0) {
        return cmd_bench(rt, argc, argv);
    }
    if (strcmp(cmd, "create") == 0) {
        return cmd_create(rt, id, argc - 1, argv + 1);
    }
    if (strcmp(cmd, "get") == 0 && argc == 3) {
        return cmd_get(rt, id, argv[1], argv[2]);
    }
    if (strcmp(cmd, "run") == 0 && argc == 2) {
        return cmd_run(rt, id, argv[1], stdout);
    }
    if (strcmp(cmd, "pause") == 0) {
        return simple(rt->ops->pause, rt, id);
    }
    if (strcmp(cmd, "resume") == 0) {
        return simple(rt->ops->resume, rt, id);
    }
    if (strcmp(cmd, "remove") == 0) {
        return simple(rt->ops->remove, rt, id);
    }
    if (strcmp(cmd, "stats") == 0) {
        return cmd_stats(rt, id);
    }
    if (strcmp(cmd, "logs") == 0 || strcmp(cmd, "describe") == 0) {
        return cmd_text(rt, cmd, id, argc - 1, argv + 1);
    }
    if (strcmp(cmd, "wait") == 0) {
        return cmd_wait(rt, id);
    }
    if (strcmp(cmd, "inspect") == 0) {
        struct runtime_status st;
        int r = rt->ops->inspect(rt, id, &st, &e);
        print_status(id, &st, NULL);
        return r;
    }
    (void)fprintf(stderr, "oci_tool: unknown command %s\n", cmd);
    return 2;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    struct config_notes notes = {0};
    if (argc < 3) {
        (void)fprintf(stderr, "usage: oci_tool CONFIG COMMAND [ID] [...]; see its source\n");
        return 2;
    }
    log_init(getenv("OSB_DEBUG") ? LOG_DEBUG : LOG_WARN, LOG_HUMAN, STDERR_FILENO);
    struct config *cfg = config_load(argv[1], &notes, &e);
    config_notes_done(&notes);
    if (!cfg) {
        die(&e);
    }
    if (strcmp(argv[2], "doctor") == 0) {
        int r = cmd_doctor(cfg);
        config_unref(cfg);
        return r;
    }
    struct runtime *rt = runtime_oci_new(cfg, &e);
    if (!rt) {
        die(&e);
    }
    rt->on_exit = on_exit_event;
    ended_id = argc > 3 ? argv[3] : NULL;
    if (rt->ops->adopt(rt, &e) < 0) {
        die(&e);
    }
    int r = dispatch(rt, argv[2], argc - 3, argv + 3);
    rt->ops->free(rt);
    config_unref(cfg);
    return r;
}
