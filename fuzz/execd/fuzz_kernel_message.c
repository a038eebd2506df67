/* Messages of kernels as Jupyter passes them on: any text, and what is taken has its strings. */

#include <stdint.h>
#include <string.h>

#include "base/must.h"
#include "execd/code/kernelspec.h"
#include "execd/code/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct message_trees trees = {0};
    struct kernel_message m;
    struct str text = str_n((const char *)data, n);
    if (message_from_websocket(text, &trees, &m) == 0) {
        must(m.type && m.parent_id && json_is_object(m.content));
    }
    message_trees_done(&trees);
    struct arena a = {0};
    struct kernelspec spec;
    if (kernelspec_parse(&a, text, "name", "/dir", &spec) == 0) {
        must(spec.language && spec.argv.n > 0);
    }
    arena_done(&a);
    return 0;
}
