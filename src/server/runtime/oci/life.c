/* Reading what execd said about its life. */

#include "server/runtime/oci/life.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "server/runtime/oci/home.h"
#include "json/json.h"

#define LIFE_MAX (256u << 10)

static void line_parse(struct str line, struct life *l)
{
    cleanup_(json_free) struct json *j = json_parse(line, NULL);
    struct str event = json_str(json_get(j, "event"));
    if (str_eq(event, STR("ready"))) {
        l->is_ready = true;
    } else if (str_eq(event, STR("entrypoint_exited"))) {
        l->has_exit = true;
        l->exit_code = (int)json_int(json_get(j, "exit_code"), -1);
        l->signal = (int)json_int(json_get(j, "signal"), 0);
        l->oom = json_bool(json_get(j, "oom"), false);
    } else if (str_eq(event, STR("entrypoint_failed"))) {
        l->has_failed = true;
        (void)snprintf(l->error, sizeof(l->error), "%.*s", STR_FMT(json_str(json_get(j, "error"))));
    }
}

void life_parse(struct str text, struct life *ret)
{
    *ret = (struct life){0};
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        if (line.n && text.p) { /* the last piece has no end yet */
            line_parse(line, ret);
        }
    }
}

int life_read(int dir_fd, struct life *ret)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(LIFE_MAX);
    *ret = (struct life){0};
    int r = file_read(dir_fd, HOME_LIFE, &text);
    if (r == 0) {
        life_parse(buf_str(&text), ret);
    }
    return r;
}
