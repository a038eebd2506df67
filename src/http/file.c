/* Files as responses: validators, conditional requests, one range, sendfile. */

#include "http/file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define ETAG_MAX 64

struct validators {
    char etag[ETAG_MAX]; /* strong: changes with every write that the clock can tell apart */
    char modified[HTTP_DATE_LEN + 1];
    int64_t modified_s;
};

static void validators_of(const struct stat *st, struct validators *v)
{
    uint64_t ns = (uint64_t)st->st_mtim.tv_sec * 1000000000u + (uint64_t)st->st_mtim.tv_nsec;
    (void)snprintf(v->etag, sizeof(v->etag), "\"%" PRIx64 "-%" PRIx64 "-%" PRIx64 "\"",
                   (uint64_t)st->st_ino, (uint64_t)st->st_size, ns);
    v->modified_s = st->st_mtim.tv_sec;
    http_date_format(v->modified_s, v->modified);
}

/* If-None-Match compares weakly: a W/ in front does not matter. */
static bool etag_listed(struct str list, struct str etag)
{
    while (list.p) {
        struct str t = str_trim(str_cut(&list, ','));
        if (str_starts(t, STR("W/"))) {
            t = str_sub(t, 2, t.n);
        }
        if (str_eq(t, STR("*")) || str_eq(t, etag)) {
            return true;
        }
    }
    return false;
}

static bool is_unmodified(const struct http_req *req, const struct validators *v)
{
    int64_t since;
    struct str none_match = http_req_header(req, STR("If-None-Match"));
    if (none_match.p) {
        return etag_listed(none_match, str_from(v->etag));
    }
    struct str if_since = http_req_header(req, STR("If-Modified-Since"));
    return if_since.p && http_date_parse(if_since, &since) == 0 && v->modified_s <= since;
}

/* If-Range: the range counts only if the file is still the one that the client has a part of. */
static bool range_applies(const struct http_req *req, const struct validators *v)
{
    struct str cond = http_req_header(req, STR("If-Range"));
    int64_t at;
    if (!cond.p) {
        return true;
    }
    if (cond.n > 0 && cond.p[0] == '"') {
        return str_eq(cond, str_from(v->etag));
    }
    return http_date_parse(cond, &at) == 0 && at == v->modified_s;
}

static void refuse_range(struct http_req *req, uint64_t size)
{
    char text[64];
    (void)snprintf(text, sizeof(text), "bytes */%" PRIu64, size);
    http_resp_header(req, STR("Content-Range"), str_from(text));
    http_resp_send(req, 416, NULL, STR(""));
}

/* The part to send and the status that goes with it; 0 when the request has been answered. */
static int choose_range(struct http_req *req, const struct validators *v, uint64_t size,
                        struct http_range *ret)
{
    *ret = (struct http_range){0, size};
    struct str value = http_req_header(req, STR("Range"));
    bool is_get = str_eq(http_req_method(req), STR("GET"));
    if (!value.p || !is_get || !range_applies(req, v)) {
        return 200;
    }
    struct http_range part;
    int r = http_range_parse(value, size, &part);
    if (r < 0) {
        refuse_range(req, size);
        return 0;
    }
    if (r == 0) {
        return 200;
    }
    char text[96];
    (void)snprintf(text, sizeof(text), "bytes %" PRIu64 "-%" PRIu64 "/%" PRIu64, part.start,
                   part.start + part.len - 1, size);
    http_resp_header(req, STR("Content-Range"), str_from(text));
    *ret = part;
    return 206;
}

void http_resp_file(struct http_req *req, int file_fd, const char *ctype)
{
    cleanup_close int fd = file_fd;
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        http_resp_send(req, 500, "application/json",
                       STR("{\"code\":\"internal_server_error\",\"message\":\"not a file\"}"));
        return;
    }
    struct validators v;
    validators_of(&st, &v);
    http_resp_header(req, STR("ETag"), str_from(v.etag));
    http_resp_header(req, STR("Last-Modified"), str_from(v.modified));
    http_resp_header(req, STR("Accept-Ranges"), STR("bytes"));
    if (is_unmodified(req, &v)) {
        http_resp_send(req, 304, NULL, STR(""));
        return;
    }
    struct http_range part;
    int status = choose_range(req, &v, (uint64_t)st.st_size, &part);
    if (status == 0) {
        return;
    }
    http_resp_start(req, status, ctype, (int64_t)part.len);
    if (part.len > 0) {
        http_resp_sendfile(req, take_fd(&fd), (off_t)part.start, part.len);
    }
    http_resp_end(req);
}
