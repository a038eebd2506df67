/* JSON lines to the starter. */

#include "execd/notify.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "json/json.h"

#define LINE_MAX_BYTES 4096

static void begin(struct json_out *o, struct buf *b, const char *event)
{
    json_out_init(o, b);
    json_obj_begin(o);
    json_key(o, "event");
    json_put_cstr(o, event);
}

static void put_int(struct json_out *o, const char *key, int64_t v)
{
    json_key(o, key);
    json_put_int(o, v);
}

static void send_line(int fd, struct json_out *o)
{
    json_obj_end(o);
    (void)buf_add_char(o->buf, '\n');
    ssize_t n;
    do {
        n = write(fd, o->buf->p, o->buf->len);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        log_debug("nobody reads the notify descriptor", LOG_I("errno", errno));
    }
}

void notify_ready(int fd, uint16_t port)
{
    if (fd < 0) {
        return;
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(LINE_MAX_BYTES);
    struct json_out o;
    begin(&o, &b, "ready");
    put_int(&o, "pid", getpid());
    if (port) {
        put_int(&o, "port", port);
    }
    send_line(fd, &o);
}

void notify_entrypoint_started(int fd, pid_t pid)
{
    if (fd < 0) {
        return;
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(LINE_MAX_BYTES);
    struct json_out o;
    begin(&o, &b, "entrypoint_started");
    put_int(&o, "pid", pid);
    send_line(fd, &o);
}

void notify_entrypoint_exited(int fd, pid_t pid, int exit_code, int signo, bool oom)
{
    if (fd < 0) {
        return;
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(LINE_MAX_BYTES);
    struct json_out o;
    begin(&o, &b, "entrypoint_exited");
    put_int(&o, "pid", pid);
    put_int(&o, "exit_code", exit_code);
    if (signo) {
        put_int(&o, "signal", signo);
    }
    if (oom) {
        json_key(&o, "oom");
        json_put_bool(&o, true);
    }
    send_line(fd, &o);
}

void notify_entrypoint_failed(int fd, const char *error)
{
    if (fd < 0) {
        return;
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(LINE_MAX_BYTES);
    struct json_out o;
    begin(&o, &b, "entrypoint_failed");
    json_key(&o, "error");
    json_put_cstr(&o, error);
    send_line(fd, &o);
}

void notify_stopping(int fd)
{
    if (fd < 0) {
        return;
    }
    cleanup_(buf_done) struct buf b = BUF_INIT(LINE_MAX_BYTES);
    struct json_out o;
    begin(&o, &b, "stopping");
    send_line(fd, &o);
}
