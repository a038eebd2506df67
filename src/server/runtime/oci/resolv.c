/* Which name servers a sandbox is told about. */

#include "server/runtime/oci/resolv.h"

#include <fcntl.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"

size_t resolv_parse(struct str text, struct ip *out, size_t max)
{
    size_t n = 0;
    while (text.p && n < max) {
        struct str line = str_trim(str_cut(&text, '\n'));
        struct str word = str_cut(&line, ' ');
        ptrdiff_t tab = str_find(word, '\t');
        if (tab >= 0) {
            line = str_sub(word, (size_t)tab + 1, word.n);
            word = str_sub(word, 0, (size_t)tab);
        }
        if (!str_eq(word, STR("nameserver"))) {
            continue;
        }
        struct ip ip;
        struct str addr = str_trim(line);
        if (ip_parse(addr, &ip) == 0 && ip.family == 4 && !ip_is_loopback(&ip)) {
            out[n++] = ip;
        }
    }
    return n;
}

size_t resolv_host(struct ip *out, size_t max)
{
    static const char *const files[] = {
        "/etc/resolv.conf",
        "/run/systemd/resolve/resolv.conf",
        "/run/NetworkManager/no-stub-resolv.conf",
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        cleanup_(buf_done) struct buf text = BUF_INIT(64u << 10);
        if (file_read(AT_FDCWD, files[i], &text) == 0) {
            size_t n = resolv_parse(buf_str(&text), out, max);
            if (n) {
                return n;
            }
        }
    }
    return 0;
}
