/* Images as files: into the server's store and out of it. */

#include "base/cleanup.h"
#include "base/codec.h"
#include "client/internal.h"

char *osb_image_import(struct osb_client *c, const char *name, osb_read_fn *read, void *arg,
                       int64_t length, const struct osb_call *call, struct osb_error *e)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(8192);
    (void)buf_add_cstr(&path, "/images/import");
    if (name) {
        (void)query_add(&path, "name", name);
    }
    struct transfer t = {.method = "POST",
                         .content_type = "application/x-tar",
                         .read = read,
                         .read_arg = arg,
                         .read_len = length,
                         .no_timeout = true};
    char *answer = NULL;
    if (call) {
        t.call = *call;
    }
    if (client_transfer(c, buf_cstr(&path), &t, e) == 0) {
        answer = str_dup(buf_str(&t.answer));
    }
    transfer_done(&t);
    return answer;
}

struct sink {
    osb_write_fn *write;
    void *arg;
};

static int on_data(struct str data, void *arg)
{
    struct sink *s = arg;
    return s->write(data.p, data.n, s->arg);
}

int osb_image_export(struct osb_client *c, const char *name, osb_write_fn *write, void *arg,
                     const struct osb_call *call, struct osb_error *e)
{
    cleanup_(buf_done) struct buf path = BUF_INIT(8192);
    struct sink s = {write, arg};
    (void)buf_add_cstr(&path, "/images/");
    (void)percent_encode(&path, str_from(name), false);
    (void)buf_add_cstr(&path, "/export");
    struct transfer t = {.method = "GET", .on_data = on_data, .arg = &s, .no_timeout = true};
    if (call) {
        t.call = *call;
    }
    int r = client_transfer(c, buf_cstr(&path), &t, e);
    transfer_done(&t);
    return r;
}
