/* Reading back our own rules. */

#include "egress/restore.h"

#include <errno.h>
#include <stdio.h>

#include "base/must.h"
#include "base/num.h"

/* Names come from the sandbox: into the text of a command go only those that cannot be more. */
static bool is_plain(const char *name)
{
    for (const char *p = name; *p; p++) {
        if (!((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9') || *p == '.' || *p == '-' ||
              *p == '_')) {
            return false;
        }
    }
    return *name != 0;
}

void restore_comment(struct buf *out, const struct learned_addr *a)
{
    size_t used = 0;
    list_each (it, &a->names) {
        const char *name = list_entry(it, struct learned_name, of_addr)->name;
        size_t n = strlen(name) + 1;
        if (used + n > RESTORE_NAMES_MAX || !is_plain(name)) {
            continue;
        }
        (void)buf_printf(out, "%s%s", used ? " " : " comment \"", name);
        used += n;
    }
    if (used) {
        (void)buf_add_char(out, '"');
    }
}

/* "1m19s976ms" in milliseconds, or -1. */
static int64_t parse_time(struct str s)
{
    static const struct {
        struct str unit;
        uint64_t ms;
    } units[] = {
        {STR("ms"), 1},    {STR("d"), 86400000}, {STR("h"), 3600000},
        {STR("m"), 60000}, {STR("s"), 1000},
    };
    uint64_t total = 0;
    while (s.n) {
        size_t digits = 0, i = 0;
        uint64_t v;
        while (digits < s.n && s.p[digits] >= '0' && s.p[digits] <= '9') {
            digits++;
        }
        if (!digits || digits > 9 || parse_u64(str_sub(s, 0, digits), &v) < 0) {
            return -1;
        }
        s = str_sub(s, digits, s.n);
        while (i < ARRAY_LEN(units) && !str_starts(s, units[i].unit)) {
            i++;
        }
        if (i == ARRAY_LEN(units)) {
            return -1;
        }
        total += v * units[i].ms;
        s = str_sub(s, units[i].unit.n, s.n);
    }
    return (int64_t)MIN(total, (uint64_t)INT32_MAX);
}

/* What stands between two words of the element; empty: they are not in it. */
static struct str between(struct str s, struct str before, struct str after)
{
    ptrdiff_t at = str_find_str(s, before);
    if (at < 0) {
        return STR_NULL;
    }
    s = str_sub(s, (size_t)at + before.n, s.n);
    ptrdiff_t end = str_find_str(s, after);
    return str_sub(s, 0, end < 0 ? s.n : (size_t)end);
}

static size_t restore_element(struct learned *l, struct str element, uint64_t now_ms)
{
    struct str rest = str_trim_space(element),
               names = between(element, STR("comment \""), STR("\""));
    struct ip ip, dropped;
    size_t n = 0;
    int64_t left = 0;
    if (ip_parse(str_cut(&rest, ' '), &ip) < 0) {
        return 0;
    }
    struct str time = between(element, STR("expires "), STR(" "));
    left = time.n ? parse_time(time) : 0;
    while (left >= 0 && names.p && names.n) {
        struct str name = str_cut(&names, ' ');
        if (name.n && l->n_names < l->max) {
            (void)learned_add(l, &ip, name, now_ms, now_ms + (uint64_t)left, &dropped);
            n++;
        }
    }
    return n;
}

size_t restore_addresses(struct learned *l, struct str listing, uint64_t now_ms)
{
    struct str rest = between(listing, STR("elements = {"), STR("}"));
    size_t n = 0;
    while (rest.p && rest.n) {
        n += restore_element(l, str_cut(&rest, ','), now_ms);
    }
    return n;
}

bool restore_generation(struct str listing, uint32_t *ret_mark,
                        char ret_digest[RESTORE_DIGEST_LEN + 1])
{
    struct str mark = between(listing, STR("ct mark set 0x"), STR(" "));
    struct str digest = between(listing, STR("comment \"" RESTORE_POLICY " "), STR("\""));
    uint64_t v;
    if (parse_u64_hex(mark, &v) < 0 || v == 0 || v > UINT32_MAX || digest.n != RESTORE_DIGEST_LEN) {
        return false;
    }
    *ret_mark = (uint32_t)v;
    memcpy(ret_digest, digest.p, digest.n);
    ret_digest[digest.n] = 0;
    return true;
}
