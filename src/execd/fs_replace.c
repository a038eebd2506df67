#include "execd/fs_replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/must.h"
#include "execd/fs_path.h"
#include "execd/fs_writer.h"

#define REPLACE_CHUNK (256u << 10)

struct replacer {
    int from, to;
    struct str old_text, new_text;
    struct buf out;
    uint64_t count;
};

static int out_flush(struct replacer *r)
{
    int x = fd_write_full(r->to, r->out.p, r->out.len);
    buf_clear(&r->out);
    return x;
}

static int out_add(struct replacer *r, const char *p, size_t n)
{
    if (r->out.len + n > REPLACE_CHUNK) {
        int x = out_flush(r);
        if (x < 0) {
            return x;
        }
    }
    return n > REPLACE_CHUNK ? fd_write_full(r->to, p, n) : buf_add(&r->out, p, n);
}

/* Replaces in [p, p+n); returns how much of it was used up, or -errno. Unless is_last, an
 * occurrence may begin in what is left. */
static ssize_t replace_in(struct replacer *r, const char *p, size_t n, bool is_last)
{
    size_t at = 0;
    for (;;) {
        const char *hit = memmem(p + at, n - at, r->old_text.p, r->old_text.n);
        size_t to = n;
        if (hit) {
            to = (size_t)(hit - p);
        } else if (!is_last) {
            size_t keep = r->old_text.n - 1;
            to = n - at > keep ? n - keep : at;
        }
        int x = out_add(r, p + at, to - at);
        if (x == 0 && hit) {
            x = out_add(r, r->new_text.p, r->new_text.n);
            r->count++;
        }
        if (x < 0) {
            return x;
        }
        if (!hit) {
            return (ssize_t)to;
        }
        at = to + r->old_text.n;
    }
}

static int replace_stream(struct replacer *r)
{
    size_t cap = REPLACE_CHUNK + r->old_text.n, len = 0;
    cleanup_free char *p = xmalloc(cap);
    for (bool is_last = false; !is_last;) {
        ssize_t n = fd_read_full(r->from, p + len, cap - len);
        if (n < 0) {
            return (int)n;
        }
        is_last = (size_t)n < cap - len;
        len += (size_t)n;
        ssize_t used = replace_in(r, p, len, is_last);
        if (used < 0) {
            return (int)used;
        }
        len -= (size_t)used;
        memmove(p, p + used, len);
    }
    return out_flush(r);
}

int fs_replace(struct arena *a, const char *abs, struct str old_text, struct str new_text,
               uint64_t *ret_count, struct err *e)
{
    cleanup_close int from = fs_open(abs, O_RDONLY | O_NONBLOCK, 0);
    struct stat st;
    if (from < 0 || fstat(from, &st) < 0) {
        return err_sys(e, from < 0 ? from : errno, "%s", abs);
    }
    if (!S_ISREG(st.st_mode)) {
        return err_sys(e, S_ISDIR(st.st_mode) ? EISDIR : ENXIO, "%s", abs);
    }
    if (old_text.n == 0) {
        return err_set(e, ERR_INVALID, "old content must not be empty");
    }
    struct fs_writer w;
    if (fs_writer_open(&w, a, abs, e) < 0) {
        return -1;
    }
    struct replacer r = {.from = from, .to = w.fd, .old_text = old_text, .new_text = new_text};
    buf_init(&r.out, REPLACE_CHUNK);
    int x = replace_stream(&r);
    buf_done(&r.out);
    if (x < 0) {
        fs_writer_abort(&w);
        return err_sys(e, x, "%s", abs);
    }
    const struct fs_owner_mode keep = {.uid = (uid_t)-1, .gid = (gid_t)-1};
    *ret_count = r.count;
    return fs_writer_commit(&w, &keep, e);
}
