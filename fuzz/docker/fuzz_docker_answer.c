/* Everything the engine and what runs in its containers can say: lists, inspections, events in
 * pieces, logs. The first byte says where the stream is cut. */

#include <stdint.h>

#include "base/cleanup.h"
#include "base/must.h"
#include "server/runtime/docker/docker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_json(struct str text)
{
    struct err e = {0};
    cleanup_(json_free) struct json *j = json_parse(text, &e);
    struct container c;
    struct runtime_status st;
    if (container_from_list(j, &c)) {
        must(c.id[0] && c.cid[0] && !strchr(c.id, '/') && !strchr(c.id, '.'));
    }
    status_from_list(j, &st);
    container_from_inspect(j, &c);
    status_from_inspect(j, &st);
    must(st.state == RT_EXITED || st.exit == EXIT_NONE);
    const struct runtime_limits all = {
        .memory_bytes = 1, .cpu_millis = 1, .pids = 1, .io = {1, 1, 1, 1}};
    (void)limits_kept(j, &all, &e);
}

static void read_logs(struct str text)
{
    cleanup_(buf_done) struct buf plain = BUF_INIT(1u << 20), own = BUF_INIT(1u << 20);
    struct last_words w;
    struct runtime_status st = {.state = RT_EXITED, .exit = EXIT_CODE, .exit_code = 137};
    logs_unframe(text, &plain);
    must(plain.len <= text.n);
    logs_without_execd(buf_str(&plain), 5, &own);
    must(own.len <= plain.len);
    last_words_read(buf_str(&plain), &w);
    status_by_words(&w, true, &st);
    (void)mount_has_quota(text, 7, 0);
}

static void read_events(struct str text, size_t cut)
{
    struct docker d = {0};
    (void)pthread_mutex_init(&d.lock, NULL);
    (void)pthread_cond_init(&d.changed, NULL);
    const struct container known = {.id = "a", .cid = "b", .state = RT_RUNNING, .is_up = true};
    index_put(&d, &known);
    struct engine_lines lines = {.on_line = events_line, .arg = &d};
    cut = MIN(cut, text.n);
    if (engine_lines_add(&lines, str_sub(text, 0, cut)) == 0) {
        (void)engine_lines_add(&lines, str_sub(text, cut, text.n));
    }
    buf_done(&lines.rest);
    index_del(&d, "a");
    map_done(&d.containers);
    (void)pthread_cond_destroy(&d.changed);
    (void)pthread_mutex_destroy(&d.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) {
        return 0;
    }
    struct str text = str_n((const char *)data + 1, size - 1);
    read_json(text);
    read_logs(text);
    read_events(text, data[0]);
    return 0;
}
