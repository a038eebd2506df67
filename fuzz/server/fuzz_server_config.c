/* A configuration either loads, with every value in its range, or says why not. */

#include <stdint.h>

#include "base/must.h"
#include "server/config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {0};
    struct config_notes notes = {0};
    struct config *c = config_parse("fuzz", str_n((const char *)data, size), &notes, &e);
    if (!c) {
        must(e.code && e.msg[0]);
    } else {
        must(c->server.port >= 0 && c->server.port <= 65535);
        must(c->server.data_dir[0] == '/' && c->store.path[0] == '/' && c->oci.root[0] == '/');
        struct buf b = BUF_INIT(65536);
        must(config_needs_restart(c, c, &b) == 0);
        buf_done(&b);
    }
    config_unref(c);
    config_notes_done(&notes);
    return 0;
}
