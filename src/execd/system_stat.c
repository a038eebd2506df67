#include "execd/system_stat.h"

#include <dirent.h>
#include <fcntl.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/num.h"

#define PROC_NET_MAX (8u << 20)

static struct str next_field(struct str *line)
{
    struct str field;
    do {
        field = str_cut(line, ' ');
    } while (field.n == 0 && line->p);
    return field;
}

void net_dev_parse(struct str text, uint64_t *in, uint64_t *out)
{
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        struct str name = str_trim(str_cut(&line, ':'));
        if (!line.p || str_eq(name, STR("lo"))) {
            continue; /* the two head lines have no colon */
        }
        for (int i = 0; i < 9; i++) {
            uint64_t v;
            struct str field = next_field(&line);
            if ((i == 0 || i == 8) && parse_u64(field, &v) == 0) {
                *(i == 0 ? in : out) += v;
            }
        }
    }
}

uint64_t net_sockets_count(struct str text, unsigned state)
{
    uint64_t n = 0, v;
    (void)str_cut(&text, '\n'); /* head line */
    while (text.p) {
        struct str line = str_cut(&text, '\n');
        struct str field = STR_NULL;
        for (int i = 0; i < 4 && line.p; i++) { /* number, local, remote, state */
            field = next_field(&line);
        }
        if (line.p && parse_u64_hex(field, &v) == 0 && (state == 0 || v == state)) {
            n++;
        }
    }
    return n;
}

static uint64_t count_sockets(const char *path, unsigned state)
{
    cleanup_(buf_done) struct buf text = BUF_INIT(PROC_NET_MAX);
    (void)file_read(AT_FDCWD, path, &text); /* more than fits is cut */
    return net_sockets_count(buf_str(&text), state);
}

static uint64_t count_processes(void)
{
    cleanup_closedir DIR *dir = opendir("/proc");
    uint64_t n = 0;
    const struct dirent *d;
    while (dir && (d = readdir(dir))) {
        n += d->d_name[0] >= '1' && d->d_name[0] <= '9';
    }
    return n;
}

void system_stat_read(struct system_stat *ret)
{
    *ret = (struct system_stat){.processes = count_processes()};
    cleanup_(buf_done) struct buf text = BUF_INIT(PROC_NET_MAX);
    (void)file_read(AT_FDCWD, "/proc/net/dev", &text);
    net_dev_parse(buf_str(&text), &ret->net_in, &ret->net_out);
    enum { TCP_IS_ESTABLISHED = 1 };
    ret->tcp_active = count_sockets("/proc/net/tcp", TCP_IS_ESTABLISHED) +
                      count_sockets("/proc/net/tcp6", TCP_IS_ESTABLISHED);
    ret->udp_active = count_sockets("/proc/net/udp", 0) + count_sockets("/proc/net/udp6", 0);
}
