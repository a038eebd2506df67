/* Reports of the kernel's packet log: nothing is read beyond them, and what was read has a text. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "egress/nflog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_packet(const struct nflog_packet *p, void *arg)
{
    char to[NFLOG_TEXT_MAX], from[NFLOG_TEXT_MAX];
    size_t sum = 0;
    must(p->dst.family == 4 || p->dst.family == 6);
    must(p->src.family == p->dst.family);
    must(strchr(nflog_target(p, to), '/') && strchr(nflog_source(p, from), '/'));
    for (size_t i = 0; i < p->prefix.n; i++) {
        sum += (size_t)p->prefix.p[i];
    }
    *(size_t *)arg += sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t sum = 0;
    (void)nflog_parse(data, size, on_packet, &sum);
    must(nflog_answer(data, size) <= 0);
    return 0;
}
