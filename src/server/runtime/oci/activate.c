/* Giving a sandbox that was started ahead of its use to somebody: its limits, its variables and its
 * entrypoint. It was made by create.c with spec->standby, and its execd waits at a socket in the
 * sandbox's directory on the host (execd/control.h), where only the server gets to. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/oci.h"
#include "server/runtime/oci/start.h"

static int control_addr(int dir_fd, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    /* The directory's own path may be longer than a socket's name can be. */
    (void)snprintf(ret->sun_path, sizeof(ret->sun_path), "/proc/self/fd/%d/" CONTROL_FILE, dir_fd);
    return (int)sizeof(*ret);
}

int control_listen(int dir_fd, struct err *e)
{
    struct sockaddr_un a;
    socklen_t len = (socklen_t)control_addr(dir_fd, &a);
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)unlinkat(dir_fd, CONTROL_FILE, 0); /* of a create that was cut short */
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) < 0 ||
        fchmodat(dir_fd, CONTROL_FILE, 0600, 0) < 0 || listen(fd, 4) < 0) {
        return err_sys(e, errno, "control socket of a sandbox");
    }
    return take_fd(&fd);
}

static void write_body(const struct runtime_spec *spec, struct buf *out)
{
    struct json_out o;
    json_out_init(&o, out);
    json_obj_begin(&o);
    json_key(&o, "env");
    json_obj_begin(&o);
    for (size_t i = 0; i < spec->n_env; i++) {
        json_key(&o, spec->env[i].key);
        json_put_cstr(&o, spec->env[i].value);
    }
    json_obj_end(&o);
    json_key(&o, "entrypoint");
    json_arr_begin(&o);
    for (const char *const *v = spec->entrypoint; *v; v++) {
        json_put_cstr(&o, *v);
    }
    json_arr_end(&o);
    json_obj_end(&o);
}

/* The status of the answer and its body, or -1. The peer closes after it. */
static int read_answer(int fd, struct buf *text, struct err *e)
{
    char chunk[1024];
    ssize_t n;
    while ((n = recv(fd, chunk, sizeof(chunk), 0)) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0 && buf_add(text, chunk, (size_t)n) < 0) {
            break;
        }
        /* Its heads and bodies are small: the empty object ends the only good answer. */
        if (str_ends(buf_str(text), STR("\r\n\r\n{}"))) {
            break;
        }
    }
    struct str s = buf_str(text);
    uint32_t status;
    if (!str_starts(s, STR("HTTP/1.1 ")) || parse_u32(str_sub(s, 9, 12), &status) < 0) {
        return n < 0 ? err_sys(e, errno, "execd did not answer")
                     : err_set(e, ERR_IO, "execd closed its control socket");
    }
    return (int)status;
}

static int tell(int dir_fd, const struct runtime_spec *spec, struct err *e)
{
    cleanup_(buf_done) struct buf body = BUF_INIT(OCI_ACTIVATE_MAX), answer = BUF_INIT(16u << 10);
    cleanup_(buf_done) struct buf request = BUF_INIT(OCI_ACTIVATE_MAX + 256);
    struct sockaddr_un a;
    socklen_t len = (socklen_t)control_addr(dir_fd, &a);
    struct timeval wait = {.tv_sec = OCI_ACTIVATE_WAIT_S};
    write_body(spec, &body);
    (void)buf_printf(&request,
                     "POST /activate HTTP/1.1\r\nHost: execd\r\nConnection: close\r\n"
                     "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                     body.len);
    (void)buf_add(&request, body.p, body.len);
    if (buf_failed(&body) || buf_failed(&request)) {
        return err_set(e, ERR_LIMIT, "environment and entrypoint are too long");
    }
    cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0 ||
        connect(fd, (struct sockaddr *)&a, len) < 0) {
        return err_sys(e, errno, "control socket of %s", spec->id);
    }
    for (size_t at = 0; at < request.len;) {
        ssize_t n = send(fd, request.p + at, request.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return err_sys(e, errno, "control socket of %s", spec->id);
        }
        at += n > 0 ? (size_t)n : 0;
    }
    int status = read_answer(fd, &answer, e);
    if (status == 409) {
        return err_set(e, ERR_CONFLICT, "sandbox %s has been used", spec->id);
    }
    return status < 0 ? -1
           : status == 200
               ? 0
               : err_set(e, ERR_IO, "execd refused to be activated with status %d", status);
}

static bool limits_differ(const struct sandbox_state *s, const struct cgroup_limits *l)
{
    return (uint64_t)s->cpu_millis.v != l->cpu_millis ||
           (uint64_t)s->memory_bytes.v != l->memory_bytes || (uint64_t)s->pids.v != l->pids;
}

/* What is on record from now on. */
static void state_activate(struct sandbox_state *s, const struct runtime_spec *spec,
                           const struct cgroup_limits *l, struct arena *a)
{
    struct str_pair *labels = arena_array(a, spec->n_labels + 1, sizeof(*labels));
    for (size_t i = 0; i < spec->n_labels; i++) {
        labels[i] = (struct str_pair){spec->labels[i].key, spec->labels[i].value};
    }
    size_t n = 0;
    while (spec->entrypoint[n]) {
        n++;
    }
    s->standby = (struct opt_bool){0};
    s->labels = (struct str_map){.v = labels, .n = spec->n_labels, .has = spec->n_labels > 0};
    s->entrypoint.n = n;
    s->entrypoint.v = arena_array(a, n + 1, sizeof(char *));
    memcpy(s->entrypoint.v, spec->entrypoint, n * sizeof(char *));
    s->cpu_millis = (struct opt_int){l->cpu_millis > 0, (int64_t)l->cpu_millis};
    s->memory_bytes = (struct opt_int){l->memory_bytes > 0, (int64_t)l->memory_bytes};
    s->pids = (struct opt_int){l->pids > 0, (int64_t)l->pids};
}

int oci_activate(struct runtime *rt, const struct runtime_spec *spec, struct err *e)
{
    struct oci *o = oci_of(rt);
    cleanup_(arena_done) struct arena a = {0};
    struct sandbox_state s = {0};
    struct cgroup_limits limits;
    uint64_t disk;
    (void)pthread_mutex_lock(&o->lock);
    const struct sandbox *sb = map_get(&o->sandboxes, str_from(spec->id));
    bool is_up = sb && sb->is_up;
    (void)pthread_mutex_unlock(&o->lock);
    cleanup_close int dir = is_up ? sandbox_dir_open(o, spec->id, e) : -1;
    if (dir < 0 || state_read(dir, &a, &s, e) < 0) {
        return e->code ? -1 : err_set(e, ERR_UNAVAILABLE, "sandbox %s has ended", spec->id);
    }
    oci_limits_of(o, &spec->limits, &limits, &disk);
    if (!s.standby.v || disk != (uint64_t)s.disk_bytes.v) {
        return err_set(e, ERR_CONFLICT, "sandbox %s cannot be given away like this", spec->id);
    }
    memset(limits.io, 0, sizeof(limits.io)); /* as they are: they were the template's */
    if (limits_differ(&s, &limits) && cgroup_update(&o->cg, spec->id, &limits, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.activate.after_limits");
    if (tell(dir, spec, e) < 0) {
        return -1;
    }
    FAULT_POINT("oci.activate.after_told");
    state_activate(&s, spec, &limits, &a);
    (void)unlinkat(dir, CONTROL_FILE, 0); /* nobody listens there any more */
    return state_write(dir, &s, e);
}
