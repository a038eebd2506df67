/* The output of a sandbox's entrypoint.
 *
 * execd writes it, to two files that it uses in turn: when one has reached its size the other is
 * emptied and takes over. So it goes on while the server is away, and never takes more than two
 * files of that size. Each line begins with the time it was read. */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "server/runtime/oci/limits.h"
#include "server/runtime/oci/oci.h"

/* The time in front of a line, or -1 when there is none. */
static int64_t line_time(struct str line)
{
    int64_t us;
    struct str rest = line;
    return rfc3339_parse(str_cut(&rest, ' '), &us) < 0 ? -1 : us;
}

/* Appends the end of the file, at most `max` bytes of it, from the beginning of a line. */
static int read_tail(int dir_fd, const char *name, size_t max, struct buf *out)
{
    cleanup_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return errno == ENOENT ? 0 : -errno;
    }
    size_t from = (size_t)st.st_size > max ? (size_t)st.st_size - max : 0;
    size_t begin = out->len;
    if (lseek(fd, (off_t)from, SEEK_SET) < 0) {
        return -errno;
    }
    int r = buf_read_fd(out, fd);
    if (r < 0 && r != -ENOSPC) {
        return r;
    }
    if (from) { /* the first line is only a part of one */
        struct str text = str_n(out->p + begin, out->len - begin);
        ptrdiff_t nl = str_find(text, '\n');
        size_t cut = nl < 0 ? text.n : (size_t)nl + 1;
        memmove(out->p + begin, out->p + begin + cut, text.n - cut);
        out->len -= cut;
    }
    if (out->len > begin && out->p[out->len - 1] != '\n') {
        (void)buf_add_char(out, '\n');
    }
    return 0;
}

/* The one whose first line is older comes first. */
static bool is_older(int dir_fd, const char *a, const char *b)
{
    int64_t t[2];
    const char *names[] = {a, b};
    for (int i = 0; i < 2; i++) {
        char head[RFC3339_MAX + 1] = "";
        cleanup_close int fd = openat(dir_fd, names[i], O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : pread(fd, head, RFC3339_MAX, 0);
        t[i] = n > 0 ? line_time(str_n(head, (size_t)n)) : INT64_MAX;
    }
    return t[0] <= t[1];
}

static int add_lines(struct str text, unsigned tail, int64_t since_us, struct buf *out)
{
    size_t n = 0;
    for (struct str rest = text; rest.p && rest.n;) {
        struct str line = str_cut(&rest, '\n');
        n += since_us <= 0 || line_time(line) >= since_us;
    }
    size_t skip = tail && n > tail ? n - tail : 0;
    for (struct str rest = text; rest.p && rest.n;) {
        struct str line = str_cut(&rest, '\n');
        if (since_us > 0 && line_time(line) < since_us) {
            continue;
        }
        if (skip) {
            skip--;
        } else if (buf_add_str(out, line) < 0 || buf_add_char(out, '\n') < 0) {
            return -ENOSPC;
        }
    }
    return 0;
}

int oci_logs(struct runtime *rt, const char *id, unsigned tail, int64_t since_us, struct buf *out,
             struct err *e)
{
    cleanup_close int dir = sandbox_dir_open(oci_of(rt), id, e);
    if (dir < 0) {
        return -1;
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(OCI_LOGS_MAX + 2);
    bool first = is_older(dir, HOME_LOG_0, HOME_LOG_1);
    int r = read_tail(dir, first ? HOME_LOG_0 : HOME_LOG_1, OCI_LOGS_MAX / 2, &text);
    r = r < 0 ? r : read_tail(dir, first ? HOME_LOG_1 : HOME_LOG_0, OCI_LOGS_MAX / 2, &text);
    r = r < 0 ? r : add_lines(buf_str(&text), tail, since_us, out);
    return r < 0 ? err_sys(e, r, "logs of %s", id) : 0;
}
