/* GET /files/download. The file is opened in a worker, because any path may lead to a file system
 * that does not answer; its bytes are sent by the kernel. In line mode they pass through a worker
 * piece by piece, as fast as the client takes them. */

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/must.h"
#include "base/num.h"
#include "execd/execd.h"
#include "execd/fs_path.h"
#include "execd/limits.h"
#include "execd/line_filter.h"
#include "execd/range.h"
#include "execd/reply.h"
#include "execd/routes_files.h"
#include "execd/task.h"

struct download {
    struct task task;
    struct execd *x;
    struct http_req *req; /* NULL: it has ended */
    atomic_bool gone;     /* the same, for the worker */
    bool running;
    struct arena arena;
    struct str given;
    const char *abs;
    int fd;
    struct stat st;
    struct err err;
    bool by_line, at_eof, started;
    struct line_filter lines;
    struct buf piece; /* lines, or the content of a special file */
};

static void download_free(struct download *d)
{
    if (d->fd >= 0) {
        (void)close(d->fd);
    }
    buf_done(&d->piece);
    arena_done(&d->arena);
    free(d);
}

static void on_end(struct http_req *req, bool completed, void *arg)
{
    struct download *d = arg;
    d->req = NULL;
    atomic_store(&d->gone, true);
    if (!d->running) {
        download_free(d);
    }
}

/* ---- in a worker ---- */

static int read_lines(struct download *d)
{
    cleanup_free char *p = xmalloc(DOWNLOAD_LINE_CHUNK);
    buf_clear(&d->piece);
    while (d->piece.len < DOWNLOAD_LINE_CHUNK && !d->at_eof && !atomic_load(&d->gone)) {
        ssize_t n = fd_read_full(d->fd, p, DOWNLOAD_LINE_CHUNK);
        if (n < 0) {
            return (int)n;
        }
        bool enough = line_filter_feed(&d->lines, str_n(p, (size_t)n), &d->piece);
        d->at_eof = enough || (size_t)n < DOWNLOAD_LINE_CHUNK;
    }
    return buf_failed(&d->piece) ? -EFBIG : 0;
}

