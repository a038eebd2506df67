/* Messages as a client may send them: framing, parsing, dispatch and arguments, over one session
 * that was initialized and one that was not. Tool calls are made but not run. Whatever comes, each
 * request is finished exactly once, and everything sent is JSON. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "mcp/frame.h"
#include "mcp/mcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct counter {
    struct sink base;
    size_t n_done;
};

static void on_send(struct sink *s, struct str message, bool is_reply)
{
    (void)s;
    (void)is_reply;
    struct json *j = json_parse(message, NULL);
    must(j);
    json_free(j);
}

static void on_done(struct sink *s)
{
    container_of(s, struct counter, base)->n_done++;
}

static void on_free(struct sink *s)
{
    (void)s;
}

static int drop(struct call *take_c)
{
    call_progress(take_c, 0.5, 1, "half");
    take_c->sink->done(take_c->sink);
    call_free(take_c);
    return 0;
}

static void on_line(struct str line, bool too_long, void *arg)
{
    struct session *s = arg;
    struct counter c = {.base = {.send = on_send, .done = on_done, .free = on_free}};
    struct rpc_in in;
    atomic_init(&c.base.refs, 1);
    if (too_long || rpc_read(line, &in, NULL) < 0) {
        return;
    }
    rpc_run(s, &in, &c.base);
    must(c.n_done == (in.is_batch ? c.n_done <= 1 ? c.n_done : 0 : in.n_requests));
    must(!in.is_batch || in.n_requests == 0 || c.n_done == 1);
    must(atomic_load(&c.base.refs) == 1);
    rpc_in_done(&in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const all[] = {"all", NULL};
    static struct mcp m;
    if (!m.toolsets) {
        mcp_init(&m, osb_client_new(&(struct osb_config){.domain = "127.0.0.1:1"}, NULL), all);
        m.start = drop;
    }
    for (int initialized = 0; initialized <= 1; initialized++) {
        struct session *s = session_new(&m);
        struct frame_reader r;
        s->initialized = initialized != 0;
        frame_init(&r, 4096);
        size_t half = size / 2;
        frame_feed(&r, str_n((const char *)data, half), on_line, s);
        frame_feed(&r, str_n((const char *)data + half, size - half), on_line, s);
        frame_end(&r, on_line, s);
        frame_done(&r);
        must(list_empty(&s->calls));
        session_unref(s);
    }
    return 0;
}
