/* What a container wrote. The entrypoint and execd share one stream: execd's own lines say so, are
 * not the user's, and tell how the entrypoint ended better than an exit code can. */

#include <stdio.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

#define FRAME_HEAD 8
#define EXECD_HEAD_MAX 80 /* of a line of execd's: up to whose it is */

void logs_unframe(struct str in, struct buf *out)
{
    bool framed =
        in.n >= FRAME_HEAD && (unsigned char)in.p[0] <= 2 && !in.p[1] && !in.p[2] && !in.p[3];
    if (!framed) {
        (void)buf_add_str(out, in);
        return;
    }
    while (in.n >= FRAME_HEAD) {
        const unsigned char *h = (const unsigned char *)in.p;
        size_t n = (size_t)h[4] << 24 | (size_t)h[5] << 16 | (size_t)h[6] << 8 | h[7];
        n = MIN(n, in.n - FRAME_HEAD);
        if (buf_add(out, in.p + FRAME_HEAD, n) < 0) {
            return;
        }
        in = str_sub(in, FRAME_HEAD + n, in.n);
    }
}

/* "2026-01-02T03:04:05.678Z {...}": what is behind the engine's time, if execd wrote it. */
static struct str execd_line(struct str line)
{
    (void)str_cut(&line, ' ');
    struct str head = str_sub(line, 0, MIN(line.n, (size_t)EXECD_HEAD_MAX));
    bool own = line.p && str_starts(line, STR("{\"time\":\"")) &&
               str_find_str(head, STR("\",\"program\":\"execd\",\"msg\":\"")) >= 0;
    return own ? line : STR_NULL;
}

void logs_without_execd(struct str text, unsigned tail, struct buf *out)
{
    cleanup_(buf_done) struct buf own = BUF_INIT(DOCKER_BODY_MAX);
    size_t lines = 0;
    while (text.n) {
        ptrdiff_t nl = str_find(text, '\n');
        size_t n = nl < 0 ? text.n : (size_t)nl + 1;
        struct str line = str_sub(text, 0, n);
        text = str_sub(text, n, text.n);
        if (!execd_line(line).p) {
            lines++;
            (void)buf_add_str(&own, line);
        }
    }
    struct str rest = buf_str(&own);
    for (; lines > tail; lines--) {
        ptrdiff_t nl = str_find(rest, '\n'); /* the last line may have none */
        rest = str_sub(rest, nl < 0 ? rest.n : (size_t)nl + 1, rest.n);
    }
    (void)buf_add_str(out, rest);
}

void last_words_read(struct str text, struct last_words *ret)
{
    *ret = (struct last_words){0};
    while (text.p) {
        struct str line = execd_line(str_cut(&text, '\n'));
        struct err ignored = {0};
        cleanup_(json_free) struct json *j = line.p ? json_parse(str_trim(line), &ignored) : NULL;
        struct str msg = json_str(json_get(j, "msg"));
        if (str_eq(msg, STR("entrypoint ended"))) {
            ret->has_ended = true;
            ret->code = (int)json_int(json_get(j, "status"), -1);
            ret->signal = (int)json_int(json_get(j, "signal"), 0);
            ret->oom = json_int(json_get(j, "oom"), 0) != 0;
        } else if (str_eq(msg, STR("entrypoint not started"))) {
            struct str why = json_str(json_get(j, "error"));
            (void)snprintf(ret->failed, sizeof(ret->failed), "%.*s", STR_FMT(why));
        }
    }
}

void status_by_words(const struct last_words *w, bool oom_killed, struct runtime_status *st)
{
    int code = st->exit_code;
    if (w->failed[0]) {
        (void)snprintf(st->detail, sizeof(st->detail), "it could not be started: %.200s",
                       w->failed);
    } else if (w->oom || (oom_killed && code == 128 + 9)) {
        st->exit = EXIT_OOM;
        st->exit_code = 9;
    } else if (w->has_ended && w->signal) {
        st->exit = EXIT_SIGNAL;
        st->exit_code = w->signal;
    } else if (!w->has_ended && code > 128 && code < 128 + 32 && !st->detail[0]) {
        (void)snprintf(st->detail, sizeof(st->detail), "as after signal %d", code - 128);
    } else if (oom_killed && !st->detail[0]) {
        (void)snprintf(st->detail, sizeof(st->detail), "a process in it was out of memory");
    }
}