static void work(struct task *t)
{
    struct download *d = container_of(t, struct download, task);
    int r = 0;
    if (d->fd < 0) {
        d->abs = fs_path_resolve(&d->arena, d->given, &d->err);
        if (!d->abs) {
            return;
        }
        d->fd = fs_open(d->abs, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
        r = d->fd < 0 ? d->fd : fstat(d->fd, &d->st) < 0 ? -errno : 0;
        if (r == 0 && !S_ISREG(d->st.st_mode)) {
            (void)err_set(&d->err, ERR_INVALID, "%s: %s",
                          S_ISDIR(d->st.st_mode) ? "path is a directory"
                                                 : "path is not a regular file",
                          d->abs);
            return;
        }
    }
    if (r == 0 && d->by_line) {
        r = read_lines(d);
    } else if (r == 0 && d->st.st_size == 0) { /* empty, or a file of /proc and the like */
        r = buf_read_fd(&d->piece, d->fd);
    }
    if (r < 0) {
        (void)err_sys(&d->err, r, "%s", d->abs);
    }
}

/* ---- on the loop ---- */

static void send_failure(struct download *d)
{
    const struct err *e = &d->err;
    if (d->started) { /* too late to say so: the client sees that the body breaks off */
        http_resp_abort(d->req);
    } else if (e->sys == ENOENT) {
        reply_error(d->req, 404, CODE_FILE_NOT_FOUND, "file not found. %s", e->msg);
    } else if (e->code == ERR_INVALID && e->sys == 0) {
        reply_error(d->req, 400, CODE_INVALID_FILE, "%s", e->msg);
    } else {
        reply_error(d->req, 500, CODE_RUNTIME_ERROR, "error accessing file: %s", e->msg);
    }
}

static void set_header(struct http_req *req, const char *name, struct buf *value)
{
    http_resp_header(req, str_from(name), buf_str(value));
    buf_clear(value);
}

static void set_file_headers(struct download *d)
{
    struct buf value = BUF_INIT(16u << 10);
    const char *base = strrchr(d->abs, '/') + 1;
    content_disposition(&value, str_from(base));
    set_header(d->req, "Content-Disposition", &value);
    char date[HTTP_DATE_LEN + 1];
    http_date_format(d->st.st_mtim.tv_sec, date);
    http_resp_header(d->req, STR("Last-Modified"), str_from(date));
    http_resp_header(d->req, STR("Accept-Ranges"), STR("bytes"));
    buf_done(&value);
}

static bool is_unmodified(const struct download *d)
{
    int64_t since;
    struct str text = http_req_header(d->req, STR("If-Modified-Since"));
    return text.n > 0 && http_date_parse(text, &since) == 0 && d->st.st_mtim.tv_sec <= since;
}

static void send_unsatisfiable(struct download *d, bool is_bad)
{
    struct buf value = BUF_INIT(64);
    (void)buf_printf(&value, "bytes */%lld", (long long)d->st.st_size);
    set_header(d->req, "Content-Range", &value);
    buf_done(&value);
    if (is_bad) {
        reply_error(d->req, 416, CODE_UNKNOWN, "%s", "");
    } else {
        http_resp_send(d->req, 416, TEXT_CTYPE, STR("invalid range: failed to overlap"));
    }
}

static void send_file(struct download *d)
{
    struct http_req *req = d->req;
    struct str header = http_req_header(req, STR("Range"));
    struct range r = {.kind = RANGE_ALL};
    uint64_t size = (uint64_t)d->st.st_size;
    if (header.p && size > 0) {
        r = range_parse(header, size);
    } else if (header.p && range_parse(header, 0).kind == RANGE_BAD) {
        r.kind = RANGE_BAD;
    }
    if (r.kind == RANGE_BAD || r.kind == RANGE_BEYOND) {
        send_unsatisfiable(d, r.kind == RANGE_BAD);
        return;
    }
    set_file_headers(d);
    if (r.kind == RANGE_ALL && is_unmodified(d)) {
        http_resp_send(req, 304, NULL, STR(""));
        return;
    }
    if (size == 0) {
        http_resp_send(req, 200, "application/octet-stream", buf_str(&d->piece));
        return;
    }
    if (r.kind == RANGE_PART) {
        struct buf value = BUF_INIT(128);
        (void)buf_printf(&value, "bytes %llu-%llu/%llu", (unsigned long long)r.start,
                         (unsigned long long)(r.start + r.len - 1), (unsigned long long)size);
        set_header(req, "Content-Range", &value);
        buf_done(&value);
    } else {
        r = (struct range){RANGE_ALL, 0, size};
    }
    http_resp_start(req, r.kind == RANGE_PART ? 206 : 200, "application/octet-stream",
                    (int64_t)r.len);
    http_resp_sendfile(req, take_fd(&d->fd), (off_t)r.start, r.len);
    http_resp_end(req);
}

static void start_work(struct download *d);

static void on_writable(struct http_req *req, void *arg)
{
    struct download *d = arg;
    if (!d->running && !d->at_eof) {
        start_work(d);
    }
}

static void send_lines(struct download *d)
{
    if (d->at_eof && !d->started) {
        http_resp_send(d->req, 200, TEXT_CTYPE, buf_str(&d->piece));
        return;
    }
    if (!d->started) {
        d->started = true;
        http_resp_on_writable(d->req, on_writable, d);
        http_resp_start(d->req, 200, TEXT_CTYPE, -1);
    }
    bool room = http_resp_write(d->req, buf_str(&d->piece));
    if (d->at_eof) {
        http_resp_end(d->req);
    } else if (room && d->req && !d->running) {
        start_work(d);
    }
}

static void done(struct task *t)
{
    struct download *d = container_of(t, struct download, task);
    d->running = false;
    if (!d->req) {
        download_free(d);
    } else if (d->err.code != ERR_NONE) {
        send_failure(d);
    } else if (d->by_line) {
        send_lines(d);
    } else {
        send_file(d);
    }
}

static void start_work(struct download *d)
{
    d->running = true;
    if (task_start(d->x->pool, &d->task) < 0) {
        d->running = false;
        (void)err_set(&d->err, ERR_UNAVAILABLE, "too many file operations are waiting, try again");
        send_failure(d);
    }
}

/* A 1-based line number out of the query: 1, 0 when absent, -1 when the 400 has been sent. */
static int line_param(struct http_req *req, const char *name, uint64_t *ret)
{
    struct str text = http_req_query_get(req, name, 0);
    if (text.n == 0) {
        return 0;
    }
    if (parse_u64(text, ret) < 0 || *ret == 0) {
        reply_error(req, 400, CODE_INVALID_BODY, "invalid query parameter '%s': %.*s", name,
                    STR_FMT(text));
        return -1;
    }
    return 1;
}

void files_download(struct http_req *req)
{
    struct str given = http_req_query_get(req, "path", 0);
    if (given.n == 0) {
        reply_missing_query(req, "path");
        return;
    }
    uint64_t offset = 1, limit = UINT64_MAX;
    int has_offset = line_param(req, "offset", &offset);
    int has_limit = has_offset < 0 ? 0 : line_param(req, "limit", &limit);
    if (has_offset < 0 || has_limit < 0) {
        return;
    }
    bool by_line = has_offset || has_limit;
    if (by_line && http_req_header(req, STR("Range")).p) {
        reply_error(req, 400, CODE_INVALID_BODY,
                    "the Range header and 'offset'/'limit' are mutually exclusive");
        return;
    }
    struct download *d = NEW(struct download);
    d->x = execd_of(req);
    d->req = req;
    d->fd = -1;
    d->task = (struct task){d->x->loop, work, done};
    d->given = str_from(arena_str(&d->arena, given));
    d->given.n = given.n; /* a NUL inside is the resolver's to refuse */
    d->by_line = by_line;
    line_filter_init(&d->lines, offset, limit);
    buf_init(&d->piece, by_line ? 4 * DOWNLOAD_LINE_CHUNK : DOWNLOAD_SPECIAL_MAX);
    http_req_on_end(req, on_end, d);
    start_work(d);
}
