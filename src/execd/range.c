#include "execd/range.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/num.h"
#include "base/utf8.h"

/* A number that does not fit is just a very large one. */
static int parse_pos(struct str s, uint64_t *ret)
{
    int r = parse_u64(s, ret);
    if (r == -ERANGE) {
        *ret = UINT64_MAX;
        return 0;
    }
    return r;
}

static struct range parse_one(struct str spec, uint64_t size)
{
    const struct range bad = {.kind = RANGE_BAD}, beyond = {.kind = RANGE_BEYOND};
    ptrdiff_t dash = str_find(spec, '-');
    if (dash < 0) {
        return bad;
    }
    struct str from = str_trim(str_sub(spec, 0, (size_t)dash));
    struct str to = str_trim(str_sub(spec, (size_t)dash + 1, spec.n));
    uint64_t a = 0, b = UINT64_MAX;
    if (from.n == 0) {
        if (parse_pos(to, &b) < 0) {
            return bad;
        }
        b = b > size ? size : b;
        return b == 0 ? beyond : (struct range){RANGE_PART, size - b, b};
    }
    if (parse_pos(from, &a) < 0 || (to.n > 0 && (parse_pos(to, &b) < 0 || b < a))) {
        return bad;
    }
    if (a >= size) {
        return beyond;
    }
    b = b >= size ? size - 1 : b;
    return (struct range){RANGE_PART, a, b - a + 1};
}

struct range range_parse(struct str header, uint64_t size)
{
    struct str rest = str_trim(header);
    if (!str_starts(rest, STR("bytes="))) {
        return (struct range){.kind = RANGE_BAD};
    }
    rest = str_sub(rest, 6, rest.n);
    struct range found = {.kind = RANGE_ALL};
    while (rest.p) {
        struct str spec = str_trim(str_cut(&rest, ','));
        if (spec.n == 0) {
            continue;
        }
        struct range r = parse_one(spec, size);
        if (r.kind == RANGE_BAD) {
            return r;
        }
        if (found.kind != RANGE_PART) {
            found = r;
        }
    }
    return size == 0 ? (struct range){.kind = RANGE_ALL} : found;
}

void content_disposition(struct buf *out, struct str name)
{
    bool plain = true;
    for (size_t i = 0; i < name.n; i++) {
        unsigned char c = (unsigned char)name.p[i];
        plain = plain && c >= 0x20 && c < 0x7f;
    }
    (void)buf_add_cstr(out, "attachment; filename=\"");
    if (plain) {
        for (size_t i = 0; i < name.n; i++) {
            if (name.p[i] == '"' || name.p[i] == '\\') {
                (void)buf_add_char(out, '\\');
            }
            (void)buf_add_char(out, name.p[i]);
        }
        (void)buf_add_char(out, '"');
        return;
    }
    cleanup_(buf_done) struct buf text = BUF_INIT(4096);
    (void)utf8_repair(&text, name);
    (void)percent_encode(out, name, false);
    (void)buf_add_cstr(out, "\"; filename*=UTF-8''");
    (void)percent_encode(out, buf_str(&text), false);
}
