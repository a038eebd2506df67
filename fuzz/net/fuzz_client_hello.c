/* ClientHello: the verdict on a prefix never contradicts the verdict on the whole. */

#include <stddef.h>
#include <stdint.h>

#include "base/must.h"
#include "net/client_hello.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct str in = str_n((const char *)data, size);
    struct client_hello whole = {0}, part = {0};
    enum hello_result r = client_hello_parse(in, &whole);
    if (r == HELLO_DONE) {
        must(whole.server_name[0] == 0 || domain_valid(str_from(whole.server_name)));
    }
    for (size_t n = 0; n < size; n += 1 + size / 16) {
        enum hello_result early = client_hello_parse(str_sub(in, 0, n), &part);
        if (early != HELLO_NEED_MORE) {
            must(early == r);
        }
    }
    return 0;
}
